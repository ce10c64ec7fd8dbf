"""Places behind URLs: what Zarr can open."""

from __future__ import annotations

import importlib.util
from typing import Any

from zarr.storage import ObjectStore

BY_OBSTORE = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss")
"""Schemes that obstore is asked for, where it is installed; fsspec and its plugins serve all others."""


def opened_place(path: str, *, read_only: bool) -> Any:
    """A path as it is; the store at a URL, with keys and endpoint from the environment.

    Such a store can be sent to workers, which read by themselves.
    """
    scheme = path.partition("://")[0]
    if scheme == path or scheme not in BY_OBSTORE or importlib.util.find_spec("obstore") is None:
        return path
    from obstore.store import from_url

    return ObjectStore(from_url(path), read_only=read_only)
