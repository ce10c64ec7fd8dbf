"""Power EP through inducing inputs, to convergence, for rows in memory; and the evidence for learning.

A fit over a store is the same loop with a pass in the place of :func:`sweep_rows`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from streamgp.inference.damping import FOR_EVIDENCE, Damped, iterate
from streamgp.inference.inducing.basis import FITC, Approximation, Basis, WhitenedRows, whiten
from streamgp.inference.inducing.in_memory import ROWS_PER_BLOCK, TASKS_PER_WORKER, Rows
from streamgp.inference.inducing.posterior import InducingPosterior, prior_posterior
from streamgp.inference.inducing.slopes import (
    Evidence,
    EvidenceSums,
    evidence_block,
    evidence_bytes,
    finish_evidence,
    merge_evidence,
)
from streamgp.inference.inducing.sweep import (
    SweepSums,
    Swept,
    exact_block,
    exact_evidence,
    flat_sites,
    log_evidence,
    merge_sweeps,
    moments_block,
    sweep_bytes,
    sweep_whitened,
)
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.passes.blas import single_threaded_blas

MAX_SWEEPS = 200


class Fit(NamedTuple):
    """Sites of all rows and their posterior.

    ``residual``, ``evidence`` and ``skipped`` are those that the last sweep found before its own step, after
    which residuals are smaller, and evidence is the same but for their squares; ``converged``: whether the
    residual is below the tolerance.
    """

    sites: Sites
    posterior: InducingPosterior
    evidence: float
    residual: float
    sweeps: int
    converged: bool
    skipped: int


def fit_sites(
    basis: Basis,
    likelihood: Likelihood,
    rows: Rows,
    approximation: Approximation = FITC,
    *,
    sites: Sites | None = None,
    posterior: InducingPosterior | None = None,
    tolerance: float = FOR_EVIDENCE,
    max_sweeps: int = MAX_SWEEPS,
    hold: DTypeLike | None = None,
) -> Fit:
    """Sweeps over rows in memory until tilted moments and posterior agree.

    Where to start: from ``sites``; or from a ``posterior`` that other rows gave, such as a sample weighted up
    to the number of all rows; else from the prior. Gaussian noise needs one pass and no start.
    Cost: 2 p m + 3 m² flops for each row and sweep, and O(m³) for each sweep; with ``hold``, a type, whitened
    rows (n, m) are held in memory in that type, sweeps are in its arithmetic, and 2 m² are left. Whitening
    itself is in the basis's type: it is there that precision is lost.
    Hazard: a fit that has not converged returns the best sites seen, and says so. Sites and posterior always
    belong together.
    Source: [FITC2007] section 3.  Oracle: tests/reference/fitc_dense.py
    """
    with single_threaded_blas():
        if isinstance(likelihood, Gaussian):
            return _exact_fit(basis, likelihood, rows, approximation)
        # Rows that were not in the given posterior take the whole step at once.
        progress = Damped() if posterior is None else Damped(1.0)
        if sites is not None:
            posterior = _moments_of(basis, rows, sites).posterior()
        elif posterior is None:
            posterior = prior_posterior(basis.size)
        held = None if hold is None else _whitened(basis, rows, np.dtype(hold))

        def sweep(state: _State, progress: Damped) -> tuple[_State, Fit, float, int]:
            new, sums = sweep_rows(
                basis, state.posterior, likelihood, rows, state.sites, approximation, progress.step, held
            )
            residual, evidence = sums.moment_residual, log_evidence(state.posterior, sums)
            following = _State(new, sums.posterior())
            fit = Fit(*following, evidence, residual, progress.sweeps + 1, False, sums.skipped)
            return following, fit, residual, sums.skipped

        start = _State(flat_sites(len(rows.features)) if sites is None else sites, posterior)
        best, progress = iterate(sweep, start, progress, tolerance=tolerance, most_sweeps=max_sweeps)
        return best._replace(sweeps=progress.sweeps, converged=progress.converged)


class _State(NamedTuple):
    """Sites and the posterior that belongs to them."""

    sites: Sites
    posterior: InducingPosterior


def sweep_rows(
    basis: Basis,
    posterior: InducingPosterior,
    likelihood: Likelihood,
    rows: Rows,
    sites: Sites,
    approximation: Approximation,
    damping: float,
    held: dict[int, WhitenedRows] | None = None,
) -> Swept:
    """One sweep over all rows in memory; see :func:`streamgp.inference.inducing.sweep.sweep_block`."""
    streaming = posterior.astype(basis.dtype if held is None else held[0].features.dtype)

    def one(start: int) -> tuple[list[Sites], SweepSums]:
        place, features, targets, weights = rows.block(start)
        # A sweep overwrites the rows it is given.
        own = whiten(basis, features) if held is None else held[start].copy()
        swept, _ = sweep_whitened(
            streaming,
            own,
            targets,
            likelihood,
            Sites(sites.precision[place], sites.precision_mean[place]),
            approximation,
            damping,
            np.ones(len(targets)) if weights is None else weights,
        )
        return [swept.sites], swept.sums

    return _joined(*rows.fold(one, _merge_swept))


def _whitened(basis: Basis, rows: Rows, dtype: np.dtype[Any]) -> dict[int, WhitenedRows]:
    """All rows whitened, by the start of their block."""

    def one(start: int) -> dict[int, WhitenedRows]:
        features, residual_variance = whiten(basis, rows.block(start)[1])
        return {start: WhitenedRows(features.astype(dtype, copy=False), residual_variance)}

    return rows.fold(one, lambda earlier, later: earlier | later)


def _exact_fit(basis: Basis, likelihood: Gaussian, rows: Rows, approximation: Approximation) -> Fit:
    def one(start: int) -> tuple[list[Sites], SweepSums]:
        _, features, targets, weights = rows.block(start)
        swept = exact_block(basis, features, targets, likelihood, approximation, weights)
        return [swept.sites], swept.sums

    sites, sums = _joined(*rows.fold(one, _merge_swept))
    posterior = sums.posterior()
    return Fit(sites, posterior, exact_evidence(posterior, sums), 0.0, 1, True, 0)


def _moments_of(basis: Basis, rows: Rows, sites: Sites) -> SweepSums:
    def one(start: int) -> SweepSums:
        place, features, _, weights = rows.block(start)
        part = Sites(sites.precision[place], sites.precision_mean[place])
        return moments_block(basis, features, part, weights)

    return rows.fold(one, merge_sweeps)


def _merge_swept(
    earlier: tuple[list[Sites], SweepSums], later: tuple[list[Sites], SweepSums]
) -> tuple[list[Sites], SweepSums]:
    return earlier[0] + later[0], merge_sweeps(earlier[1], later[1])


def _joined(pieces: list[Sites], sums: SweepSums) -> Swept:
    return Swept(Sites(*(np.concatenate(columns) for columns in zip(*pieces, strict=True))), sums)


def evidence_of_sites(
    basis: Basis,
    likelihood: Likelihood,
    rows: Rows,
    fit: Fit,
    approximation: Approximation = FITC,
    *,
    inputs: bool = False,
) -> Evidence:
    """The evidence of a converged fit, and its gradient; with ``inputs`` by the inducing inputs too.

    Cost: see :func:`streamgp.inference.inducing.slopes.evidence_block`.
    """
    streaming = fit.posterior.astype(basis.dtype)

    def one(start: int) -> EvidenceSums:
        place, features, targets, weights = rows.block(start)
        part = Sites(fit.sites.precision[place], fit.sites.precision_mean[place])
        return evidence_block(
            basis, streaming, features, targets, likelihood, part, approximation, weights, inputs=inputs
        )

    with single_threaded_blas():
        return finish_evidence(basis, fit.posterior, rows.fold(one, merge_evidence))


def converged_evidence(
    basis: Basis,
    likelihood: Likelihood,
    rows: Rows,
    approximation: Approximation = FITC,
    *,
    sites: Sites | None = None,
    inputs: bool = False,
    tolerance: float = FOR_EVIDENCE,
    max_sweeps: int = MAX_SWEEPS,
    hold: DTypeLike | None = None,
) -> tuple[Evidence, Fit]:
    """Evidence and gradient after full re-convergence, from the sites of a neighbouring fit if given.

    What an optimiser calls: the fit's sites start the next call, whose kernel differs a little.
    """
    fit = fit_sites(
        basis,
        likelihood,
        rows,
        approximation,
        sites=sites,
        tolerance=tolerance,
        max_sweeps=max_sweeps,
        hold=hold,
    )
    return evidence_of_sites(basis, likelihood, rows, fit, approximation, inputs=inputs), fit


def fit_bytes(
    kernel: Kernel,
    likelihood: Likelihood,
    n_rows: int,
    n_inducing: int,
    n_features: int,
    itemsize: int,
    *,
    power: float = 1.0,
    workers: int = 1,
    rows_per_block: int = ROWS_PER_BLOCK,
) -> int:
    """Upper bound of the bytes that :func:`converged_evidence` allocates beside the rows and the basis."""
    shape = (kernel, min(rows_per_block, n_rows), n_inducing, n_features, itemsize)
    waiting = TASKS_PER_WORKER * workers + 1
    # Posteriors of this sweep, the next and the best; their factorisation; the total.
    matrices = 8 * n_inducing * n_inducing * (8 + waiting) + 8 * waiting * n_inducing * n_features
    derivatives = 3 * kernel.workspace_bytes(n_inducing, n_inducing, n_features, 8)
    block = max(sweep_bytes(*shape), evidence_bytes(*shape))
    block += likelihood.workspace_bytes(min(rows_per_block, n_rows), power=power)
    return workers * block + matrices + derivatives + 64 * n_rows
