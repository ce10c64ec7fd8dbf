"""What a fit asks of the memory, by its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgp.data import Rows
from streamgp.kernels import RBF, ClassKernels, Kernel, Linear
from streamgp.likelihoods import Probit, Softmax
from streamgp.passes.run import available_threads
from streamgp.selection import IVM2006
from streamgp.selection.grouping import block_sizes
from streamgp.settings import FitSettings
from streamgp.training.learn.criterion import SAMPLE_ACTIVE, SAMPLE_ROWS
from streamgp.training.plan import Demand, MemoryPlan, make_plan

LAST_SHARE, MOST_LAST = 0.05, 1_000_000
"""Of the rows, how many ``validation="last"`` names, and how many at most."""
BY_CRITERION = (True, "constant", "hybrid", "exact")
"""Ways that can mean learning by the IVM's criterion, whatever the data turn out to be."""


def with_rows_named(settings: FitSettings, n_rows: int) -> FitSettings:
    """The settings with numbers in the place of ``validation="last"``."""
    if not (isinstance(settings.validation, str) and settings.validation == "last"):
        return settings
    count = min(max(1, int(LAST_SHARE * n_rows)), MOST_LAST)
    return replace(settings, validation=np.arange(n_rows - count, n_rows))


def plan_fit(rows: Rows, settings: FitSettings, heads: int = 1) -> MemoryPlan:
    """The memory plan of a fit; nothing is read."""
    settings = with_rows_named(settings, rows.n_rows)
    inference, with_slopes = settings.inference, settings.learning == "passes"
    named = 0 if settings.validation is None else np.size(settings.validation)
    joint_classes = heads if settings.multiclass == "joint" and inference.sees_all_rows else 0
    n_at_once = heads if inference.sees_all_rows else 0
    heads = 1 if joint_classes else heads
    given = getattr(inference, "block_rows", None)  # of local blocks only
    wish = None if given in (None, "auto") else int(given)
    return make_plan(
        Demand(
            rows,
            _planned_kernel(settings, rows, joint_classes),
            min(settings.n_active, rows.n_rows),
            heads,
            4 if settings.precision == "float32" and not with_slopes else 8,
            shared=settings.shared,
            n_at_once=n_at_once,
            with_slopes=with_slopes,
            likelihood=settings.likelihood or (Softmax() if joint_classes > 1 else Probit()),
            powers=inference.powers,
            criterion_rows=min(SAMPLE_ROWS, rows.n_rows) if settings.learning in BY_CRITERION else 0,
            criterion_active=settings.n_active if isinstance(settings.selection, IVM2006) else SAMPLE_ACTIVE,
            joint_classes=joint_classes,
            joint_spread=settings.joint_spread,
            block_sizes=None if given is None else block_sizes(wish, rows.n_rows),
            blocks_may_shrink=wish is None,
            row_bytes=8 * (3 * named + (0 if settings.sample_weight is None else rows.n_rows)),
        ),
        settings.memory_budget,
        available_threads(),
    )


def _planned_kernel(settings: FitSettings, rows: Rows, joint_classes: int) -> Kernel:
    """The kernel that memory is planned for; of those of classes, which work in turn, the dearest."""
    if isinstance(settings.kernel, ClassKernels):
        return max(settings.kernel, key=lambda one: one.prepared_bytes(1, rows.n_features, 8))
    return settings.kernel or (RBF() + RBF() + Linear() if joint_classes else RBF() + Linear())
