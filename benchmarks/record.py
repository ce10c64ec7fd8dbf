"""Results as JSON lines, each with the commit and the machine that it was measured on."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def processor() -> str:
    """The processor's name as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """Short hash of the commit, with ``+`` where the work tree differs from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!results")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


@cache
def unchanged_since(commit: str) -> bool:
    """Whether no file of the library differs from that commit: what was measured there holds here.

    Not so of a commit with ``+``, whose work tree had changes, or of one that is not known here.
    """
    if not re.fullmatch("[0-9a-f]{4,40}", commit):
        return False
    done = subprocess.run(
        ["git", "diff", "--quiet", commit, "--", "streamgp"],
        cwd=RESULTS.parents[1],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


LIMITS = ("synthetic", "limited_rows")


def limits(options: Any, usual_rows: int | None = None) -> dict[str, Any]:
    """What a row says that is not of the real data in their usual size: made up, or of so many rows."""
    found: dict[str, Any] = {}
    if getattr(options, "synthetic", False):
        found["synthetic"] = True
    if options.rows != usual_rows:
        found["limited_rows"] = options.rows
    return found


def is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a row is of the real data in their usual size."""
    return not any(name in row for name in LIMITS)


@cache
def metadata() -> Mapping[str, Any]:
    """Commit, machine and library versions of this run, as they were at its first result."""
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "zarr", "dask")},
    }


def record(script: str, row: Mapping[str, Any], save: bool = True) -> None:
    """Print a row as a JSON line and, unless ``save`` is off, append it to ``results/<script>.jsonl``."""
    line = json.dumps({"benchmark": script, **row, **metadata()})
    print(line, flush=True)
    if save:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{script}.jsonl").open("a") as file:
            file.write(line + "\n")


def recorded(script: str) -> list[dict[str, Any]]:
    """All rows that a script has recorded so far, oldest first."""
    path = RESULTS / f"{script}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
