"""How fast this machine does what passes are made of, measured once and remembered."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from streamgp.arrays import Array
from streamgp.data.columns import load
from streamgp.data.imagined import stored_numbers
from streamgp.data.standardize import Standardizer
from streamgp.data.targets import ClassTargets
from streamgp.inference.inducing.basis import Basis, make_basis, whiten
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.inducing.held import HeldRows
from streamgp.inference.inducing.mode import ModeStep, PointTerms, find_mode, merge_modes, mode_scale
from streamgp.kernels import RBF
from streamgp.likelihoods import Softmax
from streamgp.numerics.compilation import cache_folder
from streamgp.passes import Block, PassSettings, Reading, Summarize, Visitor, run_pass
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.block import Job
from streamgp.passes.candidates import PickRows
from streamgp.passes.nearest import nearest_sums
from streamgp.passes.run import available_threads
from streamgp.passes.sites import SiteSweep
from streamgp.persistence.atomic import replace_text
from streamgp.selection.keys import RowKeys

FILE = "rates.json"
ROWS, INDUCING, CLASSES = 4096, 512, 10
FEW_INDUCING, FEW_CLASSES = 64, 2
NARROW, WIDE = 4, 256
TASKS, FEW_TASKS, TASK_ROWS = 64, 2, 16
REPEATS = 5


@dataclass(frozen=True)
class Rates:
    """Seconds of one core, all of them at work.

    In a pass of the mode a row takes ``row``, and ``output`` for each latent function; each entry of its
    kernel block ``entry``, ``feature`` for each feature, ``latent`` for each latent function. ``look`` and
    ``value``: of a row, and of each feature of it, that is looked at and perhaps drawn. ``nearest``: of a
    row and a centre. ``whitening`` and ``moments``: of a pair of entries of a row; ``packing``: of an entry
    of a whitened row, to 16 bits; ``held``: of one and a latent function, met again. ``byte``: of a
    stored byte that is read. ``begin`` and ``task``: of a pass and of a task beside what they compute, most
    of it in one thread at a time.
    """

    row: float
    output: float
    entry: float
    feature: float
    latent: float
    look: float
    value: float
    nearest: float
    packing: float
    whitening: float
    moments: float
    held: float
    byte: float
    begin: float
    task: float


def rates(folder: Path | None = None, *, again: bool = False) -> Rates:
    """The rates of this machine, from the folder of compiled code (or another one) if they are there."""
    folder = folder or cache_folder()
    path = None if folder is None else folder / FILE
    known = None if path is None or again else _remembered(path)
    if known is not None:
        return known
    found = _measured()
    if path is not None:
        with suppress(OSError):  # the rates are as good where no disk remembers them
            replace_text(path, json.dumps({**asdict(found), "machine": _machine()}))
    return found


def _remembered(path: Path) -> Rates | None:
    """Rates of this machine from a file; None where there is none, of another machine, or a damaged one."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved.pop("machine") != _machine():
            return None
        found = Rates(**{name: float(value) for name, value in saved.items()})
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return found if all(0.0 <= rate < math.inf for rate in vars(found).values()) else None


def _machine() -> str:
    """What rates depend on: several threads share caches and memory, and what computes is compiled."""
    made_of = " ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    return f"{platform.processor()} {platform.node()} {available_threads()} of {os.cpu_count()} {made_of}"


def _best(work: Callable[[], object]) -> float:
    """Seconds of some work while all cores do the same, as in a pass: they share caches, and often more."""
    threads = available_threads()
    with ThreadPoolExecutor(threads) as pool:
        return _least(lambda: list(pool.map(lambda _: work(), range(threads))))


def _least(work: Callable[[], object]) -> float:
    """Seconds of some work at its fastest, but for the first time."""
    times = []
    for _ in range(REPEATS + 1):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times[1:])


def _measured() -> Rates:
    """Times of the library's own functions, in a few seconds."""
    generator = np.random.default_rng(0)
    with single_threaded_blas():
        row, output, entry, feature, latent = _of_a_pass(generator)
        inputs, basis = _inputs_and_basis(generator, NARROW, INDUCING)
        centres = inputs[:INDUCING].astype(np.float64)
        nearest = _best(lambda: nearest_sums(inputs, centres))
        block = _best(lambda: basis.prepared.block(inputs))
        whitened = _best(lambda: whiten(basis, inputs))
        codes, terms = generator.integers(0, CLASSES, ROWS).astype(np.float64), _terms(CLASSES)
        rows = [HeldRows(whiten(basis, inputs).features, codes, np.ones(ROWS))]
        packing = _best(rows[0].packed)
        weights = np.zeros((INDUCING, CLASSES))
        moments = _best(lambda: mode_scale(rows, terms, weights))
        modes = _best(lambda: find_mode(rows, terms, n_functions=CLASSES, most_steps=1, tolerance=1.0))
        evaluations = find_mode(rows, terms, n_functions=CLASSES, most_steps=1, tolerance=1.0).evaluations
        look, value = _of_a_look(generator)
        byte, begin, task = _of_reading()
    entries = ROWS * INDUCING
    return Rates(
        row=row,
        output=output,
        entry=entry,
        feature=feature,
        latent=latent,
        look=look,
        value=value,
        nearest=nearest / entries,
        packing=packing / entries,
        whitening=max(1e-13, (whitened - block) / (entries * INDUCING)),
        moments=moments / (entries * INDUCING),
        held=modes / (evaluations * entries * CLASSES),
        byte=byte,
        begin=begin,
        task=task,
    )


def _of_a_pass(generator: np.random.Generator) -> tuple[float, ...]:
    """Rates row, output, entry, feature, latent: those that explain blocks of five shapes in a pass best.

    Seconds of a row: row + k output + m (entry + p feature + k latent); m inducing inputs, p features, k
    latent functions. Differences of times may be noise, so no rate is below zero.
    """
    shapes = [(NARROW, INDUCING, CLASSES), (WIDE, INDUCING, CLASSES), (NARROW, INDUCING, FEW_CLASSES)]
    shapes += [(NARROW, FEW_INDUCING, CLASSES), (NARROW, FEW_INDUCING, FEW_CLASSES)]
    costs = np.array([[1.0, k, m, m * p, m * k] for p, m, k in shapes])
    seconds = np.array([_block_seconds(generator, *shape) for shape in shapes]) / ROWS
    # Relative errors count: the smallest shape is as well explained as the largest.
    found, _ = nnls(costs / seconds[:, None], np.ones(len(shapes)))
    return tuple(float(rate) for rate in np.maximum(found, 1e-13))


def _block_seconds(generator: np.random.Generator, p: int, m: int, k: int) -> float:
    """Of one block of rows in a pass of the mode."""
    _, basis = _inputs_and_basis(generator, p, m)
    weights = (0.01 * generator.standard_normal((m, k))).astype(np.float32)
    step = ModeStep(basis, weights, _terms(k), RowWeights(np.zeros(0, np.int64)))
    return _visited(generator, p, SiteSweep(step, merge_modes), k)


def _visited(generator: np.random.Generator, p: int, visitor: Visitor[Any], classes: int = 0) -> float:
    """Seconds of a visitor of a block of rows that were read, as many at once as there are cores.

    As stored where no ``classes`` are said, else standardised and encoded.
    """
    features = generator.standard_normal((ROWS, p)).astype(np.float32)
    targets, reading = generator.integers(0, max(2, classes), ROWS).astype(np.int8), None
    if classes:
        standardizer = Standardizer(np.zeros(p), np.ones(p))
        reading = Reading(standardizer, ClassTargets(np.arange(classes)), np.dtype(np.float32))
    job = Job(visitor, reading, None, ROWS, None)
    return _best(lambda: visitor.visit(job.block(0, features, targets, job.buffers(ROWS))))


def _of_a_look(generator: np.random.Generator) -> tuple[float, float]:
    """Seconds of a row and of a value in the two passes before any other: a summary, and a sample."""
    drawn = PickRows(RowKeys(0), np.array([1, 1]), np.ones(2))
    narrow, wide = (
        sum(_visited(generator, p, visitor, classes) for visitor, classes in looks) / ROWS
        for p, looks in ((p, ((Summarize(True), 0), (drawn, 2))) for p in (NARROW, WIDE))
    )
    value = max(0.0, (wide - narrow) / (WIDE - NARROW))
    return max(1e-10, narrow - NARROW * value), value


def _inputs_and_basis(generator: np.random.Generator, p: int, m: int) -> tuple[Array, Basis]:
    inputs = generator.standard_normal((ROWS, p)).astype(np.float32)
    kernel = RBF(1.0, 2.0 * float(np.sqrt(p)))
    return inputs, make_basis(kernel, inputs[:m], np.float32).astype(np.float32)


def _terms(classes: int) -> PointTerms:
    return PointTerms(Softmax(), ClassTargets(np.arange(classes)))


def _of_reading() -> tuple[float, float, float]:
    """Seconds of a byte, of a pass of no task, and of a task without rows to speak of, read from files."""
    stored = stored_numbers(ROWS, WIDE)
    [span] = stored.cut(ROWS).spans()
    byte = _best(lambda: load(stored.pieces(span)[0])) / (4 * ROWS * WIDE)
    with tempfile.TemporaryDirectory(prefix="streamgp-rates-") as folder:
        path, settings = Path(folder) / "rows.zarr", PassSettings(TASK_ROWS, available_threads())
        small = stored_numbers(TASKS * TASK_ROWS, NARROW, TASK_ROWS, path).cut(TASK_ROWS)
        few, many = list(small.spans())[:FEW_TASKS], list(small.spans())
        short = _least(lambda: run_pass(small, Nothing(), settings, spans=few))
        long = _least(lambda: run_pass(small, Nothing(), settings, spans=many))
    task = max(1e-6, (long - short) / (TASKS - FEW_TASKS))
    return byte, max(0.0, short - FEW_TASKS * task), task


@dataclass(frozen=True)
class Nothing(Visitor[int]):
    """A pass that reads, and that is all."""

    def visit(self, block: Block) -> int:
        """Nothing."""
        return 0

    def merge(self, earlier: int, later: int) -> int:
        """Nothing."""
        return 0
