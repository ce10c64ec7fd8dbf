"""What an ingest did."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from streamgp.tables.recipe import ColumnRecipe


@dataclass(frozen=True)
class ColumnSummary:
    """What became of a column: ``done`` is an encoding's kind or "dropped"."""

    name: str
    type: str
    done: str
    features: int
    missing: int = 0
    categories: int | None = None


@dataclass(frozen=True)
class Summary:
    """Numbers of rows and features of a new store, and what was done to each column."""

    out: str
    test: str | None
    rows: int
    test_rows: int
    rows_without_target: int
    target: str
    target_kind: str
    classes: list[Any] | None
    dtype: str
    rows_per_chunk: int
    seconds: float
    columns: list[ColumnSummary]
    recipe: ColumnRecipe = field(repr=False)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in order."""
        return self.recipe.feature_names

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON holds it, without the recipe (which the store has)."""
        fields = {name: value for name, value in vars(self).items() if name not in ("recipe", "columns")}
        columns = [asdict(column) for column in self.columns]
        return {**fields, "features": len(self.feature_names), "columns": columns}

    def __repr__(self) -> str:
        """A few lines for people."""
        split = f" and {self.test_rows:,} test rows ({self.test})" if self.test else ""
        lines = [
            f"{self.out}: {self.rows:,} rows x {len(self.feature_names)} features ({self.dtype}){split}, "
            f"target {self.target!r} ({self.target_kind}), {self.seconds:.1f} s"
        ]
        if self.rows_without_target:
            lines.append(f"  {self.rows_without_target:,} rows without a target were left out")
        for column in self.columns:
            if column.done != "number" or column.missing:
                told = (
                    f"{column.done} of {column.categories} categories" if column.categories else column.done
                )
                gaps = f", {column.missing:,} missing" if column.missing else ""
                number = f"{column.features} feature" + "s" * (column.features != 1)
                lines.append(f"  {column.name}: {told}, {number}{gaps}")
        plain = sum(column.done == "number" and not column.missing for column in self.columns)
        return "\n".join([*lines, f"  {plain} more columns are numbers as they were"] if plain else lines)
