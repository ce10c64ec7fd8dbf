"""What the rows of a block would be thought to be without their own site: what calibration goes by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.divided import DividedBlock, divided_bytes, divided_marginals, slopes
from streamgp.inference.local.factor import factor_bytes
from streamgp.inference.local.marginals import marginals_bytes
from streamgp.inference.local.prior import prior_bytes
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import Kernel


class Cavities(NamedTuple):
    """Latent moments of rows, each without its own site: (b,) each."""

    mean: FloatArray
    variance: FloatArray


def head_cavities(
    head: DividedBlock, own: DividedBlock, posterior: InducingPosterior, room: Workspace | None = None
) -> Cavities:
    """What the rows of a block are thought to be by all other rows, where the block is widened by others.

    kept u:  g = 1 − τ v,  mean − v d/g,  v/g + (variance − v)/g²,  of the head; v residual_variance
    u without the row:  A − Z_i Z_iᵀ/g_i, r − Z_i e_i/(√τ g_i), of the block. With E = W − R S Z, the slopes
    of means by u, E* = E/g those of the head without the row, and a = E*ᵀ A⁻¹ E of head and block,
    mean += −a d/q,  variance += τ a²/q,  d and q of the block
    head: the block's rows and after them its halo's; own: the block's alone, as the posterior of u has them.
    Shapes: b rows of the block → (b,).  Cost: marginals of both, 2 b m² flops; memory :func:`cavities_bytes`.
    Hazard: where inducing inputs tell much of what a row is, a row that u still knows is predicted far too
    well (docs/decisions.md). Other sites stay as they are: they were found with the row.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    room, count = Workspace() if room is None else room, len(own.own_weights)
    wide = divided_marginals(head, posterior, room)
    gain = 1.0 - own.sites.precision * wide.residual_variance[:count]
    by_head = slopes(head, wide.solved_features, count) / gain[:, None]
    narrow = divided_marginals(own, posterior, room)  # what ``wide`` had in the room is gone
    spread = posterior.spread
    known = np.einsum("ij,ij->i", by_head @ spread, slopes(own, narrow.solved_features, count) @ spread)
    v, pull = wide.residual_variance[:count], known / narrow.variance_ratio
    return Cavities(
        wide.mean[:count] - v * wide.dual_weights[:count] / gain - pull * narrow.dual_weights,
        v / gain + (wide.variance[:count] - v) / gain**2 + own.sites.precision * known * pull,
    )


def cavities_bytes(rows: int, own: int, n_inducing: int) -> int:
    """Upper bound of the bytes of :func:`head_cavities` for a head of ``rows``, its factors not included."""
    wide, narrow = (marginals_bytes(count, n_inducing, 8) for count in (rows, own))
    return wide + narrow + 8 * own * (3 * n_inducing + rows)


def left_out_bytes(kernel: Kernel, rows: int, own: int, n_inducing: int, n_features: int) -> int:
    """Upper bound of the bytes of a task that leaves out the rows of a block, one after the other."""
    priors = prior_bytes(kernel, rows, n_inducing, n_features) + 8 * own * own
    factors = sum(factor_bytes(count, 8) + divided_bytes(count, n_inducing) for count in (rows, own))
    return priors + factors + cavities_bytes(rows, own, n_inducing)
