"""The door of a record: what its header, its arrays and their names may be."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.errors import ModelFileError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_RESERVED = {"zarr.json", ".zgroup", ".zarray", ".zattrs"}
_WIDEST = 8  # bytes of a number; wider ones (longdouble) differ between machines


def plain_json(value: Any, name: str) -> Any:
    """``value`` as JSON gives it back: tuples become lists; what would change silently is refused.

    That is: keys that are not strings, NaN and infinity (JSON has none), NumPy integers. Such numbers belong
    into arrays.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise ModelFileError(f"{name} is {value}, which JSON cannot hold; keep it in an array, or use None")
    if isinstance(value, list | tuple):
        return [plain_json(item, f"{name}[{place}]") for place, item in enumerate(value)]
    if isinstance(value, Mapping):
        odd = [key for key in value if not isinstance(key, str)]
        if odd:
            raise ModelFileError(f"{name} has the key {odd[0]!r}, which is no string; use str(key)")
        return {str(key): plain_json(item, f"{name}.{key}") for key, item in value.items()}
    raise ModelFileError(
        f"{name} is of type {type(value).__name__}, which JSON cannot hold; use int, float, str or a list, "
        f"and keep NumPy arrays among the arrays"
    )


def plain_array(value: Any, name: str) -> Array:
    """``value`` in C order and little-endian, the same bits; only numbers, bool and fixed-width strings."""
    if not isinstance(value, np.ndarray):
        raise ModelFileError(f"{name!r} is of type {type(value).__name__}; give a NumPy array")
    if not is_plain(value.dtype):
        raise ModelFileError(
            f"array {name!r} is of type {value.dtype}, which is not stored; convert it to float64, float32, "
            f"an integer, bool or a fixed-width string (astype('U'))"
        )
    return np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type can be in a record."""
    return dtype.kind == "U" or (dtype.kind in "biuf" and dtype.itemsize <= _WIDEST)


def check_names(names: Iterable[Any]) -> None:
    """Refuse names that are no paths in a Zarr group, or of which one would lie inside of another."""
    known = set(names)
    for name in known:
        usable = isinstance(name, str) and _NAME.fullmatch(name) and not _RESERVED & set(name.split("/"))
        if not usable or any(part.startswith("__") for part in name.split("/")):
            raise ModelFileError(
                f"{name!r} cannot name an array; use letters, digits, '_', '-', '.', and '/' between levels"
            )
    for name in known:
        levels = name.split("/")
        outer = {"/".join(levels[:depth]) for depth in range(1, len(levels))} & known
        if outer:
            raise ModelFileError(f"array {name!r} would lie inside of the array {outer.pop()!r}; rename one")


def array_digest(array: Array) -> str:
    """SHA-256 over type, shape and data of an array in C order."""
    digest = hashlib.sha256(f"{array.dtype.newbyteorder('<').str} {array.shape} ".encode())
    digest.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def json_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over a JSON document, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def record_digest(header: Mapping[str, Any], arrays: Mapping[str, Array], extra: Any = None) -> str:
    """SHA-256 over a header, arrays and what else decides (JSON)."""
    digests = {name: array_digest(np.asarray(array)) for name, array in arrays.items()}
    return json_digest({"header": plain_json(header, "header"), "arrays": digests, "extra": extra})
