"""Kernels of the distance only: RBF, Matern and Laplacian, with one lengthscale or one for each feature."""

from __future__ import annotations

from dataclasses import dataclass

from streamgp.arrays import Floats
from streamgp.kernels.base import Kernel
from streamgp.kernels.laplacian_tiles import LaplacianTiles
from streamgp.kernels.stationary_tiles import StationaryTiles
from streamgp.kernels.tiles import Tiles
from streamgp.numerics import kernel_sweeps


@dataclass(frozen=True)
class RBF(Kernel):
    """Squared exponential: infinitely smooth functions.

    k(x, x') = variance exp(−½ d²),  d² = Σ ((x_q − x'_q)/lengthscale_q)²
    lengthscale: one number, or one for each feature.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0

    learned = ("variance", "lengthscale")

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return StationaryTiles(kernel_sweeps.RBF, self.variance, self.lengthscale, right, inputs)


@dataclass(frozen=True)
class Matern12(Kernel):
    """Matern with smoothness 1/2, the exponential kernel: rough functions, continuous only.

    k(x, x') = variance exp(−d),  d² = Σ ((x_q − x'_q)/lengthscale_q)²
    lengthscale: one number, or one for each feature.
    Hazard: no derivative by an input where two rows coincide; it counts as 0.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0

    learned = ("variance", "lengthscale")

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return StationaryTiles(kernel_sweeps.MATERN12, self.variance, self.lengthscale, right, inputs)


@dataclass(frozen=True)
class Matern32(Kernel):
    """Matern with smoothness 3/2: functions that can be differentiated once.

    k(x, x') = variance (1 + √3 d) exp(−√3 d),  d² = Σ ((x_q − x'_q)/lengthscale_q)²
    lengthscale: one number, or one for each feature.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0

    learned = ("variance", "lengthscale")

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return StationaryTiles(kernel_sweeps.MATERN32, self.variance, self.lengthscale, right, inputs)


@dataclass(frozen=True)
class Matern52(Kernel):
    """Matern with smoothness 5/2: functions that can be differentiated twice.

    k(x, x') = variance (1 + √5 d + 5d²/3) exp(−√5 d),  d² = Σ ((x_q − x'_q)/lengthscale_q)²
    lengthscale: one number, or one for each feature.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0

    learned = ("variance", "lengthscale")

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return StationaryTiles(kernel_sweeps.MATERN52, self.variance, self.lengthscale, right, inputs)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """A product of exponential kernels, one of each feature: functions with steps and creases along the axes.

    k(x, x') = variance exp(−Σ |x_q − x'_q|/lengthscale_q)
    lengthscale: one number, or one for each feature.
    Its functions are sums and products of rough functions of few features, as those of decision trees are:
    for tables whose columns mean different things. Rows at the same distance are less alike where they differ
    in many features than where they differ in one.
    Hazard: no derivative by an input where two rows have the same value; it counts as 0. No matrix product:
    slower than the others where features are many.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0

    learned = ("variance", "lengthscale")

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return LaplacianTiles(self.variance, self.lengthscale, right, inputs)
