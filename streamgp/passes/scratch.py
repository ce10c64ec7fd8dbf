"""Room on disk for numbers that belong to rows: generations of one array, of which the last are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from streamgp.budget import format_size
from streamgp.data import Rows
from streamgp.errors import BudgetError, CheckpointError, ParameterError
from streamgp.passes.run import find_client
from streamgp.persistence.atomic import replace_text
from streamgp.persistence.lock import LockedError, is_abandoned, locked

_PREFIX = "streamgp-sites-"
KEPT_PREFIX = "streamgp-blocks-"
"""Of folders of rows that a model reads for as long as it lives."""
OWNER = "OWNER"
"""Name of a file in a checkpoint folder and in its folder of sites: the same word in both."""
GENERATIONS = 3
"""Kept at once: the one being written, the one being read, and that of the last checkpoint or before it."""

FILE_BLOCK = 4096
"""Bytes that a file system hands out at once."""


@dataclass(frozen=True)
class Scratch:
    """A folder of site arrays, one for each generation: float64, shape (n, heads, 2), a chunk per span."""

    folder: Path

    def read(self, generation: int) -> zarr.Array | None:
        """The sites of a generation; None for the first, which is flat."""
        if generation == 0:
            return None
        try:
            return zarr.open_array(self._path(generation), mode="r")
        except FileNotFoundError as error:
            raise CheckpointError(
                f"the sites of generation {generation} are not in {str(self.folder)!r}; resume with the same "
                f"scratch= folder, or start again with another checkpoint folder"
            ) from error

    def write(
        self, generation: int, rows: Rows, n_heads: int, columns: int = 2, saved: int | None = None
    ) -> zarr.Array:
        """An empty array for the sites of a generation; what an interrupted sweep left is overwritten.

        Generations that no checkpoint needs any more are removed first. ``columns``: numbers a row and head;
        ``saved``: the generation of the last checkpoint, where a step writes several.
        """
        oldest = generation - 2 if saved is None else min(generation - 2, saved)
        wanted = {self._path(kept).name for kept in (generation, generation - 1, oldest)}
        for path in self.folder.glob("sites-*"):
            if path.name not in wanted:
                shutil.rmtree(path, ignore_errors=True)
        return zarr.create_array(
            self._path(generation),
            shape=(rows.n_rows, n_heads, columns),
            chunks=(min(rows.span_rows, rows.n_rows), n_heads, columns),
            dtype="float64",
            compressors=None,
            overwrite=True,
            # A chunk of flat sites must be there too: one that is absent was lost.
            config={"write_empty_chunks": True},
        )

    @property
    def blocks(self) -> Path:
        """Where rows lie block by block."""
        return self.folder / "blocks"

    @property
    def runs(self) -> Path:
        """Where rows wait that are on their way to their blocks."""
        return self.folder / "runs"

    def _path(self, generation: int) -> Path:
        return self.folder / f"sites-{generation:05d}"


def scratch_bytes(n_rows: int, n_heads: int, columns: int = 2) -> int:
    """Bytes on disk: two numbers (or more) for each row and head, in every generation that is kept."""
    return GENERATIONS * 8 * columns * n_rows * n_heads


def files_bytes(rows: int, file_rows: int, row_bytes: int, depth: int, inner: int = 0) -> int:
    """Bytes on disk of an array of so many rows, ``file_rows`` of them in a file.

    Each file takes whole blocks of the file system, has an index of its ``inner`` chunks if it is a shard,
    and lies in ``depth`` folders of its own.
    """
    index = 16 * inner + 4 if inner else 0
    size = file_rows * row_bytes + index
    return -(-rows // file_rows) * FILE_BLOCK * (-(-size // FILE_BLOCK) + depth)


@contextmanager
def scratch_space(scratch: Any, checkpoint: Any, needed: int, client: Any) -> Iterator[Scratch]:
    """A folder for scratch arrays, checked before the first pass, removed once the fit has ended well.

    ``scratch`` is where to put it; default beside the checkpoint, else the system's folder for temporary
    files. With a checkpoint its name is always the same, so that an interrupted fit finds its sites again,
    and rows in blocks stay, for the checkpoint may be asked for its model; without, all is removed after an
    error too.
    """
    place = _place(scratch, checkpoint)
    try:
        folder = _folder(place, checkpoint)
    except OSError as error:
        raise ParameterError(
            f"sites cannot be written to {str(place)!r}: {error}; name a folder by scratch="
        ) from error
    finished = False
    try:
        with locked(folder):
            _claim(folder, checkpoint)
            _check_room(folder, needed)
            _check_reachable(folder, client)
            yield Scratch(folder)
        finished = True
    except LockedError as error:
        raise CheckpointError(
            f"the rows and sites in {str(folder)!r} are in use by {error}: wait for it to end, or give "
            f"another folder as scratch="
        ) from error
    finally:
        if finished and checkpoint is not None and Scratch(folder).blocks.exists():
            for path in folder.iterdir():
                if path not in (Scratch(folder).blocks, folder / OWNER):
                    shutil.rmtree(path, ignore_errors=True)
        elif finished or checkpoint is None:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(place: Path, checkpoint: Any) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    sweep_abandoned(place)
    if checkpoint is None:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    name = hashlib.sha256(os.fsencode(os.path.abspath(checkpoint))).hexdigest()[:16]
    folder = place / f"sites-of-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def _claim(folder: Path, checkpoint: Any) -> None:
    """Make a folder that of the fit that a checkpoint is of; one that another fit has taken is refused.

    Its name is that of the checkpoint's path, which may be another disk's on another machine.
    """
    if checkpoint is None or not Path(checkpoint).is_dir():
        return
    known, own = Path(checkpoint) / OWNER, folder / OWNER
    word, taken = (path.read_text(encoding="utf-8") if path.exists() else None for path in (known, own))
    if word is not None and taken is not None and word != taken:
        raise CheckpointError(
            f"the rows and sites in {str(folder)!r} are by now of another fit, whose checkpoint folder has "
            f"the same path; start again with another folder as checkpoint= or scratch="
        )
    if word is None or taken is None:
        word = word or uuid.uuid4().hex
        replace_text(own, word)  # first: a fit that is killed in between has no word yet
        replace_text(known, word)


def sweep_abandoned(place: Path) -> None:
    """Remove what killed processes of this machine left: sites without a checkpoint, rows of models."""
    for prefix in (_PREFIX, KEPT_PREFIX):
        for folder in place.glob(f"{prefix}*"):
            if is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _place(scratch: Any, checkpoint: Any) -> Path:
    if scratch is None:
        return Path(tempfile.gettempdir()) if checkpoint is None else Path(checkpoint)
    if "://" in os.fspath(scratch):
        raise ParameterError(f"scratch={scratch!r} must be a folder that can be reached as a local path")
    return Path(scratch).absolute()


def _check_room(folder: Path, needed: int) -> None:
    held = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())  # of an earlier run
    free = shutil.disk_usage(folder).free + held
    if free < needed:
        raise BudgetError(
            f"the sites of all rows need {format_size(needed)} of disk, but {format_size(free)} are free "
            f"at {str(folder)!r}: name a folder with more room by scratch="
        )


def _check_reachable(folder: Path, client: Any) -> None:
    """Every worker must see what is written here."""
    client = find_client(client)
    if client is None:
        return
    token = folder / f"token-{uuid.uuid4().hex}"
    token.write_text("streamgp")
    try:
        seen = client.run(os.path.exists, str(token))
    finally:
        token.unlink()
    blind = sorted(worker for worker, there in seen.items() if not there)
    if blind:
        raise ParameterError(
            f"{len(blind)} of {len(seen)} workers do not see the scratch folder {str(folder)!r} (the first: "
            f"{blind[0]}): name one on a file system that all of them share by scratch="
        )
