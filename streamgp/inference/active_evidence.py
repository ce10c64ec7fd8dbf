"""The evidence of the active set by expectation propagation, and its gradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.damping import FOR_EVIDENCE
from streamgp.inference.ep import Propagated, expectation_propagation
from streamgp.inference.sites import Sites, inverse_factor
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood


class Evidence(NamedTuple):
    """Log Z_EP in nats, without hyperpriors, and its gradients by the learned parameters.

    kernel_gradient is by ``kernel.log_parameters``, likelihood_gradient by ``likelihood.parameters``.
    """

    value: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray
    propagated: Propagated


def evidence(
    kernel: Kernel,
    likelihood: Likelihood,
    inputs: FloatArray,
    targets: FloatArray,
    start: Sites | None = None,
    *,
    tolerance: float = FOR_EVIDENCE,
) -> Evidence:
    """Converge, then the log evidence of the active rows and its exact gradient.

    d log Z_EP = ½ ⟨v vᵀ − T Tᵀ, dK⟩ + Σ ∂ log Z_i/∂θ,  T = S L⁻ᵀ,  v = b − π h
    The sites' own change adds nothing: log Z_EP is stationary in them at the fixed point. White noise is in
    the diagonal of K alone, and so is its derivative.
    Shapes: inputs (d, p), targets (d,), sites (d,).  Cost: the sweeps, then d³ flops and one contraction.
    Memory: three matrices (d, d).
    Hazard: away from the fixed point the gradient errs in proportion to the residual, the value to its
    square.  Source: [PASS2012] section 2, Rasmussen and Williams (2006) eq. 5.27.
    Oracle: finite differences of tests/reference/ep_dense.py
    """
    gram = kernel.gram(inputs).astype(np.float64, copy=False)
    propagated = expectation_propagation(gram, targets, likelihood, start, tolerance=tolerance)
    root, weights = np.sqrt(propagated.sites.precision), propagated.marginals.weights
    inverse, _ = inverse_factor(gram, root)
    inverse *= root
    slopes = inverse.T @ inverse
    np.subtract(np.multiply.outer(weights, weights), slopes, out=slopes)
    slopes *= 0.5
    diagonal = slopes.diagonal().copy()
    np.fill_diagonal(slopes, 0.0)
    kernel_gradient = kernel.parameter_gradient(inputs, inputs, slopes)
    kernel_gradient += kernel.diagonal_gradient(inputs, diagonal)
    cavity_mean, cavity_variance = propagated.marginals.cavity_mean, propagated.marginals.cavity_variance
    by_row = likelihood.parameter_gradient(targets, cavity_mean, cavity_variance)
    return Evidence(propagated.log_evidence, kernel_gradient, by_row.sum(axis=1), propagated)
