"""A fit on a share of the rows, which predicts what the whole fit takes."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import streamgp
from streamgp.data import open_rows
from streamgp.data.sample import write_sample
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.estimators import Estimator
from streamgp.estimators.base import StreamGPEstimator
from streamgp.passes.progress import Progress
from streamgp.training.history import by_stage

DOUBLINGS = 1.6
FEWEST_ROWS = 1000
"""Rows of a sample at least: below, a fit has stages of other sizes."""


@dataclass(frozen=True)
class DryRun:
    """What a fit on a sample took, and what the whole fit is predicted to take."""

    rows: int
    sample_rows: int
    sample_seconds: float
    pass_seconds: float
    predicted_seconds: float
    recipe: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> Iterable[str]:
        """For people."""
        yield f"recipe: {self.recipe}"
        yield (
            f"{self.sample_rows} of {self.rows} rows took {self.sample_seconds:.1f} s, "
            f"{self.pass_seconds:.1f} s of them in passes over all rows"
        )
        yield f"the whole fit is predicted to take about {self.predicted_seconds:.0f} s"


@contextmanager
def _silence() -> Iterator[None]:
    logger = logging.getLogger("streamgp")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def dry_run(store: Any, x: str, y: str, task: Task, share: float, parameters: dict[str, Any]) -> DryRun:
    """Fit a sample that is stored as the rows are, and scale what grows with rows.

    Seconds in passes grow with the rows, all others (learning on a sample, selecting among candidates) have
    sizes of their own. Where the sample was held in memory and all rows cannot be, passes to find candidates
    and larger candidate sets are added. The first fit of a process loads compiled code: a tiny one comes
    before.
    """
    rows = open_rows(store, x, y)
    if share * rows.n_rows < FEWEST_ROWS:
        raise ParameterError(
            f"{share:.2g} of {rows.n_rows} rows are too few to tell: give "
            f"--sample {FEWEST_ROWS / rows.n_rows:.1%} or more, or fit all of them"
        )
    quiet = {**parameters, "progress": False}
    with tempfile.TemporaryDirectory(prefix="streamgp-sample-") as folder:
        sample = Path(folder) / "sample.zarr"
        taken = write_sample(rows, sample, share, seed=parameters["random_state"])
        tiny = Path(folder) / "tiny.zarr"
        write_sample(open_rows(sample), tiny, min(1.0, 2000 / taken), seed=1)
        with _silence():
            streamgp.fit_stream(tiny, task=task, **quiet | {"max_seconds": 0.0})
        progress = Progress(parameters["progress"])
        begun = time.perf_counter()
        model = streamgp.fit_stream(sample, task=task, **parameters | {"progress": progress})
        seconds = time.perf_counter() - begun
        planned = StreamGPEstimator(**quiet).plan_stream(store, x, y, task=task).memory
        selecting = _selection_seconds(model, sample, taken, rows.n_rows, planned.n_candidates)
    fixed = max(0.0, seconds - progress.pass_seconds)
    predicted = fixed + progress.pass_seconds * rows.n_rows / taken + selecting
    return DryRun(rows.n_rows, taken, seconds, progress.pass_seconds, predicted, model.recipe_)


def _selection_seconds(model: Estimator, sample: Path, taken: int, n_rows: int, n_candidates: int) -> float:
    """Seconds that a greedy selection takes beyond those of the sample, which needed no pass to see all rows.

    A pass at each doubling of the active set costs, in total, DOUBLINGS times the last one.
    """
    stages = [stage for stage in by_stage(model.history_) if stage["stage"] == "select: ivm"]
    if not stages or n_candidates >= n_rows or any(stage["rows_read"] for stage in stages):
        return 0.0
    begun = time.perf_counter()
    model.evaluate_stream(sample)
    passes = DOUBLINGS * (time.perf_counter() - begun) * n_rows / taken
    seconds = float(sum(stage["seconds"] for stage in stages))
    return passes + seconds * max(0.0, n_candidates / taken - 1)
