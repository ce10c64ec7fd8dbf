"""Saved models mutated in every way we could think of: each is refused, or predicts the same.

Bits flipped, files cut, members removed, added, swapped, packed and resized, shapes and header values edited
with the checksum made anew. ``wrong`` counts other errors than ModelFileError and other predictions; it must
be 0.
"""

from __future__ import annotations

import copy
import io
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import Zstd

from benchmarks.harness import Options, Rows, Script, defaults
from streamgp import StreamGPClassifier, StreamGPRegressor, load
from streamgp.budget import peak_memory
from streamgp.errors import ModelFileError
from streamgp.persistence.plain import json_digest
from streamgp.persistence.records import RECORD
from streamgp.settings import Local

Members = dict[str, bytes]
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, "x", "", -1, 0, 1, 2**63, 10**400, 1e308, -0.5, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"kind": "RBF"}, "[" * 2000, ["a"] * 5),
)
SAME = 1e-2
"""Largest difference of a prediction that counts as none: edits smaller than a witness hears."""


def flip_bits(data: bytes, generator: np.random.Generator) -> bytes:
    """One to eight bits changed, anywhere."""
    mutant = np.frombuffer(data, np.uint8).copy()
    places = generator.integers(0, len(mutant), generator.integers(1, 9))
    mutant[places] ^= np.left_shift(1, generator.integers(0, 8, len(places))).astype(np.uint8)
    return mutant.tobytes()


def truncate(data: bytes, generator: np.random.Generator) -> bytes:
    """Cut anywhere."""
    return data[: generator.integers(0, len(data))]


def remove(members: Members, generator: np.random.Generator) -> None:
    """A member less."""
    del members[_any(members, generator)]


def add(members: Members, generator: np.random.Generator) -> None:
    """A member more, where a reader may look for one."""
    name = _any(members, generator)
    members[f"{name}/c/0" if generator.random() < 0.5 else f"added/{name}"] = generator.bytes(200)


def swap(members: Members, generator: np.random.Generator) -> None:
    """Two members with each other's content."""
    one, other = _any(members, generator), _any(members, generator)
    members[one], members[other] = members[other], members[one]


def resize(members: Members, generator: np.random.Generator) -> None:
    """A member cut, drawn out, or replaced by a frame that unpacks to 256 MiB."""
    name = _any(members, generator)
    cut = members[name][: generator.integers(0, len(members[name]) + 1)]
    bomb = Zstd(level=1).encode(np.zeros(2**25)) if generator.random() < 0.2 else b""
    members[name] = (cut, members[name] + generator.bytes(50), bomb or members[name] * 2)[
        generator.integers(3)
    ]


def edit_shape(members: Members, generator: np.random.Generator) -> None:
    """The shape or type of an array, in the manifest, in its own metadata or in both."""
    manifest = _manifest(members)
    name = sorted(manifest["arrays"])[generator.integers(len(manifest["arrays"]))]
    entry = manifest["arrays"][name]
    shape = copy.copy(entry["shape"])
    if shape:
        shape[generator.integers(len(shape))] = int(generator.choice([0, 1, 7, 10**6, 10**12]))
    dtype = str(generator.choice([entry["dtype"], "<f4", "<i8", "<U100000", "|O", "|V8"]))
    where = generator.integers(3)
    if where < 2:
        entry |= {"shape": shape, "dtype": dtype}
        _store_manifest(members, manifest)
    if where > 0:
        document = json.loads(members[f"{name}/zarr.json"])
        document["shape"] = shape
        members[f"{name}/zarr.json"] = json.dumps(document).encode()


def edit_header(members: Members, generator: np.random.Generator) -> None:
    """A value of the header replaced, scaled or removed; the checksum is made anew."""
    manifest = _manifest(members)
    part = manifest if generator.random() < 0.1 else manifest["header"]
    while isinstance(part, dict | list) and part:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key = keys[generator.integers(len(keys))]
        inner = part[key]
        if not isinstance(inner, dict | list) or not inner or generator.random() < 0.15:
            if generator.random() < 0.1:
                del part[key]
            elif isinstance(inner, float) and generator.random() < 0.6:
                part[key] = inner * float(generator.choice([-1.0, 0.3, 1.5, 1e6])) + 0.1
            else:
                part[key] = ODD_VALUES[generator.integers(len(ODD_VALUES))]
            break
        part = inner
    _store_manifest(members, manifest)


BYTES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {"bits": flip_bits, "truncated": truncate}
MEMBERS: dict[str, Callable[[Members, np.random.Generator], None]] = {
    "removed": remove,
    "added": add,
    "swapped": swap,
    "resized": resize,
    "shape": edit_shape,
    "header": edit_header,
}
KINDS = ("bits", "truncated", "removed", "added", "swapped", "packed", "resized", "shape", "header", "header")


def mutant(data: bytes, kind: str, generator: np.random.Generator) -> bytes:
    """A file changed in one way."""
    if kind in BYTES:
        return BYTES[kind](data, generator)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if kind in MEMBERS:
        MEMBERS[kind](members, generator)
    packing = zipfile.ZIP_DEFLATED if kind == "packed" else zipfile.ZIP_STORED
    if kind == "packed":
        members[_any(members, generator)] = bytes(int(generator.integers(1, 2**24)))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def verdict(path: Path, X: np.ndarray, expected: np.ndarray) -> str:
    """What became of loading a mutant: refused, same, or what went wrong."""
    try:
        model = load(path)
        found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    except ModelFileError:
        return "refused"
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"[:200]
    is_same = found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= SAME))
    return "same" if is_same else "wrong: other predictions"


def models(folder: Path) -> Iterator[tuple[Path, np.ndarray, np.ndarray]]:
    """Saved models of every kind, rows, and what they predict for them."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 3))
    labels = np.digitize(X[:, 0] + 0.3 * generator.standard_normal(300), [-0.5, 0.5])
    still = {"n_active": 15, "random_state": 0, "learn_hyperparameters": False}
    quick = {**still, "selection": "ivm"}
    fitted = {
        "classes": StreamGPClassifier(**quick).fit(X, np.array(["a", "b", "c"])[labels]),
        "binary": StreamGPClassifier(**quick, inference="fitc").fit(X, labels > 0),
        "real": StreamGPRegressor(**quick).fit(X, X[:, 0] + X[:, 1] ** 2),
        "joint": StreamGPClassifier(**still, multiclass="joint").fit(X, labels),
        "blocks": StreamGPRegressor(**still, inference=Local(block_rows=60)).fit(X, X[:, 0] + X[:, 1] ** 2),
        "blocks of classes": StreamGPClassifier(**still, inference=Local(block_rows=60)).fit(X, labels),
    }
    for name, model in fitted.items():
        path = folder / f"{name}.zarr.zip"
        model.save(path)
        yield path, X, model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


def mutations(folder: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Kind and verdict of so many mutants, the models in turn."""
    saved = [(path.read_bytes(), X, expected) for path, X, expected in models(folder)]
    target = folder / "mutant.zarr.zip"
    for number in range(count):
        generator = np.random.default_rng([seed, number])
        kind = KINDS[number % len(KINDS)]
        data, X, expected = saved[number // len(KINDS) % len(saved)]
        target.write_bytes(mutant(data, kind, generator))
        yield kind, verdict(target, X, expected)


def rows(options: Options) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        for _ in mutations(Path(folder), len(KINDS), options.seed):
            pass  # imports and compiles: the baseline of memory
        before = peak_memory()
        found: dict[str, Counter[str]] = {}
        for kind, outcome in mutations(Path(folder), options.mutations, options.seed):
            found.setdefault(kind, Counter())[outcome.partition(":")[0]] += 1
            if outcome.startswith("wrong"):
                found[kind][outcome] += 1
        for kind, outcomes in found.items():
            told = "; ".join(outcome for outcome in outcomes if outcome.startswith("wrong: "))
            counts = {name: outcomes[name] for name in ("refused", "same", "wrong")}
            yield {"kind": kind, **counts, "told": told or None}
        total = {name: sum(one[name] for one in found.values()) for name in ("refused", "same", "wrong")}
        yield {"kind": "all", **total, "grown_mib": round((peak_memory() - before) / 2**20, 1)}


def _any(members: Members, generator: np.random.Generator) -> str:
    return sorted(members)[generator.integers(len(members))]


def _manifest(members: Members) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(members["zarr.json"])["attributes"][RECORD]
    return manifest


def _store_manifest(members: Members, manifest: dict[str, Any]) -> None:
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    document = json.loads(members["zarr.json"])
    document["attributes"][RECORD] = {**content, "sha256": json_digest(content)}
    members["zarr.json"] = json.dumps(document).encode()


SCRIPT = Script("files", __doc__, rows, defaults(mutations=1000, seed=0))

if __name__ == "__main__":
    SCRIPT.main()
