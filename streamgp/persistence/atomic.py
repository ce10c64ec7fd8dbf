"""Files and folders that are either the old ones or the new ones, whenever the power fails.

The order is always the same: write beside the target, flush that to the disk, rename, flush the rename.
"""

from __future__ import annotations

import os
import shutil
import socket
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished"
"""Ending of what was being written; after a crash it may be removed."""
REPLACED = ".replaced"
"""Ending of a folder that is making room for its successor."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A new path beside ``target``; what is written there takes its place when the block ends without error.

    A file is replaced in one step. A folder cannot be: it is renamed away first, and a crash just then
    leaves it, complete, under the name that :func:`set_aside` finds. What killed processes of this machine
    left of the same target is removed first.
    """
    for path in _siblings(target.parent, UNFINISHED):
        if _is_abandoned(path, target):
            discard(path)
    unfinished = _sibling(target, UNFINISHED)
    try:
        yield unfinished
        flush_tree(unfinished)
        if target.is_dir():
            _swap_folder(unfinished, target)
        else:
            os.replace(unfinished, target)
            flush(target.parent)
    finally:
        discard(unfinished)


def replace_text(target: Path, text: str) -> None:
    """Replace a small text file in one step."""
    with replacing(target) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def set_aside(target: Path) -> list[Path]:
    """Earlier versions of the folder ``target`` that a crash left under another name."""
    return sorted(
        path for path in _siblings(target.parent, REPLACED) if path.name.startswith(f".{target.name}.")
    )


def unfinished_in(folder: Path) -> list[Path]:
    """What crashed writes have left in a folder."""
    return _siblings(folder, UNFINISHED)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders, and keeps its renames in a journal
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _swap_folder(unfinished: Path, target: Path) -> None:
    replaced = _sibling(target, REPLACED)
    os.rename(target, replaced)
    try:
        os.rename(unfinished, target)
    except OSError:
        os.rename(replaced, target)
        raise
    flush(target.parent)
    discard(replaced)


def flush_tree(path: Path) -> None:
    """Wait until a file, or a folder with all that is in it, has reached the disk."""
    if path.is_dir():
        for inner in path.iterdir():
            flush_tree(inner)
    flush(path)


def _sibling(target: Path, ending: str) -> Path:
    """A new name that says which process of which machine it belongs to."""
    owner = f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return target.with_name(f".{target.name}.{owner}{ending}")


def _is_abandoned(unfinished: Path, target: Path) -> bool:
    """Whether it was being written for a target by a process of this machine that has ended."""
    owner = unfinished.name.removeprefix(f".{target.name}.").removesuffix(UNFINISHED).split("-")
    if len(owner) != 3 or owner[0] != _machine() or not owner[1].isdigit() or os.name == "nt":
        return False  # Windows cannot ask a process without ending it
    try:
        os.kill(int(owner[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _siblings(folder: Path, ending: str) -> list[Path]:
    return sorted(path for path in folder.glob(f".*{ending}"))
