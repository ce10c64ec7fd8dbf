"""A folder that one process uses at a time, and how to know that a process has died."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = "LOCK"
"""Name of the file; the system gives the lock back when its process ends, however it ends."""


class LockedError(Exception):
    """Another process holds the lock; the message says which."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise :class:`LockedError` at once.

    The file system must know locks; where it does not, nothing is locked.
    """
    descriptor, process = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666), os.getpid()
    try:
        if not _acquired(descriptor):
            raise LockedError(_owner(folder))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        # Closing alone would leave the lock with children that were forked meanwhile and live on.
        if fcntl is not None and os.getpid() == process:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """Whether the process of this machine that held the lock of a folder has ended."""
    owner = _owner(folder)
    if not owner.endswith(f" on {socket.gethostname()}"):
        return False  # of another machine, or not written yet: not ours to judge
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return fcntl is not None and _acquired(descriptor)
    finally:
        os.close(descriptor)


def _acquired(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _owner(folder: Path) -> str:
    try:
        return (folder / LOCK).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
