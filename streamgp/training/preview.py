"""What a fit would do: its recipe and its memory, from a look at a few spans of the rows.

Where a trial will decide, there is a line for every method that it may choose, and the memory of the dearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from streamgp.data import Rows
from streamgp.data.targets import Task, n_heads
from streamgp.settings import FitSettings
from streamgp.training.choices import Traits
from streamgp.training.fit_memory import plan_fit
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import no_label_of, prepare
from streamgp.training.problem import pass_settings
from streamgp.training.recipe import compose
from streamgp.training.stage import describe
from streamgp.training.trial import possible

LOOKS = 8
"""Spans that are looked at, evenly spread: rows of a store may be sorted."""


class Preview(NamedTuple):
    """The shape of the data, the stages of the fit in words, and where its memory goes.

    ``methods`` are the settings of all that may be chosen, by name.
    """

    rows: int
    features: int
    recipe: str
    memory: MemoryPlan
    methods: Mapping[str, FitSettings]


def preview(rows: Rows, task: Task, settings: FitSettings) -> Preview:
    """The recipe and the plan of a fit; classes that the spans looked at do not show are not counted."""
    is_open = settings.method_is_open or settings.size_is_open
    memory = plan_fit(rows, replace(settings, n_active=1, learning=False) if is_open else settings)
    cut = rows.cut(memory.span_rows)
    spans = list(cut.spans())
    few = [spans[place] for place in np.unique(np.linspace(0, len(spans) - 1, LOOKS).round().astype(int))]
    prepared = prepare(
        cut,
        task,
        settings.standardize,
        pass_settings(memory, settings),
        few,
        no_label_of(settings.likelihood),
    )
    planned = partial(plan_fit, rows, heads=n_heads(prepared.targets))
    options = possible(prepared, settings, planned)
    recipes = {
        name: describe(compose(one, Traits.of(prepared, planned(one)))) for name, one in options.items()
    }
    dearest = max((planned(one) for one in options.values()), key=lambda plan: plan.total_bytes)
    words = "\n".join(f"{name}: {recipe}" if len(recipes) > 1 else recipe for name, recipe in recipes.items())
    return Preview(rows.n_rows, rows.n_features, words, dearest, options)
