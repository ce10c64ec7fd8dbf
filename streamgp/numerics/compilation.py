"""The one home of our Numba settings.

Functions of this folder are compiled by :func:`compiled`, never by ``numba`` directly. They are serial and
release the GIL: a pass runs many of them at once, one in each task, and threads inside a task would
oversubscribe the machine (or, with Numba's workqueue layer, abort the process).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar, overload

import numba

P = ParamSpec("P")
R = TypeVar("R")

_SOURCES = Path(__file__).parent


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def cache_folder() -> Path | None:
    """Folder of compiled code, or None where no folder can be written.

    Numba does not notice when a callee in another file changes, so the folder's name carries a hash of all
    sources of this package: other sources, other folder. ``NUMBA_CACHE_DIR`` is honoured.
    """
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(root).expanduser() / "streamgp" / digest.hexdigest()[:16]
    return folder if _is_writable(folder) else None


def is_cold() -> bool:
    """Whether the next call has to compile because nothing has been cached for these sources yet."""
    folder = cache_folder()
    return folder is None or next(folder.rglob("*.nbi"), None) is None


@overload
def compiled(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def compiled(
    *, reassociate: bool = True, inline: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def compiled(
    function: Callable[P, R] | None = None, /, *, reassociate: bool = True, inline: bool = False
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for use inside a task: serial, without the GIL, cached on disk.

    ``reassociate`` lets LLVM reorder sums and fuse multiply-adds, which is what makes row sums vectorise
    (about ten times faster) and, unlike full fast-math, keeps NaN and infinity. Switch it off where the
    order of operations is the algorithm, as in compensated arithmetic.
    ``inline`` puts the body into every caller, however long it is: a loop with a call in it does not
    vectorise. For straight arithmetic that loops are made of.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        folder = cache_folder()
        # Numba reads this setting only while it decorates: the user's own functions are not affected.
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = "" if folder is None else str(folder)
        try:
            jitted: Callable[P, R] = numba.njit(
                nogil=True,
                cache=folder is not None,
                fastmath={"reassoc", "contract"} if reassociate else False,
                forceinline=inline,
                error_model="numpy",
            )(function)
        finally:
            numba.config.CACHE_DIR = before
        return jitted

    return decorate if function is None else decorate(function)
