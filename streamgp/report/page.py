"""The page: sections made of what a model offers; one that it does not have is a sentence that says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamgp.arrays import Array
from streamgp.passes.scores import ClassScore, RealScore
from streamgp.persistence.atomic import replace_text
from streamgp.report import learned, scored
from streamgp.report.effects import largest_effects
from streamgp.report.facts import relevance


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    score: ClassScore | RealScore | None = None,
    rows: tuple[Array, Array] | None = None,
) -> None:
    """Write one page about a fitted model to ``path``, with its score and a sample of the rows scored."""
    known = relevance(model.kernel_, model.n_features_in_)
    inputs = getattr(model, "active_inputs_", None)
    shown = inputs if rows is None else rows[0]
    effects = largest_effects(model, shown, known)
    sections = [
        scored.scores(model, score, rows),
        *([] if score is None else scored.judged(score)),
        learned.features(model, known, effects, 0 if shown is None else len(shown)),
        learned.active(model, known, effects, inputs),
        learned.fit(model),
        learned.learning(model.history_),
        learned.cost(model),
    ]
    environment = Environment(
        loader=PackageLoader("streamgp.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        title=_title(model), lead=_lead(model, score), sections=sections, numbers=_Numbers()
    )
    replace_text(Path(path), page)


class _Numbers:
    """Counts the figures and tables of a page."""

    def __init__(self) -> None:
        self.figure = self.table = 0

    def next_figure(self) -> int:
        """The number of the next figure."""
        self.figure += 1
        return self.figure

    def next_table(self) -> int:
        """The number of the next table."""
        self.table += 1
        return self.table


def _title(model: Any) -> str:
    classes, recipe = getattr(model, "classes_", None), model.model_.column_recipe
    what = "A regression model" if classes is None else f"A model of {len(classes)} classes"
    return what if recipe is None else f"{what}: {recipe['target']['column']}"


def _lead(model: Any, score: Any) -> str:
    rows = model.about_.get("rows")
    learned = "" if rows is None else f" learned from {rows:,} rows"
    text = f"A Gaussian process of {model.n_features_in_} features{learned}."
    if isinstance(score, ClassScore):
        text += (
            f" Of {score.rows:,} rows that were scored it calls {100 * score.error:.2f} % wrongly; always"
            f" naming the largest class would be wrong for {100 * score.baseline.error:.2f} %."
        )
    elif isinstance(score, RealScore):
        text += (
            f" On {score.rows:,} rows that were scored its root mean squared error is {score.rmse:.4g};"
            f" always naming the mean would give {score.baseline.error:.4g}."
        )
    return text
