"""Results as JSON lines, each with the commit and the machine that it was measured on."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
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


def metadata() -> dict[str, Any]:
    """Commit, machine and library versions of this run."""
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "zarr", "dask")},
    }


def add_save_option(parser: argparse.ArgumentParser) -> None:
    """Give a script the option ``--no-save``."""
    parser.add_argument("--no-save", action="store_true", help="print only, do not append to results/")


def record(script: str, rows: Iterable[Mapping[str, Any]], save: bool = True) -> None:
    """Print rows as JSON lines and, unless ``save`` is off, append them to ``results/<script>.jsonl``."""
    common = metadata()
    lines = [json.dumps({"benchmark": script, **row, **common}) for row in rows]
    print("\n".join(lines), flush=True)
    if save:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{script}.jsonl").open("a") as file:
            file.writelines(line + "\n" for line in lines)
