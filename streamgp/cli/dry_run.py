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
from streamgp.budget import parse_size
from streamgp.data import open_rows
from streamgp.data.sample import write_sample
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.estimators import Estimator
from streamgp.estimators.base import StreamGPEstimator
from streamgp.estimators.fitting import seed_of
from streamgp.passes.progress import Progress
from streamgp.settings import fit_settings
from streamgp.training.fit import settled_by_trial
from streamgp.training.history import by_stage

FEWEST_ROWS = 1000
"""Rows of a sample at least: below, a fit has stages of other sizes."""
MODE = "infer: mode"
GROWING = {
    "group: blocks": 1.0,
    "infer: all rows": 1.0,
    "infer: local": 1.0,
    MODE: 1.0,
}
"""Part of the seconds of a stage that grows with the rows; of stages not named here, those of passes."""
CALIBRATE = "calibrate"
DOUBLINGS = 1.6
"""Passes at each doubling of an active set cost, in all, so many times the last one."""
MODE_PASSES = 8
"""Passes over rows that are not held, each as dear as a prediction, until their mode is found."""
METHOD = ("n_active", "selection", "inference", "kernel", "likelihood", "multiclass")
"""Parameters that make a method."""


@dataclass(frozen=True)
class DryRun:
    """What a trial and the fit of a sample took, and what the whole fit is predicted to take."""

    rows: int
    sample_rows: int
    sample_seconds: float
    trial_seconds: float
    predicted_seconds: float
    recipe: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> Iterable[str]:
        """For people."""
        yield f"recipe: {self.recipe}"
        if self.trial_seconds:
            yield f"the trial that chooses a method took {self.trial_seconds:.1f} s"
        yield f"{self.sample_rows:,} of {self.rows:,} rows took {self.sample_seconds:.1f} s"
        yield f"the whole fit is predicted to take about {_rounded(self.predicted_seconds)} s"


def _rounded(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"


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

    def fit(self, progress: Progress) -> Estimator:
        parameters = {**self.parameters, "progress": progress}
        return streamgp.fit_stream(self.path, task=self.task, **parameters)


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
    """Hold the trial of the fit, then fit a sample, stored as the rows are, by the method that it chose.

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
    estimator = StreamGPEstimator(**quiet)
    planned = estimator.plan_stream(store, x, y, task=task)
    with tempfile.TemporaryDirectory(prefix="streamgp-sample-") as folder, _silence():
        path = Path(folder) / "sample.zarr"
        taken = write_sample(rows, path, share, seed=parameters["random_state"])
        tiny = Path(folder) / "tiny.zarr"
        write_sample(open_rows(path), tiny, min(1.0, 2000 / taken), seed=1)
        streamgp.fit_stream(tiny, task=task, **quiet | {"max_seconds": 0.0})
        begun = time.perf_counter()
        settings = fit_settings(estimator.get_params(deep=False), seed_of(estimator.random_state))
        settled, trial = settled_by_trial(rows, task, settings)
        tried = time.perf_counter() - begun if trial is not None else 0.0
        method = {} if trial is None else {name: getattr(settled, name) for name in METHOD}
        method |= {} if trial is None else {"learn_hyperparameters": settled.learning}
        sample = _Sample(path, task, quiet | method, taken, rows.n_rows)
        seconds, recipe = _seconds(sample, planned.memory.n_candidates)
        took = time.perf_counter() - begun - tried
    words = recipe if trial is None else f"{recipe} ({trial.sentence()})"
    return DryRun(rows.n_rows, taken, took, tried, tried + seconds, words)


def _seconds(sample: _Sample, n_candidates: int) -> tuple[float, str]:
    """Seconds that a fit of all rows takes, and its recipe."""
    progress = Progress(False)
    begun = time.perf_counter()
    model = sample.fit(progress=progress)
    total = time.perf_counter() - begun
    stages = by_stage(model.history_)
    passes = progress.pass_seconds - sum(stage["pass_seconds"] for stage in stages)
    predicted: float = (
        max(0.0, total - passes - sum(stage["seconds"] for stage in stages)) + passes * sample.ratio
    )
    for stage in stages:
        if stage["stage"] == MODE and not _is_held(sample):
            predicted += stage["seconds"] + MODE_PASSES * _pass_seconds(sample, model)
            continue
        predicted += stage["seconds"] + _growing(stage, sample) * (sample.ratio - 1)
    return predicted + _where_held(sample, model, stages, n_candidates), model.recipe_


def _growing(stage: Mapping[str, Any], sample: _Sample) -> float:
    """Seconds of a stage that grow with the rows."""
    if stage["stage"] == CALIBRATE:  # by all rows, or by held-out ones, of which there is a fixed number
        return float(stage["seconds"]) if stage["rows_read"] >= sample.rows else 0.0
    part = GROWING.get(stage["stage"])
    return float(stage["pass_seconds"] if part is None else part * stage["seconds"])


def _is_held(sample: _Sample) -> bool:
    """Whether all rows, by their inducing inputs in float32, are about what half of the budget holds."""
    n_active = sample.parameters["n_active"]
    held = 4 * sample.all_rows * (n_active if isinstance(n_active, int) else 0)
    return held <= parse_size(sample.parameters["memory_budget"]) // 2


def _pass_seconds(sample: _Sample, model: Estimator) -> float:
    """Seconds of a pass that predicts all rows."""
    begun = time.perf_counter()
    model.evaluate_stream(sample.path)
    return (time.perf_counter() - begun) * sample.ratio


def _where_held(sample: _Sample, model: Estimator, stages: list[dict[str, Any]], n_candidates: int) -> float:
    """Seconds that are added because all rows cannot be held in memory, as those of the sample were."""
    held = [stage for stage in stages if not stage["rows_read"]]
    greedy: float = sum(stage["seconds"] for stage in held if stage["stage"] == "select: ivm")
    if n_candidates >= sample.all_rows or not greedy:
        return 0.0
    passes = DOUBLINGS * _pass_seconds(sample, model)
    return passes + greedy * max(0.0, n_candidates / sample.rows - 1)
