"""The papers' tables, made of recorded rows, and the command of each.

Of rows measured again the last ones count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.harness import Row, means
from benchmarks.record import recorded


def rows_with(name: str, **wanted: Any) -> list[Row]:
    """Rows of a benchmark whose columns have these values, in the order in which they were measured."""
    return [row for row in recorded(name) if all(row.get(key) == value for key, value in wanted.items())]


class Table(NamedTuple):
    """A table of recorded rows: columns that name a row, that say what came out, and the papers' numbers."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    shown: Callable[[Row], bool] = lambda row: True
    paper: tuple[str, ...] | None = None
    over: str | None = None
    """The key over whose values rows are averaged too."""
    means_alone: bool = False
    """Whether rows that are averaged are left out themselves."""
    merged: bool = False
    """Whether a row keeps what it does not say from the row before of that name: curves come one by one."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns; the papers' are named after ours where nothing else is said."""
        theirs = tuple(f"paper_{value}" for value in self.values) if self.paper is None else self.paper
        return *self.keys, *self.values, *theirs


BOTH = ("error_percent", "log_loss")
SPGPC = ("paper_spgpc_error", "paper_spgpc_log_loss", "paper_gpc_error", "paper_ivm_error")
TABLES: dict[str, Table] = {
    "ivm2003_table1": Table(("digit", "mode", "active"), ("error_percent", "svm_error_percent")),
    "reject_curve": Table(
        ("digit", "features", "rejected"),
        ("error_percent", "svm_error_percent"),
        lambda row: row.get("features") == 169 and row.get("rejected") in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        (),
    ),
    "ivm2006_table1": Table(
        ("digit", "mode", "active"),
        BOTH,
        lambda row: (
            row.get("mode") not in (None, "default") or row["digit"] in ("mean", "ten tasks", "one stream")
        ),
    ),
    "ivm2006_table2": Table(("digit", "active"), BOTH),
    "ivm2006_table3": Table(("pairs", "fold", "likelihood", "kernels"), BOTH),
    "virtual_rows": Table(
        ("set", "method", "first", "active", "seed"),
        BOTH,
        lambda row: "plain" in row and row.get("fold") is None,
        over="seed",
    ),
    "ivm2006_figure1": Table(
        ("paper_units", "strategy", "round"), BOTH, lambda row: row["round"] in (1, 5, 10, 15)
    ),
    "ivm2006_pumadyn": Table(
        ("split", "active", "succeeded"),
        ("mean_square_error", "spread", "log_loss"),
        lambda row: row["split"] == "mean" and "spread" in row,
    ),
    "passgp_figure2": Table(
        ("digit", "method", "p_inc", "seeds", "active"), ("error_percent", "deviation"), paper=()
    ),
    "passgp_evidence": Table(
        ("digit", "rows", "p_inc", "seed"),
        ("active", "z_active", "z_app", "z_acc", "z_full"),
        paper=(),
        over="seed",
        means_alone=True,
    ),
    "passgp_ijcnn": Table(
        ("gamma", "bias", "method", "active"),
        ("seeds", "error_percent", "deviation", "log_loss"),
        lambda row: row["learned"] is False and not row["validated"],
        (),
    ),
    "passgp_usps": Table(
        ("method", "p_inc", "seed"),
        ("active", *BOTH),
        lambda row: row["fold"] is None,
        ("paper_error_percent", "paper_deviation"),
        over="seed",
    ),
    "passgp_mnist": Table(("method", "active"), BOTH, paper=("paper_svm_error_percent",)),
    "fitc_table1": Table(
        ("set", "active", "splits", "starts"), ("error", "log_loss"), lambda row: "starts" in row, SPGPC
    ),
    "fitc_xor": Table(("rows", "draws"), ("ivm", "fitc_on_ivm", "fitc"), paper=(), merged=True),
    "fitc_usps4": Table(("recipe", "active"), BOTH, lambda row: "recipe" in row),
    "local_blocks": Table(
        ("set", "method", "rows", "block_rows", "active", "seed"),
        ("rmse", "error_percent", "log_loss"),
        lambda row: "set" in row,
    ),
}


BEFORE_OPTIONS = {"mode": "default", "gamma": 4.0, "kernels": "one", "bias": False, "paper_units": False}
"""What lines do not say that are older than an option."""


def renamed(row: Row) -> Row:
    """Lines of an older format say otherwise what is minus the mean log density, and how many were active."""
    active = row.get("mean_active", row.get("active"))
    losses = [row.get("nlp"), *(-row[name] for name in ("log_likelihood",) if name in row)]
    loss = next((value for value in losses if value is not None), None)
    return {"log_loss": loss, **BEFORE_OPTIONS, **row, "active": active}


def write_tables() -> list[str]:
    """Markdown tables of recorded rows, each beside the paper's numbers; of equal names the last row."""
    lines = []
    for name, table in TABLES.items():
        rows = [renamed(row) for row in recorded(name) if table.shown(row)]
        last: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            key = tuple(row.get(key) for key in table.keys)
            last[key] = {**last.get(key, {}), **row} if table.merged else row
        if not last:
            continue
        columns = [column for column in table.columns if any(row.get(column) is not None for row in rows)]
        lines += ["", f"`{name}`:", "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        averages = _means(table, list(last.values()))
        for row in averages if averages and table.means_alone else (*last.values(), *averages):
            lines.append("| " + " | ".join(_told(row.get(column)) for column in columns) + " |")
    return lines


def _means(table: Table, rows: list[Row]) -> list[Row]:
    """A row of means for every name that was measured more than once, but for ``over``."""
    by_name: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows if table.over is not None else []:
        by_name.setdefault(tuple(row.get(key) for key in table.keys if key != table.over), []).append(row)
    return [
        {**group[-1], table.over: f"mean of {len(group)}", **means(group, *_measured(table, group))}
        for group in by_name.values()
        if len(group) > 1
    ]


def _measured(table: Table, rows: list[Row]) -> list[str]:
    return [name for name in table.values if all(row.get(name) is not None for row in rows)]


SCRIPTS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # what of a paper, which command, which rows are its
    ("[IVM2003] table 1", "ivm2003_table1", {}),
    (
        "[IVM2003] table 1, as printed",
        "ivm2003_table1 --mode paper --svm --memory-budget 3GiB",
        {"mode": "paper"},
    ),
    ("[IVM2003] figure 1", "reject_curve", {}),
    (
        "[IVM2006] table 1, as printed",
        "ivm2006_table1 --mode constant --paper-units",
        {"mode": "constant"},
    ),
    ("[IVM2006] figure 1", "ivm2006_figure1 --paper-units", {"paper_units": True}),
    ("[IVM2006] table 2", "ivm2006_table2", {}),
    ("[IVM2006] table 3", "ivm2006_table3", {}),
    ("[IVM2006] table 3, a kernel for each class", "ivm2006_table3 --kernels class", {"kernels": "class"}),
    ("[IVM2006] table 4", "virtual_rows --set usps --methods ivm", {"set": "usps", "method": "ivm"}),
    ("[IVM2006] section 6.3", "ivm2006_pumadyn", {}),
    (
        "[PASS2012] figure 1",
        "passgp_figure2 --digits 0 1 2 3 4 5 6 7 8 9 --active 300 --p-inc 0.6 "
        "--methods pass-paper fpass-paper ivm full rsvm",
        {"p_inc": 0.6},
    ),
    ("[PASS2012] figure 2", "passgp_figure2 --digits 2 4", {}),
    ("[PASS2012] figure 3", "passgp_evidence --rows 3000 --accurate --full --seeds 0 1 2 3 4 5 6 7 8 9", {}),
    ("[PASS2012] figures 1 and 4, ten classes", "passgp_usps --methods pass fpass", {}),
    (
        "[PASS2012] figure 1 and ten classes, as printed",
        "passgp_usps --methods pass-paper fpass-paper",
        {"start": "default"},
    ),
    ("[PASS2012] figure 5, fPASS-GP", "passgp_mnist --method fpass --active 2000", {"method": "fpass"}),
    (
        "[PASS2012] figure 5, PASS-GP",
        "passgp_mnist --method pass --active 1800 --p-inc 0.7 --p-del 0.99 --p-exc 0.05 --passes 1",
        {"method": "pass"},
    ),
    (
        "[PASS2012] figure 6, as printed",
        "passgp_ijcnn --methods fpass-paper ivm-paper --active 100 200 400 600 800 1000 --seeds 0 1 2",
        {"method": "fpass-paper"},
    ),
    (
        "[PASS2012] figure 6, with a bias",
        "passgp_ijcnn --methods fpass-paper ivm-paper --active 100 200 400 600 800 1000 --seeds 0 1 2 --bias",
        {"method": "fpass-paper", "bias": True},
    ),
    (
        "[PASS2012] table 1",
        "virtual_rows --set usps --methods pass --active 1800 --p-inc-virtual 0.99",
        {"set": "usps", "method": "pass"},
    ),
    (
        "[PASS2012] table 1, as printed",
        "virtual_rows --set usps --methods pass-paper --active 3000 --p-inc-virtual 0.99",
        {"set": "usps", "method": "pass-paper"},
    ),
    (
        "[PASS2012] table 1, MNIST, by the IVM",
        "virtual_rows --set mnist --methods ivm --first 1000 --active 4000 --candidates 16000 --kernel mnist "
        "--fixed --memory-budget 6GiB",
        {"set": "mnist", "method": "ivm", "first": 1000},
    ),
    (
        "[PASS2012] table 1, MNIST, by the IVM, twice as many rows",
        "virtual_rows --set mnist --methods ivm --first 2000 --active 8000 --candidates 32000 --kernel mnist "
        "--fixed --memory-budget 16GiB",
        {"set": "mnist", "method": "ivm", "first": 2000},
    ),
    (
        "[PASS2012] table 1, MNIST, by the IVM, both selections as large",
        "virtual_rows --set mnist --methods ivm --active 1500 --candidates 15000 --kernel mnist --fixed",
        {"set": "mnist", "method": "ivm", "first": None},
    ),
    ("[FITC2007] table 1", "fitc_table1 --splits 10", {}),
    ("[FITC2007] section 5, as printed", "fitc_usps4 --recipe paper", {"recipe": "paper"}),
    ("[FITC2007] figure 1, left", "fitc_xor", {}),
    ("[FITC2007] section 5", "fitc_usps4", {}),
    ("[PIC2007], block sizes and inducing inputs", "local_blocks", {}),
)


def write_commands() -> list[str]:
    """A table of all commands, and how many rows each has left: none where it was never run."""
    lines = ["| what | command (`python -m`) | rows recorded | the last one |", "|---|---|---|---|"]
    for what, command, wanted in SCRIPTS:
        rows = rows_with(command.split()[0], **wanted)
        last = f"{rows[-1]['date']}, {rows[-1]['commit']}" if rows else "not run"
        lines.append(f"| {what} | `benchmarks.papers.{command}` | {len(rows)} | {last} |")
    return lines


def _told(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
