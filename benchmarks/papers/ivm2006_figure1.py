"""Figure 1 of [IVM2006]: criterion, test error and log loss of USPS 2 against the rest, round by round.

    python -m benchmarks.papers.ivm2006_figure1 --strategies constant hybrid exact

``IVM.paper2006()`` with 200 active rows; a round is a selection and eight minor steps, whose sites stay
("constant"), are set anew before every search direction ("hybrid") or at every evaluation ("exact"). Each
round is a fit that stops there, its scores those of the selection that follows. ``python -m
benchmarks.papers.pictures`` draws the curves.
"""

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option, told
from benchmarks.papers.digits import in_paper_units
from streamgp import StreamGPClassifier
from streamgp.selection import IVM

PAPER = {"constant": (1.3453, 0.0999), "hybrid": (1.6442, 0.0650), "exact": (1.4948, 0.0914)}
"""Test error in percent and minus the mean test log likelihood after 15 rounds."""


def rows(options: Options) -> Rows:
    split = load_split("usps", options).drawn(options.rows)
    split = (in_paper_units(split) if options.paper_units else split).against_rest(options.digit)
    for strategy in options.strategies:
        kernel, likelihood = None, None
        error, loss = PAPER[strategy]
        for number in range(1, options.rounds + 1):
            model = StreamGPClassifier(
                options.active,
                selection=IVM.paper2006(rounds=1),
                kernel=kernel,
                likelihood=likelihood,
                learn_hyperparameters=strategy,
                standardize=not options.paper_units,
                memory_budget=options.memory_budget,
                random_state=options.seed,
            )
            row = measured(model, split)
            kernel, [likelihood] = model.kernel_, model.likelihood_
            [learned] = told(model, "learn: criterion of all rows")
            yield {
                "strategy": strategy,
                "paper_units": options.paper_units,
                "round": number,
                "criterion": learned["criterion"],
                "bias": likelihood.bias,
                **row,
                "paper_error_percent": error,
                "paper_log_loss": loss,
            }
            if learned["moved"] < 1e-3:
                break


OPTIONS = (
    *DATA,
    option("--strategies", list(PAPER), choices=list(PAPER)),
    option("--paper-units", False, "of features, as in ivm2006_table1"),
    *defaults(active=200, rounds=15, digit=2, seed=0, memory_budget="1GiB"),
)
SCRIPT = Script("ivm2006_figure1", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
