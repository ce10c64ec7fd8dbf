"""The last step: how far the posterior's variances are to be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import Kernel
from streamgp.passes.calibration import Calibrate, LeftOut
from streamgp.passes.run import run_pass
from streamgp.posterior.calibration import best_scale
from streamgp.training.context import Context, make_snapshot
from streamgp.training.select import pass_precision
from streamgp.training.state import State


def calibrate(context: Context, state: State) -> State:
    """Choose each head's variance factor by the density of training rows, each as if left out; one pass."""
    if not context.settings.calibrate:
        return replace(state, phase="done")
    snapshot = pass_precision(context, make_snapshot(state.kernel, state))
    sums = run_pass(
        context.prepared.rows,
        Calibrate(
            state.likelihoods,
            context.head_targets_function,
            tuple(left_out(state.kernel, active) for active in state.actives),
        ),
        context.pass_settings,
        reading=context.prepared.reading(snapshot.dtype),
        snapshot=snapshot,
        label="calibration",
    )
    scales, densities = zip(*(best_scale(head) for head in sums), strict=True)
    mean_density = float(np.sum(densities) / (len(scales) * context.prepared.rows.n_rows))
    state = replace(state, variance_scales=np.array(scales))
    return replace(state.told(variance_scales=list(scales), left_out_log_density=mean_density), phase="done")


def left_out(kernel: Kernel, active: ActiveSet) -> LeftOut:
    """Marginals of active rows without their own sites, from scratch.

    C = K − K S B⁻¹ S K,  a₋ = a/(1 − π a),  h₋ = h + a₋ (π h − b) with a = diag C, h = C b
    Cost: O(d³).  Source: [IVM2006] eq. 4 and B.1.
    """
    d = active.count
    gram = kernel.gram(active.inputs[:d]).astype(np.float64, copy=False)
    precision, precision_mean = active.sites
    root = np.sqrt(precision)
    scaled = root[:, None] * gram * root
    scaled.flat[:: d + 1] += 1.0
    stubs = np.linalg.solve(np.linalg.cholesky(scaled), root[:, None] * gram)
    variance = np.maximum(np.diag(gram) - np.einsum("ij,ij->j", stubs, stubs), 0.0)
    mean = gram @ precision_mean - stubs.T @ (stubs @ precision_mean)
    left_variance = variance / np.maximum(1.0 - precision * variance, 1e-12)
    left_mean = mean + left_variance * (precision * mean - precision_mean)
    order = np.argsort(active.rows[:d])
    return LeftOut(active.rows[:d][order], left_mean[order], left_variance[order])
