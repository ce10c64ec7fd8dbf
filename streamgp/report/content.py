"""What a page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """A drawing and its caption; ``wide`` takes the whole width of the page."""

    drawing: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A table and its caption; the first row is its heading."""

    rows: Sequence[Sequence[Any]]
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, sentences, tables and figures."""

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


def number(value: Any, digits: int = 4) -> str:
    """A number of so many digits for people; a dash where there is none."""
    return _told(value, f".{digits}g")


def fixed(value: Any, places: int = 4) -> str:
    """A number of so many decimal places: in a column they stand below each other."""
    return _told(value, f".{places}f")


def _told(value: Any, form: str) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return format(value, form).replace("-", "−")
