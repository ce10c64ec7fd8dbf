"""Parameters of parameters, as a grid search names them: ``kernel__lengthscale``, ``selection__p_exc``."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from sklearn.base import BaseEstimator

from streamgp.errors import ParameterError


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """An estimator whose kernel, likelihood and settings are frozen values with fields of their own.

    The terms of a sum or product are named by their place: ``kernel__0__lengthscale``.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` adds the fields of those that are frozen values."""
        parameters: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in list(parameters):
                parameters |= {f"{name}__{path}": value for path, value in _nested(parameters[name]).items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; a field of a frozen value replaces the value by a changed copy."""
        plain = {name: value for name, value in parameters.items() if "__" not in name}
        super().set_params(**plain)
        for name, value in parameters.items():
            owner, _, path = name.partition("__")
            if path:
                if owner not in self.get_params(deep=False):
                    raise ParameterError(f"{owner!r} is no parameter of {type(self).__name__}")
                setattr(self, owner, _replaced(getattr(self, owner), path, value, name))
        return self


def _parts(value: Any) -> dict[str, Any]:
    """The fields of a frozen value; of a sum or product, its terms by their place."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {}
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    for parts in list(fields.values()):
        if isinstance(parts, tuple) and parts and all(map(dataclasses.is_dataclass, parts)):
            return {str(place): part for place, part in enumerate(parts)}
    return fields


def _nested(value: Any) -> dict[str, Any]:
    """All fields below a value, by their path."""
    found = {}
    for name, part in _parts(value).items():
        found[name] = part
        found |= {f"{name}__{path}": inner for path, inner in _nested(part).items()}
    return found


def _replaced(value: Any, path: str, new: Any, name: str) -> Any:
    """A copy of a frozen value in which the field at a path is new."""
    first, _, rest = path.partition("__")
    parts = _parts(value)
    if first not in parts:
        known = ", ".join(sorted(parts)) or "none"
        raise ParameterError(f"{name} is not known: {value!r} has these parameters: {known}")
    changed = _replaced(parts[first], rest, new, name) if rest else new
    if first.isdigit():
        [field] = [field.name for field in dataclasses.fields(value) if field.init]
        terms = tuple(changed if place == first else part for place, part in parts.items())
        return dataclasses.replace(value, **{field: terms})
    return dataclasses.replace(value, **{first: changed})
