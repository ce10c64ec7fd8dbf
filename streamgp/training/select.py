"""Selection: the active sets grow stage by stage, candidates are refreshed by a pass between the stages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgp.data import Span
from streamgp.inference import filter_sites, head_from_sites
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, refresh_factor
from streamgp.passes.candidates import PickRows, Pool, is_among, smallest
from streamgp.posterior import Snapshot, choose_dtype
from streamgp.posterior.calibration import calibrate
from streamgp.selection import IVM, HeadScores, key_bounds, stratified_quotas
from streamgp.training.context import Context, class_counts, make_snapshot, refresh_keys, run_snapshot_pass
from streamgp.training.greedy import Enough, Learner, grow
from streamgp.training.heads import head_groups
from streamgp.training.state import State

FloatArray = NDArray[np.float64]
logger = logging.getLogger(__name__)

FIRST_STAGE = 32
"""Active rows that the random sample alone decides about, at least."""
CHECK_GROWTH = 1.25
"""Growth of the active set between two looks at held-out rows."""
VALIDATION_BLOCK = 1024
PATIENCE = 8
"""Looks without improvement after which an active set is large enough."""
LEAST_GAIN = 0.001
"""What counts as improvement, relative to the best log density before."""


def next_size(context: Context, n_active: int) -> int:
    """Size at the end of the coming stage.

    Twice the present one, so that all passes cost 4/3 of the last; less, in equal parts, where that would
    take more than a sixteenth of the candidates (and more than half of the present size): candidates
    grow stale as rows enter, and few of them leave no choice.
    """
    wanted = context.plan.n_active
    # Rows at random need no scores, and so no second look at the data.
    if _chooses_from_all(context) or not isinstance(context.settings.selection, IVM):
        return wanted
    # Sizes are wanted, wanted/2, wanted/4, ... as long as they are at least FIRST_STAGE.
    size = wanted
    while size // 2 >= max(FIRST_STAGE, n_active + 1):
        size = -(-size // 2)
    most = max(FIRST_STAGE, n_candidates(context, size) // 16, n_active // 2)
    parts = -(-(size - n_active) // most)
    return n_active - (n_active - size) // parts


def _chooses_from_all(context: Context) -> bool:
    """Whether J is all rows: there is room for them, and J was not asked to be smaller."""
    selection = context.settings.selection
    limited = isinstance(selection, IVM) and selection.candidates is not None
    return context.holds_all_rows and not limited


def n_candidates(context: Context, until: int) -> int:
    """Size of J for a stage: as asked for, as far as the budget goes.

    Few candidates of best score are mostly outliers where labels are noisy: many are better there.
    """
    selection, most = context.settings.selection, context.plan.candidates_at(until)
    if isinstance(selection, IVM) and selection.candidates is not None:
        return min(most, selection.candidates)
    return most


def select_stage(context: Context, state: State) -> State:
    """Grow every active set to the stage's size; the last stage hands over."""
    until = next_size(context, state.n_active)
    pool = (
        context.sample
        if state.n_active == 0 or _chooses_from_all(context)
        else refresh(context, state, until)
    )
    actives, stopped, looks = list(state.actives), list(state.stopped), []
    for heads in head_groups(context):
        if not stopped[heads[0]]:
            watch = _Watch(context, state, heads)
            for head, grown in zip(
                heads, _grow_heads(context, state, heads, pool, until, watch), strict=True
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
    context: Context, state: State, heads: list[int], pool: Pool, until: int, enough: Enough
) -> list[ActiveSet]:
    """One group's inclusions of this stage."""
    settings, kernel = context.settings, state.kernel
    actives = [state.actives[head].with_capacity(until) for head in heads]
    mine = _candidates_of(context, pool, heads, actives[0], until)
    inputs = context.inputs(mine.features)
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


def _candidates_of(context: Context, pool: Pool, heads: list[int], active: ActiveSet, until: int) -> Pool:
    """The pool's rows for a group: its best scores and the random share, without rows that are active."""
    known = np.sort(active.rows[: active.count])
    pool = pool.take(np.flatnonzero(~is_among(pool.rows, known)))
    size = n_candidates(context, until)
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


def refresh(context: Context, state: State, until: int) -> Pool:
    """A new set of candidates: one pass scores every row (or those of the next spans) with the posterior."""
    settings, prepared = context.settings, context.prepared
    assert isinstance(settings.selection, IVM)
    size = n_candidates(context, until)
    retained = int(settings.selection.retained * size)
    snapshot = make_snapshot(state.kernel, state)
    counts = class_counts(prepared)
    quotas = stratified_quotas(counts, size - retained, least_share=0.25)
    visitor = PickRows(
        refresh_keys(context, state.step),
        quotas,
        # Of rows that are read in part only, the smallest keys are larger.
        key_bounds(quotas, counts) / settings.selection.refresh,
        excluded=np.sort(context.validation.rows),
        scores=HeadScores(settings.selection, prepared.targets, state.likelihoods),
        per_head=retained + state.n_active,
    )
    snapshot = pass_precision(context, snapshot)
    pools = run_snapshot_pass(
        context,
        visitor,
        snapshot,
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


class _Watch:
    """Looks at held-out rows while the active set of some heads grows, and says when it is large enough."""

    def __init__(self, context: Context, state: State, heads: list[int]) -> None:
        self._context, self._state, self._heads = context, state, heads
        self.looks: list[dict[str, float]] = []
        self._before = [
            look
            for entry in state.history
            for look in entry.get("validation", [])
            if look["head"] == heads[0]
        ]

    def __call__(self, actives: Sequence[ActiveSet]) -> bool:
        """Whether to stop: no time left, or no improvement in the last looks."""
        if self._context.is_late():
            return True
        if self._context.settings.inference == "fitc":
            return False  # the sites of this selection are not the model's: their density tells nothing
        count = actives[0].count
        looks = self._before + self.looks
        last = looks[-1]["n_active"] if looks else FIRST_STAGE / CHECK_GROWTH
        if len(self._context.validation.rows) == 0 or count < CHECK_GROWTH * last:
            return False
        pairs = zip(self._heads, actives, strict=True)
        density = float(np.mean([self._log_density(head, active) for head, active in pairs]))
        self.looks.append({"head": self._heads[0], "n_active": count, "log_density": density})
        values = [look["log_density"] for look in looks] + [density]
        if len(values) <= PATIENCE:
            return False
        best = max(values[:-PATIENCE])
        return bool(max(values[-PATIENCE:]) < best + LEAST_GAIN * abs(best))

    def _log_density(self, head: int, active: ActiveSet) -> float:
        """Mean log density of the held-out rows, by the posterior as calibrated to them."""
        kernel, likelihood = self._state.kernel, self._state.likelihoods[head]
        inputs, validation = active.inputs[: active.count], self._context.validation
        gram = kernel.gram(inputs).astype(np.float64, copy=False)
        snapshot = Snapshot(kernel, inputs, (head_from_sites(gram, active.sites),))
        targets = self._context.head_targets(validation.targets, head)
        mean, variance = np.empty_like(targets), np.empty_like(targets)
        for start in range(0, len(targets), VALIDATION_BLOCK):
            here = slice(start, start + VALIDATION_BLOCK)
            marginals = snapshot.marginals(self._context.inputs(validation.features[here]))
            assert marginals.variance is not None
            mean[here], variance[here] = marginals.mean[:, 0], marginals.variance[:, 0]
        if self._context.settings.calibrate:
            # Without it, small active sets are overconfident at first and would be stopped for that.
            return calibrate(likelihood, targets, mean, variance).log_density
        return float(np.mean(likelihood.log_predictive_density(targets, mean, variance)))
