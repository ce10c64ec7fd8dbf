"""Kernel blocks and their contractions as a share of the matrix product's rate, measured in the same run.

``python -m benchmarks.limits.kernel_block`` prints one JSON line for each kernel and dtype, on one thread.

gemm_share      time of the bare product (c, p, d), in the same tiles, over the time of the block
rate_share      rate of the block, counted as 2cpd flops, over that of the product as one call
contraction_ratio   time of the parameter gradient over the time of the block
error           largest difference from float64, relative to the largest variance
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.record import add_save_option, record
from streamgp.kernels import RBF, Constant, Kernel, Linear, Matern12, Matern32, Matern52, Polynomial
from streamgp.kernels.tiles import row_tiles

Floats = NDArray[np.floating[Any]]


def best_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Shortest of several runs, after one that may compile."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


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
        "rbf_short": RBF(1.0, 1.0),
        "linear": Linear(1.0 / n_features),
        "polynomial9": Polynomial(9, normalize=True),
        "rbf_plus_linear": RBF(1.0, common) + Linear(1.0 / n_features),
        "scaled_product": Constant(2.0) * RBF(1.0, common) * Matern52(1.0, common),
    }


def tiled_product(left: Floats, right: Floats, out: Floats) -> None:
    for rows in row_tiles(len(left), len(right), left.shape[1], left.itemsize):
        np.matmul(left[rows], right.T, out=out[rows])


def measured(name: str, kernel: Kernel, left: Floats, right: Floats, repeats: int) -> dict[str, Any]:
    dtype = left.dtype
    out = np.empty((len(left), len(right)), dtype)
    weights = np.random.default_rng(1).standard_normal(out.shape).astype(dtype)
    square = np.ones((1024, 1024), dtype)
    flops = 2.0 * left.shape[1] * out.size
    whole = best_seconds(lambda: np.matmul(left, right.T, out=out), repeats)
    tiled = best_seconds(lambda: tiled_product(left, right, out), repeats)
    large = 2.0 * len(square) ** 3 / best_seconds(lambda: square @ square, max(1, repeats // 3))
    block = best_seconds(lambda: kernel.block(left, right, out), repeats)
    contraction = best_seconds(lambda: kernel.parameter_gradient(left, right, weights), repeats)
    inputs = best_seconds(lambda: kernel.input_gradient(left, right, weights), repeats)
    exact = kernel.block(left[:256].astype(np.float64), right.astype(np.float64))
    return {
        "kernel": name,
        "dtype": dtype.name,
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--active", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    add_save_option(parser)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    left = generator.standard_normal((options.rows, options.features))
    right = generator.standard_normal((options.active, options.features))
    with threadpool_limits(1):
        for dtype in (np.float32, np.float64):
            for name, kernel in kernels(options.features).items():
                if options.only in name:
                    row = measured(name, kernel, left.astype(dtype), right.astype(dtype), options.repeats)
                    record("kernel_block", [row], save=not options.no_save)


if __name__ == "__main__":
    main()
