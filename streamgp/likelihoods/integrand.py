"""One row's tilted density as a function of t = (f − h)/√a, and where it has its mass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgp.arrays import BoolArray, FloatArray
from streamgp.errors import ParameterError

IndexArray = npt.NDArray[np.intp]
DensityFunction = Callable[[FloatArray, FloatArray], npt.NDArray[np.floating]]

# Stands for log 0: small enough to have no weight anywhere, large enough to stay finite in every difference.
LOG_DENSITY_FLOOR = -1e300
# Relative weight e⁻⁴⁰ = 4e-18: what lies beyond cannot change a sum in float64.
_DROP = 40.0
# With curvature ≤ −1 in t (log-concave p), 9.5 standard deviations from the peak are below that drop.
_REACH = 9.5
_LADDER = tuple(side * 2.0**k for k in range(-2, 8) for side in (-1.0, 1.0))
_GOLDEN = 0.3819660112501051


@dataclass(frozen=True)
class Density:
    """A log density log p(y|f) and, where known, its first two derivatives in f.

    All take (targets, latent), float64 arrays of one shape, and return an array of that shape.
    """

    name: str
    log_density: DensityFunction
    score: DensityFunction | None = None
    score_derivative: DensityFunction | None = None

    def values(self, targets: FloatArray, latent: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The log density, floored at −1e300, and where it was not finite."""
        raw = np.asarray(self.log_density(targets, latent), dtype=np.float64)
        if raw.shape != latent.shape:
            raise ParameterError(
                f"log_density of likelihood {self.name!r} returned shape {raw.shape} for latent values of "
                f"shape {latent.shape}: it must be vectorised, one value for each pair (target, latent)."
            )
        unusable = ~np.isfinite(raw)
        return np.maximum(np.where(unusable, LOG_DENSITY_FLOOR, raw), LOG_DENSITY_FLOOR), unusable

    def raised(self, power: float) -> Density:
        """The density p(y|f)^power of power EP."""
        if power == 1.0:
            return self
        return Density(
            self.name,
            _times(power, self.log_density),
            None if self.score is None else _times(power, self.score),
            None if self.score_derivative is None else _times(power, self.score_derivative),
        )


def _times(factor: float, function: DensityFunction) -> DensityFunction:
    return lambda targets, latent: factor * np.asarray(function(targets, latent), dtype=np.float64)


class Rows(NamedTuple):
    """The rows of one block: targets, latent mean h and √a, each (c,)."""

    targets: FloatArray
    mean: FloatArray
    root: FloatArray

    def take(self, index: IndexArray) -> Rows:
        """The chosen rows."""
        return Rows(self.targets[index], self.mean[index], self.root[index])

    def log_weight(self, density: Density, t: FloatArray) -> FloatArray:
        """g(t) = −t²/2 + log p(y | h + √a t), one t for each row."""
        return np.maximum(
            density.values(self.targets, self.mean + self.root * t)[0] - 0.5 * t * t,
            2 * LOG_DENSITY_FLOOR,
        )


class Peak(NamedTuple):
    """Near the mode of g(t), and how far the mass reaches to both sides, in units of t; each (c,)."""

    centre: FloatArray
    left: FloatArray
    right: FloatArray


def _starts(density: Density, rows: Rows) -> FloatArray:
    """Where to begin: t = 0, or the best of a ladder of places if the density is zero there; (c,)."""
    start = np.zeros_like(rows.mean)
    stuck = np.flatnonzero(rows.log_weight(density, start) < 0.5 * LOG_DENSITY_FLOOR)
    best = np.full(stuck.size, 0.5 * LOG_DENSITY_FLOOR)
    for place in _LADDER if stuck.size else ():
        height = rows.take(stuck).log_weight(density, np.full(stuck.size, place))
        start[stuck[height > best]] = place
        best = np.maximum(best, height)
    return start


def _bracket(density: Density, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Three points low < middle < high (3, c) with the largest g in the middle, and g there."""
    start = _starts(density, rows)
    values = np.stack([rows.log_weight(density, start + step) for step in (-1.0, 0.0, 1.0)])
    points = np.stack([start - 1.0, start, start + 1.0])
    side = np.where(values[2] >= values[0], 1.0, -1.0)
    mirrored = side < 0
    points[:, mirrored] = points[::-1, mirrored]
    values[:, mirrored] = values[::-1, mirrored]
    growing = np.flatnonzero(values[2] > values[1])
    for _ in range(200):
        if growing.size == 0:
            break
        points[:2, growing] = points[1:, growing]
        values[:2, growing] = values[1:, growing]
        points[2, growing] += 2.0 * (points[1, growing] - points[0, growing])
        values[2, growing] = rows.take(growing).log_weight(density, points[2, growing])
        growing = growing[values[2, growing] > values[1, growing]]
    points[:, mirrored] = points[::-1, mirrored]
    values[:, mirrored] = values[::-1, mirrored]
    return points, values


def _golden_section(density: Density, rows: Rows, points: FloatArray, values: FloatArray) -> None:
    """Shrink the brackets in place until g falls by less than half a nat from the middle to either end.

    That is the scale of the peak itself, whatever its width; a better mode would not help the quadrature.
    """
    for _ in range(200):
        wide = np.flatnonzero(values[1] - np.minimum(values[0], values[2]) > 0.5)
        if wide.size == 0:
            break
        low, middle, high = points[:, wide]
        upward = high - middle > middle - low
        probe = np.where(upward, middle + _GOLDEN * (high - middle), middle - _GOLDEN * (middle - low))
        height = rows.take(wide).log_weight(density, probe)
        if np.all((probe == middle) | (probe == low) | (probe == high)):
            break
        better = height > values[1, wide]
        # The end that the larger of the two inner points hides is replaced by the smaller inner point.
        end = np.where(better == upward, 0, 2)
        points[end, wide] = np.where(better, middle, probe)
        values[end, wide] = np.where(better, values[1, wide], height)
        points[1, wide] = np.where(better, probe, middle)
        values[1, wide] = np.where(better, height, values[1, wide])


def _reach(density: Density, rows: Rows, centre: FloatArray, side: float) -> FloatArray:
    """Distance from the centre at which g has dropped by 40 nats, at most about a third too far."""

    def dropped(index: IndexArray, distance: FloatArray) -> BoolArray:
        # The Gaussian part as a difference: at a far-off centre t² alone would swallow it.
        here = rows.take(index)
        gaussian = -distance * (side * centre[index] + 0.5 * distance)
        latent = here.mean + here.root * (centre[index] + side * distance)
        return gaussian + density.values(here.targets, latent)[0] - peak[index] < -_DROP

    peak = density.values(rows.targets, rows.mean + rows.root * centre)[0]
    distance = np.full_like(centre, _REACH)
    # Only a density that is not log-concave needs the doubling.
    for factor, wanted in ((2.0, False), (0.5, True)):
        index = np.arange(centre.size)
        for _ in range(200):
            trial = distance[index] * (factor if wanted else 1.0)
            index = index[dropped(index, trial) == wanted]
            if index.size == 0:
                break
            distance[index] *= factor
    index = np.arange(centre.size)
    return np.where(dropped(index, 0.75 * distance), 0.75 * distance, distance)


def find_peak(density: Density, rows: Rows) -> Peak:
    """Where N(f; h, a) p(y|f) has its mass: near its mode, and 40 nats down on both sides.

    g(t) = −t²/2 + log p(y | h + √a t);  t = (f − h)/√a
    Derivative-free: doubling steps, golden section, halving; each only on the rows that still need it.
    Cost: 25 to 40 evaluations of the density a row.  Hazard: a density that is not log-concave may have
    several peaks, of which one is found.
    """
    points, values = _bracket(density, rows)
    _golden_section(density, rows, points, values)
    centre = points[1]
    return Peak(centre, _reach(density, rows, centre, -1.0), _reach(density, rows, centre, 1.0))
