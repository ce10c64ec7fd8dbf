"""Sections about what was learned and what it cost: features, active rows, the fit, its stages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.budget import format_size
from streamgp.report import figures
from streamgp.report.content import Figure, Section, Table, number
from streamgp.report.effects import EFFECT_ROWS, Effect
from streamgp.report.facts import names_of
from streamgp.training.history import active_points, by_stage, held_out_log_density, log_evidence

MOST_BARS = 20
SHOWN_ROWS = 10
SHOWN_IMAGES = 24
SHOWN_COLUMNS = 5
SMALLEST_SIDE = 8
"""Pixels of an image's side at least: fewer features that are a square number are so by chance."""


def features(model: Any, known: FloatArray | None, effects: Sequence[Effect], n_rows: int) -> Section:
    """What single features do: relevance by lengthscale, and effects on predictions."""
    names, drawn, sentences = names_of(model), [], []
    if known is None:
        sentences.append(
            "The kernel has one scale for all features, so lengthscales say nothing about single ones."
        )
    else:
        order = np.argsort(-known, kind="stable")[:MOST_BARS]
        more = "" if len(known) <= MOST_BARS else f" The first {MOST_BARS} of {len(known)}."
        drawn.append(
            Figure(
                figures.bars(
                    "Relevance", [names[place] for place in order], known[order].tolist(), "relevance"
                ),
                "Relevance: one over the lengthscale of each feature, in standard deviations of the feature, "
                f"divided by the largest. Predictions change fastest along relevant features.{more}",
            )
        )
    drawn += [
        Figure(
            figures.effect(effect.move, effect.middle, effect.band, effect.of),
            f"Effect of {effect.move.axis} on {effect.of}.",
        )
        for effect in effects
    ]
    if effects:
        sentences.append(
            f"Effects: the mean prediction over {min(n_rows, EFFECT_ROWS)} rows in which only what is named "
            "is changed. The band holds the middle 80 % of the rows."
        )
    else:
        sentences.append("Effects of single features are not shown: there are too many, or no rows to vary.")
    return Section("Features", sentences, figures=drawn)


def active(model: Any, known: FloatArray | None, effects: Sequence[Effect], inputs: Array | None) -> Section:
    """The inputs that the model keeps: images where features form one, else a table."""
    title = "Active rows"
    if inputs is None or not len(inputs):
        return Section(
            title, ["This model keeps its rows in blocks of near ones: none teaches more than others."]
        )
    numbers = model.active_rows_
    rows = len(numbers) == len(inputs)
    text = f"The model keeps {len(inputs):,} " + (
        "rows of the store. Those that entered first are shown: where the selection is greedy, they were the "
        "ones that taught most."
        if rows
        else "inputs that stand for all rows, such as centres of clusters. Some are shown."
    )
    shown = _first_of_each(model, len(inputs))
    side = int(np.sqrt(inputs.shape[1]))
    is_image = side * side == inputs.shape[1] and side >= SMALLEST_SIDE and known is None
    if is_image and not hasattr(model, "feature_names_in_"):
        chosen = shown[:SHOWN_IMAGES]
        pictures = inputs[chosen].reshape(-1, side, side)
        titles = [f"row {numbers[place]}" if rows else f"input {place}" for place in chosen]
        return Section(
            title, [text], figures=[Figure(figures.images(pictures, titles), "Active rows as images.", True)]
        )
    moved = [feature for effect in effects for feature in effect.move.features]
    columns, names = (moved or range(inputs.shape[1]))[:SHOWN_COLUMNS], names_of(model)
    shown = [shown[place] for place in _evenly(len(shown), SHOWN_ROWS)] if not rows else shown[:SHOWN_ROWS]
    said = _said(model, inputs[shown])
    table = [
        (
            f"{numbers[place]:,}" if rows else place,
            *(number(inputs[place, column], 3) for column in columns),
            said[row],
        )
        for row, place in enumerate(shown)
    ]
    heading = ("row" if rows else "input", *(names[column] for column in columns), "prediction")
    which = "those that predictions follow most" if moved else "the first ones"
    every = len(columns) == inputs.shape[1]
    caption = "Active rows." if every else f"Active rows. Of the features, {which}."
    return Section(title, [text], [Table([heading, *table], caption)])


def _first_of_each(model: Any, count: int) -> list[int]:
    """Places of active rows, the first of every class, then the second of every class, and so on."""
    if not len(model.active_rows_):  # centres, in no order of worth: some from everywhere
        return _evenly(count, SHOWN_IMAGES)
    starts = getattr(model, "active_starts_", None) or [0]
    sizes = np.diff([*starts, count])
    pairs = [(rank, start + rank) for start, size in zip(starts, sizes, strict=True) for rank in range(size)]
    return [place for _, place in sorted(pairs)]


def _evenly(count: int, most: int) -> list[int]:
    """At most so many places out of ``count``, from the first to the last."""
    places: list[int] = np.unique(np.linspace(0, count - 1, most).round().astype(int)).tolist()
    return places


def _said(model: Any, inputs: Array) -> list[str]:
    if not hasattr(model, "predict_proba"):
        return [number(value) for value in model.predict(inputs)]
    table = model.predict_proba(inputs)
    best = table.argmax(axis=1)
    return [f"{model.classes_[place]} ({row[place]:.2f})" for place, row in zip(best, table, strict=True)]


def fit(model: Any) -> Section:
    """What was fitted, and how."""
    about, given = model.about_, model.get_params(deep=False)
    facts = [
        ("recipe", model.recipe_),
        ("features", f"{model.n_features_in_}"),
        ("kernel", _clipped(model.kernel_)),
        ("likelihood", _likelihood(model.likelihood_)),
        (
            "active rows" if len(model.active_rows_) else "inducing inputs",
            f"{active_points(model.history_):,}",
        ),
    ]
    if about:
        facts += [
            ("training rows", f"{about['rows']:,}, of them {about['held_out_rows']:,} held out"),
            (
                "memory budget",
                f"{format_size(about['memory_budget'])}, planned {format_size(about['planned_memory'])}",
            ),
            ("time", f"{about['seconds']:.1f} s, of them {about['pass_seconds']:.1f} s in passes over rows"),
            ("rows read", f"{about['rows_read']:,}"),
            ("versions", ", ".join(f"{name} {number}" for name, number in about["versions"].items())),
        ]
    hidden = ("client", "progress", "checkpoint", "scratch", "kernel", "likelihood")
    asked = ", ".join(f"{name}={value!r}" for name, value in given.items() if name not in hidden)
    what = Table([("", ""), *facts, ("parameters", asked)], "What was fitted, and how.")
    return Section("The fit", tables=[what, *_tried(model.history_)])


def _tried(history: Sequence[dict[str, Any]]) -> list[Table]:
    caption = "Methods that were tried on a sample, and the log loss that each gave to rows it had not seen."
    heading = ("method", "log loss (nats)")
    return [
        Table([heading, *((name, number(loss)) for name, loss in _losses(entry).items())], caption)
        for entry in history
        if entry.get("log_losses")
    ]


def _losses(entry: dict[str, Any]) -> dict[str, float]:
    """Log losses by method, and that of their average where the fit is one."""
    weights = entry.get("weights")
    if not weights:
        return dict(entry["log_losses"])
    shares = ", ".join(f"{weight:.2f} {name}" for name, weight in weights.items())
    return {**entry["log_losses"], f"the average that is used ({shares})": entry["average"]}


def learning(history: Sequence[dict[str, Any]]) -> Section:
    """Evidence and log density of held-out rows, step by step."""
    drawn = []
    for name, read, axis, caption in (
        (
            "Log density of held-out rows",
            held_out_log_density,
            "log density (nats a row)",
            "Mean log density of rows that the step did not learn from. Stages judge by rows of their own, "
            "so heights compare within a stage.",
        ),
        (
            "Evidence",
            log_evidence,
            "log evidence (nats)",
            "Log evidence of each step of the stages that have one.",
        ),
    ):
        by_name: dict[str, list[tuple[int, float]]] = {}
        for step, entry in enumerate(history):
            value = read(entry)
            if value is not None and np.isfinite(value):
                by_name.setdefault(entry["stage"], []).append((step, value))
        if max(map(len, by_name.values()), default=0) > 1:
            drawn.append(Figure(figures.steps(name, by_name, axis), caption))
    said = (
        []
        if drawn
        else [
            "No stage of this fit has an evidence, or a log density of held-out rows, of more than one step."
        ]
    )
    return Section("Learning", said, figures=drawn)


def cost(model: Any) -> Section:
    """Seconds, rows read and memory of each stage."""
    stages = [stage for stage in by_stage(model.history_) if stage["seconds"]]
    if not stages:
        return Section("Cost", ["This model has no history."])
    names = [stage["stage"] for stage in stages]
    table = [
        (
            stage["stage"],
            stage["steps"],
            f"{stage['seconds']:.1f}",
            f"{stage['rows_read']:,}",
            format_size(stage["peak_memory_bytes"]) if stage["peak_memory_bytes"] else "–",
        )
        for stage in stages
    ]
    known = [stage for stage in stages if stage["peak_memory_bytes"]]
    memory = [stage["peak_memory_bytes"] / 2**20 for stage in known]
    return Section(
        "Cost",
        tables=[
            Table([("stage", "steps", "seconds", "rows read", "peak memory"), *table], "Stages of the fit.")
        ],
        figures=[
            Figure(
                figures.bars("Seconds", names, [stage["seconds"] for stage in stages], "seconds"),
                "Time of each stage.",
            ),
            Figure(
                figures.bars("Memory", [stage["stage"] for stage in known], memory, "peak memory (MiB)"),
                "Largest resident memory of the process up to the end of each stage, libraries included.",
            ),
        ],
    )


def _likelihood(found: Any) -> str:
    """One, or one for each latent function; those that are alike once."""
    several = dict.fromkeys(map(_clipped, found if isinstance(found, tuple) else (found,)))
    return _clipped_text(", ".join(several))


def _clipped(value: Any, most: int = 300) -> str:
    """A value in words, its numbers with four digits, clipped."""
    text = re.sub(r"\d+\.\d{4,}(e[+-]?\d+)?", lambda match: f"{float(match[0]):.4g}", repr(value))
    return _clipped_text(text, most)


def _clipped_text(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
