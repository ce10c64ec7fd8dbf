"""The new user's path, ``examples/walkthrough.md``: makes its files, runs its commands, writes what they say.

``python -m benchmarks.walkthrough --write`` runs every line that starts with ``$`` in a folder of its own and
replaces what follows it in the page by what it printed, with its seconds. Without ``--write`` the transcript
is printed only.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from pyarrow import parquet

from benchmarks import make_flights

PAGE = Path(__file__).parents[1] / "examples" / "walkthrough.md"
NEW_ROWS = 1000


def write_tables(folder: Path, rows: int, data: str | None = None, *, synthetic: bool = False) -> None:
    """``flights.parquet``, about so many flights, and ``new_flights.parquet``, others without the answer."""
    out, new = folder / "flights.parquet", folder / "new_flights.parquet"
    make_flights.write(out, new, rows, data, synthetic, NEW_ROWS / rows)
    parquet.write_table(parquet.read_table(new).drop(["late"]), new)


class Done(NamedTuple):
    """A command, what it printed, its exit code, its seconds, and those of all its threads together."""

    command: str
    printed: str
    code: int
    seconds: float
    cpu_seconds: float


def commands(page: str) -> list[str]:
    """The commands of a page, in order."""
    return [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path, program: Path | None = None) -> Done:
    """Run one command of the page in a folder, by an installed program or by the sources here."""
    first, *arguments = shlex.split(command)
    assert first == "streamgp", command
    called, place = (
        [sys.executable, "-m", "streamgp"],
        [str(PAGE.parents[1]), os.environ.get("PYTHONPATH", "")],
    )
    if program is not None:
        called, place = [str(program.absolute())], []
    begun, used = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(
        [*called, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = done.stdout.rstrip().replace(f"{folder}{os.sep}", "")
    return Done(command, printed, done.returncode, time.perf_counter() - begun, _cpu_seconds() - used)


def _cpu_seconds() -> float:
    """Of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def with_transcript(page: str, transcript: list[Done]) -> str:
    """The page with what its commands printed, each followed by its seconds."""
    said, lines, inside = iter(transcript), [], False
    for line in page.splitlines():
        if line.startswith("$ "):
            done = next(said)
            lines += [line, *done.printed.splitlines(), f"[{done.seconds:.0f} s]"]
            inside = True
        elif not inside or line.startswith("```"):
            lines.append(line)
            inside = False
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--synthetic", action="store_true", help="made-up flights")
    parser.add_argument("--write", action="store_true", help="write the transcript into the page")
    parser.add_argument("--program", type=Path, help="an installed streamgp (default: the sources here)")
    parser.add_argument("--folder", type=Path, help="an empty folder for the files, which stay there")
    options = parser.parse_args()
    page = PAGE.read_text()
    if options.folder:
        options.folder.mkdir(parents=True)
    place = nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory()
    with place as folder:
        write_tables(Path(folder), options.rows, options.data, synthetic=options.synthetic)
        transcript = []
        for command in commands(page):
            done = run(command, Path(folder), options.program)
            transcript.append(done)
            print(f"$ {command}\n{done.printed}")
            print(f"[{done.seconds:.1f} s, {done.cpu_seconds:.1f} CPU s]", flush=True)
            if done.code:
                raise SystemExit(done.code)
    print(f"[{sum(done.seconds for done in transcript):.0f} s in all]")
    if options.write:
        PAGE.write_text(with_transcript(page, transcript))


if __name__ == "__main__":
    main()
