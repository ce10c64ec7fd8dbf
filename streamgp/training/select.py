"""Selection: the active sets grow stage by stage, candidates are refreshed by a pass between the stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import Span
from streamgp.inference import filter_sites
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, refresh_factor
from streamgp.passes.candidates import PickRows, Pool, is_among, smallest
from streamgp.posterior import Snapshot, choose_dtype
from streamgp.selection import IVM, HeadScores, key_bounds, stratified_quotas
from streamgp.training.context import Context, class_counts, make_snapshot, refresh_keys, run_snapshot_pass
from streamgp.training.greedy import Enough, Learner, grow
from streamgp.training.heads import head_groups
from streamgp.training.state import State
from streamgp.training.watch import Watch

FIRST_STAGE = 32
"""Active rows that the random sample alone decides about, at least."""
MOST_OF_SAMPLE = 64
"""One of so many rows of the random sample may enter before the first pass,"""
MOST_OF_ACTIVE = 8
"""and one of so many rows that are wanted."""
MOST_OF_CANDIDATES = 5
"""One of so many candidates may enter before the next pass,"""
FEW_CANDIDATES = 15
MOST_OF_FEW_CANDIDATES = 32
"""and one of these, where J holds less than one row in 15: the best few of many rows are soon exhausted.
On MNIST 9, J of 5 %, 1000 active rows: error 1.15 % with one of 5, 0.71 with 16, 0.60 with 32."""


class Stage(NamedTuple):
    """Growth to ``until`` active rows; candidates are chosen and kept in the snapshot's precision.

    The snapshot is the posterior at its beginning, None where no pass is needed to find candidates.
    """

    until: int
    snapshot: Snapshot | None
    n_candidates: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the candidates' inputs and stubs."""
        return np.dtype(np.float64) if self.snapshot is None else self.snapshot.dtype


def next_stage(context: Context, state: State) -> Stage:
    """What comes next, and in which precision."""
    snapshot = None
    if state.n_active and not _chooses_from_all(context):
        snapshot = pass_precision(context, make_snapshot(state.kernel, state))
    itemsize = 8 if snapshot is None else snapshot.dtype.itemsize
    until = next_size(context, state.n_active, itemsize)
    return Stage(until, snapshot, n_candidates(context, until, itemsize))


def next_size(context: Context, n_active: int, itemsize: int) -> int:
    """Size at the end of the coming stage.

    Twice the present one, so that all passes cost 4/3 of the last; less, in equal parts, where that would
    take too many of the candidates (and more than half of the present size): candidates grow stale as rows
    enter, and few of them leave no choice.
    """
    wanted = context.plan.n_active
    # Rows at random need no scores, and so no second look at the data.
    if _chooses_from_all(context) or not isinstance(context.settings.selection, IVM):
        return wanted
    # Sizes are wanted, wanted/2, wanted/4, ... as long as a random sample is not enough to find so many.
    size = wanted
    sample_alone = min(n_candidates(context, size, itemsize) // MOST_OF_SAMPLE, wanted // MOST_OF_ACTIVE)
    first = max(FIRST_STAGE, sample_alone)
    while size // 2 >= max(first, n_active + 1):
        size = -(-size // 2)
    parts = -(-(size - n_active) // _most_at_once(context, n_candidates(context, size, itemsize), n_active))
    return n_active - (n_active - size) // parts


def _most_at_once(context: Context, candidates: int, n_active: int) -> int:
    """Rows that may enter before the next pass."""
    if candidates * FEW_CANDIDATES < context.prepared.rows.n_rows:
        return max(FIRST_STAGE, candidates // MOST_OF_FEW_CANDIDATES)
    return max(FIRST_STAGE, candidates // MOST_OF_CANDIDATES, n_active // 2)


def _chooses_from_all(context: Context) -> bool:
    """Whether J is all rows: there is room for them, and J was not asked to be smaller."""
    selection = context.settings.selection
    limited = isinstance(selection, IVM) and selection.candidates is not None
    return context.holds_all_rows and not limited


def n_candidates(context: Context, until: int, itemsize: int) -> int:
    """Size of J for a stage: as asked for, as far as the budget goes.

    Few candidates of best score are mostly outliers where labels are noisy: many are better there.
    """
    selection, most = context.settings.selection, context.plan.candidates_at(until, itemsize)
    if isinstance(selection, IVM) and selection.candidates is not None:
        return min(most, selection.candidates)
    return most


def select_stage(context: Context, state: State) -> State:
    """Grow every active set to the stage's size; the last stage hands over."""
    stage = next_stage(context, state)
    until = stage.until
    pool = context.sample if stage.snapshot is None else refresh(context, state, stage)
    actives, stopped, looks = list(state.actives), list(state.stopped), []
    for heads in head_groups(context):
        if not stopped[heads[0]]:
            watch = Watch(context, state, heads, stage.dtype)
            for head, grown in zip(
                heads, _grow_heads(context, state, heads, pool, stage, watch), strict=True
            ):
                actives[head], stopped[head] = grown.trimmed(), grown.count < until
            looks += watch.looks
    done = until >= context.plan.n_active or all(stopped) or context.is_late()
    state = replace(state, actives=tuple(actives), stopped=tuple(stopped))
    state = state.told(
        n_active=[active.count for active in actives], candidates=len(pool.rows), validation=looks
    )
    return replace(state, phase=context.after_selection if done else "select")


def _grow_heads(
    context: Context, state: State, heads: list[int], pool: Pool, stage: Stage, enough: Enough
) -> list[ActiveSet]:
    """One group's inclusions of this stage."""
    settings, kernel, until = context.settings, state.kernel, stage.until
    actives = [state.actives[head].with_capacity(until) for head in heads]
    mine = _candidates_of(context, pool, heads, actives[0], stage.n_candidates)
    inputs = context.inputs(mine.features, stage.dtype)
    if not isinstance(settings.selection, IVM):
        return [
            _include_random(
                active, mine, inputs, context.head_targets(mine.targets, head), state, head, until
            )
            for head, active in zip(heads, actives, strict=True)
        ]
    learners = []
    for head, active in zip(heads, actives, strict=True):
        targets, likelihood = context.head_targets(mine.targets, head), state.likelihoods[head]
        candidates = Candidates.new(mine.rows, inputs, targets, kernel, until)
        if active.count:
            refresh_factor(active, kernel)
            catch_up(active, candidates, kernel, since=0)
        learners.append(Learner(active, candidates, likelihood))
    return grow(learners, kernel, settings.selection, until, context.generator(state.step, heads[0]), enough)


def _include_random(
    active: ActiveSet,
    pool: Pool,
    inputs: FloatArray,
    targets: FloatArray,
    state: State,
    head: int,
    until: int,
) -> ActiveSet:
    """The baseline: rows of smallest key. Keys are random, so their order is: ADF depends on it."""
    chosen = np.argsort(pool.keys, kind="stable")[:until]
    count = len(chosen)
    inputs = inputs[chosen]
    gram = state.kernel.gram(inputs).astype(np.float64, copy=False)
    active.precision[:count], active.precision_mean[:count] = filter_sites(
        gram, targets[chosen], state.likelihoods[head]
    )
    active.rows[:count], active.inputs[:count] = pool.rows[chosen], inputs
    active.targets[:count] = targets[chosen]
    return replace(active, count=count)


def _candidates_of(context: Context, pool: Pool, heads: list[int], active: ActiveSet, size: int) -> Pool:
    """The pool's rows for a group: its best scores and the random share, without rows that are active."""
    known = np.sort(active.rows[: active.count])
    pool = pool.take(np.flatnonzero(~is_among(pool.rows, known)))
    if len(pool.rows) <= size or _chooses_from_all(context):
        return pool
    if pool.scores.shape[1] == 0:  # the sample, at the start
        return pool.take(smallest(pool.keys, size))
    assert isinstance(context.settings.selection, IVM)
    score = np.max(pool.scores[:, heads], axis=1)
    best = smallest(-score, int(context.settings.selection.retained * size))
    rest = np.setdiff1d(np.arange(len(pool.rows)), best)
    drawn = rest[smallest(pool.keys[rest], size - len(best))]
    return pool.take(np.sort(np.concatenate([best, drawn])))


def refresh(context: Context, state: State, stage: Stage) -> Pool:
    """A new set of candidates: one pass scores every row (or those of the next spans) with the posterior."""
    settings, prepared = context.settings, context.prepared
    assert isinstance(settings.selection, IVM)
    assert stage.snapshot is not None
    retained = int(settings.selection.retained * stage.n_candidates)
    counts = class_counts(prepared)
    quotas = stratified_quotas(counts, stage.n_candidates - retained, least_share=0.25)
    visitor = PickRows(
        refresh_keys(context, state.step),
        quotas,
        # Of rows that are read in part only, the smallest keys are larger.
        key_bounds(quotas, counts) / settings.selection.refresh,
        excluded=np.sort(context.validation.rows),
        scores=HeadScores(settings.selection, prepared.targets, state.likelihoods),
        per_head=retained + state.n_active,
    )
    pools = run_snapshot_pass(
        context,
        visitor,
        stage.snapshot,
        spans=_next_spans(list(prepared.rows.spans()), settings.selection.refresh, state.step),
        label=f"candidates at {state.n_active}",
    )
    return visitor.pooled(pools)


def _next_spans(spans: list[Span], share: float, step: int) -> list[Span]:
    """The spans that a refresh reads: all, or every k-th in turn, so that sorted files do no harm."""
    stride = max(1, round(1 / share))
    return spans[step % stride :: stride] or spans


def pass_precision(context: Context, snapshot: Snapshot) -> Snapshot:
    """The snapshot in the precision that passes over these rows need."""
    probe = context.inputs(context.sample.features[:256])
    dtype = choose_dtype(context.settings.precision, snapshot, probe, context.prepared.rows.n_rows)
    return snapshot.astype(dtype)
