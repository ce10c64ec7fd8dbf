"""The informative vector machine: active sets grow greedily, a pass refreshes the candidates in between."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import Span
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, refresh_factor
from streamgp.passes.candidates import PickRows, Pool, is_among, smallest
from streamgp.posterior import Snapshot
from streamgp.selection import IVM, HeadScores, key_bounds, score_bound, stratified_quotas
from streamgp.training.codec import record
from streamgp.training.greedy import Learner, grow
from streamgp.training.heads import make_snapshot
from streamgp.training.problem import Problem
from streamgp.training.select.watch import Looks, Watch, Watching
from streamgp.training.stage import Draft, Save, Stage

logger = logging.getLogger(__name__)

FIRST_GROWTH = 32
"""Active rows that the random sample alone decides about, at least."""
MOST_OF_SAMPLE = 64
"""One of so many rows of the random sample may enter before the first pass,"""
MOST_OF_ACTIVE = 8
"""and one of so many rows that are wanted."""
MOST_OF_CANDIDATES = 5
"""One of so many candidates may enter before the next pass,"""
FEW_CANDIDATES = 15
MOST_OF_FEW_CANDIDATES = 32
"""and one of these, where J holds less than one row in 15: the best few of many rows are soon exhausted."""
BOUND_ROWS, BOUND_TILE = 20_000, 2048
"""Rows of the sample whose scores tell which rows of a pass need not be held,"""
BOUND_SHARE = 10
"""if there are so many times as many rows."""

NOTHING_LEFT = "no other row would teach anything"


@record
@dataclass(frozen=True, eq=False)
class Growth:
    """How far the groups of heads have grown: why each has stopped (None: it has not), and its looks."""

    stopped: tuple[str | None, ...]
    looks: tuple[Looks, ...]


class Target(NamedTuple):
    """What one step grows to: ``until`` active rows, from candidates in the snapshot's precision.

    The snapshot is the posterior at its beginning, None where no pass is needed to find candidates.
    """

    until: int
    snapshot: Snapshot | None
    n_candidates: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the candidates' inputs and stubs."""
        return np.dtype(np.float64) if self.snapshot is None else self.snapshot.dtype


def grow_actives(selection: IVM, watching: Watching | None) -> Stage:
    """Greedy growth of every active set.

    Without ``watching`` the sites are not the model's: held-out rows are not asked when to stop, and rows are
    chosen alike, whatever they weigh.
    """

    def init(problem: Problem, draft: Draft) -> Growth:
        return Growth((None,) * len(problem.groups), (Looks(),) * len(problem.groups))

    return Stage("select: ivm", init, partial(_grow_step, selection, watching))


def _grow_step(
    selection: IVM, watching: Watching | None, problem: Problem, draft: Draft, own: Growth, save: Save
) -> tuple[Draft, Growth | None, dict[str, Any]]:
    """Find candidates, grow every active set to the target's size."""
    if watching is None:
        problem = replace(problem, weights=problem.weights.made_even())
    target = _next_target(problem, selection, draft)
    pool = problem.sample if target.snapshot is None else _refreshed(problem, selection, draft, target)
    actives, stopped, looks = list(draft.actives), list(own.stopped), list(own.looks)
    for number, heads in enumerate(problem.groups):
        if stopped[number] is not None:
            continue
        watch = Watch(problem, draft, heads, target.dtype, watching, looks[number])
        learners = _learners(problem, selection, draft, heads, pool, target)
        generator = problem.generator(draft.step, heads[0])
        grown = grow(learners, draft.kernel, selection, target.until, generator, watch)
        if grown[0].count < target.until:
            stopped[number] = watch.reason or NOTHING_LEFT
        looks[number] = watch.looks
        for head, active in zip(heads, grown, strict=True):
            actives[head] = active.trimmed()
    draft = replace(draft, actives=tuple(actives))
    told = {
        "n_active": draft.sizes,
        "candidates": len(pool.rows),
        "validation": [
            {"head": heads[0], **look._asdict()}
            for heads, before, after in zip(problem.groups, own.looks, looks, strict=True)
            for look in after.looks[len(before.looks) :]
        ],
    }
    if target.until < problem.plan.n_active and not all(stopped) and not problem.is_late():
        return draft, Growth(tuple(stopped), tuple(looks)), told
    if any(stopped):
        told["stopped"] = stopped
        _say_why(problem, draft, [reason for reason in stopped if reason is not None])
    return draft, None, told


def _say_why(problem: Problem, draft: Draft, reasons: list[str]) -> None:
    logger.warning(
        "%d of %d active sets have fewer than the %d rows asked for (the smallest %d): %s",
        len(reasons),
        len(problem.groups),
        problem.plan.n_active,
        min(draft.sizes),
        "; ".join(dict.fromkeys(reasons)),
    )


def _next_target(problem: Problem, selection: IVM, draft: Draft) -> Target:
    """What comes next, and in which precision."""
    snapshot = None
    if draft.n_active and not _chooses_from_all(problem, selection):
        snapshot = problem.in_pass_precision(make_snapshot(draft))
    itemsize = 8 if snapshot is None else snapshot.dtype.itemsize
    until = next_size(problem, selection, draft.n_active, itemsize)
    return Target(until, snapshot, n_candidates(problem, selection, until, itemsize))


def next_size(problem: Problem, selection: IVM, n_active: int, itemsize: int) -> int:
    """Size at the end of the coming step.

    Twice the present one, so that all passes cost 4/3 of the last; less, in equal parts, where that would
    take too many of the candidates (and more than half of the present size): candidates grow stale as rows
    enter, and few of them leave no choice.
    """
    wanted = problem.plan.n_active
    if _chooses_from_all(problem, selection):
        return wanted
    # Sizes are wanted, wanted/2, wanted/4, ... as long as a random sample is not enough to find so many.
    size = wanted
    sample_alone = min(
        n_candidates(problem, selection, size, itemsize) // MOST_OF_SAMPLE, wanted // MOST_OF_ACTIVE
    )
    first = max(FIRST_GROWTH, sample_alone)
    while size // 2 >= max(first, n_active + 1):
        size = -(-size // 2)
    at_once = _most_at_once(problem, n_candidates(problem, selection, size, itemsize), n_active)
    parts = -(-(size - n_active) // at_once)
    return n_active - (n_active - size) // parts


def _most_at_once(problem: Problem, candidates: int, n_active: int) -> int:
    """Rows that may enter before the next pass."""
    if candidates * FEW_CANDIDATES < problem.n_rows:
        return max(FIRST_GROWTH, candidates // MOST_OF_FEW_CANDIDATES)
    return max(FIRST_GROWTH, candidates // MOST_OF_CANDIDATES, n_active // 2)


def _chooses_from_all(problem: Problem, selection: IVM) -> bool:
    """Whether J is all rows: there is room for them, and J was not asked to be smaller."""
    return problem.holds_all_rows and selection.candidates is None


def n_candidates(problem: Problem, selection: IVM, until: int, itemsize: int) -> int:
    """Size of J for a step: as asked for, as far as the budget goes.

    Few candidates of best score are mostly outliers where labels are noisy: many are better there.
    """
    most = problem.plan.candidates_at(until, itemsize)
    return most if selection.candidates is None else min(most, selection.candidates)


def _learners(
    problem: Problem, selection: IVM, draft: Draft, heads: tuple[int, ...], pool: Pool, target: Target
) -> list[Learner]:
    """The active sets of a group with their candidates, up to date."""
    actives = [draft.actives[head].with_capacity(target.until) for head in heads]
    mine = _candidates_of(problem, selection, pool, heads, actives[0], target.n_candidates)
    inputs = problem.inputs(mine.features, target.dtype)
    weights = problem.weights.of_rows(mine.rows, mine.targets)
    learners = []
    for head, active in zip(heads, actives, strict=True):
        targets = problem.head_targets(mine.targets, head)
        candidates = Candidates.new(mine.rows, inputs, targets, draft.kernel, target.until, weights)
        if active.count:
            refresh_factor(active, draft.kernel)
            catch_up(active, candidates, draft.kernel, since=0)
        learners.append(Learner(active, candidates, draft.likelihoods[head]))
    return learners


def _candidates_of(
    problem: Problem, selection: IVM, pool: Pool, heads: tuple[int, ...], active: ActiveSet, size: int
) -> Pool:
    """The pool's rows for a group: its best scores and the random share, without rows that are active."""
    known = np.sort(active.rows[: active.count])
    pool = pool.take(np.flatnonzero(~is_among(pool.rows, known)))
    if len(pool.rows) <= size or _chooses_from_all(problem, selection):
        return pool
    if pool.scores.shape[1] == 0:  # the sample, at the start
        return pool.take(smallest(pool.keys, size))
    score = np.max(pool.scores[:, list(heads)], axis=1)
    best = smallest(-score, int(selection.retained * size))
    rest = np.setdiff1d(np.arange(len(pool.rows)), best)
    drawn = rest[smallest(pool.keys[rest], size - len(best))]
    return pool.take(np.sort(np.concatenate([best, drawn])))


def _refreshed(problem: Problem, selection: IVM, draft: Draft, target: Target) -> Pool:
    """A new set of candidates: one pass scores every row (or those of the next spans) with the posterior."""
    assert target.snapshot is not None
    retained = int(selection.retained * target.n_candidates)
    counts = problem.prepared.strata
    quotas = stratified_quotas(counts, target.n_candidates - retained, least_share=0.25)
    scores = HeadScores(
        selection,
        problem.prepared.targets,
        draft.likelihoods,
        None if problem.weights.are_even else problem.weights.of_rows,
    )
    per_head = retained + draft.n_active
    bounds = _score_bounds(problem, target.snapshot, scores, per_head / selection.refresh)
    if bounds is not None:
        scores = scores.above(float(bounds.min()))  # one floor: a group compares scores of its heads
    visitor = PickRows(
        problem.row_keys(draft.step),
        quotas,
        # Of rows that are read in part only, the smallest keys are larger.
        key_bounds(quotas, counts) / selection.refresh,
        excluded=problem.excluded,
        scores=scores,
        per_head=per_head,
        score_bounds=bounds,
    )
    spans = _next_spans(list(problem.prepared.rows.spans()), selection.refresh, draft.step)
    label = f"candidates at {draft.n_active}"
    return visitor.pooled(problem.run_snapshot_pass(visitor, target.snapshot, label, spans))


def _score_bounds(
    problem: Problem, snapshot: Snapshot, scores: HeadScores, wanted: float
) -> FloatArray | None:
    """Scores that the best rows surely reach, by those of a sample; None where that would cost too much."""
    if problem.n_rows < BOUND_SHARE * BOUND_ROWS:
        return None
    sample, order = problem.sample, problem.sample_order(BOUND_ROWS)
    weights = problem.sample_weights(sample.targets[order])
    weights *= (problem.n_rows - len(problem.excluded)) / weights.sum()
    parts = []
    for begin in range(0, len(order), BOUND_TILE):
        tile = order[begin : begin + BOUND_TILE]
        marginals = snapshot.marginals(problem.inputs(sample.features[tile], snapshot.dtype))
        parts.append(scores(sample.rows[tile], sample.targets[tile], marginals))
    found = np.concatenate(parts)
    return np.array([score_bound(column, weights, math.ceil(wanted)) for column in found.T])


def _next_spans(spans: list[Span], share: float, step: int) -> list[Span]:
    """The spans that a refresh reads: all, or every k-th in turn, so that sorted files do no harm."""
    stride = max(1, round(1 / share))
    return spans[step % stride :: stride] or spans
