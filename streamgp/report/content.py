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


def number(value: Any) -> str:
    """A number of four digits for people; a dash where there is none."""
    if value is None or not np.isfinite(value):
        return "–"
    return f"{value:.4g}".replace("-", "−")
