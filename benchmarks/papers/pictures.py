"""The papers' tables and figures, made of recorded rows: ``python -m benchmarks.papers.pictures``.

Pictures go to ``docs/papers/`` and into the page of their paper there, a table of what was measured beside
the papers' numbers into ``benchmarks/README.md``, between their marks. Nothing is fitted but the xor problem
of figure 1 of [FITC2007].
Of rows measured again the last ones count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Row, means
from benchmarks.papers.fitc_xor import draw as draw_xor
from benchmarks.papers.tables import rows_with, write_commands, write_tables
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.settings import FITC

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "papers"
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- papers: begin -->", "<!-- papers: end -->"
FIGURES_BEGIN, FIGURES_END = "<!-- figures: begin -->", "<!-- figures: end -->"
PAGES = ("ivm", "passgp", "fitc")
"""Pages of papers; a picture belongs to the page with which its name begins."""
COLOURS = ("#d1495b", "#2b8cbe", "#41a05a", "#f0892b", "#8c6bb1", "#7a7a7a", "#c51b8a", "#b8860b")
INK = "#808080"
"""Grey that can be read on white and on black."""
Curve = dict[str, tuple[Sequence[float], Sequence[float]]]


class Panel(NamedTuple):
    """Curves by name, what the axes are, and whether one is logarithmic."""

    title: str
    curves: Curve
    across: str
    up: str


def curves(rows: Sequence[Row], by: str, across: str, up: str) -> Curve:
    """One curve for each value of a column; at equal places the last row counts."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if row.get(across) is not None and row.get(up) is not None:
            found.setdefault(str(row.get(by)), {})[row[across]] = row[up]
    return {name: (sorted(points), [points[x] for x in sorted(points)]) for name, points in found.items()}


def _reject() -> list[Panel]:
    found: Curve = {}
    for name, column in (("IVM", "error_percent"), ("SVM", "svm_error_percent")):
        rows = [{**row, "who": name} for row in rows_with("reject_curve", digit=9, features=169)]
        found |= curves(rows, "who", "rejected", column)
    return [Panel("MNIST 9, 13 × 13", found, "share rejected", "error of the rest (%)")]


def _strategies() -> list[Panel]:
    rows = rows_with("ivm2006_figure1", paper_units=True)
    columns = {"criterion": "criterion", "error_percent": "test error (%)", "log_loss": "test log loss"}
    return [Panel("", curves(rows, "strategy", "round", name), "round", up) for name, up in columns.items()]


def _by_digit(name: str, **wanted: Any) -> list[Row]:
    """A row for each digit of the rows about all ten."""
    return [
        {"method": row["method"], "digit": digit, "error_percent": error, "active": active}
        for row in rows_with(name, **wanted)
        for digit, (error, active) in enumerate(
            zip(row["binary_error_percent"], row.get("active_by_class", row["active"]), strict=True)
        )
    ]


def _digits() -> list[Panel]:
    def is_shown(row: Row) -> bool:
        return row["method"] == "full" or row.get("p_inc") == 0.6 or row["active"] == 300

    rows = [row for row in rows_with("passgp_figure2") if is_shown(row)]
    rows = rows if len({row["digit"] for row in rows}) == 10 else []
    rows += _by_digit(
        "passgp_usps", fold=None, seed=0
    )  # older lines have the sizes of all digits in "active"
    by_threshold = [row for row in rows if row["method"].startswith("pass")]
    return [
        Panel("USPS", curves(rows, "method", "digit", "error_percent"), "digit", "error (%)"),
        Panel("", curves(by_threshold, "method", "digit", "active"), "digit", "active rows"),
    ]


def _mnist_digits() -> list[Panel]:
    rows = _by_digit("passgp_mnist", fold=None)
    return [
        Panel("MNIST", curves(rows, "method", "digit", "error_percent"), "digit", "error (%)"),
        Panel("", curves(rows, "method", "digit", "active"), "digit", "active rows"),
    ]


def _sizes_and_seconds() -> list[Panel]:
    panels = []
    for digit in (2, 4):
        rows = rows_with("passgp_figure2", digit=digit)
        for across, words in (("active", "active rows"), ("seconds", "seconds")):
            found = curves(rows, "method", across, "error_percent")
            panels.append(Panel(f"USPS {digit}", found, words, "error (%)"))
    return panels


def _evidence() -> list[Panel]:
    names = ("z_active", "z_app", "z_acc", "z_full")
    rows = [row for row in rows_with("passgp_evidence", digit=3, rows=3000) if "z_full" in row]
    last = {(row["p_inc"], row["seed"]): row for row in rows}
    thresholds = sorted({threshold for threshold, _ in last})
    averages = [
        means([row for (threshold, _), row in last.items() if threshold == wanted], "active", *names)
        for wanted in thresholds
    ]
    found: Curve = {}
    for name in names:
        found |= curves([{**row, "who": name} for row in averages], "who", "active", name)
    seeds = len(last) // max(1, len(thresholds))
    return [Panel(f"USPS 3, means of {seeds} seeds", found, "active rows", "log evidence")]


def _densities() -> list[Panel]:
    panels = []
    for column, title in (("density_correct", "correct"), ("density_incorrect", "incorrect")):
        found: Curve = {}
        for row in rows_with("passgp_usps", fold=None):
            values = np.asarray(row.get(column) or [])
            if values.size:
                middle = (np.arange(values.size) + 0.5) / values.size
                found[row["method"]] = (middle.tolist(), np.log(np.maximum(values, 1e-4)).tolist())
        panels.append(Panel(title, found, "P(+1)", "log density"))
    return panels


def _literal_ijcnn() -> list[Panel]:
    rows = [
        {**row, "who": f"{row['method']}, γ = {row.get('gamma', 4.0):g}{', bias' * bool(row.get('bias'))}"}
        for row in rows_with("passgp_ijcnn", learned=False)
        if row["method"].startswith(("fpass", "ivm"))
    ]
    return [
        Panel("ijcnn1", curves(rows, "who", across, "error_percent"), words, "error (%)")
        for across, words in (("active", "active rows"), ("seconds", "seconds"))
    ]


def _xor() -> list[Panel]:
    found: Curve = {}
    for name in ("ivm", "fitc_on_ivm", "fitc"):
        rows = [{**row, "who": name} for row in rows_with("fitc_xor")]
        found |= curves(rows, "who", "rows", name)
    return [Panel("xor, an error of 15 %", found, "training rows", "active points")]


FIGURES: dict[str, tuple[str, Callable[[], list[Panel]]]] = {
    "ivm2003_figure1": ("figure 1 of [IVM2003]", _reject),
    "ivm2006_figure1": ("figure 1 of [IVM2006]", _strategies),
    "passgp_figure1": ("figure 1 of [PASS2012]", _digits),
    "passgp_figure2": ("figure 2 of [PASS2012]", _sizes_and_seconds),
    "passgp_figure3": ("figure 3 of [PASS2012]", _evidence),
    "passgp_figure4": ("figure 4 of [PASS2012]", _densities),
    "passgp_figure5": ("figure 5 of [PASS2012], digits against the rest", _mnist_digits),
    "passgp_figure6": ("figure 6 of [PASS2012], as printed (`-paper`) and the library's own", _literal_ijcnn),
    "fitc_figure1_left": ("figure 1 of [FITC2007], left", _xor),
}


def write_pictures() -> dict[str, str]:
    """A picture for every figure that has rows; what each shows, by its name."""
    drawn = {}
    for name, (about, panels) in FIGURES.items():
        found = [panel for panel in panels() if panel.curves]
        if found:
            _drawn(found, FOLDER / f"{name}.svg")
            drawn[name] = about
    _contours(FOLDER / "fitc_figure1_right.svg")
    return drawn | {"fitc_figure1_right": "figure 1 of [FITC2007], right (fitted when it is drawn)"}


def embedded(page: str, drawn: dict[str, str]) -> list[str]:
    """Markdown that shows the pictures of a page, each under what it is."""
    shown = {name: about for name, about in drawn.items() if name.startswith(page)}
    return [
        line
        for name, about in shown.items()
        for line in (f"{about[0].upper()}{about[1:]}:", "", f"![{_plain(about)}]({name}.svg)", "")
    ]


def _plain(about: str) -> str:
    """Without brackets, which end the words about a picture early where Markdown is read."""
    return about.translate(str.maketrans("", "", "[]"))


def replaced(text: str, begin: str, end: str, lines: Sequence[str]) -> str:
    """A text with other lines between two marks."""
    head, rest = text.split(begin)
    between = "\n".join(lines)
    return f"{head}{begin}\n{between}\n{end}{rest.split(end)[1]}"


def _drawn(panels: list[Panel], path: Path) -> None:
    figure, axes = _figure(len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        for colour, (name, points) in zip(COLOURS, panel.curves.items(), strict=False):
            axis.plot(*points, "o-", color=colour, label=name, markersize=3, linewidth=1.2)
        axis.set_title(panel.title, color=INK, fontsize=10)
        axis.set_xlabel(panel.across, color=INK, fontsize=8)
        axis.set_ylabel(panel.up, color=INK, fontsize=8)
    axes[0].legend(frameon=False, fontsize=7, labelcolor=INK)
    _saved(figure, path)


def _contours(path: Path) -> None:
    """Probabilities of the xor problem by FITC with four learned inducing inputs, which are marked."""
    X, y = draw_xor(np.random.default_rng(0), 200)
    model = StreamGPClassifier(
        4,
        selection="random",
        inference=FITC(residual=1.0, power=1.0, learn_inducing=True),
        kernel=RBF(10.0, 1.5),
        standardize=False,
        random_state=0,
    ).fit(X, y)
    line = np.linspace(-4.5, 4.5, 91)
    grid = np.column_stack([each.ravel() for each in np.meshgrid(line, line)])
    figure, [axis] = _figure(1)
    axis.scatter(*X.T, c=np.where(y, COLOURS[0], COLOURS[1]), s=4, alpha=0.6)
    shown = axis.contour(
        line, line, model.predict_proba(grid)[:, 1].reshape(91, 91), [0.1, 0.25, 0.5, 0.75, 0.9]
    )
    axis.clabel(shown, fontsize=6)
    axis.plot(*model.active_inputs_.T, "ko", markersize=5)
    _saved(figure, path)


def _figure(panels: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(3.2 * panels, 2.7), squeeze=False)
    for axis in axes.flat:
        axis.tick_params(colors=INK, which="both", labelsize=7)
        axis.grid(color=INK, alpha=0.25, linewidth=0.5)
        axis.patch.set_alpha(0)
        for spine in axis.spines.values():
            spine.set_color(INK)
    return figure, axes[0]


def _saved(figure: Any, path: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    figure.tight_layout()
    with matplotlib.rc_context({"svg.hashsalt": "streamgp"}):  # the same rows give the same file
        figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Write all pictures, the section of the README, and the pages that show the pictures."""
    drawn = write_pictures()
    links = [
        f"- {about}: [`docs/papers/{name}.svg`](../docs/papers/{name}.svg)" for name, about in drawn.items()
    ]
    lines = [*write_commands(), "", *links, *write_tables()]
    README.write_text(replaced(README.read_text(encoding="utf-8"), BEGIN, END, lines), encoding="utf-8")
    for page in PAGES:
        path = FOLDER / f"{page}.md"
        text = path.read_text(encoding="utf-8")
        path.write_text(
            replaced(text, FIGURES_BEGIN, FIGURES_END, embedded(page, drawn)[:-1]), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
