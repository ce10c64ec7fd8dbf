"""A model's record as a stranger may have written it: every value is checked before a model is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from streamgp.arrays import Array
from streamgp.errors import ModelFileError, StreamGPError

T = TypeVar("T")
Arrays = Mapping[str, Array]

_MOST = 1e300
"""Numbers of a header are below it: what is larger has no square."""


def believed(what: str, make: Callable[[], T]) -> T:
    """What a function makes of a record; whatever it finds wrong is told as one kind of error."""
    try:
        return make()
    except ModelFileError:
        raise
    except (
        StreamGPError,
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ModelFileError(
            f"the record of the {what} is damaged, or not one that streamgp wrote: "
            f"{type(error).__name__}: {error}; restore the file from a copy"
        ) from error


def check_model_record(header: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse values of a model's header and arrays whose type, range or shape cannot be."""
    features = _shape(arrays, "active_inputs", 2, "f")
    for name in ("shift", "scale"):
        _require(_shape(arrays, name, 1, "f") == features[1:], f"{name} has not one number for each feature")
    _require(bool(np.all(arrays["scale"] > 0)), "a scale is not above zero")
    if "bend" in header:
        _check_bend(header["bend"], features[1])
    pairs = arrays["active_rows"].ndim == 2  # of rows and their transformations
    _shape(arrays, "active_rows", 2 if pairs else 1, "iu")
    _require(not pairs or arrays["active_rows"].shape[1] == 2, "active rows are no pairs")
    n_heads = len(header["calibrations"])
    combination = header.get("combination", [])
    _require(len(combination) in (0, n_heads), "its combination is not one for each head")
    for each in combination:
        _require(_numbers(each, 4, "combination")[0] > 0.0, "a scale of its combination is not above 0")
    for number, calibration in enumerate(header["calibrations"]):
        mean_scale, _, variance_scale, _ = _numbers(calibration, 4, "calibrations")
        _require(mean_scale > 0 and variance_scale >= 0, f"the calibration of head {number} is not positive")
    if "local" in header:
        _check_local(header["local"], n_heads, features, arrays)
    else:
        _check_heads(header, arrays, features[0])
    likelihoods = header["likelihoods"]
    _require(
        isinstance(likelihoods, list) and len(likelihoods) in (1, n_heads),
        "likelihoods are neither one nor one for each head",
    )
    if "classes" in arrays:
        classes = arrays["classes"]
        n_classes = _shape(arrays, "classes", 1, "iufbU")[0]
        _require(n_heads == (1 if n_classes == 2 else n_classes), "classes and heads do not agree")
        _require(bool(np.all(classes[1:] > classes[:-1])), "classes are not sorted")
    else:
        shift, scale = _numbers(header["targets"], 2, "targets")
        _require(scale > 0 and n_heads == 1, f"targets are {shift!r}, {scale!r} for {n_heads} heads")


def check_members(header: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse an average whose weights are no shares, or whose members do not read rows in the same way."""
    count = len(header["members"])
    weights = _numbers(header["weights"], count, "weights")
    _require(count > 0 and min(weights) > 0 and abs(sum(weights) - 1.0) < 1e-6, "weights are no shares")
    for name in ("shift", "scale", "classes"):
        found = [arrays[place] for number in range(count) if (place := f"members/{number}/{name}") in arrays]
        equal = len(found) in (0 if name == "classes" else count, count)
        equal = equal and all(np.array_equal(found[0], each) for each in found)
        _require(equal, f"members do not have the same {name}")
    for name in ("bend", "targets"):
        found = [member.get(name) for member in header["members"]]
        _require(all(each == found[0] for each in found), f"members do not have the same {name}")


def _check_bend(bend: Any, n_features: int) -> None:
    """Refuse bent columns that are no columns, or whose numbers cannot be."""
    columns = bend["columns"]
    _require(
        isinstance(columns, list) and all(type(each) is int and 0 <= each < n_features for each in columns),
        f"bent columns are {columns!r}",
    )
    for name in ("centre", "width", "shift", "scale"):
        numbers = _numbers(bend[name], len(columns), f"bend {name}")
        _require(
            name in ("centre", "shift") or min(numbers, default=1.0) > 0, f"a bend {name} is not above 0"
        )


def _check_heads(header: Mapping[str, Any], arrays: Arrays, n_inputs: int) -> None:
    """Refuse heads that are not parts of the active inputs, or not as many as there are calibrations."""
    columns = header["columns"]
    for name in ("columns", "residuals"):
        values = header.get(name, columns)
        one_each = isinstance(values, list) and len(values) == len(header["calibrations"])
        _require(one_each and bool(values), f"{name} are not one for each head")
    for number, place in enumerate(columns):
        _check_head(number, place, header, arrays, n_inputs)


def _check_local(local: Any, n_heads: int, inducing: tuple[int, ...], arrays: Mapping[str, Any]) -> None:
    """Refuse local blocks whose numbers cannot be, or that do not lie within the rows that are stored."""
    [jitter] = _numbers([local["jitter"]], 1, "jitter")
    counts = [local["neighbours"], local["group_rows"]]
    _require(
        jitter >= 0 and all(type(count) is int and count >= 1 for count in counts), f"local is {local!r}"
    )
    size, p = inducing
    for name, axes in _LOCAL_HEADS.items():
        for number in range(n_heads):
            found = _shape(arrays, f"heads/{number}/{name}", axes, "f")
            _require(found == (size,) * axes, f"{name} of head {number} does not fit the inducing inputs")
    _require(_shape(arrays, "whitening", 2, "f") == (size, size), "whitening is not square")
    blocks = _shape(arrays, "table/centres", 2, "f")
    _require(blocks[0] > 0 and blocks[1] == p, "centres have not one number for each feature")
    _require(_shape(arrays, "table/scale", 1, "f") == (p,), "table/scale has not one number for each feature")
    places = _stored_rows(arrays, n_heads, p)
    for starts, lengths in (("starts", "counts"), ("halo_starts", "halo_counts")):
        ends = [_shape(arrays, f"table/{name}", 1, "iu") for name in (starts, lengths)]
        _require(ends == [blocks[:1]] * 2, f"{starts} and {lengths} are not one for each block")
        first, length = arrays[f"table/{starts}"], arrays[f"table/{lengths}"]
        inside = (first >= 0) & (length >= 0) & (first <= places) & (length <= places - first)
        _require(bool(np.all(inside)), "a block lies outside of the rows that are stored")


_LOCAL_HEADS = {"spread": 2, "projected_targets": 1, "inducing_mean": 1}
"""Arrays of a head of local blocks, and how many axes each has; all are as long as the inducing inputs."""


def _stored_rows(arrays: Mapping[str, Any], n_heads: int, n_features: int) -> int:
    """How many places for rows there are, own and of halos alike."""
    axes = {"features": (n_features,), "sites": (n_heads, 2), "numbers": ()}
    axes |= {f"halo_{name}": axes[name] for name in ("features", "sites")}
    shapes = {name: tuple(arrays[f"blocks/{name}"].shape) for name in axes}
    places = shapes["features"][0]
    for name, form in axes.items():
        _require(shapes[name] == (places, *form), f"blocks/{name} has shape {shapes[name]}")
    return int(places)


def check_history(header: Mapping[str, Any]) -> None:
    """Refuse a history, a recipe or parameters that are none."""
    history, recipe = header["history"], header["recipe"]
    _require(isinstance(recipe, str), "recipe is no text")
    _require(isinstance(header["parameters"], dict), "parameters are no names with values")
    _require(isinstance(header.get("about", {}), dict), "about is no names with values")
    entries = isinstance(history, list) and all(isinstance(entry, dict) for entry in history)
    _require(entries, "history is no list of records")


def _check_head(number: int, place: Any, header: Mapping[str, Any], arrays: Arrays, n_inputs: int) -> None:
    is_pair = isinstance(place, list) and len(place) == 2 and all(type(end) is int for end in place)
    _require(is_pair and 0 <= place[0] < place[1] <= n_inputs, f"columns of head {number} are {place!r}")
    size = place[1] - place[0]
    [residual] = _numbers([header["residuals"][number]] if "residuals" in header else [1.0], 1, "residuals")
    _require(0 <= residual <= 1, f"the residual of head {number} is {residual!r}, not from 0 to 1")
    name = f"heads/{number}/projected_targets"
    _require(_shape(arrays, name, 1, "f") == (size,), f"{name} has not one number for each active input")
    for name in (f"heads/{number}/projection", f"heads/{number}/whitening"):
        if name in arrays:
            _require(_shape(arrays, name, 2, "f") == (size, size), f"{name} is not square")


def _shape(arrays: Arrays, name: str, axes: int, kinds: str) -> tuple[int, ...]:
    """The shape of an array of so many axes and one of these kinds; its numbers are finite."""
    array = arrays[name]
    found = f"{name} is {array.dtype} of shape {array.shape}"
    _require(array.ndim == axes and array.dtype.kind in kinds, found)
    _require(array.dtype.kind != "f" or bool(np.isfinite(array).all()), f"{name} holds NaN or infinity")
    return array.shape


def _numbers(value: Any, count: int, name: str) -> list[float]:
    is_list = isinstance(value, list) and len(value) == count
    _require(
        is_list and all(_is_number(each) for each in value), f"{name} are {value!r}, not {count} numbers"
    )
    return [float(each) for each in value]


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value) and abs(value) < _MOST


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ModelFileError(
            f"the record of the model is damaged, or not one that streamgp wrote: {problem}; restore the "
            f"file from a copy"
        )
