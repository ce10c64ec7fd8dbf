"""Kernels from plain values, as they are kept in checkpoints and saved models."""

from __future__ import annotations

from typing import Any

from streamgp.errors import ParameterError
from streamgp.kernels.base import Kernel
from streamgp.kernels.composite import Product, Sum
from streamgp.kernels.constant import Constant, White
from streamgp.kernels.inner_product import Linear, Polynomial
from streamgp.kernels.stationary import RBF, Laplacian, Matern12, Matern32, Matern52

_BY_NAME = (RBF, Matern12, Matern32, Matern52, Laplacian, Linear, Constant, White)

_KINDS: dict[str, type[Kernel]] = {kind.__name__: kind for kind in (*_BY_NAME, Polynomial, Sum, Product)}

NAMED_KERNELS: dict[str, type[Kernel]] = {kind.__name__.lower(): kind for kind in _BY_NAME}
"""Kernels that can be asked for by name, with their default parameters."""


def kernel_from_json(record: dict[str, Any]) -> Kernel:
    """The kernel whose :meth:`~streamgp.kernels.Kernel.to_json` gave this record.

    >>> kernel_from_json({"kind": "Linear", "variance": 2.0})
    Linear(variance=2.0)
    """
    if not isinstance(record, dict) or record.get("kind") not in _KINDS:
        kind = record.get("kind") if isinstance(record, dict) else record
        raise ParameterError(f"unknown kernel kind {kind!r}; known are {', '.join(_KINDS)}")
    fields = {name: value for name, value in record.items() if name != "kind"}
    for name in ("terms", "factors"):
        if name in fields:
            fields[name] = tuple(kernel_from_json(part) for part in fields[name])
    try:
        return _KINDS[record["kind"]](**fields)
    except TypeError as error:
        raise ParameterError(f"{record['kind']} cannot be made from {sorted(fields)}: {error}") from error
