"""How predictions follow a feature, or the two features that are the time of a day, a week or a year."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.report.facts import names_of

EFFECTS = 6
"""Effects that are shown."""
EFFECT_ROWS = 100
EFFECT_POINTS = 21
MOST_EFFECTS = 40
"""Features up to which effects are compared to find the largest, where no relevance is known."""
LEAST_RELEVANCE = 0.02
"""Of the largest: along less relevant features predictions do not change."""
CYCLES = {
    "day": (24.0, "hour of the day"),
    "week": (7.0, "day of the week (0: Monday)"),
    "year": (365.0, "day of the year"),
}
"""Length of a cycle, and what its axis is called."""


class Move(NamedTuple):
    """What is changed: features, by values at each point of a grid.  Shapes: grid (g,), values (g, features).

    ``axis`` is what the grid counts, with its unit where it has one.
    """

    name: str
    axis: str
    features: tuple[int, ...]
    grid: FloatArray
    values: FloatArray


class Effect(NamedTuple):
    """How predictions follow a move: their mean over rows, and the band of the middle 80 % of the rows.

    ``of`` says what is predicted.  Shapes: middle (g,), band (2, g).
    """

    move: Move
    of: str
    middle: FloatArray
    band: FloatArray

    @property
    def reach(self) -> float:
        """How far the mean prediction moves."""
        return float(np.ptp(self.middle))


def largest_effects(model: Any, rows: Array | None, known: FloatArray | None) -> list[Effect]:
    """Effects of the most relevant features, or of those that move predictions most."""
    if rows is None or not len(rows):
        return []
    rows = np.asarray(rows, np.float64)[:EFFECT_ROWS]
    found = moves(names_of(model), _cycles(model), rows)
    if known is not None:
        weight = {move.features: float(known[list(move.features)].max()) for move in found}
        found = [move for move in found if weight[move.features] >= LEAST_RELEVANCE]
        found = sorted(found, key=lambda move: -weight[move.features])[:EFFECTS]
    elif len(found) > MOST_EFFECTS:
        return []
    effects = _effects(model, rows, found)
    return effects if known is not None else sorted(effects, key=lambda effect: -effect.reach)[:EFFECTS]


def moves(names: Sequence[str], cycles: dict[str, str], rows: FloatArray) -> list[Move]:
    """A move for each feature that differs between rows; sine and cosine of a cycle move together."""
    found, places = [], {name: place for place, name in enumerate(names)}
    together: set[int] = set()
    for name, cycle in cycles.items():
        pair = places.get(f"{name} sin"), places.get(f"{name} cos")
        if pair[0] is not None and pair[1] is not None:
            move = _around(name, cycle, (pair[0], pair[1]), rows)
            found += [move] if move else []
            together |= {pair[0], pair[1]}
    for place, name in enumerate(names):
        values = np.unique(rows[:, place])
        if place not in together and len(values) > 1:
            grid = values if len(values) <= 2 else _spread(values)
            found.append(Move(name, name, (place,), grid, grid[:, None]))
    return found


def _around(name: str, cycle: str, pair: tuple[int, int], rows: FloatArray) -> Move | None:
    """The part of a cycle that rows are in; a week has whole days."""
    sine, cosine = rows[:, pair[0]], rows[:, pair[1]]
    seen = np.hypot(sine, cosine) > 0.5  # a missing date is in the middle of the circle
    length, axis = CYCLES[cycle]
    times = np.arctan2(sine[seen], cosine[seen]) / (2 * np.pi) % 1 * length
    if len(times) < 2 or np.ptp(times) == 0:
        return None
    grid = np.unique(np.rint(times) % length) if cycle == "week" else _spread(times)
    angle = 2 * np.pi * grid / length
    return Move(
        name, f"{name.removesuffix(cycle)}{axis}", pair, grid, np.stack([np.sin(angle), np.cos(angle)], 1)
    )


def _spread(values: FloatArray) -> FloatArray:
    low, high = np.quantile(values, [0.02, 0.98])
    return np.linspace(low, high, EFFECT_POINTS)


def _cycles(model: Any) -> dict[str, str]:
    """Names of the cycles that dates became, each with its kind."""
    recipe = model.model_.column_recipe or {"columns": ()}
    dates = [one for one in recipe["columns"] if one["kind"] == "date"]
    return {f"{one['column']} {cycle}": cycle for one in dates for cycle in one["cycles"]}


def _effects(model: Any, rows: FloatArray, found: Sequence[Move]) -> list[Effect]:
    """Predictions of all rows moved to each point, all else as it is; all moves in one call."""
    if not found:
        return []
    stacked = [_moved(rows, move) for move in found]
    classes = hasattr(model, "predict_proba")
    every = np.concatenate(stacked)
    table = model.predict_proba(every) if classes else model.predict(every)[:, None]
    effects, ends = [], np.cumsum([len(part) for part in stacked])
    for move, end, part in zip(found, ends, stacked, strict=True):
        here = table[end - len(part) : end].reshape(len(move.grid), len(rows), -1)
        of, column = "prediction", 0
        if classes:
            column = 1 if here.shape[2] == 2 else int(np.argmax(np.ptp(here.mean(axis=1), axis=0)))
            of = f"p({model.classes_[column]})"
        predicted = here[:, :, column]
        band = np.quantile(predicted, [0.1, 0.9], axis=1)
        effects.append(Effect(move, of, predicted.mean(axis=1), band))
    return effects


def _moved(rows: FloatArray, move: Move) -> FloatArray:
    """All rows at each point of a move.  Shape: (points * rows, features)."""
    changed = np.repeat(rows[None], len(move.grid), axis=0)
    changed[:, :, list(move.features)] = move.values[:, None, :]
    return changed.reshape(-1, rows.shape[1])
