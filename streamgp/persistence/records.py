"""A record: a JSON header and named plain arrays in one Zarr zip file (or a Zarr folder)."""

from __future__ import annotations

import os
import platform
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec
from zarr.storage import LocalStore, ZipStore

from streamgp.arrays import Array
from streamgp.errors import ModelFileError
from streamgp.persistence.atomic import discard, replacing, set_aside
from streamgp.persistence.large import DIGESTS, LargeArray, StoredArray
from streamgp.persistence.layout import (
    GROUP,
    MOST_HEADER_BYTES,
    check_layout,
    check_manifest,
    chunk_shape,
    files_of,
    fits_ratio,
)
from streamgp.persistence.plain import (
    array_digest,
    check_names,
    is_plain,
    json_digest,
    plain_array,
    plain_json,
)

SCHEMA = 2
"""Version of the layout of records; a higher one is refused. Without large arrays a record has version 1."""
RECORD = "streamgp_record"
"""Attribute of the group: kind, schema, versions, checksums and header."""
_ZIP_START = b"PK\x03\x04"

Arrays = Mapping[str, Array]
Written = Mapping[str, Array | LargeArray]


def write_record(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Written, *, kind: str
) -> None:
    """Write a header and arrays to ``path``; an earlier record there is replaced as a whole, or not at all.

    The record is one zip file, or a folder where ``path`` ends in ``.zarr``. A folder is renamed away before
    its successor takes its place: for a replacement in one step take the zip file. ``header`` is what JSON
    can hold, finite numbers only; ``arrays`` hold numbers, bool or fixed-width strings, and their names may
    have levels ("heads/0/projection"). All bits are kept; big-endian and Fortran-ordered arrays come back
    little-endian and C-ordered. Large arrays are read twice, chunk by chunk.
    """
    target = _local(path)
    large = {name: array for name, array in arrays.items() if isinstance(array, LargeArray)}
    small = {name: array for name, array in arrays.items() if not isinstance(array, LargeArray)}
    small |= {name + DIGESTS: array.digests() for name, array in large.items()}
    check_names([*small, *large])
    plain = {name: plain_array(array, name) for name, array in small.items()}
    manifest = {
        "schema": SCHEMA if large else 1,
        "kind": kind,
        "versions": {
            "streamgp": version("streamgp"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "arrays": {
            name: {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": array_digest(array)}
            for name, array in plain.items()
        },
        "header": plain_json(header, "header"),
    }
    if large:
        manifest["large"] = {
            name: {"dtype": array.dtype.str, "shape": list(array.shape), "rows": array.rows}
            for name, array in large.items()
        }
    manifest["sha256"] = json_digest(manifest)
    _check_target(target)
    stated = sum(array.nbytes for array in plain.values())
    with replacing(target) as unfinished:
        _write_store(unfinished, manifest, plain, large, folder=_is_folder_name(target))
        if not fits_ratio(stated, files_of(unfinished).total):
            # It packs so well that a reader would take it for a bomb.
            discard(unfinished)
            _write_store(unfinished, manifest, plain, large, folder=_is_folder_name(target), packed=False)


def read_record(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a record, each array verified by its checksum; large ones when they are read.

    Raises :class:`ModelFileError`, which names the file and the array, where the record is absent, damaged,
    written by a newer version, or of another ``kind``.
    """
    source = _local(path)
    with _opened(source) as group:
        manifest = _manifest_of_kind(group, source, kind)
        check_layout(manifest, files_of(source), source)
        arrays: dict[str, Any] = {
            name: _read_array(group, name, entry, source) for name, entry in manifest["arrays"].items()
        }
    for name, entry in manifest.get("large", {}).items():
        arrays[name] = StoredArray(
            name,
            tuple(entry["shape"]),
            np.dtype(entry["dtype"]),
            entry["rows"],
            arrays.pop(name + DIGESTS),
            partial(_opened_member, source.absolute(), name),
            partial(_damaged, source=source),
        )
    return manifest["header"], arrays


@contextmanager
def _opened_member(source: Path, name: str) -> Iterator[Any]:
    with _opened(source, checked=True) as group:
        member = group.get(name)
        if member is None:
            raise _damaged(name, "is missing", source)
        yield member


def read_header(path: str | os.PathLike[str], *, kind: str) -> dict[str, Any]:
    """Header of a record, as :func:`read_record` gives it; its arrays are not read."""
    source = _local(path)
    with _opened(source) as group:
        header: dict[str, Any] = _manifest_of_kind(group, source, kind)["header"]
    return header


def is_record(path: str | os.PathLike[str]) -> bool:
    """Whether a file or folder is a record that streamgp wrote; a file that cannot be read counts as one."""
    source = Path(path)
    if source.is_dir():
        return _is_record(source)
    try:
        with _opened(source) as group:
            return RECORD in group.attrs
    except ModelFileError:
        return source.is_file()


def _write_store(
    path: Path,
    manifest: dict[str, Any],
    arrays: Arrays,
    large: Mapping[str, LargeArray],
    *,
    folder: bool,
    packed: bool = True,
) -> None:
    store = LocalStore(path) if folder else ZipStore(path, mode="x")
    group = zarr.create_group(store, attributes={RECORD: manifest}, zarr_format=3)
    try:
        for name, array in arrays.items():
            stored = _code_points(array) if array.dtype.kind == "U" else array
            member = group.create_array(
                name,
                shape=stored.shape,
                dtype=stored.dtype,
                chunks=chunk_shape(stored.shape, stored.dtype.itemsize),
                filters=None,
                compressors=ZstdCodec(level=1) if packed else None,  # as fast as none, halves a triangle
                config={"write_empty_chunks": True},  # else -0.0 may return as 0.0
            )
            member[...] = stored
        for name, source in large.items():
            member = group.create_array(
                name,
                shape=source.shape,
                dtype=source.dtype,
                chunks=(source.rows, *source.shape[1:]),
                filters=None,
                compressors=ZstdCodec(level=1),
                config={"write_empty_chunks": True},
            )
            for start, piece in source.pieces():
                member[start : start + len(piece)] = piece
    finally:
        store.close()


def _code_points(strings: Array) -> Array:
    """Fixed-width strings as integers with one more axis: exact for any string, and every reader has them."""
    width = strings.dtype.itemsize // 4
    return strings.reshape(-1).view("<u4").reshape(*strings.shape, width)


def _check_target(target: Path) -> None:
    """Refuse a place that cannot be written, and whatever a record must not replace."""
    name = str(target)
    if not target.parent.is_dir():
        raise ModelFileError(
            f"cannot write {name!r}: there is no folder {str(target.parent)!r}; create it first"
        )
    if not target.exists():
        return
    if target.is_dir() and not _is_folder_name(target):
        raise ModelFileError(
            f"{name!r} is a folder; give the name of a file in it, such as {str(target / 'model.zarr.zip')!r}"
        )
    if target.is_dir() != _is_folder_name(target) or (target.is_dir() and not _is_record(target)):
        raise ModelFileError(
            f"{name!r} exists and is not a folder that streamgp wrote; it is not replaced: take another name"
        )


def _is_folder_name(path: Path) -> bool:
    return path.suffix == ".zarr"


def _is_record(folder: Path) -> bool:
    try:
        return RECORD in zarr.open_group(folder, mode="r", zarr_format=3).attrs
    except Exception:  # whatever it is that cannot be opened, it is not ours
        return False


def _local(path: str | os.PathLike[str]) -> Path:
    if "://" in os.fspath(path):
        raise ModelFileError(
            f"{os.fspath(path)!r} is not a local path; copy the file to or from there yourself"
        )
    return Path(path)


@contextmanager
def _opened(source: Path, *, checked: bool = False) -> Iterator[zarr.Group]:
    if not source.exists():
        earlier = set_aside(source)
        hint = f"; an earlier version is complete: rename {str(earlier[-1])!r} to it" if earlier else ""
        raise ModelFileError(f"there is no file or folder {str(source)!r}{hint or '; check the path'}")
    if not checked:
        if not source.is_dir():
            _check_zip(source)
        if files_of(source).sizes.get(GROUP, 0) > MOST_HEADER_BYTES:
            raise ModelFileError(f"the header of {str(source)!r} is larger than any that streamgp writes")
    store = LocalStore(source, read_only=True) if source.is_dir() else ZipStore(source, mode="r")
    try:
        try:
            group = zarr.open_group(store, mode="r", zarr_format=3)  # format 2 could hold pickled objects
        except Exception as error:
            raise ModelFileError(
                f"{str(source)!r} is not a Zarr group of format 3 ({_told(error)}); give the path of a file "
                f"saved by streamgp, or restore it from a copy if it was one"
            ) from error
        yield group
    finally:
        store.close()


def _check_zip(source: Path) -> None:
    try:
        zipfile.ZipFile(source).close()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:  # as the damaged byte has it
        with source.open("rb") as file:
            start = file.read(len(_ZIP_START))
        if not start:
            found = "is empty; the copy or download that made it has failed: repeat it"
        elif start == _ZIP_START:
            found = f"is a damaged or truncated zip file ({error}); repeat its copy or download"
        else:
            found = "is not a zip file; give the path of a file saved by streamgp"
        raise ModelFileError(f"{str(source)!r} {found}") from error


def _manifest_of_kind(group: zarr.Group, source: Path, kind: str) -> dict[str, Any]:
    manifest = _manifest(group, source)
    if manifest["kind"] != kind:
        raise ModelFileError(
            f"{str(source)!r} holds a {manifest['kind']}, not a {kind}; give the path of a {kind}"
        )
    return manifest


def _manifest(group: zarr.Group, source: Path) -> dict[str, Any]:
    """What the record says about itself; only then is anything else in it believed."""
    manifest = group.attrs.get(RECORD)
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(manifest, dict) or not isinstance(schema, int) or isinstance(schema, bool):
        raise ModelFileError(
            f"{str(source)!r} is a Zarr group, but not one saved by streamgp; give the path of a saved file"
        )
    if manifest["schema"] > SCHEMA:
        versions = manifest.get("versions")
        writer = versions.get("streamgp") if isinstance(versions, dict) else "a newer version"
        raise ModelFileError(
            f"{str(source)!r} was written by streamgp {writer} in schema {manifest['schema']}; streamgp "
            f"{version('streamgp')} reads schemas up to {SCHEMA}: upgrade it (pip install -U streamgp)"
        )
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    if manifest.get("sha256") != json_digest(content):
        raise ModelFileError(
            f"the header of {str(source)!r} is damaged (its checksum differs); restore the file from a copy"
        )
    check_manifest(manifest, source)
    return manifest


def _read_array(group: zarr.Group, name: str, entry: dict[str, Any], source: Path) -> Array:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    width = (dtype.itemsize // 4,) if dtype.kind == "U" else ()
    expected = (np.dtype("<u4") if width else dtype, (*shape, *width))
    try:
        member = group.get(name)
        found = None if member is None else (member.dtype, member.shape)
        if found != expected or not is_plain(dtype):
            problem = "is missing" if found is None else f"is {_form(*found)}, not {_form(*expected)}"
            raise _damaged(name, problem, source)
        stored: Array = np.require(member[...], requirements=["C", "W"])  # a scalar becomes an array again
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:  # of zip, codec or metadata: all say that the bytes are not what was written
        raise _damaged(name, f"cannot be decoded ({_told(error)})", source) from error
    array = stored.view(dtype).reshape(shape) if width else stored
    if array_digest(array) != entry["sha256"]:
        raise _damaged(name, "is damaged (its checksum differs)", source)
    return array


def _form(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype.name} of shape {shape}"


def _damaged(name: str, problem: str, source: Path) -> ModelFileError:
    return ModelFileError(f"array {name!r} in {str(source)!r} {problem}; restore the file from a copy")


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
