"""How fast this machine does what passes are made of, measured once and remembered."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from streamgp.data.columns import load
from streamgp.data.imagined import stored_numbers
from streamgp.data.targets import ClassTargets
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.held import HeldRows
from streamgp.inference.inducing.mode import PointTerms, find_mode, mode_scale
from streamgp.kernels import RBF
from streamgp.likelihoods import Softmax
from streamgp.numerics.compilation import cache_folder
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads

FILE = "rates.json"
ROWS, INDUCING, CLASSES = 4096, 512, 10
NARROW, WIDE = 4, 256
REPEATS = 3


@dataclass(frozen=True)
class Rates:
    """Seconds of one core, all of them at work.

    ``entry``: of an entry of a kernel block, and ``feature`` of each feature of it; ``whitening`` and
    ``moments``: of a pair of entries of a row; ``latent``: of an entry and latent function, value and
    gradient; ``byte``: of a stored byte that is read.
    """

    entry: float
    feature: float
    whitening: float
    moments: float
    latent: float
    byte: float


def rates(folder: Path | None = None, *, again: bool = False) -> Rates:
    """The rates of this machine, from the folder of compiled code (or another one) if they are there."""
    folder = folder or cache_folder()
    path = None if folder is None else folder / FILE
    if path is not None and path.exists() and not again:
        saved = json.loads(path.read_text())
        if saved.pop("machine", None) == _machine():
            return Rates(**saved)
    found = _measured()
    if path is not None:
        path.write_text(json.dumps({**asdict(found), "machine": _machine()}))
    return found


def _machine() -> str:
    return f"{platform.processor()} {platform.node()} {os.cpu_count()} numpy {version('numpy')}"


def _best(work: Callable[[], object]) -> float:
    """Seconds of some work while all cores do the same, as in a pass: they share caches, and often more."""
    threads = available_threads()

    def once() -> float:
        begun = time.perf_counter()
        list(pool.map(lambda _: work(), range(threads)))
        return time.perf_counter() - begun

    with ThreadPoolExecutor(threads) as pool:
        once()
        return min(once() for _ in range(REPEATS))


def _measured() -> Rates:
    """Times of the library's own functions, in a few seconds."""
    generator = np.random.default_rng(0)
    with single_threaded_blas():
        blocks = {}
        for p in (NARROW, WIDE):
            inputs = generator.standard_normal((ROWS, p)).astype(np.float32)
            basis = make_basis(RBF(1.0, float(np.sqrt(p))), inputs[:INDUCING], np.float32).astype(np.float32)
            blocks[p] = _best(partial(basis.prepared.block, inputs))
        inputs = generator.standard_normal((ROWS, NARROW)).astype(np.float32)
        basis = make_basis(RBF(1.0, 4.0), inputs[:INDUCING], np.float32).astype(np.float32)
        whitened = _best(lambda: whiten(basis, inputs))
        codes = generator.integers(0, CLASSES, ROWS).astype(np.float64)
        targets = ClassTargets(np.arange(CLASSES))
        rows = [HeldRows(whiten(basis, inputs).features, codes, np.ones(ROWS))]
        terms, weights = PointTerms(Softmax(), targets), np.zeros((INDUCING, CLASSES))
        moments = _best(lambda: mode_scale(rows, terms, weights))
        modes = _best(lambda: find_mode(rows, terms, n_functions=CLASSES, most_steps=1, tolerance=1.0))
        evaluations = find_mode(rows, terms, n_functions=CLASSES, most_steps=1, tolerance=1.0).evaluations
        stored = stored_numbers(ROWS, WIDE)
        [span] = stored.cut(ROWS).spans()
        read = _best(lambda: load(stored.pieces(span)[0])) / (4 * ROWS * WIDE)
    entries = ROWS * INDUCING
    feature = max(0.0, (blocks[WIDE] - blocks[NARROW]) / (entries * (WIDE - NARROW)))
    return Rates(
        entry=max(1e-11, blocks[NARROW] / entries - NARROW * feature),
        feature=feature,
        whitening=max(1e-13, (whitened - blocks[NARROW]) / (entries * INDUCING)),
        moments=moments / (entries * INDUCING),
        latent=modes / (evaluations * entries * CLASSES),
        byte=read,
    )
