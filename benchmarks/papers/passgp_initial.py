"""How much the first active set matters in [PASS2012]: USPS, one digit against the rest, ten seeds.

    python -m benchmarks.papers.passgp_initial --methods pass fpass --digit 3

Hyperparameters are learned once, with the first seed; then the seeds differ in the rows drawn at random to
begin with and in the order of all others. ``--relearn`` learns them for every seed, from a sample of its own.
The last line of each method has the range of the errors, in points.
"""

from typing import Any

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option
from benchmarks.papers.digits import KERNELS, like
from streamgp import StreamGPClassifier

TIMES_ACTIVE = {"pass": 2, "fpass": 1}
"""Most active rows of each method, as a multiple of ``--active``."""


def rows(options: Options) -> Rows:
    split = load_split("usps", options).drawn(options.rows).against_rest(options.digit)
    for method in options.methods:

        def model(seed: int, method: str = method, **hyperparameters: Any) -> StreamGPClassifier:
            n_active = TIMES_ACTIVE[method] * options.active
            settings = {"selection": method, "validation": False, "random_state": seed}
            return StreamGPClassifier(n_active, **settings, **hyperparameters)

        learned: dict[str, Any] = {"kernel": KERNELS["polynomial5"]}
        if not options.relearn:
            learned = like(model(options.seeds[0], **learned).fit(*split.train))
        common, errors = {"method": method, "digit": options.digit, "relearned": options.relearn}, []
        for seed in options.seeds:
            row = {**common, "seed": seed, **measured(model(seed, **learned), split)}
            errors.append(row["error_percent"])
            yield row
        yield {**common, "range_points": round(max(errors) - min(errors), 4)}


OPTIONS = (
    *DATA,
    option("--methods", ["pass", "fpass"], choices=list(TIMES_ACTIVE)),
    option("--active", 300, "size of fpass; pass may take twice as many"),
    *defaults(digit=3, seeds=list(range(10)), relearn=False),
)
SCRIPT = Script("passgp_initial", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
