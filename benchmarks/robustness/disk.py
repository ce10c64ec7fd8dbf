"""A disk that is full at every write: an error that says so, and with room again the same result.

Each case of ``benchmarks.robustness.kills`` works in a file system of its own in memory, whose size lies
between almost nothing and what the work needs, so that another write fails each time. ``full`` counts works
that ended with an error which names the fault, ``misled`` those with another error, and ``different`` those
whose result, once there is room, has other bits than that of a work left alone: the last two must be 0.
Mounting needs the rights to do so.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.harness import Options, Row, Rows, Script, defaults, option
from benchmarks.robustness.kills import Case, cases, same_arrays

ROOM = 2**28
TOLD = ("No space left on device", "are free", "is free")
"""What an error says where the disk is full, or would be."""


@contextmanager
def mounted(place: Path, size: int) -> Iterator[None]:
    """A file system in memory of so many bytes."""
    place.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "streamgp-robustness", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)
        place.rmdir()


def make_read_only(place: Path) -> None:
    """Have a file system refuse every write from here on."""
    _mount("-o", "remount,ro", str(place))


def can_mount() -> bool:
    """Whether this process may mount file systems."""
    if shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder) / "tried", 2**16):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def measure(case: Case, folder: Path, sizes: int) -> Row:
    """Work in file systems of several sizes, each then made large enough."""
    alone, place = folder / "alone", folder / "small"
    alone.mkdir()
    case.work(alone)
    expected = case.result(alone)
    needed = sum(path.stat().st_size for path in alone.rglob("*")) + 2**16
    shutil.rmtree(alone)
    row = {"full": 0, "misled": 0, "different": 0}
    told = ""
    for size in np.geomspace(2**12, 3 * needed, sizes).astype(int).tolist():
        with mounted(place, size):
            try:
                case.work(place)
            except Exception as error:
                chain = _told(error)
                is_told = any(words in chain for words in TOLD)
                row["full" if is_told else "misled"] += 1
                told = told if is_told else chain
            _mount("-o", f"remount,size={ROOM}", str(place))
            case.work(place)
            row["different"] += not same_arrays(case.result(place), expected)
    return {**row, "sizes": sizes, "needed_kib": needed // 1024, "told": told or None}


def rows(options: Options) -> Rows:
    with tempfile.TemporaryDirectory() as name:
        every = cases(Path(name), options.rows)
        chosen = [case for case in every if case.name in (options.cases or [each.name for each in every])]
        total = {"full": 0, "misled": 0, "different": 0}
        for case in chosen:
            row = measure(case, Path(name), options.sizes)
            yield {"case": case.name, **row}
            total = {key: total[key] + row[key] for key in total}
        yield {"case": "all", **total}


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _told(error: BaseException | None) -> str:
    """What an error says, and what caused it."""
    parts = []
    while error is not None:
        parts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return " <- ".join(parts)[:600]


SCRIPT = Script(
    "disk",
    __doc__,
    rows,
    (*defaults(rows=400, sizes=12), option("--cases", None, "only these, by name", nargs="+")),
)

if __name__ == "__main__":
    SCRIPT.main()
