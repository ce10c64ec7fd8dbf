"""Section 5 of [FITC2007]: USPS 4 against the rest, with 200 and 400 inducing inputs.

    python -m benchmarks.papers.fitc_usps4 --inducing 200 400

Best peers measured on the same split with 500 points: Nystroem + logistic regression 1.69 % and 0.0513 nats,
FALKON (logistic) 1.94 % and 0.0525, GPyTorch's SVGP 2.24 % and 0.061.
"""

from __future__ import annotations

import argparse

from benchmarks.papers.binary import show, warm_up
from benchmarks.papers.fitc import add_fitc_options, arrays_of, fit_and_score, split_of
from benchmarks.record import add_save_option, record

PAPER = {200: (1.94, 0.051), 400: (1.79, 0.048)}
STRETCH = {200: (1.7, 0.047), 400: (1.6, 0.044)}
COLUMNS = (
    *("inducing", "selection", "error_percent", "nlp", "seconds", "residual", "power"),
    *("paper_error_percent", "paper_nlp", "stretch_error_percent", "stretch_nlp"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_fitc_options(parser)
    parser.add_argument("--inducing", type=int, nargs="+", default=list(PAPER))
    parser.add_argument("--learn-inducing", action="store_true")
    add_save_option(parser)
    options = parser.parse_args()
    split = split_of(arrays_of("usps", options))
    if not options.synthetic:
        split = split._replace(y_train=split.y_train == 4, y_test=split.y_test == 4)
    warm_up()
    rows = []
    for n_active in options.inducing:
        error, nlp = PAPER.get(n_active, (None, None))
        stretch_error, stretch_nlp = STRETCH.get(n_active, (None, None))
        row = {
            **fit_and_score(split, n_active, options, learn_inducing=options.learn_inducing or "auto"),
            "paper_error_percent": error,
            "paper_nlp": nlp,
            "stretch_error_percent": stretch_error,
            "stretch_nlp": stretch_nlp,
        }
        record("fitc_usps4", [row], save=not options.no_save)
        rows.append(row)
    show("Generalized FITC, USPS 4 against the rest", COLUMNS, rows)


if __name__ == "__main__":
    main()
