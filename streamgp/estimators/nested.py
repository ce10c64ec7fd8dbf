"""Parameters of parameters, as a grid search names them: ``kernel__lengthscale``, ``selection__p_exc``."""

from __future__ import annotations

import dataclasses
from typing import Any

from streamgp.errors import ParameterError


def _parts(value: Any) -> dict[str, Any]:
    """The fields of a frozen value; of a sum or product, its terms by their place."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {}
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    for parts in list(fields.values()):
        if isinstance(parts, tuple) and parts and all(map(dataclasses.is_dataclass, parts)):
            return {str(place): part for place, part in enumerate(parts)}
    return fields


def nested(value: Any) -> dict[str, Any]:
    """All fields below a value, by their path; the terms of a sum or product are named by their place."""
    found = {}
    for name, part in _parts(value).items():
        found[name] = part
        found |= {f"{name}__{path}": inner for path, inner in nested(part).items()}
    return found


def replaced(value: Any, path: str, new: Any, name: str) -> Any:
    """A copy of a frozen value in which the field at a path is new."""
    first, _, rest = path.partition("__")
    parts = _parts(value)
    if first not in parts:
        known = ", ".join(sorted(parts)) or "none"
        raise ParameterError(f"{name} is not known: {value!r} has these parameters: {known}")
    changed = replaced(parts[first], rest, new, name) if rest else new
    if first.isdigit():
        [field] = [field.name for field in dataclasses.fields(value) if field.init]
        terms = tuple(changed if place == first else part for place, part in parts.items())
        return dataclasses.replace(value, **{field: terms})
    return dataclasses.replace(value, **{first: changed})
