"""Predictive active set selection: rows enter and leave block by block; the best active sets are kept.

Algorithm 1 of [PASS2012]. One step visits a block; or, when that is due, it compares the active sets with the
best before, or updates the hyperparameters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamgp.inference.active_set import ActiveSet, refresh_factor
from streamgp.inference.damping import FOR_PREDICTION
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.candidates import Pool, is_among
from streamgp.selection.predictive import Predictive
from streamgp.training.codec import record
from streamgp.training.heads import converged, side_by_side
from streamgp.training.judge import log_densities, marginals_in_memory
from streamgp.training.optimise import Evaluations
from streamgp.training.problem import Problem
from streamgp.training.select.blocks import ends_pass, n_blocks, read_block
from streamgp.training.select.offer import Visited, offer_block
from streamgp.training.stage import Draft, Save, Stage

logger = logging.getLogger(__name__)

JUDGES = 5000
FEWEST_JUDGES = 500
"""Fewer held-out rows than these are no jury: then rows of the sample are."""

Told = dict[str, Any]
Update = Callable[[Problem, Draft, int, Evaluations, Callable[[Evaluations], None]], Draft]
"""(problem, draft, steps, evaluations so far, save) → draft with better hyperparameters."""


@record
@dataclass(frozen=True, eq=False)
class Kept:
    """Active sets that were best so far, with the parameters that they were chosen under."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    actives: tuple[ActiveSet, ...]


@record
@dataclass(frozen=True, eq=False)
class Visits:
    """How far the visits have come.

    ``blocks`` have been visited. ``looked`` and ``updated`` are their number at the last comparison and at
    the last update, −1 before the first. ``full`` is the largest number of active sets that were full.
    ``evaluations`` are those of the update under way.
    """

    blocks: int = 0
    looked: int = -1
    updated: int = -1
    full: int = 0
    kept: Kept | None = None
    evaluations: Evaluations = field(default_factory=dict)


@dataclass(frozen=True)
class Exchange:
    """The selection with all that was decided about it.

    ``update`` improves hyperparameters every ``update_every`` blocks, None: never. ``calibrated``: losses are
    compared after calibration, as the model will be calibrated. ``keeps_best`` False: nothing is compared,
    and the last active sets are the model's.
    """

    selection: Predictive
    update: Update | None
    update_every: int
    calibrated: bool
    keeps_best: bool = True

    def stage(self) -> Stage:
        """The stage of these visits."""
        return Stage("select: exchange", lambda problem, draft: Visits(), self._step)

    def _step(
        self, problem: Problem, draft: Draft, own: Visits, save: Save
    ) -> tuple[Draft, Visits | None, Told]:
        """Whatever is due: an update of the first active sets, a comparison, an update, else a block.

        After the last block the active sets are compared, and the stage is done.
        """
        done = own.blocks >= n_blocks(problem, self.selection) or problem.is_late()
        at_end = own.blocks == 0 or done or ends_pass(problem, self.selection, own.blocks)
        update_due = self.update is not None and own.updated != own.blocks
        update_due = update_due and own.blocks % self.update_every == 0
        look_due = self.keeps_best and at_end and own.looked != own.blocks
        if update_due and (own.blocks == 0 or not look_due) and not (done and own.blocks > 0):
            return self._updated(problem, draft, own, save)
        if look_due or done:
            return self._compared(problem, draft, own, is_last=done)
        return self._visited(problem, draft, own)

    def _visited(self, problem: Problem, draft: Draft, own: Visits) -> tuple[Draft, Visits, Told]:
        """Read one block and score it; rows enter and leave every active set."""
        begun = problem.seconds()
        pool = read_block(problem, self.selection, draft, own.blocks)
        read_seconds = problem.seconds() - begun
        groups = problem.groups

        def visit(number: int) -> Visited:
            return offer_block(problem, self.selection, draft, groups[number], pool)

        visited = side_by_side(problem, visit, len(groups))
        actives = list(draft.actives)
        for heads, result in zip(groups, visited, strict=True):
            for head, active in zip(heads, result.actives, strict=True):
                actives[head] = active
        full = sum(result.is_full for result in visited)
        if full > own.full and not self.selection.is_of_fixed_size:
            logger.info(
                "%d active sets have the %d rows that were planned for: from now on rows are exchanged",
                full,
                problem.plan.n_active,
            )
        own = replace(own, blocks=own.blocks + 1, full=max(full, own.full))
        draft = replace(draft, actives=tuple(actives))
        return (
            draft,
            own,
            {
                "n_active": draft.sizes,
                "block": own.blocks,
                "rows": len(pool.rows),
                "from_disk": pool.scores.shape[1] > 0,
                "read_seconds": read_seconds,
                "entered": [result.entered for result in visited],
                "left": [result.left for result in visited],
                "full": full,
                "log_evidence_active": sum(result.log_evidence for result in visited),
            },
        )

    def _updated(self, problem: Problem, draft: Draft, own: Visits, save: Save) -> tuple[Draft, Visits, Told]:
        """Better hyperparameters for the active sets as they are, whose sites converge again."""
        assert self.update is not None
        draft = self.update(
            problem,
            draft,
            self.selection.most_steps,
            own.evaluations,
            lambda arrays: save(replace(own, evaluations=arrays)),
        )
        draft, found = converged(problem, draft, FOR_PREDICTION)
        told = {
            "n_active": draft.sizes,
            "log_evidence_active": sum(result.log_evidence for result in found),
            "kernel": repr(draft.kernel),
        }
        return draft, replace(own, updated=own.blocks, evaluations={}), told

    def _compared(
        self, problem: Problem, draft: Draft, own: Visits, *, is_last: bool
    ) -> tuple[Draft, Visits | None, Told]:
        """Keep the active sets of least loss, those at random among them; at the end, return to them.

        Rows that are predicted badly teach most, unless their labels are noise, or the active set is too
        small for the task: then exchanges only make it worse, and no rule about single rows can tell.
        """
        now, best = Kept(draft.kernel, draft.likelihoods, draft.actives), own.kept
        own = replace(own, looked=own.blocks)
        told: Told = {"n_active": draft.sizes}
        if best is not None:
            judges = _judges(problem, best, now)
            told = {"judges": len(judges.rows)}
            if len(judges.rows):
                before, after = (self._loss(problem, kept, judges) for kept in (best, now))
                told |= {"loss_before": before, "loss": after}
                now = now if after <= before else best
        if is_last:
            best_draft = replace(draft, kernel=now.kernel, likelihoods=now.likelihoods, actives=now.actives)
            return best_draft, None, told
        return draft, replace(own, kept=now), told

    def _loss(self, problem: Problem, kept: Kept, judges: Pool) -> float:
        """Mean loss of all heads: the share of misclassified rows; of real targets, minus the log density."""
        weights = problem.sample_weights(judges.targets)
        weights = weights * problem.weights.of_rows(judges.rows, judges.targets)

        def of_head(head: int) -> float:
            likelihood, targets = kept.likelihoods[head], problem.head_targets(judges.targets, head)
            active = kept.actives[head].with_capacity(kept.actives[head].count)
            refresh_factor(active, kept.kernel)
            mean, variance = marginals_in_memory(active.snapshot(kept.kernel), judges.features, problem)
            assert variance is not None
            densities = log_densities(
                likelihood, targets, mean[:, 0], variance[:, 0], calibrated=self.calibrated, weights=weights
            )
            loss = densities < np.log(0.5) if likelihood.is_classification else -densities
            return float(np.average(loss, weights=weights))

        return float(np.mean(side_by_side(problem, of_head, problem.n_heads)))


def _judges(problem: Problem, *parties: Kept) -> Pool:
    """Rows held out; where they are too few, rows of the sample: those met last by the first active sets.

    Rows that are active in either party do not judge.
    """
    judges = problem.held_out
    if len(judges.rows) < FEWEST_JUDGES:
        order = np.argsort(-problem.sample.keys, kind="stable")
        judges = problem.sample.take(np.sort(order[:JUDGES]))
    known = np.unique(np.concatenate([active.rows for kept in parties for active in kept.actives]))
    return judges.take(np.flatnonzero(~is_among(judges.rows, known)))
