"""Single parameters, checked at the door: what is not understood is refused with what would be."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.passes.progress import Progress


def count(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(f"{name} must be an integer of at least 1, not {value!r}")
    return int(value)


def seconds(value: Any) -> float | None:
    """A time limit, or None."""
    if value is None:
        return None
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value < math.inf:
        raise ParameterError(f"max_seconds must be None or a number of at least 0, not {value!r}")
    return float(value)


def folder(name: str, value: Any) -> Any:
    """A path, or None; the empty one would be the folder that one happens to be in."""
    if value is None or (isinstance(value, str | os.PathLike) and str(value)):
        return value
    raise ParameterError(f"{name} must be None or the path of a folder, not {value!r}")


def progress(value: Any) -> bool | Progress | None:
    """Whether bars are shown, or what shows them."""
    if value is None or isinstance(value, bool | Progress):
        return value
    raise ParameterError(f"progress must be None, True, False or a Progress, not {value!r}")


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """A word, or a truth value, of a list."""
    if not isinstance(value, bool | str) or value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def is_auto(value: Any) -> bool:
    """Whether a parameter is left open."""
    return isinstance(value, str) and value == "auto"


def chosen(name: str, value: Any, known: dict[str, Any]) -> Any:
    """Settings as given, or the defaults of the kind that a string names."""
    if isinstance(value, tuple(known.values())):
        return value
    if not isinstance(value, str) or value not in known:
        words = ", ".join(map(repr, known))
        objects = ", ".join(f"{kind.__name__}(...)" for kind in known.values())
        raise ParameterError(f"{name}={value!r} is not known; use {words}, or settings: {objects}")
    return known[value]()


def named(name: str, value: Any, kind: Any, known: dict[str, Any], others: tuple[str, ...] = ()) -> Any:
    """A kernel or likelihood as given, or that of a name; ``others`` have no defaults, and so no name."""
    if value is None or isinstance(value, kind):
        return value
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]()
    kinds = ", ".join(f"{each}(...)" for each in (*(each.__name__ for each in known.values()), *others))
    raise ParameterError(
        f"{name}={value!r} is not known; use one of streamgp.{name}s: {kinds}, or a name: "
        f"{', '.join(map(repr, known))}"
    )
