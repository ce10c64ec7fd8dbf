"""Where predictions are written to: a Zarr group, or a table made from one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamgp.errors import ParameterError
from streamgp.passes.tables import TABLES, write_table
from streamgp.tables.formats import require_pyarrow


@contextmanager
def as_group(out: Any, classes: Sequence[Any] | None) -> Iterator[Any]:
    """The group to write: ``out`` itself; or, if that is to be a table, a temporary one that becomes it.

    ``classes`` name the labels; None: real targets.
    """
    table = Path(out) if isinstance(out, str | os.PathLike) else None
    if table is None or table.suffix not in TABLES:
        yield out
        return
    require_pyarrow()
    if not table.parent.is_dir():
        raise ParameterError(f"there is no folder {str(table.parent)!r} to write predictions to")
    with tempfile.TemporaryDirectory(dir=table.parent, prefix=f".{table.name}.") as folder:
        group = Path(folder) / "predictions.zarr"
        yield group
        write_table(group, table, classes)
