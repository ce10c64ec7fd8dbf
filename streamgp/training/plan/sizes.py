"""Bytes of everything that a demand brings into memory: the formulas that a plan adds up."""

from __future__ import annotations

from streamgp.data import Rows, Standardizer
from streamgp.inference.criterion import TILE_ROWS
from streamgp.inference.criterion import workspace_bytes as criterion_workspace
from streamgp.inference.inducing.heads import heads_bytes, inducing_bytes
from streamgp.inference.inducing.joint import joint_bytes
from streamgp.inference.inducing.mode import mode_block_bytes, search_bytes
from streamgp.inference.inducing.slopes import evidence_bytes
from streamgp.inference.local.cavities import left_out_bytes
from streamgp.inference.local.heads import COLUMNS, local_bytes
from streamgp.inference.local.snapshot import local_snapshot_bytes
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import MOST_MERGED
from streamgp.posterior.snapshot import snapshot_bytes, workspace_bytes
from streamgp.selection.grouping import NEAR_CENTRES, grouping_bytes
from streamgp.selection.ivm import HOT_ROWS
from streamgp.training.plan.demand import Demand

ROWS_PER_BLOCK = (2048, 1024, 512, 256, 128, 64, 32)
RESERVE = 20 * 2**20
"""Bytes (at most two fifths of the budget) left to what no formula counts: readers, scratch of threads."""
POOL_COPIES = 2.25
"""How often a candidate is held while pools are merged: a quarter too many of them, and the result."""


def reserve(budget: int) -> int:
    """What is left to what no formula counts."""
    return min(RESERVE, 2 * budget // 5)


def set_aside(demand: Demand, budget: int) -> int:
    """What is not for the plan to divide: the reserve, and what is held for single rows all the time."""
    return reserve(budget) + demand.row_bytes


def criterion_bytes(demand: Demand, workers: int) -> int:
    """What learning by the criterion needs beside the sample, which is counted among the candidates."""
    if not demand.criterion_rows:
        return 0
    shape = (demand.criterion_rows, min(demand.criterion_active, demand.n_active), demand.rows.n_features)
    own = criterion_workspace(demand.kernel, *shape, workers=workers)
    return own + workers * demand.likelihood_bytes(min(TILE_ROWS, demand.criterion_rows))


def model_bytes(demand: Demand) -> int:
    """What a pass needs; factor and two matrices of scratch for one head at a time, hottest candidates."""
    d, p = demand.n_active, demand.rows.n_features
    if demand.fitted or demand.joint_classes:
        return pass_model_bytes(demand)
    return pass_model_bytes(demand) + 3 * 8 * d * d + 8 * min(HOT_ROWS, demand.rows.n_rows) * (4 * p + d)


def pass_model_bytes(demand: Demand) -> int:
    """The snapshot of all heads; unless fitted, active inputs, which are met again among the best rows."""
    d, p, heads = demand.n_active, demand.rows.n_features, demand.n_heads
    snapshot = snapshot_bytes(demand.kernel, demand.n_inputs, d, p, heads, demand.itemsize)
    if demand.fitted:
        return snapshot
    again = heads * d * POOL_COPIES * demand.rows.feature_bytes()
    if demand.joint_classes:
        snapshot = search_bytes(d, p, demand.joint_classes, demand.itemsize)
        if demand.joint_spread:
            classes = demand.joint_classes
            finished = classes * 8 * d * d + snapshot_bytes(demand.kernel, d, d, p, classes, demand.itemsize)
            snapshot = max(
                snapshot, finished, inducing_bytes(d, p, classes, demand.n_at_once, demand.itemsize)
            )
    elif demand.n_at_once:
        # Sweeps come after the selection, and end before the model is made of their moments.
        finished = snapshot + heads * (8 + demand.itemsize) * d * d
        snapshot = max(finished, inducing_bytes(d, p, heads, demand.n_at_once, demand.itemsize))
    # Moments of the best evaluation so far, gradients by the inducing inputs.
    slopes = heads * 8 * d * (d + 2 * p) if demand.with_slopes else 0
    return heads * 8 * d * p + snapshot + int(again) + slopes + _group_bytes(demand)


def _group_bytes(demand: Demand) -> int:
    """The sums of a group of tasks, which meet before they join the total where there are many tasks."""
    tasks = demand.rows.n_rows // max(demand.rows.features.chunk_rows, ROWS_PER_BLOCK[-1])
    return demand.n_at_once * 8 * demand.n_active**2 if tasks > MOST_MERGED else 0


def candidate_bytes(demand: Demand, n_active: int, itemsize: int) -> int:
    """One candidate: its stub, its inputs wherever they are held, its marginals.

    Inputs as stored: the sample with the rows held out (one for every four), the pool of every head while it
    is merged; standardised: of one head. Stubs are kept for one head at a time, unless heads share rows.
    """
    stubs = 0 if demand.joint_classes else itemsize * n_active * (demand.n_heads if demand.shared else 1)
    stored = demand.rows.feature_bytes() * (1.25 + demand.n_heads * POOL_COPIES)
    scalars = 8 * (16 + 3 * demand.n_heads * (3 + demand.n_heads))
    return int(stored) + itemsize * demand.rows.n_features + stubs + scalars


def block_bytes(demand: Demand, rows: int) -> int:
    """A block of rows on its way through a task: standardised inputs, kernel, projection."""
    p = demand.rows.n_features
    inputs = rows * p * demand.itemsize + Standardizer.workspace_bytes(rows, p)
    sizes = (demand.n_inputs, p, demand.n_heads, demand.itemsize)
    block = workspace_bytes(demand.kernel, rows, *sizes) + demand.likelihood_bytes(rows)
    shape = (demand.kernel, rows, demand.n_active, p)
    if demand.joint_classes and not demand.fitted:
        sizes = (demand.n_active, p, demand.joint_classes, demand.itemsize)
        block = mode_block_bytes(demand.kernel, rows, *sizes) + demand.likelihood_bytes(rows)
        if demand.joint_spread:
            swept = joint_bytes(*shape, demand.joint_classes, demand.n_at_once, demand.itemsize)
            block = max(block, swept + demand.likelihood_bytes(rows))
    elif demand.n_at_once:
        swept = heads_bytes(*shape, demand.n_heads, demand.n_at_once, demand.itemsize)
        block = max(block, swept + demand.likelihood_bytes(rows))
    if demand.with_slopes:
        sums = 2 * demand.n_at_once * 8 * demand.n_active**2
        block = max(block, evidence_bytes(*shape, 8) + sums + demand.likelihood_bytes(rows))
    return inputs + block


def local_task_bytes(demand: Demand) -> int:
    """A group of blocks on its way through a task, and the largest of them at work; a head that predicts."""
    p, m, likelihood = demand.rows.n_features, demand.n_active, demand.likelihood
    if demand.head_rows:
        return local_snapshot_bytes(demand.kernel, demand.head_rows, m, p, demand.n_heads)
    if demand.block_sizes is None:
        return 0
    assert isinstance(likelihood, Likelihood)
    most = demand.block_sizes.most
    stored = 2 * demand.rows.feature_bytes() + 8 * p
    group = demand.group_rows * (stored + 64 + 16 * COLUMNS * demand.n_heads)
    sums = 2 * demand.n_at_once * 8 * m * (m + 1)
    shape = (demand.kernel, likelihood, most, m, p)
    sweep = group + max(local_bytes(*shape, itemsize) for itemsize in (4, 8)) + sums
    widened = most if most >= demand.rows.n_rows else 2 * most
    centres = 1 + demand.rows.n_rows // demand.block_sizes.target
    sweep = max(sweep, grouping_bytes(ROWS_PER_BLOCK[0], centres, p, NEAR_CENTRES))
    left_out = left_out_bytes(demand.kernel, widened, most, m, p)
    return max(sweep, left_out, local_snapshot_bytes(demand.kernel, widened, m, p, demand.n_heads))


def asked_bytes(demand: Demand) -> int:
    """One row that waits for what blocks say about it, while its span is predicted."""
    return 8 * (demand.rows.n_features + 8 + 8 * demand.n_heads) if demand.head_rows else 0


def span_bytes(rows: Rows, span_rows: int) -> int:
    """Reading a span: decoded rows, those that a visitor keeps, two chunks more (stored, being decoded)."""
    return 2 * span_rows * rows.row_bytes() + 2 * rows.chunk_bytes()
