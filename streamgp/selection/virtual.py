"""Virtual rows: transformations that do not change a row's target, such as shifts of an image by a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import rotate as rotate_images

from streamgp.arrays import Array
from streamgp.errors import ParameterError

STEPS = ((-1, 0), (0, -1), (0, 1), (1, 0))
DIAGONAL_STEPS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Translations:
    """Images shifted by some pixels; made by :func:`translate`. What was outside repeats the border."""

    shape: tuple[int, int]
    by: int = 1
    diagonals: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        if not isinstance(self.by, int) or not 0 < self.by < min(self.shape):
            raise ParameterError(f"by must be a whole number of pixels inside {self.shape}, not {self.by!r}")

    def __call__(self, rows: Array) -> Array:
        """All rows, shifted one way, then the next.  Shapes: (n, p) → (4 or 8, n, p)."""
        images = _as_images(rows, self.shape)
        wide = np.pad(images, ((0, 0), (self.by, self.by), (self.by, self.by)), mode="edge")
        height, width = self.shape
        steps = STEPS + DIAGONAL_STEPS if self.diagonals else STEPS
        shifted = []
        for down, right in steps:
            top, left = self.by * (1 - down), self.by * (1 - right)
            shifted.append(wide[:, top : top + height, left : left + width].reshape(rows.shape))
        return np.stack(shifted)


@dataclass(frozen=True)
class Rotations:
    """Images turned by some angles; made by :func:`rotate`. What was outside repeats the border."""

    shape: tuple[int, int]
    degrees: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "degrees", tuple(float(angle) for angle in self.degrees))
        if not self.degrees or not np.all(np.isfinite(self.degrees)) or 0.0 in self.degrees:
            raise ParameterError(f"degrees must be angles other than 0, not {self.degrees!r}")

    def __call__(self, rows: Array) -> Array:
        """All rows, turned by one angle, then the next, linear inside.  Shapes: (n, p) → (k, n, p)."""
        images = _as_images(rows, self.shape).astype(np.float64)
        turned = (
            rotate_images(images, angle, axes=(2, 1), reshape=False, order=1, mode="nearest")
            for angle in self.degrees
        )
        return np.stack([each.reshape(rows.shape) for each in turned])


@dataclass(frozen=True, repr=False)
class Transformation:
    """A function of the user's: rows (n, p), as stored, to k other versions of them, (k, n, p)."""

    function: Callable[[Array], Array]

    def __repr__(self) -> str:
        """The function's name: a checkpoint knows it again by that."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"Transformation({getattr(self.function, '__module__', '')}.{name})"

    def __call__(self, rows: Array) -> Array:
        """The function's value."""
        return self.function(rows)


Virtual = Translations | Rotations | Transformation


def translate(shape: tuple[int, int], by: int = 1, *, diagonals: bool = False) -> Translations:
    """Images of ``shape`` shifted by ``by`` pixels up, left, right and down; ``diagonals``: four ways more.

    >>> translate(shape=(2, 2))(np.array([[1, 2, 3, 4]]))[:, 0].tolist()
    [[3, 4, 3, 4], [2, 2, 4, 4], [1, 1, 3, 3], [1, 2, 1, 2]]
    """
    return Translations(shape, by, diagonals)


def rotate(shape: tuple[int, int], degrees: tuple[float, ...] = (-5.0, 5.0)) -> Rotations:
    """Images of ``shape`` turned by small angles, clockwise where these are negative."""
    return Rotations(shape, degrees)


def as_virtual(value: Any) -> Virtual | None:
    """Transformations as given; a plain function is wrapped."""
    if value is None or isinstance(value, Virtual):
        return value
    if callable(value):
        return Transformation(value)
    raise ParameterError(f"virtual must be translate(...), rotate(...) or a function of rows, not {value!r}")


def versions(virtual: Virtual, rows: Array) -> Array:
    """Rows, then all their transformations, checked.  Shapes: (n, p) → (1 + k, n, p)."""
    made = np.asarray(virtual(rows))
    if made.ndim != 3 or made.shape[1:] != rows.shape or not np.all(np.isfinite(made)):
        raise ParameterError(
            f"virtual={virtual!r} made an array of shape {made.shape} from rows of shape {rows.shape}; it "
            f"must give k versions of all rows, (k, {rows.shape[0]}, {rows.shape[1]}), all finite"
        )
    return np.concatenate([rows[None], made])


def _as_images(rows: Array, shape: tuple[int, int]) -> Array:
    if rows.shape[1] != shape[0] * shape[1]:
        raise ParameterError(
            f"images of shape {shape} have {shape[0] * shape[1]} features, not {rows.shape[1]}"
        )
    return rows.reshape(-1, *shape)


def _checked_shape(shape: Any) -> tuple[int, int]:
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(sides) != 2 or not all(isinstance(side, int | np.integer) and side > 0 for side in sides):
        raise ParameterError(f"shape must be (height, width) of an image, not {shape!r}")
    return int(sides[0]), int(sides[1])
