"""Figure 3 of [PASS2012]: approximations of the log evidence of all rows, USPS digit 3 against the rest.

    python -m benchmarks.papers.passgp_evidence --rows 3000 --accurate

Z_EP,A is the evidence of the active set alone, Z_APP adds the predictive densities of all other rows,
Z_ACC (``--accurate``) runs expectation propagation on those others with the active set's prediction as their
prior, and Z_EP (``--full``) on all rows. The last two need matrices of all rows: they are here only.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, told
from benchmarks.papers.digits import KERNELS
from streamgp import StreamGPClassifier
from streamgp.inference import expectation_propagation
from streamgp.inference.damping import FOR_EVIDENCE
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.likelihoods.base import TiltedSites
from streamgp.selection import PASS
from streamgp.settings import EP

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shifted:
    """A likelihood of f = prior mean + g, seen as one of g: sites of g are those of f, moved."""

    likelihood: Likelihood
    prior_mean: Floats

    def tilted_sites(self, targets: Floats, mean: Floats, variance: Floats) -> TiltedSites:
        """Sites on g."""
        log_z, precision, precision_mean = self.likelihood.tilted_sites(
            targets, mean + self.prior_mean, variance
        )
        return TiltedSites(log_z, precision, precision_mean - precision * self.prior_mean)


def full_evidence(kernel: Kernel, likelihood: Likelihood, X: Floats, y: Floats) -> float:
    """Log Z_EP of all rows."""
    return expectation_propagation(kernel.gram(X), y, likelihood, tolerance=FOR_EVIDENCE).log_evidence


def accurate_evidence(
    kernel: Kernel, likelihood: Likelihood, X: Floats, y: Floats, active: NDArray[np.int64]
) -> float:
    """Log Z_ACC = log Z_EP of the active rows + log Z_EP of the others, given the active ones' posterior."""
    others = np.setdiff1d(np.arange(len(y)), active)
    found = expectation_propagation(kernel.gram(X[active]), y[active], likelihood, tolerance=FOR_EVIDENCE)
    cross = kernel.block(X[others], X[active])
    root = np.sqrt(found.sites.precision)
    scaled = np.eye(len(active)) + root[:, None] * kernel.gram(X[active]) * root
    stubs = solve_triangular(np.linalg.cholesky(scaled), (cross * root).T, lower=True)
    gram = kernel.gram(X[others]) - stubs.T @ stubs
    shifted: Any = Shifted(likelihood, cross @ found.marginals.weights)
    rest = expectation_propagation(gram, y[others], shifted, tolerance=FOR_EVIDENCE, sequential_sweeps=0)
    return found.log_evidence + rest.log_evidence


def rows(options: Options) -> Rows:
    split = load_split("usps", options).drawn(options.rows).against_rest(options.digit)
    split = split.mapped(lambda pixels: pixels.astype(np.float64))
    X, signs = split.X_train, np.where(split.y_train, 1.0, -1.0)
    for p_inc, seed in product(options.p_inc, options.seeds):
        model = StreamGPClassifier(
            min(options.most_active, len(signs)),
            selection=PASS(p_inc=p_inc, p_del=options.p_del),
            inference=EP(calibrate=False),
            kernel=KERNELS["rbf"],
            standardize=False,
            memory_budget="2GiB",
            random_state=seed,
        )
        row = {"digit": options.digit, "p_inc": p_inc, "seed": seed, **measured(model, split)}
        (inferred,) = told(model, "infer: ep")
        row["z_active"] = round(inferred["log_evidence_active"][0], 2)
        row["z_app"] = round(inferred["log_evidence_all"][0], 2)
        known = (model.kernel_, model.likelihood_[0], X, signs)
        if options.accurate:
            row["z_acc"] = round(accurate_evidence(*known, model.active_rows_), 2)
        if options.full:
            row["z_full"] = round(full_evidence(*known), 2)
        yield row


OPTIONS = (
    *DATA,
    *defaults(digit=3, p_inc=[0.5, 0.6, 0.7, 0.8, 0.9, 0.99], p_del=0.99, most_active=1500),
    *defaults(accurate=False, full=False, seeds=[0]),
)
SCRIPT = Script("passgp_evidence", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
