"""What methods cost, roughly, and what can be done in the seconds that there are.

A cost is a number of multiply-adds at the rate of a matrix product. The constants were read from fits of
generated data (docs/decisions.md); a factor of two either way is as good as they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from streamgp.budget import parse_size
from streamgp.settings import Local
from streamgp.training.auto import CONSTANT, LINE, Candidate, Shape

BLOCK_ROWS = 500
BLOCK_SWEEPS = 12
BLOCK_LEARNING, REAL_BLOCK_LEARNING = 1.5e11, 4e11
"""Learning the kernel of local blocks, for two classes (or a given kernel) and for real targets."""
JUDGED_KERNELS = 60
"""Kernels that are judged, each with a few variances."""
JUDGED_ROWS, MOST_JUDGED_INDUCING = 8000, 500
MODE_EVALUATIONS = 80
KERNEL_ENTRY = 64
"""What an entry of a kernel block costs beside its distance: an exponential."""
HELD_BYTES, HELD_SHARE = 2, 0.5
"""Bytes of an entry of whitened rows, at least, and the share of the budget that they may have."""
STORE_PASSES, PART_PASSES = 30, 4
"""Passes of a mode over a store that memory does not hold; of one with so many rows that parts make steps."""
ROWS_BY_PARTS = 32 * 8192
SWEEPS = 20
FEWEST_ACTIVE = 50
"""Active rows below which a cheaper method is taken instead."""
FEWEST_TRIAL_ROWS = 1000
RATE_SIZE, RATE_SECONDS = 384, 0.02


class Affordable(NamedTuple):
    """Candidates that there is time for, and rows to try them with: 0 for none, the last one is taken."""

    options: list[Candidate]
    trial_rows: int


class Clock(NamedTuple):
    """Seconds that there are for a trial and for the fit that follows; as they are, for ever.

    ``until``: when they end, by ``now``; ``rate``: multiply-adds a second. ``fits``: seconds that the fit by
    a candidate takes at that rate, by name.
    """

    until: float = math.inf
    rate: float = 1.0
    fits: Mapping[str, float] = MappingProxyType({})
    now: Callable[[], float] = time.monotonic

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.until - self.now())

    def fit_seconds(self, name: str) -> float:
        """Seconds of the fit by a candidate, as far as they matter."""
        return self.fits.get(name, 0.0)

    def trial_seconds(self, option: Candidate, shape: Shape, times: int) -> float:
        """Seconds of a trial of so many fits of this shape, as far as they matter."""
        return 0.0 if math.isinf(self.until) else times * multiply_adds(option, shape) / self.rate


def multiply_adds(option: Candidate, shape: Shape) -> float:
    """Those of a fit of so many rows, learning included where it learns."""
    settings, n, p = option.settings, float(shape.n_rows), shape.n_features
    m = min(settings.n_active, n)
    functions = shape.n_classes if shape.n_classes > 2 else 1
    if isinstance(settings.inference, Local):
        b = min(BLOCK_ROWS, n)
        sweeps = BLOCK_SWEEPS if shape.n_classes else 1
        learning = BLOCK_LEARNING if shape.n_classes else REAL_BLOCK_LEARNING
        learning *= functions * min(1.0, n / JUDGED_ROWS)
        if functions > 1 and settings.kernel is None:
            learning = _judging(JUDGED_KERNELS, n, p, m, functions)
        return learning + functions * sweeps * n * (b * b + b * m + m * m) + n * p * m
    kernels = JUDGED_KERNELS if settings.kernel is None else 1
    if settings.multiclass == "joint":
        held = parse_size(settings.memory_budget)
        return _judging(kernels, n, p, m, functions) + _mode(n, p, m, functions, held)
    few, small = min(n, JUDGED_ROWS), min(m, MOST_JUDGED_INDUCING)
    return kernels * few * small * (p + small) + functions * SWEEPS * n * m * (p + m)


def _judging(kernels: int, n: float, p: int, m: float, functions: int) -> float:
    """Kernels judged by the modes of some rows."""
    few, small = min(n, JUDGED_ROWS), min(m, MOST_JUDGED_INDUCING)
    return kernels * few * small * (p + small + MODE_EVALUATIONS * functions)


def _mode(n: float, p: int, m: float, functions: int, budget: int) -> float:
    """The mode of all rows: whitened once where memory holds them, else by passes without squares of m."""
    if HELD_BYTES * n * m <= HELD_SHARE * budget:
        return n * m * (p + KERNEL_ENTRY + m + 2 * MODE_EVALUATIONS * functions)
    passes = PART_PASSES if n >= max(ROWS_BY_PARTS, 128 * m) else STORE_PASSES
    return passes * n * m * (p + KERNEL_ENTRY + 2 * functions)


def affordable(
    options: Sequence[Candidate], shape: Shape, trial_rows: int, seconds: float, rate: float
) -> Affordable:
    """The most that ``seconds`` allow at this rate (multiply-adds a second); ``options`` are simplest first.

    All candidates with fewer rows for their trial, then without the dearest. Where that would leave constant
    and line only: the simplest of the others alone, with fewer active rows. Then a trial of the simple ones,
    and at last the simplest, whatever it takes.
    """

    def tried(kept: Sequence[Candidate]) -> Affordable | None:
        rows = min(trial_rows, shape.n_rows)
        while rows >= min(FEWEST_TRIAL_ROWS, shape.n_rows):
            trial = sum(multiply_adds(option, replace(shape, n_rows=rows)) for option in kept)
            if trial + max(multiply_adds(option, shape) for option in kept) <= seconds * rate:
                return Affordable(list(kept), rows)
            rows //= 2
        return None

    simple = [option for option in options if option.name in (CONSTANT, LINE)]
    for count in range(len(options), max(1, len(simple)), -1):
        if found := tried(options[:count]):
            return found
    for option in options[len(simple) :]:
        smaller = _smaller(option, shape, seconds, rate)
        if multiply_adds(smaller, shape) <= seconds * rate:
            return Affordable([smaller], 0)
    return (len(simple) > 1 and tried(simple)) or Affordable([options[0]], 0)


def _smaller(option: Candidate, shape: Shape, seconds: float, rate: float) -> Candidate:
    """The candidate with so few active rows that there is time for it, if that helps; not with very few."""
    found = option
    while multiply_adds(found, shape) > seconds * rate and found.settings.n_active >= 2 * FEWEST_ACTIVE:
        found = found._replace(settings=replace(found.settings, n_active=found.settings.n_active // 2))
    return found


def measured_rate(clock: Callable[[], float] = time.perf_counter) -> float:
    """Multiply-adds a second of this machine now, by products of small matrices for a few hundredths."""
    square = np.ones((RATE_SIZE, RATE_SIZE))
    square @ square  # threads of the library start here
    begun, products = clock(), 0
    while products == 0 or clock() - begun < RATE_SECONDS:
        square @ square
        products += 1
    return products * RATE_SIZE**3 / (clock() - begun)
