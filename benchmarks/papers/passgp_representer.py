"""The untested idea of [PASS2012] section 4: weights for all rows, the posterior on the active ones.

    python -m benchmarks.papers.passgp_representer --digits 2 3 4

The posterior mean is Σ k(x, x_n) α_n; an inactive row i gets the weight α_i that its marginal given the
active set predicts, an active one keeps its own. The variance falls likewise by Σ ν_i c(x, x_i)², c the
covariance given the active set, ν_i = −∂²log Z_i/∂h². Rows that would each alone have their weight explain
the same thing twice, so a share of all these weights is tried too, chosen on training rows held out.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF, White
from streamgp.likelihoods import Likelihood

Array = NDArray[np.float64]
COLUMNS = ("digit", "prediction", "share", "active", "error_percent", "log_loss")
SHARES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


class Latent(NamedTuple):
    """Mean and variance given the active set, and what all other rows would change in them, (c,) each."""

    mean: Array
    variance: Array
    mean_change: Array
    variance_change: Array

    def with_share(self, share: float, variance_too: bool) -> tuple[Array, Array]:
        """Mean and variance with so much of the change."""
        variance = self.variance + (share * self.variance_change if variance_too else 0.0)
        return self.mean + share * self.mean_change, np.maximum(variance, 1e-6 * self.variance)


def latent(model: StreamGPClassifier, X: Array, signs: Array, new: Array) -> Latent:
    """Both predictions for new rows; X and signs are the training rows outside of the active set."""
    kernel, head = model.kernel_, model.model_.snapshot.heads[0]
    inputs = model.model_.snapshot.active_inputs.astype(np.float64)
    mean, variance = model.predict_latent(X)
    _, slope, curvature = model.likelihood_[0].tilted_moments(signs, mean, variance)
    projection = head.projection.astype(np.float64)
    stubs, others = kernel.block(new, inputs) @ projection, kernel.block(X, inputs) @ projection
    covariance = kernel.block(new, X)
    mean_change = covariance @ slope
    covariance -= stubs @ others.T
    own = model.predict_latent(new)
    return Latent(own[0], own[1], mean_change, -(covariance**2 @ curvature))


def log_loss(likelihood: Likelihood, found: Latent, signs: Array, share: float, both: bool) -> float:
    """Mean −log p of the signs."""
    return -float(likelihood.log_predictive_density(signs, *found.with_share(share, both)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument("--digits", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--active", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("usps", options)
    rows = drawn_rows(len(data["y_train"]), options)
    held_out = np.random.default_rng(1).permutation(len(rows)) % 5 == 0
    X, labels = data["X_train"][rows].astype(np.float64), data["y_train"][rows]
    warm_up()
    table: list[dict[str, Any]] = []
    for digit in options.digits:
        y = labels == digit
        signs = np.where(y, 1.0, -1.0)
        model = StreamGPClassifier(
            options.active,
            selection="pass",
            kernel=RBF(30.0, 11.0) + White(0.1),
            standardize=False,
            calibrate=False,
            memory_budget="2GiB",
            random_state=options.seed,
        ).fit_stream((X[~held_out], y[~held_out]))
        outside = np.setdiff1d(np.flatnonzero(~held_out), np.flatnonzero(~held_out)[model.active_rows_])
        found = [
            latent(model, X[outside], signs[outside], new.astype(np.float64))
            for new in (X[held_out], data["X_test"])
        ]
        truths = (signs[held_out], np.where(data["y_test"] == digit, 1.0, -1.0))
        likelihood = model.likelihood_[0]

        for name, both, shares in (
            ("active set", False, (0.0,)),
            ("all weights", False, (1.0,)),
            ("all weights, shared", False, SHARES),
            ("all weights and variances, shared", True, SHARES),
        ):
            losses = [log_loss(likelihood, found[0], truths[0], share, both) for share in shares]
            share = shares[int(np.argmin(losses))]
            mean, _ = found[1].with_share(share, both)
            missed = float(np.mean((mean + likelihood.bias > 0) != (truths[1] > 0)))
            table.append(
                {
                    "digit": digit,
                    "prediction": name,
                    "share": share,
                    "active": len(model.active_rows_),
                    "rows": len(rows),
                    "error_percent": round(100 * missed, 3),
                    "log_loss": round(log_loss(likelihood, found[1], truths[1], share, both), 4),
                }
            )
    record("passgp_representer", table, save=not options.no_save)
    show("PASS-GP, section 4: prediction with weights for all rows, USPS", COLUMNS, table)


if __name__ == "__main__":
    main()
