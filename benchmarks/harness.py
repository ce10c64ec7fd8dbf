"""One harness: options of a script, fits and their scores, rows of one format, a table for people.

A script is a table of settings and a generator of rows:

    OPTIONS = (*SET, option("--selection", "kmeans", "how active rows are chosen"), *defaults(seed=0))
    SCRIPT = Script("fitc_targets", __doc__, rows, OPTIONS)

    if __name__ == "__main__":
        SCRIPT.main()

Every row is printed, and appended to ``results/<name>.jsonl``, as soon as the generator yields it; the table
goes to standard error in the end. What the row of a fit says is in ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import Array, Split
from benchmarks.record import record
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size, peak_memory
from streamgp.data import open_rows
from streamgp.passes.scores import ClassScore, RealScore

Row = dict[str, Any]
Rows = Iterator[Row]
Options = argparse.Namespace
Option = tuple[str, dict[str, Any]]
CALIBRATION_BINS = 20
WIDEST = 34
"""Characters of a value in a table for people; longer ones are in the record only, as are these columns."""
NOT_SHOWN = {"brier", "features", "peak_bytes", "within_budget"}


def option(name: str, default: Any, about: str | None = None, **more: Any) -> Option:
    """An option of the type of its default: a list takes several values, False is a flag, None any string."""
    if default is False:
        return name, {"action": "store_true", "help": about, **more}
    several = isinstance(default, list)
    first = default[0] if several and default else default
    kind = str if first is None else type(first)
    settings = {"default": default, "type": kind, "help": about, "nargs": "+" if several else None}
    return name, settings | more


def defaults(**values: Any) -> tuple[Option, ...]:
    """Options that need no more words than their names and defaults."""
    return tuple(option("--" + name.replace("_", "-"), value) for name, value in values.items())


SET = (
    option("--data", None, "folder of the .npz files; default STREAMGP_DATA"),
    option("--synthetic", False, "made-up data of the same shape, few rows"),
)
DATA = (*SET, option("--rows", None, "only that many training rows, at random", type=int))


@dataclass(frozen=True)
class Script:
    """A benchmark: its name, what it shows, the rows that it measures, its options."""

    name: str
    about: str
    rows: Callable[[Options], Rows]
    options: Sequence[Option] = ()

    def parsed(self, arguments: Sequence[str] | None = None) -> Options:
        """What the command line asks for."""
        parser = argparse.ArgumentParser(
            description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for name, settings in self.options:
            parser.add_argument(name, **settings)
        parser.add_argument("--no-save", action="store_true", help="print only, do not append to results/")
        return parser.parse_args(arguments)

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Measure what the command line asks for, and tell."""
        options, found = self.parsed(arguments), []
        for row in self.rows(options):
            record(self.name, row, save=not options.no_save)
            found.append(row)
        show(self.about.splitlines()[0], found)


def show(title: str, rows: Sequence[Row]) -> None:
    """A table for people, to standard error."""
    names = dict.fromkeys(name for row in rows for name in row if name not in NOT_SHOWN)
    columns = [name for name in names if _is_shown([row.get(name) for row in rows])]
    cells = [list(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    print("", title, *lines, sep="\n", file=sys.stderr, flush=True)


def _is_shown(column: Sequence[Any]) -> bool:
    return any(value is not None for value in column) and max(len(_cell(value)) for value in column) <= WIDEST


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Stores(NamedTuple):
    """Zarr groups on disk in the place of a split's arrays."""

    train: Path
    test: Path


def measured(model: Any, data: Split | Stores) -> Row:
    """Fit one of our models and score it on the test rows: one row of results."""
    warm_up()
    cost = timed(lambda: model.fit_stream(data.train))
    return {
        "rows": open_rows(data.train).n_rows,
        "features": model.n_features_in_,
        "active": float(np.mean(active_sizes(model))),
        **scores(model.evaluate_stream(data.test)),
        **cost,
        "within_budget": cost["fit_bytes"] <= parse_size(model.memory_budget),
        "kernel": repr(model.kernel_),
    }


def measured_peer(model: Any, data: Split | Stores) -> Row:
    """The same of a classifier of scikit-learn."""
    X, y = data.train
    X_test, y_test = data.test
    cost = timed(lambda: model.fit(X, y))
    row = {"rows": len(y), "features": X.shape[1], "error_percent": error_percent(model, X_test, y_test)}
    if hasattr(model, "predict_proba"):
        place = np.searchsorted(model.classes_, y_test)
        row |= probability_scores(model.predict_proba(X_test), place)
    return {**row, **cost}


@cache
def warm_up() -> None:
    """Compile everything, so that no benchmark measures it."""
    features = np.random.default_rng(0).standard_normal((300, 4))
    model = StreamGPClassifier(10, random_state=0, selection="ivm").fit(features, features[:, 0] > 0)
    model.predict_proba(features)


def timed(work: Callable[[], object]) -> Row:
    """Seconds of some work, peak memory of the process meanwhile, and how far it rose for that."""
    before, begun = restart_peak(), time.perf_counter()
    work()
    seconds, peak = time.perf_counter() - begun, peak_bytes()
    return {"seconds": round(seconds, 3), "peak_bytes": peak, "fit_bytes": peak - before}


def restart_peak() -> int:
    """Have the peak memory count anew from here on, where the system can do that; the peak so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """Largest resident memory since the last restart.

    Not what ``getrusage`` says where there is better: to a process just started that is its parent's peak.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return peak_memory()


def in_own_process(work: Callable[..., Row], *arguments: Any) -> Row:
    """The result of a function of a module, run in a process of its own that has seen nothing before."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def row_or_reason(seconds: float, work: Callable[..., Row], *arguments: Any) -> Row:
    """The same, or why there is none: an error, a process that died, more ``seconds`` than it may take."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return {"absent": f"not done in {seconds:.0f} s"}
        found: Row = receiver.recv()
        return found
    except EOFError:
        process.join()
        return {"absent": f"its process died ({process.exitcode})"}
    finally:
        process.kill()
        process.join()


def _send(sender: Any, work: Callable[..., Row], arguments: Sequence[Any]) -> None:
    try:
        sender.send(work(*arguments))
    except Exception as error:
        sender.send({"absent": ": ".join([type(error).__name__, *str(error).splitlines()[:1]])})


def active_sizes(model: Any) -> list[int]:
    """Number of active rows, or inducing inputs, of each latent function."""
    snapshot = model.model_.snapshot
    if not hasattr(snapshot, "heads"):  # local blocks, which share their inducing inputs
        return [len(snapshot.active_inputs)]
    return [len(head.projected_targets) for head in snapshot.heads]


def told(model: Any, stage: str) -> list[Row]:
    """What the history says about one stage of a fit."""
    return [entry for entry in model.history_ if entry["stage"] == stage]


def scores(score: ClassScore | RealScore) -> Row:
    """Error, log loss in nats and calibration error; of real targets, the mean gap of central intervals."""
    if isinstance(score, ClassScore):
        error = {"error_percent": round(100 * score.error, 4), "brier": round(score.brier, 4)}
    else:
        error = {"rmse": round(score.rmse, 5)}
    return {
        **error,
        "log_loss": round(score.log_loss, 5),
        "calibration_error": round(score.calibration_error, 5),
    }


def probability_scores(probabilities: Array, place: Array) -> Row:
    """Log loss and calibration error of class probabilities; ``place`` is the column of each true class."""
    own = np.maximum(probabilities[np.arange(len(place)), place], 1e-300)
    confidence, right = probabilities.max(axis=1), np.argmax(probabilities, axis=1) == place
    bins = np.minimum((CALIBRATION_BINS * confidence).astype(int), CALIBRATION_BINS - 1)
    gap = np.abs(np.bincount(bins, confidence - right)).sum() / len(place)
    return {"log_loss": round(-float(np.log(own).mean()), 5), "calibration_error": round(float(gap), 5)}


def error_percent(model: Any, features: Array, targets: Array) -> float:
    """Percent of rows whose predicted class is not theirs."""
    return round(100 * float(np.mean(model.predict(features) != targets)), 4)


def means(rows: Sequence[Row], *columns: str) -> Row:
    """Mean of each column that the rows have."""
    return {
        name: round(float(np.mean([row[name] for row in rows])), 5) for name in columns if name in rows[0]
    }


def deviation(rows: Sequence[Row], column: str) -> float:
    """Standard deviation of one column."""
    return round(float(np.std([row[column] for row in rows])), 5)
