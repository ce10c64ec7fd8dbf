"""Which approximation: residual and power, by the log density of held-out rows, on a sample of the others.

Each is judged at its best, with the noise of real targets or, of classes, the kernel's variance refitted by
its own evidence. FITC stays unless another is better by more than a standard error. The winner's posterior,
its moments multiplied up to the number of all rows, is where sweeps begin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.inference import Sites
from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Approximation, make_basis
from streamgp.inference.inducing.fit import Fit, fit_sites
from streamgp.inference.inducing.posterior import head_from_posterior
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.posterior import Snapshot
from streamgp.posterior.precision import WORTHWHILE, choose_dtype
from streamgp.settings import FITC
from streamgp.training.heads import inducing_of
from streamgp.training.judge import is_better, log_densities, marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.sample import Sampled, affordable, judged_heads, kernel_log_prior, sample_rows
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.sweeps import Sweeps

logger = logging.getLogger(__name__)

ROWS_PER_INDUCING = 5
MOST_ROWS = 5000
TOLERANCE = 5e-3
"""Moment residual at which held-out densities of a sample's fit are compared, and sweeps can begin."""
MOST_SWEEPS = 30
MOST_REFITS = 4
"""Factors of two by which noise or variance may rise or fall."""


class Tried(NamedTuple):
    """An approximation, parameters refitted for it, and fits of some heads, with what judges them.

    ``log_posterior`` is the evidence of the fits, with hyperpriors if there are any; log_densities (heads,
    rows) are of the rows held out.
    """

    approximation: Approximation
    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    fits: tuple[Fit, ...]
    log_posterior: float
    log_densities: FloatArray = np.zeros((0, 0))

    @property
    def log_density(self) -> float:
        """The mean over held-out rows and heads, nan without any."""
        return float(self.log_densities.mean()) if self.log_densities.size else np.nan


def choose_approximation(settings: FITC, *, refit: bool) -> Stage:
    """Choose residual and power, and the type of the passes; the posterior of the sample begins the sweeps.

    ``refit``: each is judged with noise or variance refitted for it.
    """
    return once("infer: approximation", partial(_chosen, settings, refit))


def _chosen(settings: FITC, refit: bool, problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    inducing = inducing_of(draft)
    wanted = min(max(ROWS_PER_INDUCING * len(inducing), 1000), MOST_ROWS)
    size, _ = affordable(problem, draft, wanted, len(inducing), fewest_inducing=len(inducing))
    # White noise is residual variance: without any of that it would be ignored.
    choices = [one for one in settings.approximations if one.residual > 0 or not draft.kernel.has_white_noise]
    if len(problem.held_out.rows) == 0:
        choices = choices[:1]
    precision = _first_precision(problem, draft, len(inducing))
    rows = sample_rows(problem, size, judged_heads(problem))
    tried: list[Tried] = []
    for choice in choices:
        if tried and problem.is_late():
            break
        if _leads_away(choice, tried):
            continue
        near = tried[-1] if tried else None
        attempt = partial(_try, rows, precision, choice)
        one = attempt(draft, near)
        if refit:
            one = _refitted(problem, draft, attempt, one)
        one = one._replace(log_densities=_held_out(problem, draft, rows, precision, one))
        tried.append(one)
        message = "residual %g, power %g: held-out log density %.5f"
        logger.info(message, choice.residual, choice.power, one.log_density)
    best = reduce(_better, tried)
    draft = replace(draft, kernel=best.kernel, likelihoods=best.likelihoods)
    if precision == "float32" and not _single_is_enough(problem, draft, rows, best):
        precision = "float64"
    everyone = sample_rows(problem, size, tuple(range(problem.n_heads)))
    known = dict(zip(rows.heads, (fit.sites for fit in best.fits), strict=True))
    fits = _fit_heads(draft, everyone, precision, best.approximation, known)
    moments = [_moments(fit) for fit in fits]
    scale = (problem.n_rows - len(problem.excluded)) / len(rows.weights)
    sweeps = Sweeps(
        approximation=best.approximation,
        precision=precision,
        moment_matrices=np.stack([scale * matrix for matrix, _ in moments]),
        moment_vectors=np.stack([scale * vector for _, vector in moments]),
        # Rows that were not in the sample take the whole step at once.
        progress=(Damped(1.0),) * problem.n_heads,
        evidence=(0.0,) * problem.n_heads,
    )
    return replace(draft, sweeps=sweeps), {
        "residual": best.approximation.residual,
        "power": best.approximation.power,
        "tried": [
            [one.approximation.residual, one.approximation.power, one.log_density]
            for one in tried
            if np.isfinite(one.log_density)
        ],
        "left_out": [
            [choice.residual, choice.power]
            for choice in choices
            if choice not in [one.approximation for one in tried]
        ],
        "precision": precision,
        "kernel": repr(draft.kernel),
        "sweeps": [fit.sweeps for fit in fits],
    }


def _leads_away(choice: Approximation, tried: list[Tried]) -> bool:
    """Whether a larger power than the choice's was already worse, by a standard error, than a larger one.

    Power EP goes from EP towards a variational bound: where the first part of that way was for the worse, the
    rest is not tried.
    """
    larger = [
        one
        for one in tried
        if one.approximation.residual == choice.residual and one.approximation.power > choice.power
    ]
    return len(larger) > 1 and is_better(larger[-2].log_densities, larger[-1].log_densities)


def _better(one: Tried, other: Tried) -> Tried:
    """The first of two, unless held-out rows prefer the other by more than a standard error."""
    return other if is_better(other.log_densities, one.log_densities) else one


def _first_precision(problem: Problem, draft: Draft, n_inducing: int) -> str:
    """The type to try first: Gaussian noise needs one pass only, and sharp sums."""
    wish = problem.settings.precision
    if wish != "auto":
        return wish
    small = problem.n_rows * n_inducing * (problem.n_features + n_inducing) < WORTHWHILE
    return "float64" if small or isinstance(draft.likelihoods[0], Gaussian) else "float32"


def _fit_heads(
    draft: Draft, rows: Sampled, precision: str, choice: Approximation, known: dict[int, Sites]
) -> tuple[Fit, ...]:
    """Fits of the sample's heads, from known sites of theirs."""
    basis = make_basis(draft.kernel, inducing_of(draft), precision).astype(precision)
    inputs = rows._replace(inputs=rows.inputs.astype(precision))
    return tuple(
        fit_sites(
            basis,
            draft.likelihoods[head],
            inputs.rows(place),
            choice,
            sites=known.get(head),
            tolerance=TOLERANCE,
            max_sweeps=MOST_SWEEPS,
            hold=basis.dtype,
        )
        for place, head in enumerate(rows.heads)
    )


def _refitted(
    problem: Problem, draft: Draft, attempt: Callable[[Draft, Tried | None], Tried], best: Tried
) -> Tried:
    """An approximation at its best: uphill from the learned parameters, tried already, in factors of two.

    FITC explains as noise what the projected process must explain otherwise, so that the same parameters do
    not suit both. By evidence as they were learned, not by the few rows held out: see docs/decisions.md.
    """
    at = 0
    for direction in (-1, 1):
        for exponent in range(direction, direction * (MOST_REFITS + 1), direction):
            if problem.is_late():
                return best
            try:
                following = attempt(_scaled(draft, exponent), best)
            except LinAlgError:  # no factor in this type: as far as it goes
                break
            if following.log_posterior <= best.log_posterior:
                break
            best, at = following, exponent
        if at != 0:  # the other direction is where it came from
            break
    return best


def _scaled(draft: Draft, exponent: int) -> Draft:
    """The draft with Gaussian noise, else with all variances of the kernel, times a power of two."""
    shift, kernel = exponent * np.log(2.0), draft.kernel
    if isinstance(draft.likelihoods[0], Gaussian):
        noisy = tuple(each.with_parameters(each.parameters + shift) for each in draft.likelihoods)
        return replace(draft, likelihoods=noisy)
    variances = np.array([name.endswith("variance") for name in kernel.parameter_names])
    return replace(draft, kernel=kernel.with_log_parameters(kernel.log_parameters + shift * variances))


def _try(rows: Sampled, precision: str, choice: Approximation, draft: Draft, near: Tried | None) -> Tried:
    """Fit the sample under the draft's parameters, from the sites of a fit that is near."""
    known = dict(zip(rows.heads, (fit.sites for fit in near.fits), strict=True)) if near else {}
    fits = _fit_heads(draft, rows, precision, choice, known)
    own = tuple(draft.likelihoods[head] for head in rows.heads)
    log_posterior = sum(fit.evidence for fit in fits)
    if rows.hyperpriors:
        log_posterior += kernel_log_prior(draft.kernel, own[0], rows.inputs.shape[1])[0]
        log_posterior += sum(likelihood.log_prior()[0] for likelihood in own)
    return Tried(choice, draft.kernel, draft.likelihoods, fits, log_posterior)


def _held_out(problem: Problem, draft: Draft, rows: Sampled, precision: str, tried: Tried) -> FloatArray:
    """Log densities of the rows held out, (heads, rows)."""
    held_out = problem.held_out
    if len(held_out.rows) == 0:
        return np.zeros((len(rows.heads), 0))
    draft = replace(draft, kernel=tried.kernel, likelihoods=tried.likelihoods)
    snapshot = _snapshot(draft, precision, tried.approximation, tried.fits)
    mean, variance = marginals_in_memory(snapshot, held_out.features, problem)
    assert variance is not None
    return np.stack(
        [
            log_densities(
                draft.likelihoods[head],
                problem.head_targets(held_out.targets, head),
                mean[:, place],
                variance[:, place],
                calibrated=False,
            )
            for place, head in enumerate(rows.heads)
        ]
    )


def _snapshot(draft: Draft, precision: str, choice: Approximation, fits: tuple[Fit, ...]) -> Snapshot:
    inducing = inducing_of(draft)
    basis = make_basis(draft.kernel, inducing, precision)
    columns = slice(0, len(inducing))
    heads = tuple(
        head_from_posterior(basis, fit.posterior, columns, residual=choice.residual) for fit in fits
    )
    return Snapshot(draft.kernel, inducing, heads)


def _single_is_enough(problem: Problem, draft: Draft, rows: Sampled, best: Tried) -> bool:
    if problem.settings.precision == "float32":
        return True
    snapshot = _snapshot(draft, "float32", best.approximation, best.fits)
    return choose_dtype("auto", snapshot, rows.inputs[:256], problem.n_rows) == np.float32


def _moments(fit: Fit) -> tuple[FloatArray, FloatArray]:
    """The sums that a posterior was made of: A − 1 and r."""
    spread = np.asarray(fit.posterior.spread, np.float64)
    # A = R⁻ᵀ R⁻¹, R upper triangular.
    inverse = np.linalg.inv(spread)
    matrix = inverse.T @ inverse
    return matrix - np.eye(len(matrix)), inverse.T @ fit.posterior.projected_targets
