"""Streaming selection beside the full greedy one: MNIST 9 against rest, 28 x 28, J of 5 % of the rows.

    python -m benchmarks.papers.streaming_greedy

The first fit learns its hyperparameters, which all others take over. Fits with J choose from 5 % of the rows,
which passes refresh; those beside them choose among all rows, every one of them current at every inclusion:
algorithm 1 of [IVM2003], exactly; its stubs need 8 n d bytes. Seeds differ in the sample, and in the first
row where all tie. The last line has the differences of the means: points of error, and the log loss of the
former over that of the latter, minus one, in percent.
"""

from typing import Any

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, means, measured, option
from benchmarks.papers.digits import classifier, fit_options, like
from streamgp.selection import IVM


def rows(options: Options) -> Rows:
    digit = (options.digits or [9])[0]
    split = load_split("mnist", options).drawn(options.rows).against_rest(digit)
    candidates = max(1, round(options.share * len(split.y_train)))
    kinds = {  # how many candidates, selection, memory
        "streaming": (candidates, IVM(candidates=candidates), options.memory_budget),
        "full greedy": (len(split.y_train), IVM(hot=None), options.greedy_budget),
    }
    found: dict[str, list[Row]] = {kind: [] for kind in kinds}
    learned: dict[str, Any] = {}
    for seed in options.seeds:
        for kind, (count, selection, budget) in kinds.items():
            own = {"selection": selection, "memory_budget": budget, "random_state": seed}
            model = classifier(options.active, options, **own, **learned)
            row = {"selection": kind, "digit": digit, "seed": seed, "candidates": count}
            found[kind].append(row | measured(model, split))
            learned = learned or like(model)
            yield found[kind][-1]
    streaming, greedy = (means(own, "error_percent", "log_loss") for own in found.values())
    yield {
        "selection": "difference of means",
        "error_percent": round(streaming["error_percent"] - greedy["error_percent"], 3),
        "log_loss_percent": round(100 * (streaming["log_loss"] / greedy["log_loss"] - 1), 2),
    }


OPTIONS = (
    *DATA,
    *fit_options(),
    option("--share", 0.05, "of the rows in J"),
    option("--greedy-budget", "4GiB", "memory for all rows' stubs"),
    *defaults(active=1000, seeds=[0, 1, 2]),
)
SCRIPT = Script("streaming_greedy", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
