"""Covariance functions: frozen values that know how to fill a block and to contract its derivatives.

A kernel is a family and its parameters; sums and products are written with ``+`` and ``*``:

>>> from streamgp.kernels import RBF, White
>>> RBF(variance=2.0, lengthscale=[1.0, 3.0]) + White(variance=0.1)
RBF(variance=2.0, lengthscale=(1.0, 3.0)) + White(variance=0.1)
"""

from streamgp.kernels.base import Kernel
from streamgp.kernels.by_class import ClassKernels, class_kernels_from_json, each_kernel
from streamgp.kernels.composite import Product, Sum
from streamgp.kernels.constant import Constant, White
from streamgp.kernels.inner_product import Linear, Polynomial
from streamgp.kernels.serialization import NAMED_KERNELS, kernel_from_json
from streamgp.kernels.stationary import RBF, Laplacian, Matern12, Matern32, Matern52
from streamgp.kernels.tiles import Prepared

__all__ = [
    "NAMED_KERNELS",
    "RBF",
    "ClassKernels",
    "Constant",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Polynomial",
    "Prepared",
    "Product",
    "Sum",
    "White",
    "class_kernels_from_json",
    "each_kernel",
    "kernel_from_json",
]
