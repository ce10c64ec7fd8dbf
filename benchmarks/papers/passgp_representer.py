"""The untested idea of [PASS2012] section 4: weights for all rows, the posterior on the active ones.

    python -m benchmarks.papers.passgp_representer --digits 2 3 4

The posterior mean is Σ k(x, x_n) α_n; an inactive row i gets the weight α_i that its marginal given the
active set predicts, an active one keeps its own. The variance falls likewise by Σ ν_i c(x, x_i)², c the
covariance given the active set, ν_i = −∂²log Z_i/∂h². Rows that would each alone have their weight explain
the same thing twice, so a share of all these weights is tried too, chosen on training rows held out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split, load_split
from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, measured
from benchmarks.papers.digits import KERNELS
from streamgp import StreamGPClassifier
from streamgp.likelihoods import Likelihood
from streamgp.settings import EP

Floats = NDArray[np.float64]
SHARES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
PREDICTIONS = (  # name, whether the variance changes too, shares to choose from
    ("active set", False, (0.0,)),
    ("all weights", False, (1.0,)),
    ("all weights, shared", False, SHARES),
    ("all weights and variances, shared", True, SHARES),
)


class Latent(NamedTuple):
    """Mean and variance given the active set, and what all other rows would change in them, (c,) each."""

    mean: Floats
    variance: Floats
    mean_change: Floats
    variance_change: Floats

    def with_share(self, share: float, variance_too: bool) -> tuple[Floats, Floats]:
        """Mean and variance with so much of the change."""
        variance = self.variance + (share * self.variance_change if variance_too else 0.0)
        return self.mean + share * self.mean_change, np.maximum(variance, 1e-6 * self.variance)


def latent(model: StreamGPClassifier, X: Floats, signs: Floats, new: Floats) -> Latent:
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


def log_loss(likelihood: Likelihood, found: Latent, signs: Floats, share: float, both: bool) -> float:
    """Mean −log p of the signs."""
    return -float(likelihood.log_predictive_density(signs, *found.with_share(share, both)).mean())


def digit_rows(split: Split, X_test: Floats, y_test: NDArray[np.bool_], options: Options) -> list[Row]:
    """All predictions of one task; test rows of the split are those that choose the share."""
    model = StreamGPClassifier(
        options.active,
        selection="pass",
        inference=EP(calibrate=False),
        kernel=KERNELS["rbf"],
        standardize=False,
        memory_budget="2GiB",
        random_state=options.seed,
    )
    fit = measured(model, split)
    outside = np.setdiff1d(np.arange(len(split.y_train)), model.active_rows_)
    signs, chosen_by, truth = (np.where(y, 1.0, -1.0) for y in (split.y_train, split.y_test, y_test))
    choosing, found = (
        latent(model, split.X_train[outside], signs[outside], new) for new in (split.X_test, X_test)
    )
    likelihood, rows = model.likelihood_[0], []
    for name, both, shares in PREDICTIONS:
        losses = [log_loss(likelihood, choosing, chosen_by, share, both) for share in shares]
        share = shares[int(np.argmin(losses))]
        mean, _ = found.with_share(share, both)
        missed = float(np.mean((mean + likelihood.bias > 0) != y_test))
        row = {"prediction": name, "share": share, **{key: fit[key] for key in ("rows", "active", "seconds")}}
        loss = round(log_loss(likelihood, found, truth, share, both), 4)
        rows.append({**row, "error_percent": round(100 * missed, 3), "log_loss": loss})
    return rows


def rows(options: Options) -> Rows:
    whole = load_split("usps", options).drawn(options.rows).mapped(lambda pixels: pixels.astype(np.float64))
    for digit in options.digits:
        task = whole.against_rest(digit)
        for row in digit_rows(task.fold(0, 5, seed=1), *task.test, options):
            yield {"digit": digit, **row}


OPTIONS = (
    *DATA,
    *defaults(digits=[2, 3, 4], active=600, seed=0),
)
SCRIPT = Script("passgp_representer", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
