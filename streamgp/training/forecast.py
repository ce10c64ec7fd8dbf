"""What a fit of rows that are not there yet would take: seconds of a pass and of all of it, memory and disk.

For one method, classes by their joint mode seen through inducing inputs. Seconds are sums of what its stages
do, at the rates of this machine (:mod:`streamgp.training.rates`); workers are taken to be like its cores.
What is done once, on a sample, runs on the threads of the machine that calls.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from streamgp.data.imagined import imagined_rows
from streamgp.inference.inducing.held import held_bytes
from streamgp.selection import Kmeans
from streamgp.settings import FITC, FitSettings
from streamgp.training.fit_memory import plan_fit
from streamgp.training.infer.mode import SAMPLE_ROWS, SAMPLE_STEPS
from streamgp.training.infer.parts import parts_of
from streamgp.training.learn.judged import JUDGED_INDUCING, JUDGED_ROWS, MODE_STEPS, MOST_JUDGES
from streamgp.training.rates import Rates

JUDGED_KERNELS, VARIANCES_TRIED = 7, 6
"""Kernels that held-out rows judge, as fits of digits and of generated data did, and variances for each."""
PASSES_BY_PARTS, PASSES_OF_A_STORE, HELD_EVALUATIONS = 3, 40, 60
SUMMARY = 3.0
"""Seconds of a pass that looks at every value (lowest, highest, moments), in those of reading it."""


class Question(NamedTuple):
    """The shape of the data and of the model."""

    rows: int
    features: int
    active: int
    classes: int = 2
    workers: int = 1
    threads: int = 1
    dtype: str = "float32"

    @property
    def functions(self) -> int:
        """Latent functions: two classes have one."""
        return 1 if self.classes == 2 else self.classes


@dataclass(frozen=True)
class Forecast:
    """Seconds of a pass and the number of passes; seconds by stage and in all; bytes of memory and on disk.

    ``rows_are_held``: whitened rows fit into the memory, and one pass is enough.
    """

    pass_seconds: float
    passes: int
    stages: dict[str, float]
    seconds: float
    memory_bytes: int
    store_bytes: int
    scratch_bytes: int
    rows_are_held: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def forecast(question: Question, settings: FitSettings, rates: Rates) -> Forecast:
    """The cost of a fit; nothing is read."""
    how: dict[str, Any] = {
        "selection": Kmeans(),
        "inference": FITC(),
        "multiclass": "joint",
        "scratch": None,
        "n_active": question.active,
        "size_is_open": False,
        "method_is_open": False,
    }
    rows = imagined_rows(question.rows, question.features, question.dtype)
    plan = plan_fit(rows, replace(settings, **how), question.functions)
    reading, cores = rows.feature_bytes() * rates.byte, question.workers * question.threads
    held = plan.free_bytes // held_bytes(1, question.active, 4) >= question.rows
    by_parts = bool(parts_of(rows.cut(plan.span_rows), question.active))
    passes = 1 if held else PASSES_BY_PARTS if by_parts else PASSES_OF_A_STORE
    each = (
        question.rows * (reading + _of_a_row(question, rates, held)) / (question.workers * question.threads)
    )
    looks = question.rows * (SUMMARY + 1.0) * reading / (question.workers * question.threads)
    kernel = rates.entry + question.features * rates.feature
    centres = question.rows * question.active / question.classes * kernel
    stages = {
        "prepare": looks,
        "learn": _learning(question, rates) if settings.learning else 0.0,
        "select": centres / cores,
        "infer": _start(question, rates, held) + passes * each,
    }
    return Forecast(
        pass_seconds=each,
        passes=passes,
        stages=stages,
        seconds=math.fsum(stages.values()),
        memory_bytes=plan.total_bytes,
        store_bytes=question.rows * rows.row_bytes(),
        scratch_bytes=plan.scratch_bytes,
        rows_are_held=held,
    )


def _of_a_row(question: Question, rates: Rates, held: bool) -> float:
    """Seconds of a row in a pass of the mode: met by weights, or whitened and held."""
    kernel = rates.entry + question.features * rates.feature
    more = question.active * rates.whitening if held else question.functions * rates.latent
    return question.active * (kernel + more)


def _start(question: Question, rates: Rates, held: bool) -> float:
    """Seconds of the sample's mode and curvature, and of the search where all rows are held."""
    n, m, functions = min(SAMPLE_ROWS, question.rows), question.active, question.functions
    kernel = rates.entry + question.features * rates.feature
    start = n * m * (kernel + m * (rates.whitening + rates.moments) + SAMPLE_STEPS * functions * rates.latent)
    search = HELD_EVALUATIONS * question.rows * m * functions * rates.latent if held else 0.0
    return (start + search) / question.threads


def _learning(question: Question, rates: Rates) -> float:
    """Seconds of judging kernels by the mode of a sample."""
    small, rows = min(JUDGED_INDUCING[1], 2 * question.active), min(JUDGED_ROWS, question.rows)
    kernel = rates.entry + question.features * rates.feature
    whitened = (rows + min(MOST_JUDGES, question.rows // 20)) * small * (kernel + small * rates.whitening)
    modes = VARIANCES_TRIED * MODE_STEPS * rows * small * question.functions * rates.latent
    return JUDGED_KERNELS * (whitened + modes) / question.threads
