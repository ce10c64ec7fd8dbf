"""What the files of a record must look like before anything in them is believed.

A record may come from a stranger. So sizes are compared first: what the directory says with what the header
says, and both with the size of the file. Nothing is unpacked to find out how large it is.
"""

from __future__ import annotations

import json
import math
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.errors import ModelFileError
from streamgp.persistence.plain import check_names, is_plain

BELIEVED_BYTES = 64 * 2**20
MOST_RATIO = 16
"""A record may unpack to so many times its size, and BELIEVED_BYTES more."""
MOST_HEADER_BYTES = 16 * 2**20
_MOST_METADATA_BYTES = 2**16
_CHUNK_BYTES = 4 << 20  # several chunks are encoded at once: each is a copy
_ZSTD_START = b"\x28\xb5\x2f\xfd"
_LONGEST_FRAME_HEADER = 18
GROUP = "zarr.json"


class Files(NamedTuple):
    """The files of a record by name: their sizes, and how to read the first bytes of one."""

    sizes: dict[str, int]
    start: Callable[[str, int], bytes]
    total: int


def files_of(source: Path) -> Files:
    """The files of a zip file or folder; members that are packed, linked or named twice are refused."""
    return _files_of_folder(source) if source.is_dir() else _files_of_zip(source)


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Chunks of an array: whole stretches of it in C order, of a few megabytes."""
    room = _CHUNK_BYTES // itemsize
    chunks: list[int] = []
    for length in reversed(shape):
        chunks.append(max(1, min(length, room)))
        room //= chunks[-1]
    return tuple(reversed(chunks))


def stored_form(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape on disk: strings are code points with one more axis."""
    if dtype.kind != "U":
        return dtype, shape
    return np.dtype("<u4"), (*shape, dtype.itemsize // 4)


def check_manifest(manifest: Mapping[str, Any], source: Path) -> None:
    """Refuse a manifest whose entries are not of the form that is written."""
    arrays = manifest.get("arrays")
    formed = (
        isinstance(manifest.get("kind"), str)
        and isinstance(manifest.get("versions"), dict)
        and isinstance(manifest.get("header"), dict)
        and isinstance(arrays, dict)
        and manifest["schema"] >= 1
    )
    if not formed:
        raise _odd(source, "its parts are not of the types that streamgp writes")
    assert isinstance(arrays, dict)
    large = manifest.get("large", {})
    if not isinstance(large, dict):
        raise _odd(source, "its large arrays are not named")
    check_names([*arrays, *large])
    for name, entry in [*arrays.items(), *large.items()]:
        if not _is_entry(entry) or (name in large and not _is_large(entry)):
            raise _odd(source, f"its entry of array {name!r} has no plain type, shape and checksum")


def check_layout(manifest: Mapping[str, Any], files: Files, source: Path) -> None:
    """Refuse arrays whose files are absent, or of other sizes than the manifest says, or too large."""
    stated = sum(_nbytes(entry) for entry in manifest["arrays"].values())
    if stated > BELIEVED_BYTES + MOST_RATIO * files.total:
        raise _odd(source, f"{files.total} bytes of it would unpack to {stated}")
    for name, entry in [*manifest["arrays"].items(), *manifest.get("large", {}).items()]:
        try:
            problem = _array_problem(name, entry, files)
        except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            problem = f"cannot be read ({type(error).__name__}: {error})"
        if problem is not None:
            raise ModelFileError(f"array {name!r} in {str(source)!r} {problem}; restore the file from a copy")


def fits_ratio(stated: int, total: int) -> bool:
    """Whether a record of so many bytes will be believed to unpack to ``stated`` bytes."""
    return stated <= BELIEVED_BYTES + MOST_RATIO * total


def _array_problem(name: str, entry: Mapping[str, Any], files: Files) -> str | None:
    dtype, shape = stored_form(np.dtype(entry["dtype"]), tuple(entry["shape"]))
    metadata = f"{name}/{GROUP}"
    if metadata not in files.sizes:
        return "is missing"
    if files.sizes[metadata] > _MOST_METADATA_BYTES:
        return "has metadata of an impossible size"
    chunks = (entry["rows"], *shape[1:]) if "rows" in entry else chunk_shape(shape, dtype.itemsize)
    try:
        document = json.loads(files.start(metadata, _MOST_METADATA_BYTES))
        codecs = _codecs(document, dtype, shape, chunks)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "has metadata that cannot be read"
    if (document["data_type"], document["shape"]) != (dtype.name, list(shape)):
        other = f"{document['data_type']} of shape {document['shape']}"
        return f"is {other}, not {dtype.name} of shape {list(shape)}"
    if codecs is None:
        return "is not stored in the form that streamgp writes"
    chunk_bytes = math.prod(chunks) * dtype.itemsize
    for place in np.ndindex(*(-(-length // size) for length, size in zip(shape, chunks, strict=True))):
        key = "/".join((name, "c", *map(str, place)))
        if key not in files.sizes:
            return f"misses its chunk {place}"
        found = files.sizes[key]
        if "zstd" in codecs:
            found = unpacked_bytes(files.start(key, _LONGEST_FRAME_HEADER))
        if found != chunk_bytes:
            return f"has a chunk of {found} bytes at {place}, not {chunk_bytes}"
    return None


def _codecs(
    document: Any, dtype: np.dtype[Any], shape: tuple[int, ...], chunks: tuple[int, ...]
) -> list[str] | None:
    """Names of the codecs of an array whose metadata are as expected, else None."""
    grid, keys = document["chunk_grid"], document["chunk_key_encoding"]
    names = [codec["name"] for codec in document["codecs"]]
    endian = (document["codecs"][0].get("configuration") or {}).get("endian", "little")
    expected = (
        document["node_type"] == "array"
        and document["zarr_format"] == 3
        and document["data_type"] == dtype.name
        and document["shape"] == list(shape)
        and grid == {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
        and keys["name"] == "default"
        and (keys.get("configuration") or {}).get("separator", "/") == "/"
        and names in (["bytes"], ["bytes", "zstd"])
        and endian == "little"
        and not document.get("storage_transformers")
    )
    return names if expected else None


def unpacked_bytes(start: bytes) -> int:
    """Bytes that a Zstandard frame says it unpacks to, -1 where it does not say [RFC8878 3.1.1]."""
    if len(start) < 6 or start[:4] != _ZSTD_START:
        return -1
    descriptor = start[4]
    single, flag, dictionary = descriptor >> 5 & 1, descriptor >> 6, descriptor & 3
    size = (single, 2, 4, 8)[flag]
    begin = 5 + (1 - single) + (0, 1, 2, 4)[dictionary]
    if not size or len(start) < begin + size:
        return -1
    return int.from_bytes(start[begin : begin + size], "little") + (256 if size == 2 else 0)


def _is_entry(entry: Any) -> bool:
    texts = ("dtype",) if isinstance(entry, dict) and "rows" in entry else ("dtype", "sha256")
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in texts):
        return False
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) > 8:
        return False
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**48 for n in shape):
        return False
    try:
        return len(entry["dtype"]) < 32 and is_plain(np.dtype(entry["dtype"]))
    except (TypeError, ValueError):
        return False


def _is_large(entry: Mapping[str, Any]) -> bool:
    """Whether it is read chunk by chunk, none of them larger than what is believed."""
    rows = entry.get("rows")
    if type(rows) is not int or rows < 1 or not entry["shape"]:
        return False
    chunk = rows * math.prod(entry["shape"][1:]) * np.dtype(entry["dtype"]).itemsize
    return bool(chunk <= BELIEVED_BYTES)


def _nbytes(entry: Mapping[str, Any]) -> int:
    return int(math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize)


def _files_of_zip(source: Path) -> Files:
    total = source.stat().st_size
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
    sizes = {member.filename: member.file_size for member in members}
    packed = any(
        member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size
        for member in members
    )
    if packed or len(sizes) < len(members) or sum(sizes.values()) > total:
        raise _odd(source, "its members are packed, named twice or larger than the file")

    def start(name: str, most: int) -> bytes:
        with zipfile.ZipFile(source) as archive, archive.open(name) as member:
            return member.read(most)

    return Files(sizes, start, total)


def _files_of_folder(source: Path) -> Files:
    sizes: dict[str, int] = {}
    for path in source.rglob("*"):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            sizes[path.relative_to(source).as_posix()] = found.st_size
        elif not stat.S_ISDIR(found.st_mode):
            raise _odd(source, f"{path.name!r} in it is neither a file nor a folder")

    def start(name: str, most: int) -> bytes:
        with (source / name).open("rb") as file:
            return file.read(most)

    return Files(sizes, start, sum(sizes.values()))


def _odd(source: Path, problem: str) -> ModelFileError:
    return ModelFileError(
        f"{str(source)!r} is not a record that streamgp wrote, or is damaged: {problem}; restore it from "
        f"a copy"
    )
