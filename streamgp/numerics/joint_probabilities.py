"""Log probabilities of all classes of a joint likelihood, from nodes that they share.

    P(c wins) = ∫ λ_c(v) Π_k F_k(v) dv,  λ_c = d log F_c/dv

The product is the distribution function of the winner's value, whoever wins, and the integrands of all
classes add up to its derivative. So the same nodes serve every class: O(C) work for all C probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double
from streamgp.numerics.joint import NODES, tilt_row
from streamgp.numerics.joint_factors import NOBODY, Table, make_table, read_row, row_factors, tabulate
from streamgp.numerics.logarithm import fast_log
from streamgp.numerics.mass import FAR, find_rise
from streamgp.numerics.noise import NORMAL
from streamgp.numerics.stretched_rule import fill_nodes

SHARED_NODES = 80
"""The largest number of shared nodes."""

# How deep shared nodes reach: normal tails are steep, and a node is cheap there.
_NORMAL_DEPTH, _GUMBEL_DEPTH, _GUMBEL_NODES = 120.0, 60.0, 64
# A class that few nodes carry gets its own: the sum is exact to 1e-7 if they are a deviation apart.
_FEWEST = 4.0
_TINY = 1e-300


@compiled
def _reach(noise: int, mean: FloatArray, variance: FloatArray, origin: float, nats: float) -> float:
    """How far above the origin the winner's value can be, but for e^{−nats} of the cases."""
    deviations, reach = math.sqrt(2.0 * nats), 0.0
    for c in range(mean.size):
        if noise == NORMAL:
            tail = deviations * math.sqrt(1.0 + variance[c])
        else:
            tail = deviations * math.sqrt(variance[c]) + nats
        reach = max(reach, mean[c] - origin + tail)
    return reach


@compiled
def _log_share(table: Table, c: int) -> tuple[float, float]:
    """Log ∫ λ_c Π F dv from the nodes, relative to its largest term, and how many nodes carry it: 1/Σ p²."""
    weights, log_product, slope, terms = table.weights, table.log_product, table.slope[c], table.work[0]
    for k in range(weights.size):
        rate = -slope[k] * weights[k]
        terms[k] = log_product[k] + fast_log(rate if rate > _TINY else _TINY)
    top = np.max(terms)
    total, squares = 0.0, 0.0
    for k in range(weights.size):
        share = exp_double(terms[k] - top)
        total += share
        squares += share * share
    return top + math.log(total), total * total / squares


@compiled
def _normalize(log_probabilities: FloatArray) -> None:
    """Subtract the log of the sum; twice, which takes the rounding of the first time away."""
    for _ in range(2):
        top = np.max(log_probabilities)
        total = 0.0
        for c in range(log_probabilities.size):
            total += math.exp(log_probabilities[c] - top)
        for c in range(log_probabilities.size):
            log_probabilities[c] -= top + math.log(total)


@compiled
def joint_probabilities_sweep(
    noise: int,
    biases: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    log_probabilities: FloatArray,
) -> None:
    """Fill log_probabilities (n, C), normalised, of every row and class.

    Equations in the module's head.  latent_mean h, latent_variance a (n, C).
    Cost: O(C) a row: 80 nodes for all classes (64 if GUMBEL); O(C) more for each class of a probability below
    e⁻⁶⁰ (e⁻³⁰), whose 32 nodes are its own (:func:`streamgp.numerics.joint.tilt_row`).
    Hazard: none; every class has its own logarithmic sum.
    Oracle: tests/reference/joint_dense.py
    """
    n_classes = latent_mean.shape[1]
    depth, n_nodes = (_NORMAL_DEPTH, SHARED_NODES) if noise == NORMAL else (_GUMBEL_DEPTH, _GUMBEL_NODES)
    shared, single = make_table(n_classes, n_nodes), make_table(n_classes, NODES)
    mean, variance = np.empty(n_classes), np.empty(n_classes)
    for i in range(latent_mean.shape[0]):
        read_row(latent_mean[i], latent_variance[i], biases, mean, variance)
        origin = np.max(mean)
        factors = row_factors(noise, NOBODY, mean, variance, origin, shared)
        # A share of e^{−depth/2} is to have all but e⁻²⁸ of itself between the ends.
        high = _reach(noise, mean, variance, origin, 0.5 * depth + FAR)
        stretch = find_rise(factors, high, depth)
        fill_nodes(stretch, shared.nodes, shared.weights)
        tabulate(factors, NOBODY, variance, shared)
        for c in range(n_classes):
            log_share, carriers = _log_share(shared, c)
            if log_share < -0.5 * depth or carriers < _FEWEST:
                log_share = tilt_row(noise, c, mean, variance, single)
            log_probabilities[i, c] = log_share
        _normalize(log_probabilities[i])
