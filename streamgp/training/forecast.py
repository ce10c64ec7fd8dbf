"""What a fit of rows that are not there yet would take: seconds of a pass and of all of it, memory and disk.

For one method, classes by their joint mode seen through inducing inputs. Seconds are sums of what its stages
do, at the rates of this machine (:mod:`streamgp.training.rates`); workers are taken to be like its cores.
What is done once, on a sample, runs on the threads of the machine that calls.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from streamgp.data import Rows
from streamgp.data.imagined import imagined_itemsize, imagined_rows
from streamgp.inference.inducing.held import held_bytes
from streamgp.selection import Kmeans
from streamgp.settings import FITC, FitSettings
from streamgp.training.fit_memory import plan_fit
from streamgp.training.infer.mode import JUDGES, LOOKED_AT, SAMPLE_ROWS, SAMPLE_STEPS
from streamgp.training.infer.parts import CHECKS, parts_of, steps_ahead
from streamgp.training.learn.judged import JUDGED_INDUCING, JUDGED_ROWS, MODE_STEPS, MOST_JUDGES
from streamgp.training.problem import held_out_rows
from streamgp.training.rates import Rates

JUDGED_KERNELS, VARIANCES_TRIED = 7, 6
"""Kernels that held-out rows judge, as fits of digits and of generated data did, and variances for each."""
PASSES_BY_PARTS, PASSES_OF_A_STORE, HELD_EVALUATIONS = 4, 20, 60
"""As fits of digits, flights and made-up rows took: 2 to 8, 10 to 40; the data decide."""
PASSES_BEFORE = 3
"""A summary, a sample, and the centres of all rows."""
HELD_ITEMSIZES = (4, 2)
"""Bytes of an entry of whitened rows in memory: as they are, or packed where they would not fit."""
SAMPLE_EVALUATIONS = 1.2 * SAMPLE_STEPS


class Question(NamedTuple):
    """The shape of the data and of the model."""

    rows: int
    features: int
    active: int
    classes: int = 2
    workers: int = 1
    threads: int = 1
    dtype: str = "float32"
    chunk_rows: int | None = None

    @property
    def cores(self) -> int:
        """Threads of all workers."""
        return self.workers * self.threads

    @property
    def functions(self) -> int:
        """Latent functions: two classes have one."""
        return 1 if self.classes == 2 else self.classes


@dataclass(frozen=True)
class Forecast:
    """Seconds of a pass, passes of the mode, rows read in all; seconds by stage; bytes of memory, on disk.

    ``rows_are_held``: whitened rows fit into the memory: one pass is enough, none where the sample has all.
    """

    pass_seconds: float
    passes: int
    rows_read: int
    stages: dict[str, float]
    seconds: float
    memory_bytes: int
    store_bytes: int
    scratch_bytes: int
    rows_are_held: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def forecast(question: Question, settings: FitSettings, rates: Rates, passes: int | None = None) -> Forecast:
    """The cost of a fit; nothing is read. ``passes`` of the mode, where their number is known."""
    how: dict[str, Any] = {
        "selection": Kmeans(),
        "inference": FITC(),
        "multiclass": "joint",
        "scratch": None,
        "n_active": question.active,
        "size_is_open": False,
        "method_is_open": False,
    }
    rows = imagined_rows(question.rows, question.features, question.dtype, question.chunk_rows)
    plan = plan_fit(rows, replace(settings, **how), question.functions)
    sample = min(plan.n_candidates, question.rows)
    room = plan.free_bytes - question.features * imagined_itemsize(question.dtype) * sample
    learned_from = question.rows - held_out_rows(settings.validation, question.rows, question.rows)[1]
    if passes is None and sample == question.rows and held_bytes(learned_from, question.active, 4) <= room:
        passes = 0
    mode = _mode(question, rates, rows.cut(plan.span_rows), max(0, room), passes, learned_from)
    spans = rows.cut(plan.span_rows).n_spans
    reading, look = _reading(question, rates), rates.look + question.features * rates.value
    stages = {
        "prepare": _pass(question, 2 * reading + look, 2 * spans, rates),
        "learn": _learning(question, rates) if settings.learning else 0.0,
        "select": _pass(question, reading + _centres(question, rates), spans, rates),
        "infer": mode.seconds,
    }
    return Forecast(
        pass_seconds=mode.pass_seconds,
        passes=mode.passes,
        rows_read=question.rows * (PASSES_BEFORE + mode.passes),
        stages=stages,
        seconds=math.fsum(stages.values()),
        memory_bytes=plan.total_bytes + mode.held,
        store_bytes=question.rows * rows.row_bytes(),
        scratch_bytes=plan.scratch_bytes,
        rows_are_held=bool(mode.held),
    )


class _Mode(NamedTuple):
    """Seconds of a pass and of the stage, the number of passes; bytes of rows that are held, if they are."""

    pass_seconds: float
    seconds: float
    passes: int
    held: int


def _mode(
    question: Question, rates: Rates, rows: Rows, room: int, passes: int | None, learned_from: int
) -> _Mode:
    """The search for the mode in its three ways: rows that are held, steps by parts, a pass a step."""
    every = [held_bytes(learned_from, question.active, itemsize) for itemsize in HELD_ITEMSIZES]
    held = next((size for size in every if size <= room), 0)
    parts = [] if held else parts_of(rows, question.active)
    if passes is None:
        passes = 1 if held else PASSES_BY_PARTS if parts else PASSES_OF_A_STORE
    tasks = sum(map(len, parts)) if parts else rows.n_spans
    of_a_row = _of_a_row(question, rates, bool(held))
    of_a_row += question.active * rates.packing * (held == every[-1])
    each = _pass(question, of_a_row, tasks, rates, max(1, len(parts)))
    judges = (CHECKS * LOOKED_AT + JUDGES) * of_a_row if parts else 0.0
    sample = min(SAMPLE_ROWS, room // held_bytes(1, question.active, 4))
    start = _start(question, rates, bool(held), sample, bool(parts))
    return _Mode(each, start + passes * (each + judges), passes, held)


def _pass(question: Question, of_a_row: float, tasks: int, rates: Rates, steps: int = 1) -> float:
    """Seconds of a pass: tasks side by side; each step, or on workers some of them, waits for the last."""
    steps_at_once = steps_ahead(steps) + 1 if question.workers > 1 else 1
    at_once = steps_at_once * tasks / steps
    rounds = math.ceil(at_once / question.cores)  # the last of which may leave cores without a task
    computing = rounds * (steps / steps_at_once) * (question.rows / tasks) * of_a_row
    # Threads of a process take turns at what tasks do beside computing.
    return computing + steps * rates.begin + tasks / question.workers * rates.task


def _kernel(question: Question, rates: Rates) -> float:
    """Seconds of an entry of a kernel block."""
    return rates.entry + question.features * rates.feature


def _reading(question: Question, rates: Rates) -> float:
    """Seconds of a row that is read."""
    return question.features * imagined_itemsize(question.dtype) * rates.byte


def _of_a_row(question: Question, rates: Rates, held: bool) -> float:
    """Seconds of a row in a pass of the mode: met by weights, or whitened and held."""
    functions, m, kernel = question.functions, question.active, _kernel(question, rates)
    reading = _reading(question, rates)
    if held:
        return reading + m * (kernel + m * rates.whitening)
    return reading + rates.row + functions * rates.output + m * (kernel + functions * rates.latent)


def _centres(question: Question, rates: Rates) -> float:
    """Seconds of a row that looks for the nearest centre of its class."""
    return question.active / question.classes * (rates.nearest + question.features * rates.feature)


def _start(question: Question, rates: Rates, held: bool, sample: int, by_parts: bool) -> float:
    """Seconds of the sample's mode and curvature, and of the search where all rows are held."""
    n, m, functions = min(sample, question.rows), question.active, question.functions
    whitened = m * (_kernel(question, rates) + m * rates.whitening) * (2 if by_parts else 1)
    search = functions * (m * rates.held + rates.output)
    found = SAMPLE_EVALUATIONS * search + m * m * rates.moments * (functions if by_parts else 1)
    later = HELD_EVALUATIONS * question.rows * search if held else 0.0
    return (n * (whitened + found) + later) / question.threads


def _learning(question: Question, rates: Rates) -> float:
    """Seconds of judging kernels by the mode of a sample."""
    small, rows = min(JUDGED_INDUCING[1], 2 * question.active), min(JUDGED_ROWS, question.rows)
    judged = rows + min(MOST_JUDGES, question.rows // 20)
    whitened = judged * small * (_kernel(question, rates) + small * rates.whitening)
    modes = VARIANCES_TRIED * MODE_STEPS * rows * small * question.functions * rates.held
    return JUDGED_KERNELS * (whitened + modes) / question.threads
