"""Adaptive Gauss-Kronrod quadrature of many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamgp.arrays import BoolArray, FloatArray
from streamgp.likelihoods.integrand import Density, IndexArray, Peak, Rows

# Observables of a panel: (rows, offset in t from the centre, latent) -> arrays like latent.
Observer = Callable[[IndexArray, FloatArray, FloatArray], list[FloatArray]]

_HALF_NODES = (
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452,
    0.930157491355708226001207180059508, 0.865063366688984510732096688423493,
    0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784,
    0.294392862701460198131126603103866, 0.148874338981631210884826001129720,
)  # fmt: skip
_HALF_GAUSS = (
    0.066671344308688137593568809893332, 0.149451349150580593145776339657697,
    0.219086362515982043995534934228163, 0.269266719309996355091226921569469,
    0.295524224714752870173892994651338,
)  # fmt: skip
_HALF_KRONROD = (
    0.011694638867371874278064396062192, 0.032558162307964727478818972459390,
    0.054755896574351996031381300244580, 0.075039674810919952767043140916190,
    0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109831074, 0.134709217311473325928054001771707,
    0.142775938577060080797094273138717, 0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
)  # fmt: skip

# IntArray of the 21 nodes on [0, 1] and the weights of both rules (QUADPACK qk21), which sum to 1.
_NODES = 0.5 * (1.0 + np.concatenate([-np.array(_HALF_NODES), [0.0], _HALF_NODES[::-1]]))
_KRONROD = 0.5 * np.concatenate([_HALF_KRONROD, _HALF_KRONROD[-2::-1]])
_GAUSS = np.zeros(21)
_GAUSS[1::2] = 0.5 * np.concatenate([_HALF_GAUSS, _HALF_GAUSS[::-1]])
_RULES = np.stack([_KRONROD, _KRONROD - _GAUSS], axis=1)

# Four panels to begin with, and room for halving all of them.
NODES_PER_ROW = 8 * _NODES.size
_TOLERANCE = 1e-11
_DEEPEST = 60
# Panels of one row that are halved at once: an edge needs two; more is a density that cannot be resolved.
_MOST_HALVED = 32
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_EPSILON = float(np.finfo(np.float64).eps)


class TiltedIntegrals(NamedTuple):
    """Integrals of the tilted density of each row."""

    log_z: FloatArray  # (c,)
    height: FloatArray  # (c,) log density at the centre
    offset: FloatArray  # (c,) tilted mean of t − centre
    variance: FloatArray  # (c,) tilted variance of t
    expectations: FloatArray  # (k, c) tilted means of the observables
    not_finite: BoolArray  # (c,) the density was NaN or infinite at a node
    not_concave: BoolArray  # (c,) the log density was convex between nodes


class _Panels(NamedTuple):
    rows: IndexArray
    start: FloatArray
    width: FloatArray


def _first_panels(peak: Peak) -> _Panels:
    """Four panels a row: two on either side of the centre, the inner ones shorter."""
    count = peak.centre.size
    starts = np.concatenate([-peak.left, -0.4 * peak.left, np.zeros(count), 0.4 * peak.right])
    widths = np.concatenate([0.6 * peak.left, 0.4 * peak.left, 0.4 * peak.right, 0.6 * peak.right])
    return _Panels(np.tile(np.arange(count), 4), starts, widths)


def _halves(panels: _Panels, chosen: BoolArray) -> _Panels:
    rows, start, half = panels.rows[chosen], panels.start[chosen], 0.5 * panels.width[chosen]
    return _Panels(np.repeat(rows, 2), np.stack([start, start + half], 1).ravel(), np.repeat(half, 2))


def _convex_somewhere(offset: FloatArray, log_density: FloatArray, weight: FloatArray) -> BoolArray:
    """Whether the log density bends upwards between nodes that carry weight, beyond rounding; (panels,)."""
    gap = np.diff(offset, axis=1)
    slope = np.diff(log_density, axis=1) / gap
    bend = np.diff(slope, axis=1) * np.minimum(gap[:, 1:], gap[:, :-1])
    heavy = np.minimum(np.minimum(weight[:, 2:], weight[:, :-2]), weight[:, 1:-1]) > 1e-9
    noise = 1e-8 + 64 * _EPSILON * np.abs(log_density[:, 1:-1])
    return np.asarray(np.any(heavy & (bend > noise), axis=1))


class _Evaluated(NamedTuple):
    """The nodes of some panels, and for each panel the integrals of 1, u, u², observables by both rules."""

    offset: FloatArray  # (panels, 21) u
    log_density: FloatArray  # (panels, 21)
    weight: FloatArray  # (panels, 21) relative to the centre
    not_finite: BoolArray  # (panels,)
    integrals: FloatArray  # (3 + k, panels) Kronrod
    errors: FloatArray  # (3 + k, panels) Kronrod less Gauss


def _evaluate(
    density: Density,
    rows: Rows,
    centre: FloatArray,
    height: FloatArray,
    panels: _Panels,
    observe: Observer | None,
) -> _Evaluated:
    index = panels.rows
    middle = centre[index, None]
    offset = panels.start[:, None] + panels.width[:, None] * _NODES
    latent = rows.mean[index, None] + rows.root[index, None] * (middle + offset)
    log_density, unusable = density.values(np.broadcast_to(rows.targets[index, None], latent.shape), latent)
    # The Gaussian part as a difference from the centre's: t² of a far-off centre would swallow it.
    exponent = -offset * (middle + 0.5 * offset) + (log_density - height[index, None])
    weight = np.exp(np.minimum(exponent, 300.0))
    seen = [offset, offset * offset, *([] if observe is None else observe(index, offset, latent))]
    sums = (
        np.stack([weight @ _RULES, *[(weight * values) @ _RULES for values in seen]]) * panels.width[:, None]
    )
    return _Evaluated(
        offset, log_density, weight, np.asarray(unusable.any(axis=1)), sums[:, :, 0], sums[:, :, 1]
    )


def _needs_halving(result: _Evaluated, scale: FloatArray, allowed: FloatArray) -> BoolArray:
    """Panels on whose moments 0, 1, 2 (in units of scale) the two rules differ by more than is allowed."""
    errors = np.abs(result.errors)
    return np.asarray(errors[0] + errors[1] / scale + errors[2] / scale**2 > allowed)


def integrate_rows(
    density: Density, rows: Rows, peak: Peak, observe: Observer | None = None
) -> TiltedIntegrals:
    """Log Z, mean, variance and further expectations under N(f; h, a) p(y|f)/Z, for every row.

    Z = ∫ e^{g(t)} dt/√2π,  t = centre + u: e^{g} as exp(−u (centre + u/2) + log p(f) − log p(f_centre))
    Ten-point Gauss against 21-point Kronrod on panels from centre − left to centre + right; a panel is halved
    until both agree on the moments 0, 1, 2 to 1e-11 of Z (plus the rounding of log p). Weights are taken
    relative to the centre's, so the sum is a logsumexp.
    Shapes: rows (c,), observables (k, c).  Cost: 84 evaluations a row, 42 more for each panel halved: a few
    panels for a nearly Gaussian product, about 2 log₂ √a where an edge lies inside a wide Gaussian.
    Hazard: with log p alone the weights carry the rounding of log p, ε |log p|; a density with so much detail
    that 32 panels of a row differ at once is taken as it is.
    Source: [IVM2006] B.2 (logsumexp, splitting).  Oracle: tests/reference/likelihoods_dense.py
    """
    height = density.values(rows.targets, rows.mean + rows.root * peak.centre)[0]
    scale = 0.1 * (peak.left + peak.right)
    panels = _first_panels(peak)
    result = _evaluate(density, rows, peak.centre, height, panels, observe)
    rough: FloatArray = np.bincount(panels.rows, result.integrals[0], height.size).astype(np.float64)
    allowed = rough * (_TOLERANCE + 4 * _EPSILON * np.abs(height))
    not_finite, not_concave = np.zeros((2, height.size), dtype=np.bool_)
    not_concave[panels.rows[_convex_somewhere(result.offset, result.log_density, result.weight)]] = True
    sums = np.zeros((len(result.integrals), height.size))
    for depth in range(_DEEPEST + 1):
        not_finite[panels.rows[result.not_finite]] = True
        coarse = _needs_halving(result, scale[panels.rows], allowed[panels.rows]) & (depth < _DEEPEST)
        coarse &= np.bincount(panels.rows[coarse], minlength=height.size)[panels.rows] <= _MOST_HALVED
        for total, values in zip(sums, result.integrals, strict=True):
            total += np.bincount(panels.rows[~coarse], values[~coarse], height.size)
        if not np.any(coarse):
            break
        panels = _halves(panels, coarse)
        result = _evaluate(density, rows, peak.centre, height, panels, observe)
    offset, square = sums[1] / sums[0], sums[2] / sums[0]
    log_z = np.log(sums[0]) + (height - 0.5 * peak.centre**2 - _LOG_SQRT_2PI)
    return TiltedIntegrals(
        log_z, height, offset, square - offset**2, sums[3:] / sums[0], not_finite, not_concave
    )
