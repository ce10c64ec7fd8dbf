"""Kernels by definition: all differences at once, one matrix per derivative, in float64. Slow on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.kernels import (
    RBF,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Polynomial,
    Product,
    Sum,
    White,
)

Doubles = NDArray[np.float64]


def unit(rows: Doubles) -> Doubles:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def block(kernel: Kernel, left: NDArray[Any], right: NDArray[Any]) -> Doubles:
    """k(left[i], right[j]) for all pairs, without white noise."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    if isinstance(kernel, Sum):
        return np.sum([block(term, left, right) for term in kernel.terms], axis=0)
    if isinstance(kernel, Product):
        return np.prod([block(factor, left, right) for factor in kernel.factors], axis=0)
    if isinstance(kernel, Constant):
        return np.full((len(left), len(right)), kernel.variance)
    if isinstance(kernel, White):
        return np.zeros((len(left), len(right)))
    if isinstance(kernel, Linear):
        return kernel.variance * np.einsum("iq,jq->ij", left, right)
    if isinstance(kernel, Polynomial):
        left, right = left - kernel.origin, right - kernel.origin
        if kernel.normalize:
            left, right = unit(left), unit(right)
        products = np.einsum("iq,jq->ij", left, right)
        return kernel.variance * ((products + kernel.offset) / (1 + kernel.offset)) ** kernel.degree
    return stationary(kernel, left, right)


def gram(kernel: Kernel, rows: NDArray[Any]) -> Doubles:
    """Covariance of rows: white noise is the variance of a row with itself, even where rows are the same."""
    if isinstance(kernel, Sum):
        return np.sum([gram(term, rows) for term in kernel.terms], axis=0)
    if isinstance(kernel, Product):
        return np.prod([gram(factor, rows) for factor in kernel.factors], axis=0)
    if isinstance(kernel, White):
        return kernel.variance * np.eye(len(rows))
    return block(kernel, rows, rows)


def nugget(kernel: Kernel, rows: NDArray[Any]) -> Doubles:
    """What white noise adds to the variance of each row."""
    return np.diag(gram(kernel, rows) - block(kernel, rows, rows)).copy()


def stationary(kernel: Kernel, left: Doubles, right: Doubles) -> Doubles:
    assert isinstance(kernel, RBF | Matern12 | Matern32 | Matern52 | Laplacian)
    differences = (left[:, None, :] - right[None, :, :]) / np.asarray(kernel.lengthscale)
    if isinstance(kernel, Laplacian):
        return kernel.variance * np.exp(-np.abs(differences).sum(axis=2))
    distance = np.sqrt(np.sum(differences**2, axis=2))
    if isinstance(kernel, RBF):
        return kernel.variance * np.exp(-0.5 * distance**2)
    if isinstance(kernel, Matern12):
        return kernel.variance * np.exp(-distance)
    if isinstance(kernel, Matern32):
        r = np.sqrt(3.0) * distance
        return kernel.variance * (1 + r) * np.exp(-r)
    r = np.sqrt(5.0) * distance
    return kernel.variance * (1 + r + r**2 / 3) * np.exp(-r)


def parameter_gradient(
    kernel: Kernel, left: Doubles, right: Doubles, weights: Doubles, step: float = 1e-3
) -> Doubles:
    """Central differences of the dense block, extrapolated to sixth order, parameter by parameter."""
    start = kernel.log_parameters

    def value(direction: Doubles, t: float) -> float:
        return float(np.sum(weights * block(kernel.with_log_parameters(start + t * direction), left, right)))

    return np.array([derivative(lambda t, e=e: value(e, t), step) for e in np.eye(len(start))])


def input_gradient(
    kernel: Kernel, left: Doubles, right: Doubles, weights: Doubles, step: float = 1e-3
) -> Doubles:
    """The same for every entry of right; of the exponential kernels by their formulas, as they have kinks."""
    if isinstance(kernel, Laplacian):
        return laplacian_input_gradient(kernel, left, right, weights)
    if isinstance(kernel, Matern12):
        return matern12_input_gradient(kernel, left, right, weights)
    gradient = np.zeros(right.shape)
    for place in np.ndindex(*right.shape):
        unit_change = np.zeros(right.shape)
        unit_change[place] = 1.0
        gradient[place] = derivative(
            lambda t, e=unit_change: float(np.sum(weights * block(kernel, left, right + t * e))), step
        )
    return gradient


def matern12_input_gradient(kernel: Matern12, left: Doubles, right: Doubles, weights: Doubles) -> Doubles:
    """∂/∂r_q v e⁻ᵈ = v e⁻ᵈ δ_q/(d lengthscale_q), δ = (l − r)/lengthscale; zero where rows coincide."""
    scale = np.asarray(kernel.lengthscale)
    delta = (left[:, None, :] - right[None, :, :]) / scale
    distance = np.sqrt(np.sum(delta**2, axis=2))
    slope = weights * kernel.variance * np.exp(-distance)
    slope = np.divide(slope, distance, out=np.zeros_like(slope), where=distance > 0)
    return np.einsum("ij,ijq->jq", slope, delta) / scale


def laplacian_input_gradient(kernel: Laplacian, left: Doubles, right: Doubles, weights: Doubles) -> Doubles:
    """∂k/∂r_q = k sign(l_q − r_q)/lengthscale_q; zero where the two are the same."""
    signs = np.sign(left[:, None, :] - right[None, :, :]) / np.asarray(kernel.lengthscale)
    return np.einsum("ij,ijq->jq", weights * stationary(kernel, left, right), signs)


def derivative(function: Any, step: float) -> float:
    """f'(0), by differences at ±h, ±2h, ±3h: error O(h⁶)."""
    first, second, third = (function(k * step) - function(-k * step) for k in (1, 2, 3))
    return float((45.0 * first - 9.0 * second + third) / (60.0 * step))
