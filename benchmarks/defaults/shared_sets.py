"""The commands ``plan``, ``fit``, ``evaluate`` and ``report`` on every shared data set, nothing given.

    python -m benchmarks.defaults.shared_sets --sets raetsch_banana usps

Each set becomes Zarr stores of its first split; where it has none, every fifth row is held out, at random.
One row for each set says what was chosen, how good it is beside the baseline, what the page holds, and every
warning. With ``--sample-rows`` a dry run of 1 % of the rows, or of so many, comes first, and
``predicted_ratio`` is what it predicts, divided by the seconds that the fit then takes.
``generated`` is a store of made-up classes (``--rows``).
"""

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr

from benchmarks.datasets import Array, Split, load_split
from benchmarks.harness import SET, Options, Row, Rows, Script, defaults, option, warm_up
from streamgp.cli import main

SETS = (
    *(f"raetsch_{name}" for name in ("banana", "breast_cancer", "german", "heart", "image", "ringnorm")),
    *(f"raetsch_{name}" for name in ("titanic", "twonorm", "waveform")),
    *(f"raetsch_{name}_nosplit" for name in ("flare_solar", "splice", "thyroid")),
    *("pima_uci_nosplit", "ripley_synth", "crabs", "satimage", "usps", "ijcnn1"),
    *("uci_pumadyn32nm", "uci_kin40k", "uci_protein", "mnist", "flights3m"),
)
LATE_MINUTES = 15
HELD_OUT = 5
CHUNK_BYTES = 12_000_000


def split_to_fit(name: str, options: Options) -> Split:
    """Rows to learn from and to score."""
    split = generated(options.rows) if name == "generated" else load_split(name, options)
    if not len(split.y_test):
        split = split.fold(0, HELD_OUT)
    if name == "flights3m":
        split = split._replace(y_train=split.y_train > LATE_MINUTES, y_test=split.y_test > LATE_MINUTES)
    return split


def generated(rows: int) -> Split:
    """Two classes with a wavy border in eight features, one label of twenty wrong."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, 8)).astype(np.float32)
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = (signal > 0) ^ (generator.random(rows) < 0.05)
    return Split(X, y.astype(np.int8), X[:0], y[:0])


def write_store(path: Path, X: Array, y: Array) -> None:
    """A Zarr group of both, in chunks of some megabytes, at least eight."""
    chunk = max(1, min(CHUNK_BYTES // (X.itemsize * X.shape[1]), -(-len(X) // 8)))
    group = zarr.open_group(path, mode="w")
    whole = {"write_empty_chunks": True}  # targets of one class may be all zeros
    group.create_array("X", data=np.ascontiguousarray(X), chunks=(chunk, X.shape[1]), config=whole)
    group.create_array("y", data=y, chunks=(chunk,), config=whole)


def called(*arguments: object) -> tuple[Row, str, float]:
    """The JSON that a command prints, its messages, its seconds."""
    out, messages, begun = io.StringIO(), io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
        code = main([*map(str, arguments), "--json"])
    if code:
        raise SystemExit(f"{arguments[0]} ended with {code}: {messages.getvalue()}")
    return json.loads(out.getvalue()), messages.getvalue(), time.perf_counter() - begun


def commands_row(folder: Path, page: Path, sample: float, more: tuple[str, ...]) -> Row:
    """What the commands say about the stores in a folder."""
    train, test, model = (folder / name for name in ("train", "test", "model.zip"))
    predicted = called("fit", train, "--sample", sample, *more)[0] if sample else None
    plan, planned, _ = called("plan", train, *more)
    fit, fitted, seconds = called("fit", train, "-o", model, *more)
    score, scored, evaluating = called("evaluate", model, test)
    _, reported, reporting = called("report", model, "--data", test, "-o", page)
    said = (planned + fitted + scored + reported).splitlines()
    auto = [line.partition("auto: ")[2] for line in said if line.startswith("auto: ")]
    baseline = score["baseline"]
    return {
        "rows": plan["rows"],
        "features": plan["features"],
        "chosen": auto[0] if auto else None,
        "recipe": fit["recipe"],
        "active": fit["n_active"],
        **{name: score[name] for name in ("error", "rmse", "log_loss", "auc") if name in score},
        "baseline_error": baseline["error"],
        "baseline_log_loss": baseline["log_loss"],
        "fit_seconds": round(seconds, 2),
        "evaluate_seconds": round(evaluating, 2),
        "report_seconds": round(reporting, 2),
        "figures": page.read_text().count("<svg"),
        "warnings": [line for line in said if line.lower().startswith("warning")],
    } | ({} if predicted is None else _compared(predicted, fit))


def _compared(predicted: Row, fit: Row) -> Row:
    return {
        "sample_rows": predicted["sample_rows"],
        "sample_seconds": round(predicted["sample_seconds"], 2),
        "predicted_seconds": round(predicted["predicted_seconds"], 2),
        "predicted_ratio": round(predicted["predicted_seconds"] / fit["seconds"], 3),
    }


def rows(options: Options) -> Rows:
    warm_up()
    for name in options.sets:
        split = split_to_fit(name, options)
        with tempfile.TemporaryDirectory() as folder:
            write_store(Path(folder) / "train", *split.train)
            write_store(Path(folder) / "test", *split.test)
            sample = options.sample_rows and min(1.0, max(0.01, options.sample_rows / len(split.y_train)))
            del split
            page = Path(options.pages or folder) / f"{name}.html"
            more: tuple[str, ...] = ("--memory-budget", options.memory_budget)
            if options.max_seconds is not None:
                more += ("--max-seconds", options.max_seconds)
            limit = {"max_seconds": options.max_seconds}
            yield {"set": name, **limit, **commands_row(Path(folder), page, sample, more)}


OPTIONS = (
    *SET,
    option("--sets", list(SETS), "which of them"),
    option("--sample-rows", 0, "rows of a dry run before the fit; 0: none"),
    option("--max-seconds", None, "of each fit (default: as long as it takes)"),
    option("--pages", None, "folder where the reports stay"),
    *defaults(rows=50_000, memory_budget="1GiB"),
)
SCRIPT = Script("shared_sets", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
