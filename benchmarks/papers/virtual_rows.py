"""Virtual rows: table 4 of [IVM2006] and table 1 of [PASS2012], USPS and MNIST with shifts of active rows.

    python -m benchmarks.papers.virtual_rows --set usps --methods ivm pass --seeds 0 1 2 3 4

All ten digits are learned in one stream with one kernel; the active set is chosen anew from active rows and
their translations by one pixel: four of them, eight for MNIST. ``pass-paper`` is [PASS2012] as printed: each
digit has its own kernel, and versions of its own active rows alone.
``--plain`` leaves the second selection out. ``--fold k`` replaces the test set by every third training row.
"""

import time
from typing import Any

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, deviation, means, option
from benchmarks.papers.digits import KERNELS, measured_ten
from streamgp import StreamGPClassifier
from streamgp.selection import FPASS, IVM, PASS, translate

PAPER = {  # (set, method): test error in percent, its deviation
    ("usps", "ivm"): (3.30, 0.03),
    ("usps", "pass"): (3.35, 0.03),
    ("usps", "pass-paper"): (3.35, 0.03),
    ("mnist", "pass-paper"): (0.86, 0.02),
    ("mnist", "pass"): (0.86, 0.02),
}
SUBSETS = {"usps": 10, "mnist": 100}
ROWS = {"usps": 7291, "mnist": 60000}
SHAPES = {"usps": (16, 16), "mnist": (28, 28)}


def selection(options: Options, method: str) -> Any:
    """The selection of a method, with translations unless they are left out."""
    virtual = None if options.plain else translate(SHAPES[options.set], diagonals=options.set == "mnist")
    if method == "pass-paper":
        block_rows = -(-(options.rows or ROWS[options.set]) // SUBSETS[options.set])
        raised = {} if options.plain else {"p_inc_virtual": options.p_inc_virtual}
        n_init = min(300, options.active)
        return PASS.paper(block_rows=block_rows, n_init=n_init, virtual=virtual, **raised)
    if method == "pass":
        raised = {} if options.plain else {"p_inc_virtual": options.p_inc_virtual}
        return PASS(
            p_inc=options.p_inc, p_del=options.p_del, n_pass=options.passes, virtual=virtual, **raised
        )
    if method == "fpass":
        return FPASS(n_pass=options.passes, virtual=virtual)
    first = {} if options.plain else {"n_first": options.first}
    return IVM(virtual=virtual, candidates=options.candidates, **first)


def rows(options: Options) -> Rows:
    split = load_split(options.set, options).drawn(options.rows).fold(options.fold, 3)
    for method in options.methods:
        found = []
        error, spread = PAPER.get((options.set, method), (None, None))
        paper = {"paper_error_percent": error, "paper_deviation": spread}
        for seed in options.seeds:
            model = StreamGPClassifier(
                options.active,
                selection=selection(options, method),
                kernel=None if method == "pass-paper" else KERNELS[options.kernel],
                learn_hyperparameters=not options.fixed,
                validation=False,
                memory_budget=options.memory_budget,
                random_state=seed,
                checkpoint=options.checkpoint and f"{options.checkpoint}/{method}-{seed}",
            )
            named = {"set": options.set, "method": method, "seed": seed, "fold": options.fold}
            named |= {
                "plain": options.plain,
                "candidates": options.candidates,
                "first": options.first,
                "fixed": options.fixed,
            }
            started = time.process_time()
            row = measured_ten(model, split)
            spent = {"cpu_seconds_with_test": round(time.process_time() - started, 1)}
            if method.startswith("pass"):
                named["p_inc_virtual"] = options.p_inc_virtual
            found.append({**named, **row, **spent, **paper})
            yield found[-1]
        if len(found) > 1:
            mean = means(found, "error_percent", "log_loss", "seconds", "active")
            spread = deviation(found, "error_percent")
            yield {"set": options.set, "method": method, "seed": "mean", **mean, "deviation": spread, **paper}


OPTIONS = (
    *DATA,
    option("--set", "usps", choices=list(SHAPES)),
    option("--methods", ["ivm"], choices=["ivm", "pass", "pass-paper", "fpass"]),
    option("--kernel", "default", "where learning starts", choices=list(KERNELS)),
    option("--fixed", False, "the kernel as it is, without learning"),
    option("--plain", False, "without the second selection"),
    option("--fold", None, type=int, choices=range(3)),
    option("--active", 1000, "active rows of a digit; for pass, at most"),
    option("--first", None, "active rows of a digit before the second selection; default --active", type=int),
    option("--candidates", None, "rows of J for the IVM; default as many as fit", type=int),
    option("--checkpoint", None, "a folder in which an interrupted run is continued"),
    *defaults(p_inc=0.6, p_del=0.99, p_inc_virtual=0.9, passes=2, seeds=[0], memory_budget="2GiB"),
)
SCRIPT = Script("virtual_rows", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
