"""Derivatives of a log density that is known by its values only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.likelihoods.integrand import Density, IndexArray

# Nine equidistant points; row k of the inverse gives the coefficient of (x/step)^k.
_STENCIL = np.arange(-4.0, 5.0)
_COEFFICIENTS = np.linalg.inv(np.vander(_STENCIL, increasing=True))
# Second derivative from the inner seven points, to see what the outer two change.
_SECOND_OF_SEVEN = 2.0 * np.linalg.inv(np.vander(_STENCIL[1:-1], increasing=True))[2]
_STEPS = 2.0 ** np.arange(-12.0, 1.0)
_EPSILON = float(np.finfo(np.float64).eps)

VALUES_PER_ROW = _STEPS.size * _STENCIL.size


class Expansion(NamedTuple):
    """log p(y | centre + x) ≈ Σ_k coefficients[k] (x/step)^k near the centre of each row."""

    coefficients: FloatArray  # (9, c)
    step: FloatArray  # (c,)
    error: FloatArray  # (c,) estimated error of the second derivative

    def take(self, index: IndexArray) -> Expansion:
        """The chosen rows."""
        return Expansion(self.coefficients[:, index], self.step[index], self.error[index])

    def scores(self, rows: IndexArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First derivative less its value at the centre, and second derivative, at centre + shift."""
        step = self.step[rows, None]
        x = shift / step
        score, derivative = np.zeros_like(x), np.zeros_like(x)
        for k in range(8, 1, -1):
            coefficient = self.coefficients[k, rows, None]
            score = (score + k * coefficient) * x
            derivative = derivative * x + k * (k - 1) * coefficient
        return score / step, derivative / step**2


def expand(density: Density, targets: FloatArray, centre: FloatArray, reach: FloatArray) -> Expansion:
    """Local polynomials of degree eight of the log density, each with the step that suits its row best.

    Steps 2⁻¹² … 1 are tried; the error of one is estimated as the change from seven to nine points plus the
    rounding ε (|log p| + |f log p′|) ÷ step². A step shorter than the reach (half-width of the nodes) divided
    by 4 is not used: beyond its points a polynomial is worth nothing.
    Shapes: targets, centre, reach (c,).  Cost: 117 evaluations of the density a row.
    Hazard: the natural scale of f must lie within the steps (a density smooth on scales of 1e-3 or more).
    """
    latent = centre[:, None, None] + _STEPS[:, None] * _STENCIL
    flat = latent.reshape(centre.size, VALUES_PER_ROW)
    values = density.values(np.broadcast_to(targets[:, None], flat.shape), flat)[0].reshape(latent.shape)
    # Differences from the middle first: the constant would only add rounding to the higher coefficients.
    middle = values[:, :, 4:5]
    coefficients = (values - middle) @ _COEFFICIENTS.T
    square = _STEPS**2
    change = np.abs(2.0 * coefficients[:, :, 2] - (values - middle)[:, :, 1:-1] @ _SECOND_OF_SEVEN) / square
    slope = np.abs(coefficients[:, :, 1]) / _STEPS
    noise = 4 * _EPSILON * (np.max(np.abs(values), axis=2) + np.abs(centre[:, None]) * slope) / square
    usable = (reach[:, None] <= 4.0 * _STEPS) & np.isfinite(change + noise)
    error = np.where(usable, change + noise, np.inf)
    best = np.argmin(error, axis=1)
    place = np.arange(centre.size)
    return Expansion(coefficients[place, best].T, _STEPS[best], error[place, best])
