"""Raw columns (Parquet, CSV, data frames, ...) to stores, and back to features when a model predicts.

Nothing here imports pyarrow before it is needed: it comes with the extra ``ingest``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamgp.data.targets import Task
from streamgp.tables.formats import require_pyarrow

if TYPE_CHECKING:
    from streamgp.tables.summary import Summary

__all__ = ["ingest"]


def ingest(
    sources: Any,
    out: str | os.PathLike[str],
    *,
    target: str,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    test: str | float | None = None,
    shuffle: bool = False,
    rows_per_chunk: int | None = None,
    categorical: str | int | Mapping[str, str] = "auto",
    missing: str = "impute",
    task: Task = "auto",
    memory_budget: int | str = "512MiB",
    random_state: int = 0,
    progress: bool | None = None,
) -> Summary:
    """Make a Zarr store that :func:`streamgp.fit_stream` reads from raw columns, never loading them all.

    Parameters
    ----------
    sources : path, data frame, or list of them
        Parquet, CSV (also ``.csv.gz``, ``.tsv``), Arrow or Feather, ``.npy``, ``.npz`` files; folders of one
        of these, also partitioned (``month=3/part.parquet``); a Zarr group of one array per column; pandas,
        polars, pyarrow or Dask data frames; a mapping of arrays. It is read two to four times, so it must
        not change meanwhile.
    out : path
        The new store: a Zarr group with ``X`` and ``y``. It appears when all is written. A call that was
        interrupted or killed leaves only a hidden folder beside it (``.NAME.ingest``). The same call again
        goes on from there: readings and chunks that are complete, by their checksums, are not made again,
        and the store has the same bytes. Where a source changed meanwhile, which is told with its name, or
        was in memory, it starts anew. CSV and packed files have no places to start from: their text is read
        again from its start, but not worked on.
    target : str
        The column to learn. Strings and booleans are classes, floating-point values real; integers are
        kept. Rows where it is missing are left out and counted.
    features, drop : names
        Columns to use (default: all others), columns to leave out.
    test : "10%" or fraction, optional
        A share of rows, drawn at random, goes to the group ``test`` inside of ``out``: a store of its own at
        ``out/test``. Nothing about the columns is learned from it.
    shuffle : bool
        Write the rows in random order (sorted on disk by a hash of the row number). Else their order stays.
    rows_per_chunk : int, optional
        Default: chunks of about 12 MB, but at least eight of them.
    categorical : {"auto", "one-hot", "target-mean", "refuse"}, int, or mapping from columns to these
        What becomes of strings. "auto": a feature for each of up to 16 categories; above, the mean of the
        target (for classes: the share of each class) by category, shrunk to the overall mean, and out of
        fold for training rows. A number is another limit than 16. A mapping names columns, also numeric
        ones, which are categories then.
    missing : {"impute", "refuse"}
        "impute": the column's mean, and a feature that says where it was missing.
    task : {"auto", "classification", "regression"}
        What an integer target is; "auto": classes up to 100 distinct values.
    memory_budget : int or str
        Bytes, or a size such as ``"512MiB"``, that the call may use beside Python and its libraries.
    random_state : int
        Seed of split, folds and shuffle. They depend on row numbers only, not on how the source is cut.
    progress : bool, optional
        Progress bars; default only on a terminal.

    Returns
    -------
    Summary
        Numbers of rows and what was done to each column; ``to_dict()`` gives it as JSON. The recipe of the
        columns is stored in ``out`` and with models fitted to it, so that these predict from raw columns.
    """
    require_pyarrow()
    # Only here: these need pyarrow.
    from streamgp.tables.request import Request
    from streamgp.tables.run import run

    request = Request(
        target=target,
        features=None if features is None else tuple(features),
        drop=tuple(drop),
        test=test,
        shuffle=shuffle,
        rows_per_chunk=rows_per_chunk,
        categorical=categorical,
        missing=missing,
        task=task,
        memory_budget=memory_budget,
        seed=random_state,
        progress=progress,
    )
    return run(sources, out, request)
