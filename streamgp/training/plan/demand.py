"""What a fit, or a fitted model, asks of the memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamgp.data import Rows
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood, Likelihood, Probit
from streamgp.passes.block_store import INNER_ROWS
from streamgp.selection.grouping import Sizes

GROUP_BYTES = 32 * 2**20
"""Bytes of a group of blocks, at most, where two blocks are no more."""
WANTED_GROUPS = 64


@dataclass(frozen=True)
class Demand:
    """What is asked of the memory: the data's shape, the model's size, and whether it is fitted already.

    ``n_active`` counts the active rows of one head, the largest. ``n_at_once``: so many heads take part in
    one sweep over all rows, through the active rows as inducing inputs and with these ``powers`` of the
    likelihood; 0: there are no such sweeps. ``with_slopes``: their evidence is learned from in passes.
    ``criterion_rows``: rows on which the IVM's criterion is learned, with ``criterion_active`` active ones.
    ``joint_classes``: so many latent functions are found by their mode: means without matrices or sites,
    unless ``joint_spread``: then sweeps follow, that hold the matrices of ``n_at_once`` of them.
    ``row_bytes``: what is held for single rows of the store: their weights, the numbers of those held out.
    ``block_sizes``: rows are grouped into blocks of such sizes, smaller ones if ``blocks_may_shrink``;
    ``head_rows``: the largest block of a fitted model, its halo included.
    """

    rows: Rows
    kernel: Kernel
    n_active: int
    n_heads: int
    itemsize: int
    shared: bool = False
    fitted: bool = False
    n_at_once: int = 0
    with_slopes: bool = False
    likelihood: Likelihood | JointLikelihood = field(default_factory=Probit)
    powers: tuple[float, ...] = (1.0,)
    criterion_rows: int = 0
    criterion_active: int = 0
    joint_classes: int = 0
    joint_spread: bool = False
    row_bytes: int = 0
    block_sizes: Sizes | None = None
    blocks_may_shrink: bool = False
    head_rows: int = 0

    @property
    def group_rows(self) -> int:
        """Rows of a group of blocks: enough groups to work side by side, and not too many files."""
        assert self.block_sizes is not None
        most, n_rows = self.block_sizes.most, self.rows.n_rows
        by_bytes = GROUP_BYTES // (16 * self.rows.n_features)
        rows = max(2 * most, INNER_ROWS, min(n_rows // WANTED_GROUPS, 16 * most, by_bytes))
        rows = most if most >= n_rows else rows
        return rows if rows < INNER_ROWS else -(-rows // INNER_ROWS) * INNER_ROWS

    @property
    def n_places(self) -> int:
        """Places for rows in groups, of which each leaves half a block empty on average."""
        assert self.block_sizes is not None
        size, n_rows = self.group_rows, self.rows.n_rows
        if size >= n_rows:
            return size
        filled = 1.0 - 0.5 * self.block_sizes.target / size
        return -(-int(n_rows / filled) // size) * size

    @property
    def n_functions(self) -> int:
        """Latent functions, whether each has a likelihood of its own or all have one."""
        return self.joint_classes or self.n_heads

    @property
    def n_inputs(self) -> int:
        """Active rows of all heads together."""
        return self.n_active if self.shared else self.n_active * self.n_heads

    def likelihood_bytes(self, rows: int) -> int:
        """What the likelihood needs for a block, at the power that needs most."""
        if isinstance(self.likelihood, JointLikelihood):
            return self.likelihood.workspace_bytes(rows, self.joint_classes or self.n_heads)
        return max(self.likelihood.workspace_bytes(rows, power=power) for power in self.powers)
