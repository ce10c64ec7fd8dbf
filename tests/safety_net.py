"""Whether models keep their bits: small fits of every kind, by an older commit and by the working tree.

    python -m tests.safety_net
    python -m tests.safety_net --baseline HEAD --only 'two/ivm/*' '*+killed' --verbose
    python -m tests.safety_net --store

Both commits run side by side in the same run, each in a process of its own: what rounding does depends on
the machine and its libraries, so bits of another day prove nothing. Seconds are processor time of fit and
predictions; the first cases compile the numerics, in both trees. Exit code 1 says that something differs that
is not in the table ``CHANGED``. ``--store`` writes the few predictions that are the same on any machine, and
that tests/training/test_stored_predictions.py compares.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streamgp
from tests.safety_cases import (
    CASES,
    STORED,
    STORED_PATH,
    STORED_ROWS,
    Bits,
    Case,
    fit_case,
    model_bits,
)

ROOT = Path(__file__).parents[1]
BASELINE = "817ad85"
JUDGED = "held-out rows are judged in blocks of 512, by the posterior as it predicts: rounding"
CONVERGED = "one damped loop: a fit in memory converges as streamed sweeps do; rounding"
CHANGED = {
    "*+late": "a time limit ends learning too",
    "*+little_memory": "the plan counts likelihoods, learning, weights and rows held out by number",
    "real/*pass/ep/constant*": "the criterion is learned where it is asked for, not ignored",
    "real/*pass/ep/hybrid*": "the criterion is learned where it is asked for, not ignored",
    "*/constant*": JUDGED,
    "*/hybrid*": JUDGED,
    "*/on*": JUDGED,
    "*+criterion*": JUDGED,
    "*+logit": "calibration meets a logit without variance in closed form: rounding",
    "*/evidence*": CONVERGED,
    "*/passes*": CONVERGED,
    "*+passes*": CONVERGED,
}
"""Patterns of cases whose models are meant to differ from the baseline's, and why; the first that fits."""

OLD_STAGES = {  # what histories called a phase, and what they call the stage now
    "start": "learn: start",
    "learn": "learn: criterion",
    "begin": "select: draw",
    "sweep": "select: exchange",
    "look": "select: exchange",
    "update": "select: exchange",
    "select": "select: {selection}",
    "infer": "infer: ep",
    "evidence": "learn: evidence",
    "inducing": "select: {selection}",
    "refine": "learn: refine",
    "refine_all": "learn: all rows",
    "approximate": "infer: approximation",
    "site_sweep": "infer: all rows",
    "calibrate": "calibrate",
}


class Outcome(NamedTuple):
    """What one tree makes of one case: the model's bits, or an error."""

    bits: Bits
    stages: list[str]
    seconds: float
    error: str


def outcome_of(case: Case) -> Outcome:
    """Fit, and read the bits."""
    begun = time.process_time()
    try:
        model = fit_case(case)
        bits = model_bits(model)
    except Exception as error:  # a refusal is an outcome too
        return Outcome({}, [], time.process_time() - begun, f"{type(error).__name__}: {error}")
    return Outcome(bits, stages(case, model.history_), time.process_time() - begun, "")


def stages(case: Case, history: list[dict[str, Any]]) -> list[str]:
    """The stages that a history tells of, each once for all its steps in a row."""
    selection = case.settings["selection"]
    kind = selection if isinstance(selection, str) else type(selection).__name__.lower()
    names = [
        record["stage"] if "stage" in record else OLD_STAGES[record["phase"]].format(selection=kind)
        for record in history
    ]
    return [name for name, _ in groupby(names)]


def work() -> None:
    """Be a worker: names of cases come in line by line, outcomes go out pickled."""
    assert Path(streamgp.__file__).parents[1] == ROOT, f"{streamgp.__file__} is not of this tree"
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    for line in sys.stdin:
        pickle.dump(tuple(outcome_of(CASES[line.strip()])), out)
        out.flush()


def start_worker(tree: Path, compiled: Path) -> subprocess.Popen[bytes]:
    """A process that imports everything from this tree, and keeps compiled code in a folder of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.safety_net", "--worker"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(compiled)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def fit_in(workers: list[subprocess.Popen[bytes]], name: str) -> list[Outcome]:
    """The outcomes of a case, found at the same time."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(f"{name}\n".encode())
        worker.stdin.flush()
    return [Outcome(*pickle.load(worker.stdout)) for worker in workers]  # type: ignore[arg-type]


@contextmanager
def both_workers(commit: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers in a work tree of a commit, made for a while and given today's cases, and in this one."""
    with tempfile.TemporaryDirectory() as folder:
        tree, compiled = Path(folder).resolve() / "baseline", Path(folder, "compiled")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            for name in ("safety_net.py", "safety_cases.py"):
                shutil.copy(ROOT / "tests" / name, tree / "tests" / name)
            with start_worker(tree, compiled) as old, start_worker(ROOT, compiled) as new:
                yield [old, new]
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def difference(before: Outcome, after: Outcome) -> str:
    """Where two outcomes differ most, in words; nothing where all bits are the same."""
    if before.error or after.error:
        return f"before: {before.error or 'fits'}; after: {after.error or 'fits'}"
    found = {name: relative_difference(bits, after.bits[name]) for name, bits in before.bits.items()}
    other_rows = "other rows, " if found.pop("active_rows") else ""
    worst = max(found, key=lambda name: found[name])
    return f"{other_rows}{found[worst]:.1e} in {worst}" if other_rows or found[worst] else ""


def relative_difference(one: Any, other: Any) -> float:
    """Largest difference of two arrays by their largest number; infinite where shapes or integers do."""
    if (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes()):
        return 0.0
    if one.shape != other.shape or one.dtype.kind != "f" or not np.isfinite([one, other]).all():
        return np.inf
    # Zeros of other sign, or another type, are other bits too.
    return max(float(np.max(np.abs(one - other)) / np.max(np.abs(one))), sys.float_info.min)


def compare(names: list[str], baseline: str, verbose: bool) -> bool:
    """Print a line for each case; whether all is as it should be."""
    failed, explained, seconds = [], [], np.zeros(2)
    print(f"{'case':<44}{'difference':<34}{'before':>8}{'after':>8}  s")
    with both_workers(baseline) as workers:
        for name in names:
            before, after = fit_in(workers, name)
            found = difference(before, after)
            why = next((why for pattern, why in CHANGED.items() if fnmatch(name, pattern)), None)
            if found:
                (failed if why is None else explained).append(name)
            times = np.array([before.seconds, after.seconds])
            seconds += times
            print(f"{name:<44}{found or 'same bits':<34}{times[0]:>8.2f}{times[1]:>8.2f}", flush=True)
            if found and why is not None:
                print(f"    as it should: {why}")
            if verbose:
                print(f"    {' > '.join(after.stages)}")
                if before.stages != after.stages:
                    print(f"    before: {' > '.join(before.stages)}")
    same = len(names) - len(failed) - len(explained)
    print(f"{len(names)} cases: {same} have the same bits, {len(explained)} differ as they should, ", end="")
    print(f"{len(failed)} differ; {seconds[0]:.0f} s before, {seconds[1]:.0f} s after")
    for name in failed:
        print(f"differs: {name}")
    return not failed


def store() -> None:
    """Write what the test compares: a line for each case, floats with nine digits."""
    lines = []
    for name in STORED:
        bits = model_bits(fit_case(CASES[name]), STORED_ROWS)
        plain = {
            key: [float(f"{number:.9g}") if array.dtype.kind == "f" else int(number) for number in array.flat]
            for key, array in bits.items()
        }
        lines.append(f"{json.dumps(name)}: {json.dumps(plain)}")
    STORED_PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--baseline", default=BASELINE, help="commit to compare with (%(default)s)")
    parser.add_argument("--only", nargs="+", default=["*"], help="names of cases, or patterns of them")
    parser.add_argument("--list", action="store_true", help="print the names of the cases only")
    parser.add_argument("--verbose", action="store_true", help="print the stages of every fit too")
    parser.add_argument("--store", action="store_true", help=f"write {STORED_PATH.name} only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [name for name in CASES if any(fnmatch(name, pattern) for pattern in options.only)]
    if options.worker:
        work()
    elif options.list:
        print("\n".join(names))
    elif options.store:
        store()
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the work tree is removed then, too
        return int(not compare(names, options.baseline, options.verbose))
    return 0


if __name__ == "__main__":
    sys.exit(main())
