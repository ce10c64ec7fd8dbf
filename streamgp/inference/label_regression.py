"""Regression on labels: the exact evidence of a few rows, all classes through one factor.

A cheap stand-in for the evidence of classes: closed form, no sites, one factorisation however many classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri, dpotrs

from streamgp.arrays import FloatArray
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian


class LabelEvidence(NamedTuple):
    """Log density of all columns of labels, and its gradients by the learned parameters."""

    value: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray


def label_evidence(
    kernel: Kernel, likelihood: Gaussian, inputs: FloatArray, labels: FloatArray
) -> LabelEvidence:
    """Σ_c log N(y_c; 0, K + σ² 1) and its gradient.

    d = ⟨½ (Σ_c α_c α_cᵀ − C (K + σ² 1)⁻¹), d(K + σ² 1)⟩,  α_c = (K + σ² 1)⁻¹ y_c
    Shapes: inputs (n, p), labels (n, C), centred.  Cost: n³ flops and one contraction of n² pairs.
    Memory: three matrices (n, n).  Source: Rasmussen and Williams (2006) eq. 5.9.
    """
    n, n_classes = labels.shape
    gram = kernel.gram(inputs).astype(np.float64, copy=False)
    gram.flat[:: n + 1] += likelihood.noise
    factor = cholesky(gram.T, lower=True, overwrite_a=True, check_finite=False)
    weights, _ = dpotrs(factor, labels, lower=1)
    value = -0.5 * float(np.sum(labels * weights)) - n_classes * float(np.log(factor.diagonal()).sum())
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    slopes = -0.5 * n_classes * (np.tril(inverse) + np.tril(inverse, -1).T)
    slopes += 0.5 * (weights @ weights.T)
    diagonal = slopes.diagonal().copy()
    np.fill_diagonal(slopes, 0.0)
    by_kernel = kernel.parameter_gradient(inputs, inputs, np.ascontiguousarray(slopes))
    by_kernel += kernel.diagonal_gradient(inputs, diagonal)
    by_noise = np.array([likelihood.noise * diagonal.sum()])
    constant = 0.5 * n * n_classes * np.log(2.0 * np.pi)
    return LabelEvidence(value - constant, by_kernel, by_noise)
