"""Figures as inline SVG: each a function from numbers to a string.

Colours are the page's CSS variables, so that one figure serves light, dark and paper. Figures are small:
two stand side by side on a screen, one fills a phone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from streamgp.arrays import Array, FloatArray
from streamgp.report.effects import Move

# Placeholders that matplotlib accepts as colours, and the variables of the page that replace them.
INK, MUTED, GRID = "#010101", "#020202", "#030303"
FIRST, SECOND, THIRD, FOURTH, FIFTH = SERIES = ("#040404", "#050505", "#060606", "#070707", "#080808")
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
    FOURTH: "var(--fourth)",
    FIFTH: "var(--fifth)",
}
STYLE = {
    "font.size": 8.5,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}
SIZE = (3.5, 2.9)
LEAST_WRITTEN = 0.005
"""Share of a true class below which no number is written among many classes."""
FEWEST_GROUPED = 10
"""Rows of a group at least, of which a share is told."""
FEWEST_KEPT = 50
"""Rows below which their error is not drawn: it would be noise."""
MOST_CURVES = 5
"""Classes that have a curve of their own: as many as there are colours."""

Draw = Callable[[Any], None]


def svg(name: str, draw: Draw, size: tuple[float, float] = SIZE, panels: dict[str, Any] | None = None) -> str:
    """A figure as SVG for a page; ``name`` keeps the identifiers of several figures apart."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=size)
        FigureCanvasSVG(figure)
        draw(figure.subplots(**(panels or {})))
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    found = text.getvalue()
    found = found[found.index("<svg") :]
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.S)
    found = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", found)
    for placeholder, variable in VARIABLES.items():
        found = found.replace(placeholder, variable)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', f'role="img" aria-label="{name}"', found, count=1)


def reliability(table: FloatArray) -> str:
    """Confidence against the share of correct rows, above a histogram of confidence."""
    seen = table[:, 2] >= min(FEWEST_GROUPED, table[:, 2].max())
    confidence, correct, rows = table[seen].T
    edges = np.linspace(0, 1, len(table) + 1)
    low = edges[:-1][seen][0]

    def draw(axes: Any) -> None:
        top, bottom = axes
        error = np.abs(_wilson(correct, rows) - correct)
        top.plot([low, 1], [low, 1], color=MUTED, linewidth=0.9, linestyle="--")
        top.errorbar(
            confidence, correct, error, color=FIRST, marker="o", markersize=3.5, linewidth=1.0, elinewidth=0.8
        )
        top.set(ylabel="share correct", ylim=(max(-0.02, min(low, correct.min()) - 0.05), 1.03))
        bottom.bar(edges[:-1][seen], rows, width=1 / len(table), align="edge", color=FIRST, linewidth=0)
        bottom.set(xlabel="confidence of the predicted class", ylabel="rows", xlim=(low - 0.01, 1.01))
        bottom.yaxis.set_major_formatter(lambda value, place: f"{value:,.0f}")

    panels = {"nrows": 2, "sharex": True, "height_ratios": [3, 1]}
    return svg("Reliability diagram", draw, (3.5, 3.4), panels)


def _wilson(share: FloatArray, rows: FloatArray, deviations: float = 1.96) -> FloatArray:
    """Wilson's interval of a share that was seen in so many rows: also right near 0 and 1.  Shape: (2, g)."""
    square = deviations**2
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    reach = deviations / (1 + square / rows) * np.sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    return np.stack([middle - reach, middle + reach])


def rejection(curve: FloatArray, rows: int) -> str:
    """Error of the rows that are kept when the least confident are rejected."""
    many = curve[(1 - curve[:, 0]) * rows >= min(rows, FEWEST_KEPT)]

    def draw(axes: Any) -> None:
        axes.plot(100 * many[:, 0], 100 * many[:, 1], color=FIRST)
        axes.set(xlabel="rejected rows (%)", ylabel="error of the other rows (%)", xlim=(0, 100))
        axes.set_ylim(bottom=0)

    return svg("Rejection curve", draw, (3.5, 3.4))


def curves(
    name: str, found: Sequence[tuple[str, FloatArray]], labels: tuple[str, str], level: float | None = None
) -> str:
    """ROC or precision-recall curves, one for each name; ``level``: that of guessing, None: the diagonal."""

    def draw(axes: Any) -> None:
        chance = [0, 1] if level is None else [level, level]
        axes.plot([0, 1], chance, color=MUTED, linewidth=0.9, linestyle="--")
        for (label, points), colour in zip(found, SERIES, strict=False):
            axes.plot(*_thinned(points).T, color=colour, label=label)
        axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(-0.01, 1.01), ylim=(-0.01, 1.03))
        axes.legend(loc="lower right" if level is None else "lower left", fontsize=7.5)

    return svg(name, draw)


def _thinned(points: FloatArray, most: int = 400) -> FloatArray:
    """As many points as a figure can show."""
    places = np.unique(np.linspace(0, len(points) - 1, most).round().astype(int))
    thinned: FloatArray = points[places]
    return thinned


def confusion(counts: Array, names: Sequence[str]) -> str:
    """Share of each true class that was called each class; counts are written where they fit."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    k = len(names)

    def draw(axes: Any) -> None:
        axes.grid(visible=False)
        for row, column in np.argwhere(counts > 0):
            share = float(shares[row, column])
            _tile(axes, (column - 0.5, row - 0.5), 1, 0.6 * share)
            if k <= 6 or (k <= 12 and share >= LEAST_WRITTEN):
                text = f"{100 * share:.0f}" if k > 6 else f"{counts[row, column]:,}\n{100 * share:.1f} %"
                axes.text(column, row, text, ha="center", va="center", fontsize=8 if k <= 6 else 6.5)
        axes.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5), xlabel="predicted class", ylabel="true class")
        axes.set_xticks(range(k), names, rotation=0 if k <= 10 else 90)
        axes.set_yticks(range(k), names)
        axes.spines[:].set_visible(True)

    return svg("Confusion matrix", draw, (3.5, 3.2))


def _tile(axes: Any, corner: tuple[float, float], side: float, depth: float) -> None:
    axes.add_patch(Rectangle(corner, side, side, color=FIRST, alpha=depth, linewidth=0))


def plane(counts: Array, low: float, high: float) -> str:
    """Predictions against targets, as a density of rows."""
    edges = np.linspace(low, high, len(counts) + 1)
    depth = np.log1p(counts) / np.log1p(counts.max())

    def draw(axes: Any) -> None:
        width = edges[1] - edges[0]
        for row, column in np.argwhere(counts > 0):
            _tile(axes, (edges[row], edges[column]), width, float(depth[row, column]))
        used = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
        span = (edges[used[0]], edges[used[-1] + 1])
        axes.plot(span, span, color=MUTED, linewidth=0.9, linestyle="--")
        axes.set(xlabel="predicted", ylabel="target", xlim=span, ylim=span)

    return svg("Predictions and targets", draw)


def coverage(masses: Sequence[float], shares: Sequence[float]) -> str:
    """Share of targets inside central intervals against the mass of the intervals."""

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle="--")
        axes.plot(masses, shares, color=FIRST)
        axes.set(
            xlabel="mass of the central interval",
            ylabel="share of targets inside",
            xlim=(0, 1),
            ylim=(0, 1.02),
        )

    return svg("Coverage of intervals", draw)


def masses(rows: Array, bins: int = 20) -> str:
    """Histogram of the predictive distribution function at the targets; flat where it is right."""
    share = 100 * rows.reshape(bins, -1).sum(axis=1) / rows.sum()

    def draw(axes: Any) -> None:
        axes.bar(np.arange(bins) / bins, share, width=1 / bins, align="edge", color=FIRST, linewidth=0)
        axes.axhline(100 / bins, color=MUTED, linewidth=0.9, linestyle="--")
        axes.set(xlabel="predictive distribution function at the target", ylabel="rows (%)", xlim=(0, 1))

    return svg("Residuals on the scale of the predictions", draw)


def bars(name: str, labels: Sequence[str], values: Sequence[float], axis: str) -> str:
    """Horizontal bars, the first on top."""

    def draw(axes: Any) -> None:
        axes.barh(range(len(values)), values, color=FIRST, height=0.7, linewidth=0)
        axes.set_yticks(range(len(values)), [_short(label) for label in labels])
        axes.set(xlabel=axis, ylim=(len(values) - 0.4, -0.6))
        axes.grid(visible=False, axis="y")

    return svg(name, draw, (3.5, max(1.3, 0.75 + 0.22 * len(values))))


def effect(move: Move, middle: FloatArray, band: FloatArray, axis: str) -> str:
    """Mean prediction at each point of a move, with the band of most rows.  Shapes: (g,), (2, g)."""
    grid = move.grid

    def draw(axes: Any) -> None:
        if len(grid) > 2:
            axes.fill_between(grid, *band, color=FIRST, alpha=0.22, linewidth=0)
            axes.plot(grid, middle, color=FIRST)
        else:
            axes.errorbar(
                grid, middle, np.abs(band - middle), color=FIRST, marker="o", linestyle="", capsize=3
            )
            axes.set_xticks(grid)
            axes.margins(x=0.4)
        axes.set(xlabel=_short(move.axis, 40), ylabel=_short(axis))

    return svg(f"Effect of {move.name}", draw, (3.5, 2.3))


def steps(name: str, found: dict[str, list[tuple[int, float]]], axis: str) -> str:
    """A value of each step (number and value), one colour a stage."""

    def draw(axes: Any) -> None:
        for (stage, points), colour in zip(found.items(), SERIES * len(found), strict=False):
            axes.plot(
                *np.transpose(points), color=colour, marker="o", markersize=3, linewidth=1.1, label=stage
            )
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="step", ylabel=axis)
        axes.legend(fontsize=7)

    return svg(name, draw)


def images(pictures: Array, titles: Sequence[str], columns: int = 6) -> str:
    """Pictures in a grid.  Shape: (count, side, side)."""
    rows = -(-len(pictures) // columns)

    def draw(axes: Any) -> None:
        for place, panel in enumerate(np.ravel(axes)):
            panel.axis("off")
            if place < len(pictures):
                panel.imshow(pictures[place], cmap="gray", interpolation="nearest")
                panel.set_title(titles[place], fontsize=7, pad=2)

    return svg(
        "Active rows", draw, (7.2, 1.25 * rows + 0.1), {"nrows": rows, "ncols": columns, "squeeze": False}
    )


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
