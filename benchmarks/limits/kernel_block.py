"""Kernel blocks and their contractions as a share of the matrix product's rate, on one thread.

    python -m benchmarks.limits.kernel_block --only rbf

gemm_share      time of the bare product (c, p, d), in the same tiles, over the time of the block
rate_share      rate of the block, counted as 2cpd flops, over that of the product as one call
contraction_ratio   time of the parameter gradient over the time of the block
error           largest difference from float64, relative to the largest variance
"""

from functools import cache

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Array
from benchmarks.harness import Options, Row, Rows, Script, defaults, option
from benchmarks.limits.machine import SIDE, best_seconds
from streamgp.kernels import (
    RBF,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Polynomial,
)
from streamgp.kernels.tiles import row_tiles


def kernels(n_features: int) -> dict[str, Kernel]:
    """One kernel of each family, with lengthscales at which the values are neither 0 nor 1."""
    common = float(np.sqrt(n_features))
    many = tuple(common * (0.5 + q / n_features) for q in range(n_features))
    return {
        "rbf": RBF(1.0, common),
        "rbf_ard": RBF(1.0, many),
        "matern12": Matern12(1.0, common),
        "matern12_ard": Matern12(1.0, many),
        "matern32": Matern32(1.0, common),
        "matern32_ard": Matern32(1.0, many),
        "matern52": Matern52(1.0, common),
        "matern52_ard": Matern52(1.0, many),
        "laplacian": Laplacian(1.0, float(n_features)),
        "laplacian_ard": Laplacian(1.0, tuple(2.0 * common * own for own in many)),
        "rbf_short": RBF(1.0, 1.0),
        "linear": Linear(1.0 / n_features),
        "polynomial9": Polynomial(9, normalize=True),
        "rbf_plus_linear": RBF(1.0, common) + Linear(1.0 / n_features),
        "scaled_product": Constant(2.0) * RBF(1.0, common) * Matern52(1.0, common),
    }


def tiled_product(left: Array, right: Array, out: Array) -> None:
    for rows in row_tiles(len(left), len(right), left.shape[1], left.itemsize):
        np.matmul(left[rows], right.T, out=out[rows])


@cache
def square_rate(dtype: np.dtype) -> float:
    """Flops per second of one thread in a large product."""
    square = np.ones((SIDE, SIDE), dtype)
    return 2.0 * SIDE**3 / best_seconds(lambda: square @ square, 3)


def block_row(name: str, kernel: Kernel, left: Array, right: Array, repeats: int) -> Row:
    out = np.empty((len(left), len(right)), left.dtype)
    weights = np.random.default_rng(1).standard_normal(out.shape).astype(left.dtype)
    flops = 2.0 * left.shape[1] * out.size
    whole = best_seconds(lambda: np.matmul(left, right.T, out=out), repeats)
    tiled = best_seconds(lambda: tiled_product(left, right, out), repeats)
    large = square_rate(left.dtype)
    block = best_seconds(lambda: kernel.block(left, right, out), repeats)
    contraction = best_seconds(lambda: kernel.parameter_gradient(left, right, weights), repeats)
    inputs = best_seconds(lambda: kernel.input_gradient(left, right, weights), repeats)
    exact = kernel.block(left[:256].astype(np.float64), right.astype(np.float64))
    return {
        "kernel": name,
        "dtype": left.dtype.name,
        "rows": len(left),
        "features": left.shape[1],
        "active": len(right),
        "block_seconds": block,
        "gemm_seconds": whole,
        "tiled_gemm_seconds": tiled,
        "gemm_gflops": flops / whole / 1e9,
        "square_gemm_gflops": large / 1e9,
        "gemm_share": tiled / block,
        "rate_share": whole / block,
        "rate_share_of_square": flops / block / large,
        "contraction_seconds": contraction,
        "contraction_ratio": contraction / block,
        "input_gradient_ratio": inputs / block,
        "error": float(np.abs(kernel.block(left[:256], right) - exact).max() / kernel.diagonal(right).max()),
    }


def rows(options: Options) -> Rows:
    generator = np.random.default_rng(0)
    sides = [generator.standard_normal((size, options.features)) for size in (options.rows, options.active)]
    with threadpool_limits(1):
        for dtype in (np.float32, np.float64):
            for name, kernel in kernels(options.features).items():
                if options.only in name:
                    yield block_row(name, kernel, *(side.astype(dtype) for side in sides), options.repeats)


OPTIONS = (
    option("--only", "", "kernels whose name contains this"),
    *defaults(rows=8192, features=50, active=512, repeats=9),
)
SCRIPT = Script("kernel_block", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
