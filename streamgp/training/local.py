"""Sweeps of expectation propagation over blocks: one sweep is one pass over the block store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Basis, make_basis
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.inducing.posterior import InducingPosterior, posterior_from_moments
from streamgp.inference.inducing.sweep import exact_evidence, log_evidence
from streamgp.inference.local.heads import COLUMNS, LocalExact, LocalSweep
from streamgp.inference.local.held import held_prior_bytes
from streamgp.inference.local.snapshot import LocalSnapshot
from streamgp.inference.local.sweep import merge_local
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.passes import PassSettings, run_pass
from streamgp.passes.block_store import BlockStore, BlockTable, kept_blocks, open_blocks
from streamgp.passes.run import run_tasks
from streamgp.passes.sites import SiteSweep
from streamgp.settings import Local
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

MEMORY_SHARE = 16
"""A model whose blocks take less than this part of the memory budget holds them in memory."""

HELD_SHARE = 2
"""Blocks held between sweeps take at most this part of the memory budget."""

MOST_STEP = 0.7
"""Of sites towards those that match: sites of a block move at once, and larger steps swing about the end."""

STRAIGHT = 5.0
"""Times the tolerance: the share of a variance below which what a site takes of it is left out."""

MOST_GROUPS = 32
"""Groups of blocks that a task writes, where its memory allows: each task reads here and there in all."""
WANTED_TASKS = 8
"""Tasks that rather have fewer groups each: so many can work side by side."""

record(Damped)


@record
@dataclass(frozen=True, eq=False)
class LocalSweeps:
    """The posterior of local blocks between two passes: sums over blocks, and how far it has come.

    ``generation`` numbers the sites on disk, 0: they are flat. Gaussian noise keeps none. One entry for each
    head in ``progress``, ``evidence`` and ``left_out``, the mean log density of a target given all others.
    Shapes: moment_matrices (heads, m, m), moment_vectors (heads, m).
    """

    table: BlockTable
    neighbours: int
    precision: str
    moment_matrices: FloatArray
    moment_vectors: FloatArray
    progress: tuple[Damped, ...]
    evidence: tuple[float, ...]
    left_out: tuple[float, ...]
    generation: int = 0

    @staticmethod
    def begin(problem: Problem, draft: Draft, table: BlockTable, settings: Local) -> LocalSweeps:
        """Flat sites, and so the prior."""
        heads, size = problem.n_heads, len(inducing_of(draft))
        # Sites of classes have a precision of at most 1: products with m columns may be rounded.
        rounded = {"float32": True, "auto": problem.is_classification}.get(problem.settings.precision, False)
        precision = "float32" if rounded else "float64"
        return LocalSweeps(
            table,
            settings.neighbours,
            precision,
            np.zeros((heads, size, size)),
            np.zeros((heads, size)),
            (Damped(),) * heads,
            (0.0,) * heads,
            (0.0,) * heads,
        )

    @property
    def converged(self) -> bool:
        """Whether all heads have."""
        return all(head.converged for head in self.progress)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of the head that had most."""
        return max(head.sweeps for head in self.progress)

    def posterior(self, head: int) -> InducingPosterior:
        """The posterior of one head's inducing variables."""
        return posterior_from_moments(self.moment_matrices[head], self.moment_vectors[head])

    def model_snapshot(self, problem: Problem, draft: Draft) -> LocalSnapshot:
        """The model that a fit ends with; its rows stay in memory where they are few."""
        assert problem.scratch is not None
        folder = problem.scratch.blocks
        share = problem.settings.memory_budget // MEMORY_SHARE
        return self.final_snapshot(problem, draft, kept_blocks(folder, problem.scratch.folder.parent, share))

    def final_snapshot(self, problem: Problem, draft: Draft, store: BlockStore) -> LocalSnapshot:
        """The model that blocks with their final sites are."""
        return LocalSnapshot(
            make_basis(draft.kernel, inducing_of(draft)),
            tuple(self.posterior(head) for head in range(problem.n_heads)),
            draft.calibrations,
            self.table,
            store,
            problem.prepared.standardizer,
            self.neighbours,
        )


@dataclass(frozen=True, eq=False)
class PlacedWeights:
    """Weights of rows by their place in the block store, from their numbers there; None: all count once."""

    weights: RowWeights | None
    numbers: Any

    def __call__(self, start: int, encoded: FloatArray) -> FloatArray | None:
        """Weights of consecutive places; those that belong to no block have any."""
        if self.weights is None:
            return None
        numbers = np.asarray(self.numbers[start : start + len(encoded)])
        return self.weights.of_rows(numbers, encoded)


def block_store(problem: Problem) -> BlockStore:
    """The block store of the fit under way."""
    assert problem.scratch is not None
    return open_blocks(problem.scratch.blocks)


def groups_at_once(problem: Problem, table: BlockTable, group_bytes: int) -> list[tuple[int, int]]:
    """First and last group (which is not among them) of each task that writes groups of so many bytes."""
    most = min(MOST_GROUPS, table.n_groups // WANTED_TASKS, problem.plan.task_bytes // group_bytes)
    size = max(1, most)
    return [(first, min(first + size, table.n_groups)) for first in range(0, table.n_groups, size)]


class LeftOutRows(NamedTuple):
    """Rows of some blocks, each predicted by others: numbers, encoded targets (c,), moments (c, heads)."""

    numbers: IntArray
    targets: FloatArray
    mean: FloatArray
    variance: FloatArray


def left_out_blocks(problem: Problem, snapshot: LocalSnapshot, most_rows: int) -> LeftOutRows:
    """Rows of blocks that are spread evenly over all, up to about ``most_rows`` of them."""
    table = snapshot.table
    wanted = max(1, min(table.n_blocks, int(most_rows / table.counts.mean())))
    blocks = np.linspace(0, table.n_blocks - 1, wanted).astype(np.int64)
    pieces: list[LeftOutRows] = run_tasks(
        _left_out_block,
        snapshot,
        ((int(block),) for block in blocks),
        lambda earlier, later: earlier + later,
        problem.pass_settings,
        lengths=table.counts[blocks].tolist(),
        label="left out",
    )
    return LeftOutRows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def _left_out_block(snapshot: LocalSnapshot, block: int) -> list[LeftOutRows]:
    mean, variance, numbers = snapshot.left_out(block)
    targets = snapshot.store.read("targets", int(snapshot.table.starts[block]), len(numbers))
    return [LeftOutRows(numbers, targets, mean, variance)]


def placed_weights(problem: Problem, numbers: Any) -> PlacedWeights:
    """The weights of a fit by place; none where all rows count once."""
    own = problem.weights
    return PlacedWeights(None if own.by_class is None and own.by_row is None else own, numbers)


def _settings(problem: Problem, table: BlockTable) -> PassSettings:
    """Passes over the block store see a group at a time, and cut it into blocks themselves."""
    return replace(problem.pass_settings, rows_per_block=table.group_rows)


def room_for_blocks(problem: Problem, draft: Draft, table: BlockTable) -> int:
    """Bytes that blocks held between sweeps may take, of what is left of the budget, if W and R of all fit.

    A few of many blocks would fill memory and save next to nothing.
    """
    most, size = problem.settings.memory_budget // HELD_SHARE, len(inducing_of(draft))
    room = min(problem.plan.spare_bytes, most)
    wanted = sum(held_prior_bytes(int(rows), size) for rows in table.counts)
    return room if wanted <= room else 0


def sweep_blocks(problem: Problem, draft: Draft, sweeps: LocalSweeps, tolerance: float) -> LocalSweeps:
    """One sweep of every head that has not converged; Gaussian noise needs one pass and no sites."""
    basis = make_basis(draft.kernel, inducing_of(draft))
    likelihood = draft.likelihoods[0]
    if isinstance(likelihood, Gaussian):
        return _exact_pass(problem, basis, likelihood, sweeps)
    saved = sweeps.generation
    for heads in problem.plan.head_groups():
        moving = [head for head in heads if not sweeps.progress[head].converged]
        if moving:
            sweeps = _swept(problem, basis, draft.likelihoods, sweeps, moving, tolerance, saved)
    return sweeps


def _swept(
    problem: Problem,
    basis: Basis,
    likelihoods: tuple[Likelihood, ...],
    sweeps: LocalSweeps,
    moving: list[int],
    tolerance: float,
    saved: int,
) -> LocalSweeps:
    """One pass that moves the sites of some heads; ``saved``: the generation that the sweep started from."""
    assert problem.scratch is not None
    store = block_store(problem)
    posteriors = {head: sweeps.posterior(head) for head in moving}
    step = LocalSweep(
        basis,
        {head: posterior.astype(sweeps.precision) for head, posterior in posteriors.items()},
        likelihoods,
        problem.prepared.targets,
        {head: min(sweeps.progress[head].step, MOST_STEP) for head in moving},
        placed_weights(problem, store.arrays["numbers"]),
        sweeps.table,
        STRAIGHT * tolerance if problem.is_classification else 0.0,
        problem.held_blocks,
    )
    rows = store.own_rows(sweeps.table)
    old = problem.scratch.read(sweeps.generation)
    new = problem.scratch.write(sweeps.generation + 1, rows, problem.n_heads, COLUMNS, saved)
    parts = _sums(problem, sweeps, store, SiteSweep(step, merge_local, old, new), sweeps.generation + 1)
    matrices, vectors = sweeps.moment_matrices.copy(), sweeps.moment_vectors.copy()
    progress, evidence, left_out = list(sweeps.progress), list(sweeps.evidence), list(sweeps.left_out)
    for head, part in zip(moving, parts, strict=True):
        matrices[head], vectors[head] = part.sums.moment_matrix, part.sums.moment_vector
        evidence[head] = log_evidence(posteriors[head], part.sums)
        left_out[head] = part.left_out_log_density / max(part.sums.weight, 1e-300)
        following = progress[head].after(part.sums.moment_residual, part.sums.skipped, 0.0)
        # What a row's density was before the first sweep is not known, so a first change says nothing.
        settled = following.sweeps > 1 and part.mean_left_out_change <= tolerance
        progress[head] = following._replace(converged=settled)
    return replace(
        sweeps,
        moment_matrices=matrices,
        moment_vectors=vectors,
        progress=tuple(progress),
        evidence=tuple(evidence),
        left_out=tuple(left_out),
        generation=sweeps.generation + 1,
    )


def _exact_pass(problem: Problem, basis: Basis, likelihood: Gaussian, sweeps: LocalSweeps) -> LocalSweeps:
    store = block_store(problem)
    weights = placed_weights(problem, store.arrays["numbers"])
    step = LocalExact(basis, likelihood, weights, sweeps.table, np.dtype(sweeps.precision))
    [part] = _sums(problem, sweeps, store, SiteSweep(step, merge_local), 1)
    done = replace(
        sweeps,
        moment_matrices=part.sums.moment_matrix[None],
        moment_vectors=part.sums.moment_vector[None],
        progress=(Damped(residual=0.0, sweeps=1, converged=True),),
        generation=1,
    )
    return replace(done, evidence=(exact_evidence(done.posterior(0), part.sums),))


def _sums(
    problem: Problem, sweeps: LocalSweeps, store: BlockStore, visitor: SiteSweep, number: int
) -> list[Any]:
    rows, settings = store.own_rows(sweeps.table), _settings(problem, sweeps.table)
    reading = replace(problem.prepared.reading(np.float64), targets=None)  # they are encoded already
    _, sums = run_pass(rows, visitor, settings, reading=reading, label=f"sweep {number}")
    return list(sums)
