"""The target column: labels, booleans, integers or real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from streamgp.arrays import Array, BoolArray
from streamgp.errors import TableError
from streamgp.tables.values import as_labels, as_numbers, kind_of

TargetKind = Literal["label", "boolean", "integer", "real"]


@dataclass(frozen=True)
class Target:
    """How the target is stored: strings, booleans, integers or float64."""

    column: str
    kind: TargetKind

    @property
    def stored_dtype(self) -> Any:
        """Type of the array in the store."""
        return {"label": str, "boolean": bool, "integer": np.int64, "real": np.float64}[self.kind]

    def values(self, array: pa.Array) -> tuple[Array, BoolArray]:
        """Values of rows, and where there is one; what stands where there is none has no meaning."""
        if self.kind == "label":
            labels = as_labels(array)
            names = np.array([*labels.names, ""])
            return names[labels.codes], labels.codes >= 0
        try:
            numbers = as_numbers(array)
        except TableError as error:
            raise TableError(f"the target {self.column!r}: {error}") from error
        present: BoolArray = ~np.isnan(numbers)
        if np.isinf(numbers).any():
            raise TableError(
                f"the target {self.column!r} holds infinity: make it a missing value, or drop the rows"
            )
        if self.kind == "real":
            return numbers, present
        known = np.where(present, numbers, 0.0)
        if not np.array_equal(known, np.rint(known)):
            raise TableError(
                f"the target {self.column!r} has values that are no integers, so they are no classes; "
                f"use task='regression'"
            )
        return known.astype(bool if self.kind == "boolean" else np.int64), present


def target_of(column: str, type_: pa.DataType, task: str) -> Target:
    """How to store a target of an Arrow type."""
    kind = kind_of(type_)
    if kind not in ("number", "label"):
        raise TableError(
            f"the target {column!r} is of type {type_}; "
            f"targets are strings, booleans, integers or real numbers"
        )
    if kind == "label":
        if task == "regression":
            raise TableError(f"the target {column!r} holds strings, but task='regression' needs numbers")
        return Target(column, "label")
    if task == "regression":
        return Target(column, "real")
    if pa.types.is_boolean(type_):
        return Target(column, "boolean")
    if pa.types.is_integer(type_) or task == "classification":
        return Target(column, "integer")
    return Target(column, "real")
