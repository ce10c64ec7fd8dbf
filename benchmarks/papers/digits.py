"""What the scripts about digits share: the model of one digit against the rest, and of all ten at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.datasets import Array, Split
from benchmarks.harness import Option, Options, Row, active_sizes, measured, option
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF, Constant, Kernel, Linear, Polynomial, White

BIAS_VARIANCE = 0.1
"""Variance of the bias, a constant in the kernel ([IVM2003] section 4)."""
VALIDATION_ROWS = 1000
FIRST_W = 0.0166
"""One over the mean variance of pixels in [IVM2006]: its first w, in the units of its hyperprior."""
DENSITY_BINS = 20
KERNELS: dict[str, Kernel | None] = {
    "default": None,
    "rbf": RBF(30.0, 11.0) + White(0.1),
    "rbf+linear": RBF(30.0, 11.0) + Linear(0.01) + White(0.1),
    "polynomial5": Polynomial(5, 100.0, 0.5, normalize=True),
    "mnist": Polynomial(5, 10.0, 0.35, normalize=True),  # what learning finds for digits 8 and 9
    "polynomial7": Polynomial(7, 100.0, 0.5, normalize=True),
    "polynomial9": Polynomial(9, 100.0, 1.0, normalize=True),
}
"""Where learning starts."""


def in_paper_units(split: Split) -> Split:
    """Pixels of the mean variance that [IVM2006] has."""
    scale = np.float32(np.sqrt(1.0 / FIRST_W / split.X_train.var(axis=0).mean()))
    return split.mapped(lambda features: scale * features)


def fit_options(memory_budget: str = "512MiB") -> tuple[Option, ...]:
    """Options of every script of digits against the rest."""
    return (
        option("--digits", None, "tasks; default those of the paper", type=int, nargs="+"),
        option("--kernel-variance", None, "fixed instead of learned", type=float),
        option("--lengthscale", None, "fixed, in standardised units", type=float),
        option("--memory-budget", memory_budget),
        option("--seed", 0),
    )


def fixed_kernel(options: Options) -> Kernel | None:
    """The kernel that the options fix, None where it is to be learned."""
    if options.kernel_variance is None and options.lengthscale is None:
        return None
    if options.kernel_variance is None or options.lengthscale is None:
        raise SystemExit("--kernel-variance and --lengthscale are given together")
    return RBF(options.kernel_variance, options.lengthscale) + Constant(BIAS_VARIANCE)


def classifier(n_active: int, options: Options, **parameters: Any) -> StreamGPClassifier:
    """The model that the options ask for; without rows to stop early by, which the papers do not have."""
    kernel = fixed_kernel(options)
    settings = {
        "selection": "ivm",
        "kernel": kernel,
        "learn_hyperparameters": kernel is None,
        "validation": False,
        "memory_budget": options.memory_budget,
        "random_state": options.seed,
    }
    return StreamGPClassifier(n_active, **(settings | parameters))


def like(model: StreamGPClassifier) -> dict[str, Any]:
    """Parameters by which another model of two classes takes over what this one has learned."""
    learned = {"kernel": model.kernel_, "likelihood": model.likelihood_[0]}
    return {**learned, "learn_hyperparameters": False}


def set_aside(split: Split, options: Options) -> tuple[Split, tuple[Array, Array]]:
    """The split without 1000 of its training rows, and these."""
    order = np.random.default_rng(options.seed).permutation(len(split.y_train))
    count = min(VALIDATION_ROWS, len(order) // 4)
    train, held_out = np.sort(order[count:][: options.rows]), order[:count]
    return split.learning_from(train), (split.X_train[held_out], split.y_train[held_out])


def combined_error(positive: Mapping[int, Array], y_test: Array) -> float | None:
    """Percent of test rows whose class is not the one of largest P(+1); None unless there are all ten."""
    if len(positive) < 10:
        return None
    guess = np.argmax(np.column_stack([positive[digit] for digit in range(10)]), axis=1)
    return round(100 * float(np.mean(guess != y_test)), 3)


def measured_ten(model: StreamGPClassifier, split: Split) -> Row:
    """All ten digits in one stream: a row, with errors of each against the rest and densities (figure 4)."""
    row = measured(model, split)
    mean, variance = model.predict_latent(split.X_test)
    truth = split.y_test[:, None] == model.classes_[None, :]
    heads = enumerate(model.likelihood_)
    positive = np.column_stack([one.positive_probability(mean[:, k], variance[:, k]) for k, one in heads])
    right = (positive > 0.5) == truth
    inferred = [entry for entry in model.history_ if entry.get("inner", entry["stage"]) == "infer: ep"]
    return {
        **row,
        "active_by_class": active_sizes(model),
        "log_evidence_active": _total(inferred, "log_evidence_active"),
        "log_evidence_all": _total(inferred, "log_evidence_all"),
        "binary_error_percent": [round(100 * float(value), 3) for value in 1 - right.mean(axis=0)],
        "binary_brier_percent": round(100 * float(np.mean((positive - truth) ** 2)), 3),
        "density_correct": _density(positive[right]),
        "density_incorrect": _density(positive[~right]),
    }


def _total(entries: list[Row], name: str) -> float | None:
    """The sum over digits: of one entry for all of them, or of one for each."""
    found = [np.sum(entry[name]) for entry in entries if name in entry]
    return round(float(np.sum(found)), 2) if found else None


def _density(values: Array) -> list[float]:
    """Histogram of P(+1) as a density."""
    counts, _ = np.histogram(values, DENSITY_BINS, (0.0, 1.0))
    return [round(float(value), 4) for value in counts * DENSITY_BINS / max(1, counts.sum())]
