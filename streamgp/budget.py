"""Sizes of memory, read and written the way people do."""

from __future__ import annotations

import ctypes
import os
import re
import sys

from streamgp.errors import BudgetError, ParameterError

_UNITS = {
    "": 1,
    "B": 1,
    **{prefix + "B": 1000**power for power, prefix in enumerate("KMGT", start=1)},
    **{prefix + "IB": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
LARGE_ALLOCATION = 4 * 2**20
"""Bytes; a page fault for each page of such an array is the price, so hot loops use theirs again."""
SMALL_ALLOCATIONS = 2 * LARGE_ALLOCATION
"""Bytes of smaller arrays that a thread's heap keeps when they are freed, for those of the next block."""
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def parse_size(size: int | float | str) -> int:
    """Bytes of a size such as ``2**30``, ``"1GiB"`` or ``"512 MB"``.

    >>> parse_size("1.5 KiB"), parse_size("2MB"), parse_size(4096)
    (1536, 2000000, 4096)
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None or match[2].upper() not in _UNITS:
            raise ParameterError(
                f"{size!r} is not a size; give bytes as a number, or a string such as '512MB' or '1GiB'"
            )
        bytes_ = float(match[1]) * _UNITS[match[2].upper()]
    elif isinstance(size, bool) or not isinstance(size, (int, float)):
        raise ParameterError(f"a size is a number of bytes or a string such as '1GiB', not {size!r}")
    else:
        bytes_ = float(size)
    if not 0 < bytes_ < 2**63:
        raise BudgetError(f"a memory budget must be positive and below 2**63 bytes, not {size!r}")
    return int(bytes_)


def format_size(size: float) -> str:
    """A size for people, in binary units.

    >>> format_size(512), format_size(3 * 2**20)
    ('512 B', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def physical_memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def refuse_impossible(budget: int) -> None:
    """Refuse a budget beyond the memory of the machine: a plan would count on what is not there."""
    there = physical_memory()
    if there is not None and budget > there:
        raise BudgetError(
            f"a memory budget of {format_size(budget)} is more than this machine has ({format_size(there)}): "
            f"give memory_budget='{there // 2**21}MiB' or less"
        )


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes (0 where the system does not tell)."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def return_large_allocations() -> None:
    """From now on, have this process give every large array back to the system as soon as it is freed.

    By itself glibc raises the size from which it does so to 32 MiB, and keeps what is below in a heap for
    each thread that never shrinks: decoded chunks stayed resident, up to 200 MB of them beside two tasks.

    What is smaller stays for the next block, as much as glibc would keep beside this size by itself. Dask's
    nanny has its workers keep 64 KiB: each block asked the system anew, a third of the time of a pass.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(_MMAP_THRESHOLD, LARGE_ALLOCATION)
            libc.mallopt(_TRIM_THRESHOLD, SMALL_ALLOCATIONS)
