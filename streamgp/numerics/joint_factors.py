"""The factors of a joint likelihood of C classes, as functions of the winner's value, tabulated at nodes.

The class whose v_c = f_c + bias_c + noise_c is largest wins. Given the winner's value v, the classes are
independent: the winner has the density p(v) of its v_c, every other class the distribution function F_c(v).
With noise NORMAL (the multivariate probit) v_c is normal, of variance σ_c² = 1 + a_c; with GUMBEL noise
(softmax) it has the distribution of :mod:`streamgp.numerics.gumbel`. Of each class's factor four things are
needed: its logarithm, s = d log/dh_c, b = −d² log/dh_c², and 1 − a_c b, the share of the variance a_c of f_c
that would be left if v were known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.fast_normal import fast_normal_terms
from streamgp.numerics.gumbel import LOG_ZERO, gumbel_terms
from streamgp.numerics.mass import Factors
from streamgp.numerics.noise import NORMAL

NOBODY = -1
"""In the place of a winner: all classes are below v, without a density."""

# Beyond these log Z loses the digits by which nodes differ.
_LARGEST_MEAN, _LARGEST_VARIANCE = 1e7, 1e10
# Above this variance E[s] of a class far below v is the work of a tail that its nodes do not resolve.
_FAR_TAIL = 10.0


class Table(NamedTuple):
    """Memory for the factors of one row at n nodes, used again for every row."""

    nodes: FloatArray  # (n,) t; v = origin + scale t
    weights: FloatArray  # (n,)
    log_product: FloatArray  # (n,) sum over classes of the logarithms of their factors
    slope: FloatArray  # (C, n) s
    bend: FloatArray  # (C, n) b
    spare: FloatArray  # (C, n) 1 − a b
    parameters: FloatArray  # (3, m) offset, ratio, log variance; m: C rounded up to whole vectors
    work: FloatArray  # (19, n)


@compiled
def make_table(n_classes: int, n_nodes: int) -> Table:
    """Memory for rows of so many classes."""
    vectors = np.empty((3, n_nodes))
    by_class = np.empty((3, n_classes, n_nodes))
    parameters = np.empty((3, 4 * ((n_classes + 3) // 4)))
    work = np.empty((19, n_nodes))
    return Table(vectors[0], vectors[1], vectors[2], by_class[0], by_class[1], by_class[2], parameters, work)


def table_bytes(n_classes: int, n_nodes: int) -> int:
    """Bytes of a table, and of the mean and variance of a row."""
    return 8 * (n_nodes * (3 * n_classes + 22) + 5 * (n_classes + 3))


@compiled
def read_row(
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    biases: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Mean with biases, and variance, of one row, clipped to what the rules can do; (C,) each."""
    for c in range(mean.size):
        mean[c] = min(max(latent_mean[c] + biases[c], -_LARGEST_MEAN), _LARGEST_MEAN)
        variance[c] = min(max(latent_variance[c], 0.0), _LARGEST_VARIANCE)


@compiled
def row_factors(
    noise: int, winner: int, mean: FloatArray, variance: FloatArray, origin: float, table: Table
) -> Factors:
    """The integrand of a row as a function of t: v = origin + t, with NORMAL noise and a winner origin + σ t.

    mean (C,), biases included; variance (C,).
    """
    offset, ratio, log_variance = table.parameters[0], table.parameters[1], table.parameters[2]
    # The winner, and what fills the last vector: factors that are 1 wherever t is.
    offset[:], ratio[:], log_variance[:] = 40.0 if noise == NORMAL else 1e8, 0.0, LOG_ZERO
    own = variance[winner] if winner >= 0 else 0.0
    scale = math.sqrt(1.0 + own) if winner >= 0 else 1.0
    for c in range(mean.size):
        if c == winner:
            continue
        if noise == NORMAL:
            inverse = 1.0 / math.sqrt(1.0 + variance[c])
            offset[c], ratio[c] = (origin - mean[c]) * inverse, scale * inverse
        else:
            offset[c], ratio[c] = origin - mean[c], 1.0
            log_variance[c] = math.log(variance[c]) if variance[c] > 0.0 else LOG_ZERO
    log_own = math.log(own) if own > 0.0 else LOG_ZERO
    return Factors(noise, winner >= 0, own, log_own, offset, ratio, log_variance)


@compiled
def _normal_below(offset: float, ratio: float, variance: float, table: Table, c: int) -> None:
    """Factor Φ(z), z = offset + ratio t: s = −λ/σ,  b = w/σ²,  1 − a b = (1 + a (1 − w))/σ²."""
    precision = 1.0 / (1.0 + variance)
    inverse_scale = math.sqrt(precision)
    nodes, log_product = table.nodes, table.log_product
    slope, bend, spare = table.slope[c], table.bend[c], table.spare[c]
    for k in range(nodes.size):
        log_share, hazard, drop = fast_normal_terms(offset + ratio * nodes[k])
        log_product[k] += log_share
        slope[k] = -inverse_scale * hazard
        bend[k] = precision * drop
        spare[k] = precision * (1.0 + variance * (1.0 - drop))


@compiled
def _normal_winner(variance: float, table: Table, c: int) -> None:
    """Density N(t; 0, 1) but for its constant: s = t/σ,  b = 1/σ²,  1 − a b = 1/σ²."""
    precision = 1.0 / (1.0 + variance)
    inverse_scale = math.sqrt(precision)
    for k in range(table.nodes.size):
        t = table.nodes[k]
        table.log_product[k] -= 0.5 * t * t
        table.slope[c, k] = inverse_scale * t
        table.bend[c, k] = precision
        table.spare[c, k] = precision


@compiled
def _gumbel_class(offset: float, variance: float, wins: bool, table: Table, c: int) -> None:
    """Factor F(x, a), x = offset + t: s = −E[s]; of the winner e^{a/2−x} F(x − a, a): s = 1 − E[s]."""
    nodes, log_product = table.nodes, table.log_product
    slope, bend, spare = table.slope[c], table.bend[c], table.spare[c]
    share = 1.0 if wins else 0.0
    for k in range(nodes.size):
        slope[k] = offset + nodes[k] - share * variance
    terms = table.work[15:]
    gumbel_terms(slope, variance, table.work[:10], table.work[10:15], terms)
    for k in range(nodes.size):
        log_product[k] += terms[0, k] + share * (0.5 * variance - (offset + nodes[k]))
        slope[k] = share - terms[1, k]
        bend[k] = terms[2, k]
        spare[k] = terms[3, k]


@compiled
def _gumbel_rate(offset: float, variance: float, table: Table, c: int) -> None:
    """Replace s = −F′/F, just tabulated, by −e^{a/2−x} F(x − a, a)/F(x, a): accurate however small it is."""
    nodes, slope, log_share, terms = table.nodes, table.slope[c], table.bend[c], table.work[15:]
    for k in range(nodes.size):
        log_share[k] = terms[0, k]
        slope[k] = offset + nodes[k] - variance
    gumbel_terms(slope, variance, table.work[:10], table.work[10:15], terms)
    for k in range(nodes.size):
        slope[k] = -math.exp(terms[0, k] - log_share[k] + (0.5 * variance - (offset + nodes[k])))


@compiled
def tabulate(factors: Factors, winner: int, variance: FloatArray, table: Table) -> None:
    """Fill log_product, slope, bend and spare at the nodes; O(C n)."""
    table.log_product[:] = 0.0
    for c in range(variance.size):
        if factors.noise == NORMAL:
            if c == winner:
                _normal_winner(variance[c], table, c)
            else:
                _normal_below(factors.offset[c], factors.ratio[c], variance[c], table, c)
        else:
            offset = 0.0 if c == winner else factors.offset[c]
            _gumbel_class(offset, variance[c], c == winner, table, c)
            if winner == NOBODY and variance[c] > _FAR_TAIL:
                _gumbel_rate(offset, variance[c], table, c)
