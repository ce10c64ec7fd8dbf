"""One sweep of predictive selection over a store, against one pass with the final model plus its EP runs.

    python -m benchmarks.scale.pass_sweep --rows 1000000 --features 20 --active 500

A synthetic store on disk; hyperparameters stay as they are. The sweep's own time is what its blocks took,
reading and scoring included; blocks of the sample in memory, which come first, are told apart. ``ratio`` is
the time of the sweep over that of one pass that evaluates the final model plus that of exchanges and EP.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Options, Row, Rows, Script, Stores, defaults, measured, told
from benchmarks.limits.machine import best_seconds
from streamgp import StreamGPClassifier
from streamgp.data import synthetic
from streamgp.kernels import RBF
from streamgp.selection import FPASS, PASS


def sweep_row(selection: FPASS | PASS, path: Path, options: Options) -> Row:
    """One fit, and its sweep beside one pass."""
    model = StreamGPClassifier(
        options.active,
        selection=selection,
        kernel=RBF(30.0, float(np.sqrt(options.features))),
        learn_hyperparameters=False,
        memory_budget=options.memory_budget,
        random_state=0,
    )
    row = measured(model, Stores(path, path))
    blocks = [entry for entry in told(model, "select: exchange") if "from_disk" in entry]
    streamed = [entry for entry in blocks if entry["from_disk"]]
    sweep, read = (sum(entry[key] for entry in streamed) for key in ("seconds", "read_seconds"))
    one_pass = best_seconds(lambda: model.evaluate_stream(path), 2)
    return {
        **row,
        "blocks": len(streamed),
        "sweep_seconds": round(sweep, 2),
        "read_seconds": round(read, 2),
        "pass_seconds": round(one_pass, 2),
        "ratio": round(sweep / (one_pass + sweep - read), 3),
        "sample_seconds": round(sum(entry["seconds"] for entry in blocks) - sweep, 2),
    }


def rows(options: Options) -> Rows:
    selections = {"fpass": FPASS(n_pass=1), "pass": PASS(n_pass=1, n_init=options.active // 2)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.zarr"
        synthetic.write_store(path, options.rows, n_features=options.features)
        for name, selection in selections.items():
            yield {"selection": name, **sweep_row(selection, path, options)}


OPTIONS = defaults(rows=1_000_000, features=20, active=500, memory_budget="256MiB")
SCRIPT = Script("pass_sweep", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
