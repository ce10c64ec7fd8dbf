"""The column recipe: what was done to each column, so that it can be done again to new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.errors import TableError
from streamgp.tables.encodings import Encoding, Folds, encoding_from_json, encoding_to_json
from streamgp.tables.sources import Columns
from streamgp.tables.target import Target

VERSION = 1


@dataclass(frozen=True)
class ColumnRecipe:
    """Encodings of the columns in the order of the features, and how the target is stored.

    ``indicators`` are columns with one more feature that is 1 where the value is missing. ``types`` are the
    Arrow types that the columns had; ``dropped`` says why a column was left out.
    """

    encodings: tuple[Encoding, ...]
    indicators: frozenset[str]
    types: Mapping[str, str]
    target: Target
    dtype: str
    refuses_missing: bool
    dropped: Mapping[str, str]

    @property
    def columns(self) -> list[str]:
        """Raw columns that features need."""
        return [encoding.column for encoding in self.encodings]

    @property
    def feature_names(self) -> list[str]:
        """Names of all features, in order."""
        return [name for encoding in self.encodings for name in self.names_of(encoding)]

    def names_of(self, encoding: Encoding) -> tuple[str, ...]:
        """Names of a column's features, its indicator last."""
        indicator = (f"{encoding.column} missing",) if encoding.column in self.indicators else ()
        return (*encoding.names, *indicator)

    def encode(self, batch: Columns, folds: Folds = None) -> Array:
        """Features of a batch of raw rows.  Shape: (rows, features), C order, in the store's type."""
        n_rows = len(next(iter(batch.values())))
        out = np.empty((n_rows, len(self.feature_names)), self.dtype)
        place = 0
        for encoding in self.encodings:
            width = len(encoding.names)
            # A strided view would be written in float32: whether a number is finite is asked in float64.
            values = np.empty((n_rows, width))
            try:
                absent = encoding.fill(batch[encoding.column], values, folds)
            except TableError as error:
                raise TableError(f"column {encoding.column!r}: {error}") from error
            out[:, place : place + width] = values
            place += width
            if encoding.column in self.indicators:
                out[:, place] = absent
                place += 1
            elif self.refuses_missing and absent.any():
                raise TableError(
                    f"column {encoding.column!r}: values are missing, which missing='refuse' does not allow"
                )
        return out

    def to_json(self) -> dict[str, Any]:
        """A document that :meth:`from_json` reads."""
        return {
            "version": VERSION,
            "columns": [
                {
                    **encoding_to_json(encoding),
                    "type": self.types[encoding.column],
                    "indicator": encoding.column in self.indicators,
                }
                for encoding in self.encodings
            ],
            "target": {"column": self.target.column, "kind": self.target.kind},
            "dtype": self.dtype,
            "missing": "refuse" if self.refuses_missing else "impute",
            "dropped": dict(self.dropped),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ColumnRecipe:
        """The recipe that was written."""
        if document["version"] > VERSION:
            raise TableError(
                f"the column recipe has version {document['version']}, but this streamgp reads up to "
                f"{VERSION}: update streamgp"
            )
        columns = [dict(column) for column in document["columns"]]
        types = {column["column"]: column.pop("type") for column in columns}
        indicators = frozenset(column["column"] for column in columns if column.pop("indicator"))
        return ColumnRecipe(
            tuple(encoding_from_json(column) for column in columns),
            indicators,
            types,
            Target(**document["target"]),
            document["dtype"],
            document["missing"] == "refuse",
            document["dropped"],
        )
