"""Tilted moments of any log-concave likelihood from its log density."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from streamgp.arrays import BoolArray, FloatArray
from streamgp.errors import NumericsWarning
from streamgp.likelihoods.base import TiltedMoments, TiltedSites
from streamgp.likelihoods.expansion import VALUES_PER_ROW, Expansion, expand
from streamgp.likelihoods.integrand import (
    LOG_DENSITY_FLOOR,
    Density,
    DensityFunction,
    IndexArray,
    Peak,
    Rows,
    find_peak,
)
from streamgp.likelihoods.panels import NODES_PER_ROW, Observer, TiltedIntegrals, integrate_rows
from streamgp.numerics.moments import CURVATURE_MARGIN

# Rows are taken in blocks of this size, so that the nodes of a long chunk are never in memory together.
BLOCK_ROWS = 256
# Node arrays alive at once in the integration, the density's own temporaries (say four) included.
_NODE_ARRAYS = 20
_EPSILON = float(np.finfo(np.float64).eps)
# Errors in the curvature below this are not worth a second integration.
_GOOD_ENOUGH = 1e-11


class QuadratureMoments(NamedTuple):
    """Tilted moments of each row; shrinkage is the tilted variance over a, that is 1 − aν; each (c,)."""

    log_z: FloatArray
    log_z_slope: FloatArray
    log_z_curvature: FloatArray
    shrinkage: FloatArray
    expectations: FloatArray  # (k, c)


def workspace_bytes(rows: int) -> int:
    """Bytes that the quadrature of a chunk of rows may hold besides its results."""
    per_row = 8 * max(_NODE_ARRAYS * NODES_PER_ROW, 4 * VALUES_PER_ROW)
    return min(rows, BLOCK_ROWS) * per_row + 8 * 16 * rows


def _score_observer(
    score: DensityFunction, derivative: DensityFunction, rows: Rows, centre: FloatArray
) -> tuple[FloatArray, Observer]:
    """The score at the centres, and an observer of (score − that, its square, score derivative)."""
    middle = np.nan_to_num(np.asarray(score(rows.targets, rows.mean + rows.root * centre), dtype=np.float64))

    def observe(index: IndexArray, offset: FloatArray, latent: FloatArray) -> list[FloatArray]:
        targets = np.broadcast_to(rows.targets[index, None], latent.shape)
        change = np.nan_to_num(np.asarray(score(targets, latent), dtype=np.float64)) - middle[index, None]
        second = np.nan_to_num(np.asarray(derivative(targets, latent), dtype=np.float64))
        return [change, change * change, second]

    return middle, observe


def _expansion_observer(expansion: Expansion, root: FloatArray) -> tuple[FloatArray, Observer]:
    def observe(index: IndexArray, offset: FloatArray, latent: FloatArray) -> list[FloatArray]:
        change, second = expansion.scores(index, root[index, None] * offset)
        return [change, change * change, second]

    return expansion.coefficients[1] / expansion.step, observe


def _observer_of(functions: Sequence[DensityFunction], rows: Rows) -> Observer:
    def observe(index: IndexArray, offset: FloatArray, latent: FloatArray) -> list[FloatArray]:
        targets = np.broadcast_to(rows.targets[index, None], latent.shape)
        return [
            np.nan_to_num(np.asarray(function(targets, latent), dtype=np.float64)) for function in functions
        ]

    return observe


def _curvature_from_scores(
    middle: FloatArray, integrals: TiltedIntegrals
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """α = E[s], ν = −E[s′] − Var[s] (expectations under the tilted density), and the size of ν's terms."""
    change, square, second = integrals.expectations[:3]
    spread = square - change**2
    return middle + change, -second - spread, np.abs(second) + np.abs(spread)


def _refine_small_variances(
    density: Density, rows: Rows, peak: Peak, height: FloatArray, moments: tuple[FloatArray, FloatArray]
) -> None:
    """Replace slope and curvature, in place, where they are better taken from a local expansion of log p.

    E[t]/√a and (1 − Var[t])/a carry the rounding of log p divided by √a and a.
    """
    slope, curvature = moments
    rounding = 4 * _EPSILON * (1.0 + np.abs(height)) / rows.root**2
    # A row whose centre is at the floor has nothing to expand.
    chosen = np.flatnonzero((rounding > _GOOD_ENOUGH) & (height > 0.5 * LOG_DENSITY_FLOOR))
    if chosen.size == 0:  # a density need not know what to do with no rows
        return
    part = rows.take(chosen)
    expansion = expand(density, part.targets, part.mean + part.root * peak.centre[chosen], 6.0 * part.root)
    better = np.flatnonzero(expansion.error < rounding[chosen])
    if better.size == 0:
        return
    chosen, part = chosen[better], part.take(better)
    middle, observe = _expansion_observer(expansion.take(better), part.root)
    integrals = integrate_rows(density, part, Peak(*(column[chosen] for column in peak)), observe)
    slope[chosen], curvature[chosen], _ = _curvature_from_scores(middle, integrals)


def _block_moments(
    density: Density, rows: Rows, functions: Sequence[DensityFunction]
) -> tuple[QuadratureMoments, BoolArray, BoolArray]:
    peak = find_peak(density, rows)
    observers = []
    if density.score is not None and density.score_derivative is not None:
        middle, observe_scores = _score_observer(density.score, density.score_derivative, rows, peak.centre)
        observers.append(observe_scores)
    if functions:
        observers.append(_observer_of(functions, rows))
    integrals = integrate_rows(
        density,
        rows,
        peak,
        lambda index, offset, latent: [v for o in observers for v in o(index, offset, latent)],
    )
    variance = rows.root**2
    slope = (peak.centre + integrals.offset) / rows.root
    curvature = (1.0 - integrals.variance) / variance
    if len(observers) > bool(functions):
        by_score, by_second, size = _curvature_from_scores(middle, integrals)
        # Both are exact; the smaller terms carry the smaller rounding.
        local = variance * size < 1.0
        slope, curvature = np.where(local, by_score, slope), np.where(local, by_second, curvature)
    else:
        _refine_small_variances(density, rows, peak, integrals.height, (slope, curvature))
    convex = integrals.not_concave | (curvature * variance < -1e-8)
    extra = integrals.expectations[len(integrals.expectations) - len(functions) :]
    return _within_bounds(integrals, slope, curvature, variance, extra), integrals.not_finite, convex


def _within_bounds(
    integrals: TiltedIntegrals,
    slope: FloatArray,
    curvature: FloatArray,
    variance: FloatArray,
    extra: FloatArray,
) -> QuadratureMoments:
    largest = np.minimum((1.0 - CURVATURE_MARGIN) / variance, 1e300)
    return QuadratureMoments(
        np.clip(integrals.log_z, -1e300, 1e300),
        np.clip(np.nan_to_num(slope), -1e300, 1e300),
        np.clip(np.nan_to_num(curvature), 0.0, largest),
        np.clip(integrals.variance, CURVATURE_MARGIN, 1.0),
        extra,
    )


def tilted_quadrature(
    density: Density,
    targets: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    functions: Sequence[DensityFunction] = (),
) -> QuadratureMoments:
    """Integrate log Z, slope, curvature, and expectations of functions(y, f), under N(f; h, a) p(y|f)/Z.

    Z = ∫ N(f; h, a) p(y|f) df;  with t = (f − h)/√a and s = d log p/df
    large a:  α = E[t]/√a,  ν = (1 − Var[t])/a;    small a:  α = E[s],  ν = −E[s′] − Var[s]
    Both pairs are exact; s by the density's own derivatives, else by a local expansion of log p.
    Shapes: targets, latent_mean h, latent_variance a (c,); result (c,), expectations (k, c).
    Cost: about 150 evaluations a row, 300 more without score at small a (find_peak, integrate_rows, expand).
    Hazard: without score, errors grow with the rounding of log p, to 1e-10 where log p = −450 and a = 1e-6.
    Source: [IVM2006] B.1, B.2.  Oracle: tests/reference/likelihoods_dense.py
    """
    rows = Rows(targets, latent_mean, np.sqrt(np.maximum(latent_variance, 0.0)))
    starts = range(0, max(targets.size, 1), BLOCK_ROWS)
    # Overflow is expected (a Poisson density far to the right, 1/a at a = 0) and ends in floors and clips;
    # the user's functions are covered too.
    with np.errstate(all="ignore"):
        blocks = [
            _block_moments(density, Rows(*(part[start : start + BLOCK_ROWS] for part in rows)), functions)
            for start in starts
        ]
    columns = zip(*(moments for moments, _, _ in blocks), strict=True)
    for place, reason in ((1, "not finite"), (2, "not log-concave")):
        _warn_about(density.name, reason, np.concatenate([block[place] for block in blocks]), rows)
    return QuadratureMoments(*(np.concatenate(parts, axis=-1) for parts in columns))


def quadrature_moments(
    density: Density, targets: FloatArray, latent_mean: FloatArray, latent_variance: FloatArray
) -> TiltedMoments:
    """The moments alone; see :func:`tilted_quadrature`."""
    return TiltedMoments(*tilted_quadrature(density, targets, latent_mean, latent_variance)[:3])


def quadrature_sites(
    density: Density, targets: FloatArray, latent_mean: FloatArray, latent_variance: FloatArray
) -> TiltedSites:
    """Log Z and the site; see :func:`tilted_quadrature` and :func:`sites_by_shrinkage`."""
    found = tilted_quadrature(density, targets, latent_mean, latent_variance)
    return sites_by_shrinkage(
        found.log_z, found.log_z_slope, found.log_z_curvature, found.shrinkage, latent_mean
    )


def sites_by_shrinkage(
    log_z: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    shrinkage: FloatArray,
    latent_mean: FloatArray,
) -> TiltedSites:
    """The site π = ν/r, b = (α + νh)/r, with r = 1 − aν = Var[f]/a integrated, not subtracted; (c,) each."""
    with np.errstate(over="ignore"):
        precision = curvature / shrinkage
        precision_mean = (slope + curvature * latent_mean) / shrinkage
    return TiltedSites(log_z, np.minimum(precision, 1e300), np.clip(precision_mean, -1e300, 1e300))


def target_moments(
    name: str,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    target_mean: Callable[[FloatArray], FloatArray],
    target_variance: Callable[[FloatArray], FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Mean of a new target E[m(f)], and its variance E[v(f)] + Var[m(f)], for f ~ N(h, a); (c,) each.

    m target_mean, v target_variance (0 if None).  Hazard: Var[m] does not cancel, as m is taken less m(h).
    """
    # N(h, a) is the tilted density of a flat likelihood; m(h) stands in the place of the targets.
    flat = Density(name, lambda _, latent: np.zeros_like(latent))
    middle = np.asarray(target_mean(latent_mean), dtype=np.float64)
    functions: list[DensityFunction] = [
        lambda centre, latent: target_mean(latent) - centre,
        lambda centre, latent: (target_mean(latent) - centre) ** 2,
    ]
    if target_variance is not None:
        functions.append(lambda _, latent: target_variance(latent))
    shift, square, *rest = tilted_quadrature(
        flat, middle, latent_mean, latent_variance, functions
    ).expectations
    return middle + shift, np.maximum(square - shift**2, 0.0) + (rest[0] if rest else 0.0)


def _warn_about(name: str, reason: str, flags: BoolArray, rows: Rows) -> None:
    if not np.any(flags):
        return
    first = int(np.argmax(flags))
    warnings.warn(
        f"The log density of likelihood {name!r} is {reason} at quadrature nodes of "
        f"{np.count_nonzero(flags)} of {flags.size} rows, first for target {rows.targets[first]:g} near "
        f"latent value {rows.mean[first]:g} (standard deviation {rows.root[first]:.3g}); "
        "floored there (log density at -1e300, curvature at 0).",
        NumericsWarning,
        stacklevel=2,
    )
