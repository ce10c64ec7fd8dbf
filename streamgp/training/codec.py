"""One codec for all that checkpoints hold: nested records become JSON and arrays, and come back equal.

A record is a frozen dataclass or a named tuple that :func:`record` has made known. Only known records are
made from a file, so that a file cannot run code.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

import numpy as np

from streamgp.arrays import Array
from streamgp.errors import CheckpointError
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import ClassKernels, Kernel, class_kernels_from_json, kernel_from_json
from streamgp.likelihoods import JointLikelihood, Likelihood, likelihood_from_json
from streamgp.posterior.calibration import Calibration

T = TypeVar("T", bound=type)

_RECORDS: dict[str, type] = {}


def record(kind: T) -> T:
    """Make a frozen dataclass or named tuple known to the codec, by its name."""
    _RECORDS[kind.__name__] = kind
    return kind


record(Calibration)
record(ActiveSet)


def encode(value: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays of a nested value.

    >>> header, arrays = encode((1, {"a": np.arange(3)}, None))
    >>> decode(header, arrays)
    (1, {'a': array([0, 1, 2])}, None)
    """
    arrays: dict[str, Array] = {}
    return {"value": _encoded(value, "value", arrays)}, arrays


def decode(header: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """The value that was encoded."""
    return _decoded(header["value"], arrays)


def _encoded(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, ClassKernels):
        return {"kernels": value.to_json()}
    if isinstance(value, Kernel | Likelihood | JointLikelihood):
        return {"kernel" if isinstance(value, Kernel) else "likelihood": value.to_json()}
    if isinstance(value, ActiveSet):
        value = value.trimmed()  # factors follow from the sites
    if type(value).__name__ in _RECORDS:
        fields = value._asdict() if hasattr(value, "_asdict") else _fields(value)
        return {"record": type(value).__name__, "fields": _encoded(fields, path, arrays)}
    if isinstance(value, dict):
        items = ((str(key), _encoded(part, f"{path}/{key}", arrays)) for key, part in value.items())
        return {"dict": dict(items)}
    if isinstance(value, tuple | list):
        parts = [_encoded(part, f"{path}/{place}", arrays) for place, part in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    raise TypeError(f"{path} is a {type(value).__name__}, which checkpoints cannot hold")


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _decoded(document: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(document, list):
        return [_decoded(part, arrays) for part in document]
    if not isinstance(document, dict):
        return document
    if "record" in document:
        kind = _RECORDS.get(document["record"])
        if kind is None:
            raise CheckpointError(f"the checkpoint holds a {document['record']!r}, which is not known here")
        return kind(**_decoded(document["fields"], arrays))
    ((form, content),) = document.items()
    if form == "dict":
        return {key: _decoded(part, arrays) for key, part in content.items()}
    if form == "tuple":
        return tuple(_decoded(part, arrays) for part in content)
    if form == "float":
        return float(content)
    if form == "array":
        return arrays[content]
    if form == "kernels":
        return class_kernels_from_json(content)
    return (kernel_from_json if form == "kernel" else likelihood_from_json)(content)
