"""A fit on a share of the rows, which predicts what the whole fit takes."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import streamgp
from streamgp.data import open_rows
from streamgp.data.sample import write_sample
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.estimators import Estimator
from streamgp.estimators.base import StreamGPEstimator
from streamgp.passes.progress import Progress
from streamgp.training.history import by_stage

FEWEST_ROWS = 1000
"""Rows of a sample at least: below, a fit has stages of other sizes."""
GROWING = {
    "group: blocks": 1.0,
    "infer: all rows": 1.0,
    "infer: local": 1.0,
    "infer: mode": 0.5,  # the other half is the search for a start, on a sample
    "calibrate": 0.0,  # its passes are over held-out rows, of which there is a fixed number
}
"""Part of the seconds of a stage that grows with the rows; of stages not named here, those of passes."""
DOUBLINGS = 1.6
"""Passes at each doubling of an active set cost, in all, so many times the last one."""
TRIAL_ROWS = 10_000
SECOND_TRIAL_ROWS = 40_000
SECOND_TRIAL = 1.5
"""Seconds of the larger trial that follows a tie, in those of the first."""
METHOD = ("n_active", "selection", "inference", "kernel", "multiclass")
"""Parameters that make a method."""


@dataclass(frozen=True)
class DryRun:
    """What fits of a sample took, and what the whole fit is predicted to take, by method.

    ``predicted_seconds`` is for the method that the sample would choose, the trial included.
    """

    rows: int
    sample_rows: int
    sample_seconds: float
    trial_seconds: float
    predicted_seconds: float
    by_method: dict[str, float]
    recipe: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> Iterable[str]:
        """For people."""
        yield f"recipe: {self.recipe}"
        yield f"{self.sample_rows} of {self.rows} rows took {self.sample_seconds:.1f} s"
        if len(self.by_method) > 1:
            yield f"a trial of about {self.trial_seconds:.0f} s decides among"
            for name, seconds in self.by_method.items():
                yield f"  {name}: about {seconds:.0f} s"
        yield f"the whole fit is predicted to take about {self.predicted_seconds:.0f} s"


class _Sample(NamedTuple):
    """A sample in a store of its own, how it is fitted, and the numbers that predictions need."""

    path: Path
    task: Task
    parameters: Mapping[str, Any]
    rows: int
    all_rows: int

    @property
    def ratio(self) -> float:
        return self.all_rows / self.rows

    def fit(self, **others: Any) -> Estimator:
        return streamgp.fit_stream(self.path, task=self.task, **{**self.parameters, **others})


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
    """Fit a sample that is stored as the rows are, by every method that the fit may choose.

    Stages that work on all rows are scaled; all others (learning on a sample, selecting among candidates)
    have sizes of their own. The first fit of a process loads compiled code: a tiny one comes before.
    """
    rows = open_rows(store, x, y)
    if share * rows.n_rows < FEWEST_ROWS:
        raise ParameterError(
            f"{share:.2g} of {rows.n_rows} rows are too few to tell: give "
            f"--sample {FEWEST_ROWS / rows.n_rows:.1%} or more, or fit all of them"
        )
    quiet = {**parameters, "progress": False}
    planned = StreamGPEstimator(**quiet).plan_stream(store, x, y, task=task)
    with tempfile.TemporaryDirectory(prefix="streamgp-sample-") as folder, _silence():
        path = Path(folder) / "sample.zarr"
        taken = write_sample(rows, path, share, seed=parameters["random_state"])
        sample = _Sample(path, task, quiet, taken, rows.n_rows)
        tiny = Path(folder) / "tiny.zarr"
        write_sample(open_rows(path), tiny, min(1.0, 2000 / taken), seed=1)
        streamgp.fit_stream(tiny, task=task, **quiet | {"max_seconds": 0.0})
        begun = time.perf_counter()
        chosen, trial, recipe = "", 0.0, planned.recipe
        if len(planned.methods) > 1:
            chosen, trial, recipe = _trial(sample)
        methods = {}
        for name, settings in planned.methods.items():
            method = {key: getattr(settings, key) for key in METHOD} if len(planned.methods) > 1 else {}
            methods[name] = trial + _seconds(sample, method, planned.memory.n_candidates)
        seconds = time.perf_counter() - begun
    predicted = methods.get(chosen, max(methods.values()))
    return DryRun(rows.n_rows, taken, seconds, trial, predicted, methods, recipe)


def _trial(sample: _Sample) -> tuple[str, float, str]:
    """What a trial of the sample chooses, the seconds that one of all rows takes, and the recipe in words."""
    model = sample.fit()
    [*trials] = [entry for entry in model.history_ if entry["stage"] == "trial"]
    if not trials:
        return "", 0.0, model.recipe_
    trial = trials[0]
    # Much of a trial is learning on rows of a fixed number: it grows slower than its rows.
    seconds = trial["seconds"] * max(1.0, min(TRIAL_ROWS, sample.all_rows) / sample.rows) ** 0.5
    tied = trial["log_losses"][trial["chosen"]] > min(trial["log_losses"].values())
    if tied and sample.rows < SECOND_TRIAL_ROWS <= sample.all_rows:
        seconds *= 1 + SECOND_TRIAL
    return trial["chosen"], seconds, model.recipe_


def _seconds(sample: _Sample, method: Mapping[str, Any], n_candidates: int) -> float:
    """Seconds that a fit of all rows takes by one method."""
    progress = Progress(False)
    begun = time.perf_counter()
    model = sample.fit(**method, progress=progress)
    total = time.perf_counter() - begun
    stages = by_stage(model.history_)
    passes = progress.pass_seconds - sum(stage["pass_seconds"] for stage in stages)
    predicted: float = (
        max(0.0, total - passes - sum(stage["seconds"] for stage in stages)) + passes * sample.ratio
    )
    for stage in stages:
        part = GROWING.get(stage["stage"])
        growing = stage["pass_seconds"] if part is None else part * stage["seconds"]
        predicted += stage["seconds"] + growing * (sample.ratio - 1)
    return predicted + _where_held(sample, model, stages, n_candidates)


def _where_held(sample: _Sample, model: Estimator, stages: list[dict[str, Any]], n_candidates: int) -> float:
    """Seconds that are added because all rows cannot be held in memory, as those of the sample were."""
    held = [stage for stage in stages if not stage["rows_read"]]
    greedy: float = sum(stage["seconds"] for stage in held if stage["stage"] == "select: ivm")
    if n_candidates >= sample.all_rows or not greedy:
        return 0.0
    begun = time.perf_counter()
    model.evaluate_stream(sample.path)
    passes: float = DOUBLINGS * (time.perf_counter() - begun) * sample.ratio
    return passes + greedy * max(0.0, n_candidates / sample.rows - 1)
