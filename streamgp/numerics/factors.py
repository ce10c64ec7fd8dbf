"""Triangular factors in place, for tasks that run side by side on threads.

SciPy's wrappers of these LAPACK and BLAS routines keep the GIL while they work (its Cholesky factor and
inverse, its triangular product and solution: other threads wait for 75 to 95 % of a call). The routines
themselves are public, as function pointers for Cython; called through ctypes they let other threads run.

All matrices are C-ordered, their rows may be apart (a view of some columns). LAPACK counts along columns and
so sees each of them transposed: our lower triangle is its upper one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numba.extending import get_cython_function_address
from numpy.linalg import LinAlgError

from streamgp.arrays import FloatArray, Floats
from streamgp.numerics.compilation import compiled
from streamgp.numerics.kernel_sweeps import mirror_lower

_LETTER, _INTEGER, _MATRIX = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
_NUMBER = {np.dtype(np.float32): ctypes.c_float, np.dtype(np.float64): ctypes.c_double}
_PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}

INVERTED_AT_ONCE = 96
"""Rows of a triangle that LAPACK inverts; larger ones are inverted by halves."""


def cholesky(matrix: Floats, *, upper: bool = False) -> None:
    """L Lᵀ = matrix, in place of its lower triangle; the upper one is neither read nor changed.

    ``upper``: Lᵀ in place of the upper triangle instead, and the lower one stays.
    Shapes: (b, b), positive definite.  Cost: ⅓ b³ flops.  Hazard: LinAlgError where it is not.
    """
    status = _triangle_call("potrf", matrix, b"L" if upper else b"U")
    if status != 0:
        raise LinAlgError(f"the leading minor of order {status} is not positive definite")


def invert_lower(factor: Floats) -> None:
    """L⁻¹ in place of L, the lower triangle.  Shapes: (b, b).  Cost: ⅓ b³ flops.

    By halves, [A 0; C D]⁻¹ = [A⁻¹ 0; −D⁻¹ C A⁻¹  D⁻¹]: products run at twice the rate of LAPACK's inverse.
    """
    size = len(factor)
    if size <= INVERTED_AT_ONCE:
        _invert(factor, b"U")
        return
    half = -(-size // 16) * 8
    above, below, corner = factor[:half, :half], factor[half:, half:], factor[half:, :half]
    invert_lower(above)
    invert_lower(below)
    _pair_call("trmm", below, corner, transposed=False, scale=-1.0)
    # Rows L is, seen by columns, Lᵀ rowsᵀ: the triangle, there upper, stands on the left.
    _product_call("trmm", b"LUN", above, corner)


def invert_upper(factor: Floats) -> None:
    """R⁻¹ in place of R, the upper triangle.  Shapes: (b, b).  Cost: ⅓ b³ flops."""
    _invert(factor, b"L")


def _invert(factor: Floats, triangle: bytes) -> None:
    if _triangle_call("trtri", factor, triangle, b"N") != 0:
        raise LinAlgError("the triangle has a zero on its diagonal")


def gram_of_inverse(inverse: Floats) -> None:
    """L⁻ᵀ L⁻¹, the inverse of L Lᵀ, in full, in place of L⁻¹.  Shapes: (b, b).  Cost: ⅓ b³ flops."""
    _triangle_call("lauum", inverse, b"U")
    mirror_lower(inverse)


def multiply_lower(factor: Floats, rows: Floats, *, transposed: bool = False) -> None:
    """L rows, or Lᵀ rows, in place of rows.  Shapes: factor (b, b), rows (b, m).  Cost: b² m flops."""
    _pair_call("trmm", factor, rows, transposed)


def solve_lower(factor: Floats, rows: Floats, *, transposed: bool = False) -> None:
    """L⁻¹ rows, or L⁻ᵀ rows, in place of rows.  Shapes: factor (b, b), rows (b, m).  Cost: b² m flops."""
    _pair_call("trsm", factor, rows, transposed)


def multiply_by_upper(rows: Floats, upper: Floats, *, transposed: bool = False) -> None:
    """Rows T, or rows Tᵀ, in place of rows, T upper (m, m).  Shapes: rows (c, m).  Cost: c m² flops."""
    # Seen by columns: Tᵀ rowsᵀ, the triangle, there lower, on the left.
    _product_call("trmm", b"LLT" if transposed else b"LLN", upper, rows)


def subtract_gram(matrix: Floats, rows: Floats) -> None:
    """Matrix − rows rowsᵀ, in full, in place of a symmetric matrix whose lower triangle is read.

    Shapes: matrix (b, b), rows (b, m) of the same type.  Cost: b² m flops, half of a product's.
    """
    _check_types(matrix, rows)
    number = _NUMBER[matrix.dtype]
    size, inner = ctypes.c_int(len(matrix)), ctypes.c_int(rows.shape[1])
    _routine("syrk", matrix.dtype)(
        b"U", b"T", size, inner,
        number(-1.0), rows.ctypes.data, _stride(rows),
        number(1.0), matrix.ctypes.data, _stride(matrix),
    )  # fmt: skip
    mirror_lower(matrix)


@compiled
def scale_rows(rows: FloatArray, scale: FloatArray, out: Floats) -> None:
    """out_ij = scale_i rows_ij, in the type of out.  Shapes: rows, out (b, m), scale (b,)."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = scale[i] * rows[i, j]


@compiled
def scaled_identity_plus(matrix: FloatArray, root: FloatArray, out: Floats) -> None:
    """The lower triangle of 1 + S R S, and zeros above.  R matrix, S = diag(root).  Shapes: (b, b), (b,)."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            out[i, j] = root[i] * matrix[i, j] * root[j]
        out[i, i] = 1.0 + root[i] * matrix[i, i] * root[i]
        for j in range(i + 1, matrix.shape[1]):
            out[i, j] = 0.0


@compiled
def clear_below(matrix: Floats) -> None:
    """Zeros below the diagonal, in place.  Shapes: (b, b)."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = 0.0


@compiled
def inverse_diagonal(
    lower: Floats, inverse: Floats, diagonal: FloatArray, out: FloatArray, complement: FloatArray
) -> None:
    """Diagonal g of (1 + M)⁻¹ and 1 − g, the latter to as many digits as M itself has.

    L Lᵀ = 1 + M, L lower, L⁻¹ inverse;  g_j = Σ_i≥j (L⁻¹_ij)²
    1 − g_j = (M_jj − Σ_k<j L_jk²)/L_jj² − Σ_i>j (L⁻¹_ij)², of which no term is larger than M_jj
    Shapes: lower, inverse (b, b), diagonal of M, out g, complement 1 − g (b,), these in float64.
    Hazard: where M_jj is large 1 − g itself is the better of the two; it is taken where g < ½.
    """
    size = lower.shape[0]
    for i in range(size):
        out[i], complement[i] = 0.0, diagonal[i]
    for i in range(size):
        # Two loops: each runs several numbers at a time, both together would not.
        for j in range(i):
            value = np.float64(inverse[i, j])
            out[j] += value * value
        taken = 0.0
        for j in range(i):
            entry = np.float64(lower[i, j])
            taken += entry * entry
        complement[i] -= taken
    for j in range(size):
        below, first, pivot = out[j], np.float64(inverse[j, j]), np.float64(lower[j, j])
        out[j] = below + first * first
        complement[j] = max(0.0, complement[j] / (pivot * pivot) - below) if out[j] > 0.5 else 1.0 - out[j]


def _triangle_call(name: str, matrix: Floats, *letters: bytes) -> int:
    """A routine that works on one triangle, and its status."""
    status = ctypes.c_int(0)
    routine = _routine(name, matrix.dtype)
    routine(*letters, ctypes.c_int(len(matrix)), matrix.ctypes.data, _stride(matrix), status)
    return status.value


def _pair_call(name: str, factor: Floats, rows: Floats, transposed: bool, scale: float = 1.0) -> None:
    """op(L) rows is, seen by columns, rowsᵀ op(L)ᵀ: the triangle, there upper, stands on the right."""
    _product_call(name, b"RUT" if transposed else b"RUN", factor, rows, scale)


def _product_call(name: str, letters: bytes, triangle: Floats, rows: Floats, scale: float = 1.0) -> None:
    """A routine of a triangle and rows, which are overwritten; letters: side, kind, turned."""
    _check_types(triangle, rows)
    routine, number = _routine(name, rows.dtype), _NUMBER[rows.dtype](scale)
    height, width = ctypes.c_int(rows.shape[1]), ctypes.c_int(rows.shape[0])
    routine(
        *(letters[at : at + 1] for at in range(3)), b"N", height, width, number,
        triangle.ctypes.data, _stride(triangle), rows.ctypes.data, _stride(rows),
    )  # fmt: skip


def _check_types(*matrices: Floats) -> None:
    """Pointers have no type: what is not alike would be read wrongly."""
    if len({matrix.dtype for matrix in matrices}) > 1:
        raise TypeError(f"matrices of one type are needed, not {[str(matrix.dtype) for matrix in matrices]}")


def _stride(matrix: Floats) -> ctypes.c_int:
    """Numbers from one row to the next; a matrix that is not in rows would be read wrongly."""
    height, width = matrix.shape
    if matrix.size and width > 1 and matrix.strides[1] != matrix.itemsize:
        raise ValueError("the matrix is not C-ordered")
    return ctypes.c_int(max(1, width, matrix.strides[0] // matrix.itemsize if height > 1 else 0))


_TRIANGLE: tuple[type, ...] = (_INTEGER, _MATRIX, _INTEGER, _INTEGER)
_LETTERS = {"potrf": 1, "trtri": 2, "lauum": 1}


@cache
def _routine(name: str, dtype: np.dtype[np.floating]) -> Callable[..., None]:
    """A routine of SciPy's LAPACK or BLAS for this type, as a function that releases the GIL."""
    number = ctypes.POINTER(_NUMBER[dtype])
    if name in _LETTERS:
        module, arguments = "lapack", (_LETTER,) * _LETTERS[name] + _TRIANGLE
    elif name == "syrk":
        matrices = (number, _MATRIX, _INTEGER)
        module, arguments = "blas", (_LETTER,) * 2 + (_INTEGER,) * 2 + matrices + matrices
    else:
        arguments = (_LETTER,) * 4 + (_INTEGER,) * 2 + (number,) + (_MATRIX, _INTEGER) * 2
        module = "blas"
    address = get_cython_function_address(f"scipy.linalg.cython_{module}", _PREFIX[dtype] + name)
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *arguments)(address)
    return function
