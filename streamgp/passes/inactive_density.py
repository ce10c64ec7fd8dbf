"""What the rows outside of the active set add to the log evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.data.targets import Targets, head_targets
from streamgp.likelihoods import Likelihood
from streamgp.passes.block import Block, Visitor
from streamgp.passes.candidates import is_among


@dataclass(frozen=True, eq=False)
class InactiveDensity(Visitor[FloatArray]):
    """Sums log p(y_i | active set) over the inactive rows, for each head: (heads,).

    log Z_APP = log Z_EP,A + Σ_{i ∉ A} log p(y_i | y_A)  [PASS2012] section 5
    ``active_rows`` are those of each head, sorted. ``counts`` says how often rows count, from their numbers
    and encoded targets; None: each once.
    """

    targets: Targets
    likelihoods: tuple[Likelihood, ...]
    active_rows: tuple[IntArray, ...]
    counts: Callable[[IntArray, FloatArray], FloatArray] | None = None

    @property
    def needs_variance(self) -> bool:
        """Yes: densities depend on it."""
        return True

    def visit(self, block: Block) -> FloatArray:
        """Sums of one block."""
        assert block.targets is not None
        assert block.marginals is not None
        mean, variance = block.marginals
        assert variance is not None
        rows = np.arange(block.start, block.start + block.rows)
        counts = np.ones(len(rows)) if self.counts is None else self.counts(rows, block.targets)
        sums = np.empty(len(self.likelihoods))
        for head, likelihood in enumerate(self.likelihoods):
            outside = ~is_among(rows, self.active_rows[head])
            targets = head_targets(self.targets, block.targets, head)[outside]
            density = likelihood.log_predictive_density(targets, mean[outside, head], variance[outside, head])
            sums[head] = (density * counts[outside]).sum()
        return sums

    def merge(self, earlier: FloatArray, later: FloatArray) -> FloatArray:
        """Sums of both."""
        return earlier + later
