"""Public data sets of the papers, from a folder of ``.npz`` files or, with a network, from their sources.

``load(name)`` looks in the folder that is given, else in ``STREAMGP_DATA``, else in ``../shared/data``, then
in the cache; what is nowhere is downloaded into the cache. Keys: ``X_train, y_train, X_test, y_test`` where
there is a standard split, otherwise ``X, y, test_mask`` (column k marks the test rows of split k).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

Arrays = dict[str, NDArray[Any]]

SHARED = Path(__file__).parents[2] / "shared" / "data"
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


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Arrays:
    """Arrays of a data set: ``mnist``, ``usps``, ``ijcnn1`` or ``uci_pumadyn32nm``."""
    first = Path(folder or os.environ.get("STREAMGP_DATA") or SHARED)
    for path in (first / f"{name}.npz", CACHE / f"{name}.npz"):
        if path.exists():
            with np.load(path) as file:
                return dict(file)
    try:
        arrays = DOWNLOADS[name]()
    except OSError as error:
        raise FileNotFoundError(
            f"{name}.npz is neither in {first} nor in {CACHE}, and downloading failed ({error}). Put it "
            "into a folder and name that by --data or STREAMGP_DATA, or run where there is a network"
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

    images = {part: idx(f"{part}-images-idx3-ubyte").reshape(-1, 784) for part in ("train", "t10k")}
    labels = {part: idx(f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")}
    return {
        "X_train": images["train"],
        "y_train": labels["train"],
        "X_test": images["t10k"],
        "y_test": labels["t10k"],
    }


def _usps() -> Arrays:
    arrays: Arrays = {}
    for part in ("train", "test"):
        table = np.loadtxt(io.BytesIO(gzip.decompress(_get(f"{USPS}zip.{part}.gz"))))
        arrays[f"X_{part}"], arrays[f"y_{part}"] = (
            table[:, 1:].astype(np.float32),
            table[:, 0].astype(np.uint8),
        )
    return arrays


def _ijcnn1() -> Arrays:
    arrays: Arrays = {}
    for part, name in (("train", "ijcnn1.bz2"), ("test", "ijcnn1.t.bz2")):
        CACHE.mkdir(parents=True, exist_ok=True)
        path = CACHE / name
        path.write_bytes(_get(LIBSVM + name))
        features, labels = load_svmlight_file(path, n_features=22, dtype=np.float32)
        arrays[f"X_{part}"], arrays[f"y_{part}"] = features.toarray(), labels.astype(np.int8)
        path.unlink()
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


def generate(name: str, rows: int = 400) -> Arrays:
    """Made-up data in the shape of ``name``, with few rows: to try a script without the data set."""
    generator = np.random.default_rng(0)
    if name == "uci_pumadyn32nm":
        features = generator.standard_normal((rows, 32)).astype(np.float32)
        targets = np.sin(2 * features[:, 4]) * features[:, 15] + 0.1 * generator.standard_normal(rows)
        split = generator.permutation(rows) % 10
        mask = split[:, None] == np.arange(10)
        return {"X": features, "y": targets.astype(np.float32), "test_mask": mask}
    width = SHAPES[name]["X_train"][1]
    classes = 2 if name == "ijcnn1" else 10
    low, high = (0.0, 255.0) if name == "mnist" else (-1.0, 1.0)
    dtype = np.uint8 if name == "mnist" else np.float32
    prototypes = generator.uniform(low, high, (classes, width))
    arrays: Arrays = {}
    for part, size in (("train", rows), ("test", rows // 2)):
        labels = np.arange(size) % classes
        noisy = prototypes[labels] + 0.4 * (high - low) * generator.standard_normal((size, width))
        arrays[f"X_{part}"] = np.clip(noisy, low, high).astype(dtype)
        arrays[f"y_{part}"] = (2 * labels - 1 if classes == 2 else labels).astype(np.int8)
    return arrays


def reduce_13x13(images: NDArray[Any]) -> NDArray[np.float32]:
    """28 x 28 images without their border of one pixel, then means of 2 x 2.  Shapes: (n, 784) → (n, 169)."""
    inner = images.reshape(-1, 28, 28)[:, 1:27, 1:27]
    means = inner.reshape(-1, 13, 2, 13, 2).mean(axis=(2, 4), dtype=np.float32)
    return means.reshape(-1, 169)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Give a script the options ``--data``, ``--synthetic`` and ``--rows``."""
    parser.add_argument("--data", default=None, help="folder of the .npz files; default STREAMGP_DATA")
    parser.add_argument("--synthetic", action="store_true", help="made-up data of the same shape, few rows")
    parser.add_argument("--rows", type=int, default=None, help="only that many training rows, at random")


def load_by_options(name: str, options: argparse.Namespace) -> Arrays:
    """The data set, or made-up data, that the options of :func:`add_data_options` ask for."""
    return generate(name) if options.synthetic else load(name, options.data)


def drawn_rows(n_rows: int, options: argparse.Namespace) -> NDArray[np.int64]:
    """Numbers of the training rows to use: all, or ``--rows`` of them at random."""
    rows = np.random.default_rng(0).permutation(n_rows)[: options.rows]
    return np.sort(rows)
