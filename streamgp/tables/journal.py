"""What an interrupted ingest had done, kept beside the store to be, so that the next call goes on there."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.errors import StoreError, StreamGPError
from streamgp.persistence.atomic import discard, flush, flush_tree, replacing
from streamgp.persistence.lock import LOCK, LockedError, locked
from streamgp.tables.formats import marks_of
from streamgp.tables.request import Request
from streamgp.tables.sources import Source

logger = logging.getLogger(__name__)


class ChunkLine(NamedTuple):
    """A chunk that is complete, with checksums of its arrays, and where the row after it comes from.

    ``origin`` is the number of the first row of a batch (shuffled: of a bucket), ``skip`` the rows of the
    part in it that are written already.
    """

    part: str
    number: int
    checksums: dict[str, int]
    origin: int
    skip: int


HALF_WRITTEN = "*.partial"
"""Files that Zarr was writing when its process was killed: their chunks are written again."""


@dataclass(frozen=True)
class Journal:
    """A folder where a store grows, with notes of what is complete; every note has a checksum.

    Notes need not have reached the disk in order: what they claim is compared with what is there.
    """

    folder: Path

    @property
    def store(self) -> Path:
        """The store while it grows."""
        return self.folder / "store.zarr"

    @property
    def shuffle(self) -> Path:
        """The folder of rows on their way through the shuffle."""
        return self.folder / "shuffle"

    def remember(self, reading: str, row: int, content: bytes) -> None:
        """Keep what a reading knows of the rows before ``row``, in the place of what it knew before."""
        head = json.dumps({"row": row, "crc32": zlib.crc32(content)}).encode()
        with replacing(self.folder / reading) as unfinished:
            unfinished.write_bytes(head + b"\n" + content)

    def recall(self, reading: str) -> tuple[int, bytes] | None:
        """What was remembered last, and the row up to which; None where there is nothing whole."""
        try:
            head, _, content = (self.folder / reading).read_bytes().partition(b"\n")
            known = json.loads(head)
        except (OSError, ValueError):
            return None
        return (int(known["row"]), content) if known["crc32"] == zlib.crc32(content) else None

    def note(self, line: ChunkLine) -> None:
        """Note a chunk that is complete."""
        text = json.dumps(line)
        with (self.folder / "chunks").open("a", encoding="utf-8") as file:
            file.write(f"{zlib.crc32(text.encode()):08x} {text}\n")

    def chunks(self, part: str) -> list[ChunkLine]:
        """The first chunks of a part, as far as all of them are noted."""
        noted: dict[int, ChunkLine] = {}
        with suppress(OSError):
            for text in (self.folder / "chunks").read_text(encoding="utf-8", errors="replace").splitlines():
                checksum, _, content = text.partition(" ")
                if checksum == f"{zlib.crc32(content.encode()):08x}":  # not the line that a kill cut off
                    line = ChunkLine(*json.loads(content))
                    if line.part == part:
                        noted[line.number] = line
        run: list[ChunkLine] = []
        while len(run) in noted:
            run.append(noted[len(run)])
        return run


@contextmanager
def resumable(out: Path, source: Source, request: Request) -> Iterator[Journal]:
    """The journal of the store ``out``, which appears when the block ends without error.

    A block that is interrupted leaves the journal for the next call with the same sources and options; one
    that refuses what it reads does not. Sources in memory cannot be known again: theirs starts anew.
    """
    folder = out.with_name(f".{out.name}.ingest")
    folder.mkdir(exist_ok=True)
    kept = source.files is not None
    try:
        with locked(folder):
            journal = Journal(folder)
            _begin(journal, source, request)
            yield journal
            flush_tree(journal.store)
            os.replace(journal.store, out)
            flush(out.parent)
        kept = False
    except LockedError as error:
        kept = True
        raise StoreError(f"{str(out)!r} is being written by {error}") from error
    except StreamGPError:
        kept = False
        raise
    finally:
        if not kept:
            discard(folder)


def _begin(journal: Journal, source: Source, request: Request) -> None:
    """Empty the folder unless it belongs to the same call; say why where there was something."""
    options = {name: value for name, value in asdict(request).items() if name != "progress"}
    versions = {name: version(name) for name in ("streamgp", "numpy", "pyarrow", "zarr")}
    call = {
        "options": options,
        "versions": versions,
        "files": None if source.files is None else marks_of(source.files),
    }
    call = json.loads(json.dumps(call, default=str))
    path = journal.folder / "call"
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if earlier is not None and earlier == call and source.files is not None:
        logger.info("an interrupted ingest of %s goes on", source.label)
        for left in list(journal.store.rglob(HALF_WRITTEN)):
            left.unlink()
        return
    if earlier is not None:
        logger.warning("an interrupted ingest starts anew: %s", _difference(earlier, call))
    for left in journal.folder.iterdir():
        if left.name != LOCK:
            discard(left)
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(call), encoding="utf-8")


def _difference(earlier: dict[str, Any], call: dict[str, Any]) -> str:
    before, now = earlier["files"] or {}, call["files"] or {}
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"{changed[0]}{more} changed since"
    options = sorted(
        name for name in call["options"] if earlier["options"].get(name) != call["options"][name]
    )
    return f"other {', '.join(options)}" if options else "other versions, or a source in memory"
