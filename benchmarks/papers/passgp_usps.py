"""USPS in [PASS2012], figures 1 and 4 and section 6.1: errors and active sets of each digit, ten classes.

    python -m benchmarks.papers.passgp_usps --methods pass fpass --seeds 0

``pass`` and ``fpass``: all ten digits are learned in one stream with one kernel, whose parameters the
evidence of the active sets decides. ``pass-paper`` and ``fpass-paper`` are the paper's algorithms as printed,
for each digit against the rest with its own parameters, ten subsets, p_inc 0.6 or 300 rows. ``--fold k``
replaces the test set by every third training row: there, and only there, settings were chosen.
"""

from typing import Any

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, option
from benchmarks.papers.digits import KERNELS, measured_ten
from streamgp import StreamGPClassifier
from streamgp.selection import FPASS, PASS

PAPER_COLUMNS = ("paper_error_percent", "paper_deviation", "paper_brier")
BLOCK_ROWS = 750
"""Ten subsets, as in the paper."""
PAPER = {
    "pass-paper": (4.51, 0.17, 0.53),
    "fpass-paper": (4.61, 0.11, 0.27),
    "pass": (4.51, 0.17, 0.53),
    "fpass": (4.61, 0.11, 0.27),
    "ivm": (4.38, 0.11, 0.71),
    "ivm+ep": (None, None, None),
    "random": (9.75, 0.40, None),
}


def parameters(method: str, options: Options) -> dict[str, Any]:
    """Active rows, selection and inference of a method."""
    thresholds = {"p_inc": options.p_inc, "p_del": options.p_del, "n_init": min(300, options.most_active)}
    return {
        "pass-paper": {
            "n_active": options.most_literal,
            "selection": PASS.paper(block_rows=BLOCK_ROWS, n_init=min(300, options.most_literal)),
        },
        "fpass-paper": {"n_active": options.active, "selection": FPASS.paper(block_rows=BLOCK_ROWS)},
        "pass": {"n_active": options.most_active, "selection": PASS(**thresholds)},
        "fpass": {"n_active": options.active, "selection": "fpass"},
        "ivm": {"n_active": options.active, "selection": "ivm"},
        "ivm+ep": {"n_active": options.active, "selection": "ivm", "inference": "ep"},
        "random": {"n_active": options.active, "selection": "random"},
    }[method]


def rows(options: Options) -> Rows:
    split = load_split("usps", options).drawn(options.rows).fold(options.fold, 3)
    for method in options.methods:
        for seed in options.seeds:
            is_literal = method.endswith("-paper")
            model = StreamGPClassifier(
                kernel=None if is_literal else KERNELS[options.kernel],
                memory_budget=options.memory_budget,
                random_state=seed,
                **parameters(method, options),
            )
            start = "default" if is_literal else options.kernel
            row = {"method": method, "seed": seed, "start": start, "fold": options.fold}
            row["p_inc"] = options.p_inc if method == "pass" else None
            paper = dict(zip(PAPER_COLUMNS, PAPER[method], strict=True))
            yield {**row, **measured_ten(model, split), **paper}


OPTIONS = (
    *DATA,
    option("--methods", ["pass", "fpass"], choices=list(PAPER)),
    option("--kernel", "polynomial5", choices=list(KERNELS)),
    option("--active", 300, "size of fpass, ivm and random"),
    option("--most-active", 600, "the most that pass may take"),
    option("--most-literal", 1000, "the most that pass-paper may take"),
    option("--fold", None, type=int, choices=range(3)),
    *defaults(p_inc=PASS.p_inc, p_del=PASS.p_del, seeds=[0], memory_budget="2GiB"),
)
SCRIPT = Script("passgp_usps", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
