"""Stored values to standardised ones, whatever type they are stored in."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.numerics.compilation import compiled

KINDS = "biuf"


def can_shift(values: Array) -> bool:
    """Whether :func:`shift_and_scale` takes such an array: not half floats, foreign byte orders, or views."""
    dtype = values.dtype
    known = dtype.kind in KINDS and dtype.isnative and dtype.itemsize <= 8 and dtype != np.float16
    return bool(known and values.flags.c_contiguous)


@compiled(reassociate=False)
def shift_and_scale(values: Array, shift: FloatArray, scale: FloatArray, out: Array) -> None:
    """out_ij = (values_ij − shift_j) / scale_j, computed in float64 and rounded once.

    Shapes: values and out (c, p), shift and scale (p,).  Cost: O(c p), no temporaries.
    """
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = (np.float64(values[i, j]) - shift[j]) / scale[j]
