"""Section 5 of [FITC2007]: USPS 4 against the rest, with 200 and 400 inducing inputs.

    python -m benchmarks.papers.fitc_usps4 --inducing 200 400

Best peers measured on the same split with 500 points: Nystroem + logistic regression 1.69 % and 0.0513 nats,
FALKON (logistic) 1.94 % and 0.0525, GPyTorch's SVGP 2.24 % and 0.061.
"""

from benchmarks.datasets import load_split
from benchmarks.harness import Options, Rows, Script, defaults
from benchmarks.papers.fitc import ONE_FIT, fit_and_score
from streamgp.settings import FITC

OTHERS = ("paper_error_percent", "paper_log_loss", "stretch_error_percent", "stretch_log_loss")
PAPER = {200: (1.94, 0.051, 1.7, 0.047), 400: (1.79, 0.048, 1.6, 0.044)}


def rows(options: Options) -> Rows:
    split = load_split("usps4", options)
    inference = FITC(learn_inducing=options.learn_inducing or "auto")
    for n_active in options.inducing:
        row = fit_and_score(split, n_active, options, inference=inference)
        yield {**row, **dict(zip(OTHERS, PAPER.get(n_active, (None,) * 4), strict=True))}


OPTIONS = (
    *ONE_FIT,
    *defaults(inducing=list(PAPER), learn_inducing=False),
)
SCRIPT = Script("fitc_usps4", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
