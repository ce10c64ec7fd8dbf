"""Public data sets of the papers, from a folder of ``.npz`` files or, with a network, from their sources.

``load(name)`` looks in the folder that is given, else in ``STREAMGP_DATA``, then in the cache; what is in
neither is downloaded into the cache, if we know where from. Keys: ``X_train, y_train, X_test, y_test`` where
there is a standard split, otherwise ``X, y`` with ``train_idx, test_idx`` (one row for each split) or
``test_mask`` (column k marks the test rows of split k), or without a split.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import io
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

Array = NDArray[Any]
Arrays = dict[str, Array]

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "streamgp"
TIMEOUT = 60.0

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
USPS = "https://hastie.su.domains/ElemStatLearn/datasets/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
UCI = "https://github.com/treforevans/uci_datasets/raw/f0737523712fe66a1640e4b980b927e8490b58eb/uci_datasets/"

MNIST_MD5 = {  # of the files after unpacking
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SHAPES = {
    "mnist": {"X_train": (60000, 784), "X_test": (10000, 784)},
    "usps": {"X_train": (7291, 256), "X_test": (2007, 256)},
    "ijcnn1": {"X_train": (49990, 22), "X_test": (91701, 22)},
    "uci_pumadyn32nm": {"X": (8192, 32), "test_mask": (8192, 10)},
}
AGAINST_REST = {
    "mnist9": ("mnist", 9),
    "pima": ("pima_uci_nosplit", 1),
    "satimage1": ("satimage", 1),
    "usps4": ("usps", 4),
}
"""Tasks of two classes: which set, which of its classes."""


class Split(NamedTuple):
    """Training and test rows of a data set."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array

    @property
    def train(self) -> tuple[Array, Array]:
        """Features and targets to learn from."""
        return self.X_train, self.y_train

    @property
    def test(self) -> tuple[Array, Array]:
        """Features and targets to be judged by."""
        return self.X_test, self.y_test

    def against_rest(self, label: Any) -> Self:
        """One class against the rest: targets are truth values."""
        return self._replace(y_train=self.y_train == label, y_test=self.y_test == label)

    def mapped(self, function: Callable[[Array], Array]) -> Self:
        """The same rows with other features."""
        return self._replace(X_train=function(self.X_train), X_test=function(self.X_test))

    def learning_from(self, rows: Array) -> Self:
        """Only some of the training rows."""
        return self._replace(X_train=self.X_train[rows], y_train=self.y_train[rows])

    def tested_on(self, features: Array, targets: Array) -> Self:
        """Other test rows."""
        return self._replace(X_test=features, y_test=targets)

    def drawn(self, rows: int | None) -> Self:
        """So many of the training rows, at random; None for all."""
        return self.learning_from(np.sort(np.random.default_rng(0).permutation(len(self.y_train))[:rows]))

    def following(self, share: float | None) -> Self:
        """The last part of the training rows in the place of the test rows; None: the test rows."""
        if share is None:
            return self
        cut = round((1.0 - share) * len(self.y_train))
        return self.learning_from(np.arange(cut)).tested_on(self.X_train[cut:], self.y_train[cut:])

    def fold(self, number: int | None, folds: int, seed: int = 0) -> Self:
        """One of so many parts of the training rows in the place of the test rows; None: the test rows."""
        if number is None:
            return self
        held_out = np.random.default_rng(seed).permutation(len(self.y_train)) % folds == number
        return self.learning_from(~held_out).tested_on(self.X_train[held_out], self.y_train[held_out])


def split_of(arrays: Arrays, number: int = 0) -> Split:
    """Split ``number`` of a data set in any of its forms; all rows are for training where there is none."""
    if "X_train" in arrays:
        return Split(*(arrays[key] for key in Split._fields))
    features, targets = arrays["X"], arrays["y"]
    train, test = np.arange(len(targets)), np.arange(0)
    if "train_idx" in arrays:
        train, test = arrays["train_idx"][number], arrays["test_idx"][number]
    elif "test_mask" in arrays:
        mask = arrays["test_mask"][:, number].astype(bool)
        train, test = np.flatnonzero(~mask), np.flatnonzero(mask)
    return Split(features[train], targets[train], features[test], targets[test])


def load_arrays(name: str, options: argparse.Namespace) -> Arrays:
    """The data set, or made-up data in its place, as ``--data`` and ``--synthetic`` ask for."""
    return generate(name) if options.synthetic else load(name, options.data)


def load_split(name: str, options: argparse.Namespace, number: int = 0) -> Split:
    """A split of a data set, or of one of its classes against the rest (``"mnist9"``)."""
    file, label = AGAINST_REST.get(name, (name, None))
    split = split_of(load_arrays(file, options), number)
    return split if label is None else split.against_rest(label)


def reduce_13x13(images: Array) -> NDArray[np.float32]:
    """28 x 28 images without their border of one pixel, then means of 2 x 2.  Shapes: (n, 784) → (n, 169)."""
    inner = images.reshape(-1, 28, 28)[:, 1:27, 1:27]
    means = inner.reshape(-1, 13, 2, 13, 2).mean(axis=(2, 4), dtype=np.float32)
    return means.reshape(-1, 169)


def generate(name: str, rows: int = 400) -> Arrays:
    """Made-up data in the shape of ``name``, with few rows: to try a script without the data set."""
    generator = np.random.default_rng(0)
    return (
        _real_targets(name, generator, rows) if name.startswith("uci_") else _classes(name, generator, rows)
    )


def _real_targets(name: str, generator: np.random.Generator, rows: int) -> Arrays:
    width = 32 if "pumadyn" in name else 8
    features = generator.standard_normal((rows, width)).astype(np.float32)
    signal = np.sin(2 * features[:, 4]) * features[:, width // 2 - 1]
    targets = signal + 0.1 * generator.standard_normal(rows)
    split = generator.permutation(rows) % 10
    return {"X": features, "y": targets.astype(np.float32), "test_mask": split[:, None] == np.arange(10)}


def _classes(name: str, generator: np.random.Generator, rows: int) -> Arrays:
    width = SHAPES[name]["X_train"][1] if name in SHAPES else 2
    classes = 10 if name in ("mnist", "usps") else 2
    low, high, dtype = (0.0, 255.0, np.uint8) if name == "mnist" else (-1.0, 1.0, np.float32)
    prototypes = generator.uniform(low, high, (classes, width))
    arrays: Arrays = {}
    for part, size in (("train", rows), ("test", rows // 2)):
        labels = np.arange(size) % classes
        noisy = prototypes[labels] + 0.4 * (high - low) * generator.standard_normal((size, width))
        arrays[f"X_{part}"] = np.clip(noisy, low, high).astype(dtype)
        arrays[f"y_{part}"] = (2 * labels - 1 if classes == 2 else labels).astype(np.int8)
    return arrays


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Arrays:
    """Arrays of a data set, from its file or from where it is published."""
    folders = [Path(place) for place in (folder or os.environ.get("STREAMGP_DATA"), CACHE) if place]
    for path in (place / f"{name}.npz" for place in folders):
        if path.exists():
            with np.load(path) as file:
                return dict(file)
    remedy = "Put it into a folder and name that by --data or STREAMGP_DATA"
    missing = f"{name}.npz is not in {' nor in '.join(map(str, folders))}"
    if name not in DOWNLOADS:
        raise FileNotFoundError(f"{missing}, and we do not know where to download it. {remedy}")
    try:
        arrays = DOWNLOADS[name]()
    except OSError as error:
        raise FileNotFoundError(
            f"{missing}, and downloading failed ({error}). {remedy}, or run where there is a network"
        ) from error
    found = {key: arrays[key].shape for key in SHAPES[name]}
    if found != SHAPES[name]:
        raise ValueError(
            f"{name} as downloaded has shapes {found}, not {SHAPES[name]}: not the file expected"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = CACHE / f"{name}.part.npz"
    np.savez_compressed(partial, **arrays)
    partial.replace(CACHE / f"{name}.npz")
    return arrays


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        content: bytes = response.read()
    return content


def _mnist() -> Arrays:
    def idx(name: str) -> NDArray[np.uint8]:
        content = gzip.decompress(_get(f"{MNIST}{name}.gz"))
        if hashlib.md5(content).hexdigest() != MNIST_MD5[name]:
            raise OSError(f"{name} does not have the known checksum")
        header = 4 + 4 * content[3]  # its fourth byte is the number of axes
        return np.frombuffer(content, np.uint8, offset=header)

    arrays: Arrays = {}
    for part, file in (("train", "train"), ("test", "t10k")):
        arrays[f"X_{part}"] = idx(f"{file}-images-idx3-ubyte").reshape(-1, 784)
        arrays[f"y_{part}"] = idx(f"{file}-labels-idx1-ubyte")
    return arrays


def _usps() -> Arrays:
    arrays: Arrays = {}
    for part in ("train", "test"):
        table = np.loadtxt(io.BytesIO(gzip.decompress(_get(f"{USPS}zip.{part}.gz"))))
        arrays |= {f"X_{part}": table[:, 1:].astype(np.float32), f"y_{part}": table[:, 0].astype(np.uint8)}
    return arrays


def _ijcnn1() -> Arrays:
    arrays: Arrays = {}
    for part, name in (("train", "ijcnn1.bz2"), ("test", "ijcnn1.t.bz2")):
        lines = io.BytesIO(bz2.decompress(_get(LIBSVM + name)))
        features, labels = load_svmlight_file(lines, n_features=22, dtype=np.float32)
        arrays |= {f"X_{part}": features.toarray(), f"y_{part}": labels.astype(np.int8)}
    return arrays


def _pumadyn() -> Arrays:
    def table(name: str) -> NDArray[np.float64]:
        content = gzip.decompress(_get(f"{UCI}pumadyn32nm/{name}.csv.gz"))
        return np.loadtxt(io.BytesIO(content), delimiter=",")

    data = table("data").astype(np.float32)
    return {"X": data[:, :-1], "y": data[:, -1], "test_mask": table("test_mask").astype(bool)}


DOWNLOADS: dict[str, Callable[[], Arrays]] = {
    "mnist": _mnist,
    "usps": _usps,
    "ijcnn1": _ijcnn1,
    "uci_pumadyn32nm": _pumadyn,
}
