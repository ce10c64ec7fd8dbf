"""Arrays in memory that hold more than numbers, or other than all of them: refused before they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.errors import NonFiniteDataError, StoreError, UnsupportedDtypeError

_SHOWN = 5


def refuse_unreadable(array: Any, name: str) -> None:
    """Refuse what becomes another array than was meant: masks are lost, sparse matrices are one object."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        places = int(np.count_nonzero(array.mask))
        raise NonFiniteDataError(
            f"array {name!r} is masked in {places} places: fill them in, such as by {name}.filled(value), or "
            f"leave these rows out"
        )
    if hasattr(array, "toarray"):
        raise StoreError(
            f"array {name!r} is a sparse matrix: give {name}.toarray() or, where that is too large for the "
            f"memory, a Zarr store"
        )


def refuse_raw_columns(features: Any) -> None:
    """Refuse a data frame with columns that hold no numbers, by their names."""
    if not (hasattr(features, "dtypes") and hasattr(features, "columns")):
        return
    kinds = zip(features.columns, features.dtypes, strict=True)
    other = [f"{column!r} ({kind})" for column, kind in kinds if not _may_be_numbers(kind)]
    if other:
        more = f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
        raise UnsupportedDtypeError(
            f"these columns hold no numbers: {', '.join(other[:_SHOWN])}{more}. Encode them first, or write "
            f"the table to a file and have streamgp.ingest do it"
        )


def _may_be_numbers(kind: Any) -> bool:
    """Whether a column of this type holds numbers; of Python objects nobody knows before they are read."""
    if isinstance(kind, np.dtype):
        return kind.kind in "iufbO"
    if hasattr(kind, "is_numeric"):  # of polars
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "iufb"  # of pandas: categories and strings say "O"
