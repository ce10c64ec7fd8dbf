"""What all stages of a fit share, frozen: the rows, a sample of them in memory, the plan, the clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, BoolArray, FloatArray, IntArray
from streamgp.data import Span
from streamgp.data.targets import ClassTargets, head_targets, is_labelled, n_heads
from streamgp.errors import ParameterError
from streamgp.inference.inducing.heads import RowWeights
from streamgp.passes import PassSettings
from streamgp.passes.block import Visitor
from streamgp.passes.candidates import PickRows, Pool, smallest
from streamgp.passes.run import run_pass
from streamgp.passes.scratch import Scratch
from streamgp.posterior import ClassesSnapshot, Snapshot, choose_dtype
from streamgp.selection import RowKeys, key_bounds, stratified_quotas
from streamgp.settings import FitSettings
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared

T = TypeVar("T")
Uniform = TypeVar("Uniform", Snapshot, ClassesSnapshot)

VALIDATION_SHARE = 0.05
MOST_VALIDATION_ROWS = 10_000
FEWEST_ROWS_TO_HOLD_OUT = 400
"""Below so many rows every one is needed for learning."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs of every stage; frozen for the whole fit.

    ``sample`` are random rows in memory, stratified by class. ``held_out`` rows, also in memory, are never
    learned from; ``excluded`` are the numbers (sorted) of all such rows, of which memory may hold a part.
    ``groups`` are the heads that share their active rows: all of them, or each on its own.
    """

    prepared: Prepared
    plan: MemoryPlan
    settings: FitSettings
    sample: Pool
    held_out: Pool
    excluded: IntArray
    groups: tuple[tuple[int, ...], ...]
    weights: RowWeights
    started: float
    scratch: Scratch | None = None

    @property
    def n_heads(self) -> int:
        """Number of latent functions."""
        return n_heads(self.prepared.targets)

    @property
    def n_rows(self) -> int:
        """Rows of the store, those held out among them."""
        return self.prepared.rows.n_rows

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.prepared.rows.n_features

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return isinstance(self.prepared.targets, ClassTargets)

    @property
    def has_hyperpriors(self) -> bool:
        """Whether learning by the evidence adds log hyperpriors to it."""
        return getattr(self.settings.inference, "hyperpriors", True)

    @property
    def holds_all_rows(self) -> bool:
        """Whether the sample is the whole training set: then no pass is needed to find candidates."""
        return len(self.sample.rows) + len(self.excluded) == self.n_rows

    @cached_property
    def pass_settings(self) -> PassSettings:
        """How passes run."""
        return pass_settings(self.plan, self.settings)

    def inputs(self, stored: Array, dtype: DTypeLike = np.float64) -> Array:
        """Stored features as the model sees them: standardised, exactly unless in float32."""
        return self.prepared.standardizer.apply(stored, dtype)

    def head_targets(self, encoded: FloatArray, head: int) -> FloatArray:
        """What a head has to learn from encoded targets."""
        return head_targets(self.prepared.targets, encoded, head)

    def of_class(self, head: int) -> Problem:
        """The same rows with one class against the rest alone."""
        targets = self.prepared.targets
        assert isinstance(targets, ClassTargets)
        prepared = replace(self.prepared, targets=replace(targets, only=head))
        return replace(self, prepared=prepared, groups=((0,),))

    def is_labelled(self, encoded: FloatArray) -> BoolArray:
        """Which rows have a label: only these judge, calibrate and are counted."""
        return is_labelled(self.prepared.targets, encoded)

    def sample_order(self, size: int | None = None) -> IntArray:
        """Places of the sample in the order of their keys, which is random; the first ``size`` of them."""
        return np.argsort(self.sample.keys, kind="stable")[:size]

    def generator(self, *purpose: int) -> np.random.Generator:
        """A random stream of its own for a purpose: step, head, ..."""
        return np.random.default_rng([self.settings.seed, *purpose])

    def row_keys(self, step: int) -> RowKeys:
        """Keys of all rows, new in every step."""
        return RowKeys(_entropy(self.settings.seed, 1 + step))

    def seconds(self) -> float:
        """Time since the fit began."""
        return time.monotonic() - self.started

    def is_late(self) -> bool:
        """Whether ``max_seconds`` have passed."""
        return self.settings.max_seconds is not None and self.seconds() > self.settings.max_seconds

    def run_pass(
        self, visitor: Visitor[T], dtype: DTypeLike, label: str, spans: Iterable[Span] | None = None
    ) -> T:
        """A pass without a posterior over the training rows, or those of some spans."""
        return run_pass(
            self.prepared.rows,
            visitor,
            self.pass_settings,
            reading=self.prepared.reading(dtype),
            spans=spans,
            label=label,
        )

    def run_snapshot_pass(
        self, visitor: Visitor[T], snapshot: Snapshot, label: str, spans: Iterable[Span] | None = None
    ) -> T:
        """A pass of a posterior over the training rows, at a time when no stubs are held."""
        tasks = self.plan.tasks_at(snapshot.dtype.itemsize)
        return run_pass(
            self.prepared.rows,
            visitor,
            replace(self.pass_settings, tasks_in_flight=tasks),
            reading=self.prepared.reading(snapshot.dtype),
            snapshot=snapshot,
            spans=spans,
            label=label,
        )

    def in_pass_precision(self, snapshot: Uniform) -> Uniform:
        """The snapshot in the precision that passes over these rows need."""
        probe = self.inputs(self.sample.features[:256])
        return snapshot.astype(choose_dtype(self.settings.precision, snapshot, probe, self.n_rows))

    def sample_weights(self, encoded: FloatArray) -> FloatArray:
        """How many training rows each row of the sample stands for: rare classes were drawn more often."""
        counts = self.prepared.strata
        if len(counts) == 1:
            return np.ones(len(encoded))
        codes = encoded.astype(np.intp)
        drawn = np.bincount(codes, minlength=len(counts))
        ratio: FloatArray = (counts / np.maximum(drawn, 1))[codes]
        weights: FloatArray = ratio * (len(encoded) / ratio.sum())
        return weights


def pass_settings(plan: MemoryPlan, settings: FitSettings) -> PassSettings:
    """How passes of this plan run."""
    return PassSettings(
        plan.rows_per_block, plan.tasks_in_flight, settings.client, settings.progress, plan.read_ahead
    )


def draw_sample(
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    size: int,
    validation: Any,
    weightless: IntArray,
    least_judging: float = 0.0,
) -> tuple[Pool, Pool, IntArray]:
    """Rows held in memory: a stratified random sample to choose from, and held-out rows; in one pass.

    Rare classes get at least a quarter of an equal part of the sample; held-out rows are drawn by share, or
    of rare classes up to ``least_judging`` of an equal part, but no larger part of their rows than that. Of
    rows that are named to be held out, as many are held in memory as there is room for; the numbers of all
    that are held out are returned too. Rows without weight (sorted) are in neither, and among those numbers.
    Rows without a label are a class of their own here, of which none is held out.
    """
    counts, n_rows = prepared.strata, prepared.rows.n_rows
    labelled = np.where(np.arange(len(counts)) < len(prepared.class_counts), counts, 0)
    named, share = held_out_rows(validation, n_rows, int(labelled.sum()))
    keys = RowKeys(_entropy(settings.seed, 0))
    most = n_rows if size >= n_rows else min(MOST_VALIDATION_ROWS, size // 4)
    named = np.setdiff1d(named, weightless)
    kept = named[smallest(keys(named), most)]
    judging = min(share, size // 4 if size < counts.sum() else share)
    rare = stratified_quotas(labelled, judging, least_judging)
    rare = np.minimum(rare, (least_judging * labelled).astype(np.int64))
    held_out = np.maximum(stratified_quotas(labelled, judging), rare)
    held_out = np.minimum(held_out, np.maximum(counts - 1, 0))  # a class whose only row judges is not learned
    quotas = np.minimum(counts, held_out + stratified_quotas(counts, size, least_share=0.25))
    visitor = PickRows(
        keys,
        quotas,
        key_bounds(quotas, counts),
        always=kept,
        excluded=np.union1d(np.setdiff1d(named, kept, assume_unique=True), weightless),
    )
    pools = run_pass(
        prepared.rows,
        visitor,
        pass_settings(plan, settings),
        reading=prepared.reading(np.float32),
        label="sample",
    )
    pool = visitor.pooled(pools)
    del pools  # as large as the pool itself
    chosen = np.isin(pool.rows, kept)
    for code, quota in enumerate(held_out):
        one_class = len(held_out) == 1
        members = np.arange(len(pool.rows)) if one_class else np.flatnonzero(pool.targets == code)
        chosen[members[smallest(pool.keys[members], int(quota))]] = True
    judges = chosen & is_labelled(prepared.targets, pool.targets)
    outside = pool.take(np.flatnonzero(judges))
    held = named if len(named) else outside.rows
    return pool.take(np.flatnonzero(~chosen)), outside, np.union1d(held, weightless)


def _entropy(seed: int, purpose: int) -> int:
    return int(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])


def held_out_rows(validation: Any, n_rows: int, n_labelled: int) -> tuple[IntArray, int]:
    """Named rows, and how many more to draw of those that have a label."""
    nobody = np.zeros(0, np.int64)
    if validation is None:
        enough = n_labelled >= FEWEST_ROWS_TO_HOLD_OUT
        return nobody, min(int(VALIDATION_SHARE * n_labelled), MOST_VALIDATION_ROWS) if enough else 0
    if validation is False:
        return nobody, 0
    if isinstance(validation, float) and 0 <= validation < 1:
        return nobody, int(validation * n_labelled)
    rows = np.unique(np.asarray(validation))
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.size == 0 or rows[0] < 0 or rows[-1] >= n_rows:
        raise ParameterError(
            f'validation must be None, False, "last", a share below 1 or row numbers from 0 to {n_rows - 1}, '
            f"not {validation!r}"
        )
    if rows.size > n_rows - 2:
        raise ParameterError(
            f"validation names {rows.size} of {n_rows} rows, which leaves fewer than two to learn from: name "
            f"fewer, or give a share such as validation=0.1"
        )
    return rows.astype(np.int64), 0
