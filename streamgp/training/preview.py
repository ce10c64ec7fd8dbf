"""What a fit would do: its recipe and its memory, from a look at a few spans of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.data import Rows
from streamgp.data.targets import Task, n_heads
from streamgp.settings import FitSettings
from streamgp.training.fit import plan_fit, traits_of
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import prepare
from streamgp.training.problem import pass_settings
from streamgp.training.recipe import compose
from streamgp.training.stage import describe

LOOKS = 8
"""Spans that are looked at, evenly spread: rows of a store may be sorted."""


class Preview(NamedTuple):
    """The shape of the data, the stages of the fit in words, and where its memory goes."""

    rows: int
    features: int
    recipe: str
    memory: MemoryPlan


def preview(rows: Rows, task: Task, settings: FitSettings) -> Preview:
    """The recipe and the plan of a fit; classes that the spans looked at do not show are not counted."""
    memory = plan_fit(rows, settings)
    cut = rows.cut(memory.span_rows)
    spans = list(cut.spans())
    few = [spans[place] for place in np.unique(np.linspace(0, len(spans) - 1, LOOKS).round().astype(int))]
    prepared = prepare(cut, task, settings.standardize, pass_settings(memory, settings), few)
    heads = n_heads(prepared.targets)
    if heads > 1:
        memory = plan_fit(rows, settings, heads)
    recipe = describe(compose(settings, traits_of(prepared, memory)))
    return Preview(rows.n_rows, rows.n_features, recipe, memory)
