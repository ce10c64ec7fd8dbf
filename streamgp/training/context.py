"""What all steps of a fit share: the data, the plan, the settings, rows held in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Span
from streamgp.data.standardize import Standardize
from streamgp.data.targets import ClassTargets, RealTargets, head_targets, n_heads
from streamgp.errors import ParameterError
from streamgp.inference import head_from_sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes import PassSettings
from streamgp.passes.block import Visitor
from streamgp.passes.candidates import PickRows, Pool, smallest
from streamgp.passes.run import run_pass
from streamgp.passes.scratch import Scratch
from streamgp.posterior import Head, Precision, Snapshot
from streamgp.selection import IVM, RowKeys, key_bounds, stratified_quotas
from streamgp.selection.inducing import EvidenceGain, Kmeans
from streamgp.selection.predictive import REAL_UPDATES, Predictive
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared
from streamgp.training.state import State

T = TypeVar("T")

MOST_LEARNED_INPUTS = 4000
"""Numbers in the inducing inputs up to which they are learned, where nothing else is asked for."""
MOST_ARD_FEATURES = 100
"""Features up to which each has its own lengthscale."""
EVIDENCE = ("evidence", "passes")
"""Ways of learning by the evidence: of a sample alone, or in the end of all rows."""
VALIDATION_SHARE = 0.05
MOST_VALIDATION_ROWS = 10_000


@dataclass(frozen=True)
class FitSettings:
    """What a fit was asked for; names and meanings are those of the estimators' parameters."""

    n_active: int
    selection: IVM | Predictive | Kmeans | EvidenceGain | None  # None: rows at random
    inference: str
    shared: bool  # whether all classes share their active rows
    kernel: Kernel | None
    likelihood: Likelihood | None
    learning: str | None  # "auto", "constant", "hybrid", "evidence", "passes"; None: parameters as they are
    calibrate: bool
    standardize: Standardize
    precision: Precision
    memory_budget: int
    validation: Any
    max_seconds: float | None
    seed: int
    client: Any
    checkpoint: Any
    progress: bool | None
    residual: float | str = "auto"
    power: float | str = "auto"
    learn_inducing: bool | str = "auto"
    scratch: Any = None
    class_weight: Any = None
    sample_weight: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Context:
    """Inputs of every step; frozen for the whole fit."""

    prepared: Prepared
    plan: MemoryPlan
    settings: FitSettings
    sample: Pool
    validation: Pool
    started: float
    scratch: Scratch | None = None

    @property
    def n_heads(self) -> int:
        """Number of latent functions."""
        return n_heads(self.prepared.targets)

    @cached_property
    def pass_settings(self) -> PassSettings:
        """How passes run."""
        return pass_settings(self.plan, self.settings)

    @property
    def holds_all_rows(self) -> bool:
        """Whether the sample is the whole training set: then no pass is needed to refresh candidates."""
        return len(self.sample.rows) + len(self.validation.rows) == self.prepared.rows.n_rows

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return isinstance(self.prepared.targets, ClassTargets)

    @property
    def learns_inducing(self) -> bool:
        """Whether learning moves the inducing inputs: as wished, else where they are few numbers."""
        wish = self.settings.learn_inducing
        numbers = self.plan.n_active * self.prepared.rows.n_features
        return numbers <= MOST_LEARNED_INPUTS if wish == "auto" else bool(wish)

    @property
    def learns_by_evidence(self) -> bool:
        """Whether the evidence of rows seen through inducing inputs is what learning maximises, and not φ.

        As wished, else for inference over all rows and for predictive selection; but not of classes with many
        features, unless inducing inputs are learned. Where each feature has a lengthscale, φ follows
        neighbours that random rows have and new ones lack: ijcnn1, 1000 inducing inputs, 2.2 % of its test
        rows wrong, by the evidence 1.5 %. Of pixels the evidence makes kernels too smooth: USPS 4, 200
        inducing inputs, training rows held out, 0.89 % error and 0.028 nats, with the kernel of φ 0.48 % and
        0.018.
        """
        learning = self.settings.learning
        if learning != "auto":
            return learning in EVIDENCE
        if self.settings.inference != "fitc":
            return self.has_few_features and self.is_predictive and self.update_every is None
        return not self.is_classification or self.learns_inducing or self.has_few_features

    @property
    def has_few_features(self) -> bool:
        """Whether each feature gets its own lengthscale, where no kernel is given."""
        return self.prepared.rows.n_features <= MOST_ARD_FEATURES

    @property
    def is_predictive(self) -> bool:
        """Whether rows enter and leave the active sets block by block."""
        return isinstance(self.settings.selection, Predictive)

    @property
    def update_every(self) -> int | None:
        """Blocks of a predictive selection between updates of its hyperparameters; None: there are none.

        Where nothing is said, those of real targets are updated, unless they are learned otherwise.
        """
        selection, learning = self.settings.selection, self.settings.learning
        if not isinstance(selection, Predictive) or learning is None:
            return None
        otherwise = self.is_classification or self.settings.inference == "fitc" or learning in EVIDENCE
        return selection.update_every or (None if otherwise else REAL_UPDATES)

    @property
    def learns_along(self) -> bool:
        """Whether all learning is in the updates of a predictive selection."""
        return self.update_every is not None and not self.learns_by_evidence

    @property
    def selection_phase(self) -> str:
        """The phase that chooses active rows, or inducing inputs."""
        selection = self.settings.selection
        if isinstance(selection, Predictive):
            return "begin"
        return "inducing" if isinstance(selection, Kmeans | EvidenceGain) else "select"

    @property
    def after_selection(self) -> str:
        """The phase that follows the selection.

        Sites converge, or are left as filtering set them; or the active rows become inducing inputs.
        """
        if self.settings.inference == "fitc":
            return "refine" if self.learns_by_evidence else "approximate"
        return "infer" if self.settings.inference == "ep" else "calibrate"

    def inputs(self, stored: Array, dtype: DTypeLike = np.float64) -> Array:
        """Stored features as the model sees them: standardised, exactly unless in float32."""
        return self.prepared.standardizer.apply(stored, dtype)

    def head_targets(self, encoded: FloatArray, head: int) -> FloatArray:
        """What a head has to learn from encoded targets."""
        return head_targets(self.prepared.targets, encoded, head)

    def generator(self, *purpose: int) -> np.random.Generator:
        """A random stream of its own for a purpose: step, head, ..."""
        return np.random.default_rng([self.settings.seed, *purpose])

    def seconds(self) -> float:
        """Time since the fit began."""
        return time.monotonic() - self.started

    def is_late(self) -> bool:
        """Whether ``max_seconds`` have passed."""
        return self.settings.max_seconds is not None and self.seconds() > self.settings.max_seconds


def pass_settings(plan: MemoryPlan, settings: FitSettings) -> PassSettings:
    """How passes of this plan run."""
    return PassSettings(plan.rows_per_block, plan.tasks_in_flight, settings.client, settings.progress)


def run_snapshot_pass(
    context: Context,
    visitor: Visitor[T],
    snapshot: Snapshot,
    *,
    label: str,
    spans: Iterable[Span] | None = None,
) -> T:
    """A pass of the posterior over the training rows between two stages, when no stubs are held."""
    tasks = context.plan.tasks_at(snapshot.dtype.itemsize)
    return run_pass(
        context.prepared.rows,
        visitor,
        replace(context.pass_settings, tasks_in_flight=tasks),
        reading=context.prepared.reading(snapshot.dtype),
        snapshot=snapshot,
        spans=spans,
        label=label,
    )


def make_snapshot(kernel: Kernel, state: State) -> Snapshot:
    """The posterior of a state, one head per latent function, float64; shared active rows are held once."""
    first = state.actives[0]
    shared = all(np.array_equal(a.rows[: a.count], first.rows[: first.count]) for a in state.actives)
    inputs, heads, start = [], [], 0
    for active, calibration in zip(state.actives, state.calibrations, strict=True):
        own = active.inputs[: active.count]
        columns = slice(0, len(own)) if shared else slice(start, start + len(own))
        head = head_from_sites(kernel.gram(own).astype(np.float64, copy=False), active.sites, columns)
        heads.append(Head(head.projection, head.projected_targets, columns, calibration))
        inputs.append(own)
        start += len(own)
    return Snapshot(kernel, inputs[0] if shared else np.concatenate(inputs), tuple(heads))


def draw_sample(prepared: Prepared, plan: MemoryPlan, settings: FitSettings, size: int) -> tuple[Pool, Pool]:
    """Rows held in memory: a stratified random sample to choose from, and held-out rows; in one pass.

    Rare classes get at least a quarter of an equal part of the sample; held-out rows are drawn by share.
    """
    counts = class_counts(prepared)
    named, share = _validation(settings.validation, prepared.rows.n_rows)
    held_out = stratified_quotas(counts, min(share, size // 4 if size < counts.sum() else share))
    quotas = np.minimum(counts, held_out + stratified_quotas(counts, size, least_share=0.25))
    keys = RowKeys(_entropy(settings.seed, 0))
    visitor = PickRows(keys, quotas, key_bounds(quotas, counts), always=named)
    pools = run_pass(
        prepared.rows,
        visitor,
        pass_settings(plan, settings),
        reading=prepared.reading(np.float32),
        label="sample",
    )
    pool = visitor.pooled(pools)
    del pools  # as large as the pool itself
    chosen = np.isin(pool.rows, named)
    for code, quota in enumerate(held_out):
        one_class = len(held_out) == 1
        members = np.arange(len(pool.rows)) if one_class else np.flatnonzero(pool.targets == code)
        chosen[members[smallest(pool.keys[members], int(quota))]] = True
    return pool.take(np.flatnonzero(~chosen)), pool.take(np.flatnonzero(chosen))


def _entropy(seed: int, purpose: int) -> int:
    return int(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])


def refresh_keys(context: Context, step: int) -> RowKeys:
    """Keys of the random share of candidates, new in every step."""
    return RowKeys(_entropy(context.settings.seed, 1 + step))


def class_counts(prepared: Prepared) -> IntArray:
    """Rows of each class, in the order of classes; all rows where the target is real."""
    if isinstance(prepared.targets, RealTargets):
        return np.array([prepared.rows.n_rows])
    assert isinstance(prepared.targets, ClassTargets)
    return np.array([prepared.summary.labels[label] for label in prepared.targets.classes.tolist()])


def _validation(validation: Any, n_rows: int) -> tuple[IntArray, int]:
    """Named rows, and how many more to draw."""
    nobody = np.zeros(0, np.int64)
    if validation is None:
        # Below a few hundred rows every one is needed for learning.
        return nobody, min(int(VALIDATION_SHARE * n_rows), MOST_VALIDATION_ROWS) if n_rows >= 400 else 0
    if validation is False:
        return nobody, 0
    if isinstance(validation, float) and 0 <= validation < 1:
        return nobody, int(validation * n_rows)
    rows = np.unique(np.asarray(validation))
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.size == 0 or rows[0] < 0 or rows[-1] >= n_rows:
        raise ParameterError(
            f"validation must be None, False, a share below 1 or row numbers from 0 to {n_rows - 1}, "
            f"not {validation!r}"
        )
    return rows.astype(np.int64), 0
