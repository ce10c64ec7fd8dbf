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
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.inference import Sites
from streamgp.inference.inducing.basis import Approximation, make_basis
from streamgp.inference.inducing.fit import Damping, Fit, fit_sites
from streamgp.inference.inducing.posterior import head_from_posterior
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.posterior import Snapshot
from streamgp.posterior.precision import WORTHWHILE, choose_dtype
from streamgp.training.context import Context
from streamgp.training.fitc_evidence import (
    Problem,
    affordable,
    judged_heads,
    kernel_log_prior,
    sample_problem,
)
from streamgp.training.fitc_state import SweepState
from streamgp.training.fitc_sweeps import inducing_of
from streamgp.training.state import State

logger = logging.getLogger(__name__)

CANDIDATES = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.1), (0.0, 1.0))
ROWS_PER_INDUCING = 5
MOST_ROWS = 5000
TOLERANCE = 5e-3
"""Moment residual at which held-out densities of a sample's fit are compared, and sweeps can begin."""
VALIDATION_BLOCK = 1024
MOST_SWEEPS = 30
MOST_REFITS = 4
"""Factors of two by which noise or variance may rise or fall."""


class Tried(NamedTuple):
    """An approximation, parameters refitted for it, and fits of some heads, with what judges them.

    ``log_posterior`` is the evidence of the fits, hyperpriors included; log_densities (heads, rows) are of
    the rows held out.
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

    def is_better_than(self, other: Tried) -> bool:
        """Whether held-out rows prefer it by more than the standard error of their mean difference."""
        difference = np.ravel(self.log_densities - other.log_densities)
        return difference.size > 1 and bool(difference.mean() > difference.std() / np.sqrt(difference.size))


def approximate(context: Context, state: State) -> State:
    """Choose residual and power, and the type of the passes; hand over to the sweeps."""
    inducing = inducing_of(state)
    wanted = min(max(ROWS_PER_INDUCING * len(inducing), 1000), MOST_ROWS)
    size, _ = affordable(context, state, wanted, len(inducing), fewest_inducing=len(inducing))
    choices = candidates(context.settings.residual, context.settings.power)
    precision = _first_precision(context, state, len(inducing))
    problem = sample_problem(context, size, judged_heads(context))
    if len(choices) > 1 and len(context.validation.rows) == 0:
        choices = choices[:1]
    tried: list[Tried] = []
    for choice in choices:
        near = tried[-1] if tried else None
        attempt = partial(_try, problem, precision, choice)
        one = attempt(state, near)
        if context.settings.learning is not None:
            one = _refitted(state, attempt, one)
        one = one._replace(log_densities=_held_out(context, state, problem, precision, one))
        tried.append(one)
        message = "residual %g, power %g: held-out log density %.5f"
        logger.info(message, choice.residual, choice.power, one.log_density)
    best = reduce(lambda one, other: other if other.is_better_than(one) else one, tried)
    state = replace(state, kernel=best.kernel, likelihoods=best.likelihoods)
    if precision == "float32" and not _single_is_enough(context, state, problem, best):
        precision = "float64"
    everyone = sample_problem(context, size, tuple(range(context.n_heads)))
    known = dict(zip(problem.heads, (fit.sites for fit in best.fits), strict=True))
    fits = _fit_heads(state, everyone, precision, best.approximation, known)
    n_rows = context.prepared.rows.n_rows - len(context.validation.rows)
    scale = n_rows / len(problem.weights)
    sweeps = SweepState(
        approximation=best.approximation,
        precision=precision,
        moment_matrices=np.stack([scale * _moments(fit)[0] for fit in fits]),
        moment_vectors=np.stack([scale * _moments(fit)[1] for fit in fits]),
        # Rows that were not in the sample take the whole step at once.
        damping=(Damping(1.0),) * context.n_heads,
        converged=(False,) * context.n_heads,
        evidence=(0.0,) * context.n_heads,
    )
    state = replace(state, sweeps=sweeps).told(
        residual=best.approximation.residual,
        power=best.approximation.power,
        tried=[
            [one.approximation.residual, one.approximation.power, one.log_density]
            for one in tried
            if np.isfinite(one.log_density)
        ],
        precision=precision,
        kernel=repr(state.kernel),
        sweeps=[fit.sweeps for fit in fits],
    )
    return replace(state, phase="site_sweep")


def candidates(residual: float | str, power: float | str) -> list[Approximation]:
    """The approximations among which ``"auto"`` chooses; a number given for either is kept."""
    pairs = [
        (s if residual == "auto" else float(residual), a if power == "auto" else float(power))
        for s, a in CANDIDATES
    ]
    return [Approximation(*pair) for pair in dict.fromkeys(pairs)]


def check_approximation(residual: float | str, power: float | str) -> None:
    """Refuse anything but ``"auto"`` and numbers in their range."""
    for name, value in (("residual", residual), ("power", power)):
        if value != "auto" and (isinstance(value, bool | str) or not isinstance(value, int | float)):
            raise ParameterError(f"{name} must be 'auto' or a number, not {value!r}")
    candidates(residual, power)


def _first_precision(context: Context, state: State, n_inducing: int) -> str:
    """The type to try first: Gaussian noise needs one pass only, and sharp sums."""
    wish = context.settings.precision
    if wish != "auto":
        return wish
    rows = context.prepared.rows
    small = rows.n_rows * n_inducing * (rows.n_features + n_inducing) < WORTHWHILE
    return "float64" if small or isinstance(state.likelihoods[0], Gaussian) else "float32"


def _fit_heads(
    state: State, problem: Problem, precision: str, choice: Approximation, known: dict[int, Sites]
) -> tuple[Fit, ...]:
    """Fits of the problem's heads, from known sites of theirs."""
    basis = make_basis(state.kernel, inducing_of(state), precision).astype(precision)
    inputs = problem._replace(inputs=problem.inputs.astype(precision))
    return tuple(
        fit_sites(
            basis,
            state.likelihoods[head],
            inputs.rows(place),
            choice,
            sites=known.get(head),
            tolerance=TOLERANCE,
            max_sweeps=MOST_SWEEPS,
            hold=True,
        )
        for place, head in enumerate(problem.heads)
    )


def _refitted(state: State, attempt: Callable[[State, Tried | None], Tried], best: Tried) -> Tried:
    """An approximation at its best: uphill from the learned parameters, tried already, in factors of two.

    FITC explains as noise what the projected process must explain otherwise, so that the same parameters do
    not suit both. By evidence as they were learned, not by the few rows held out: these prefer variances
    that are sixteen times as large on ijcnn1, and are wrong about its test rows, which are of another time.
    """
    at = 0
    for direction in (-1, 1):
        for exponent in range(direction, direction * (MOST_REFITS + 1), direction):
            try:
                following = attempt(_scaled(state, exponent), best)
            except LinAlgError:  # no factor in this type: as far as it goes
                break
            if following.log_posterior <= best.log_posterior:
                break
            best, at = following, exponent
        if at != 0:  # the other direction is where it came from
            break
    return best


def _scaled(state: State, exponent: int) -> State:
    """The state with Gaussian noise, else with all variances of the kernel, times a power of two."""
    shift, kernel = exponent * np.log(2.0), state.kernel
    if isinstance(state.likelihoods[0], Gaussian):
        noisy = tuple(each.with_parameters(each.parameters + shift) for each in state.likelihoods)
        return replace(state, likelihoods=noisy)
    variances = np.array([name.endswith("variance") for name in kernel.parameter_names])
    return replace(state, kernel=kernel.with_log_parameters(kernel.log_parameters + shift * variances))


def _try(problem: Problem, precision: str, choice: Approximation, state: State, near: Tried | None) -> Tried:
    """Fit the sample under the state's parameters, from the sites of a fit that is near."""
    known = dict(zip(problem.heads, (fit.sites for fit in near.fits), strict=True)) if near else {}
    fits = _fit_heads(state, problem, precision, choice, known)
    own = tuple(state.likelihoods[head] for head in problem.heads)
    log_posterior, _ = kernel_log_prior(state.kernel, own[0], problem.inputs.shape[1])
    for fit, likelihood in zip(fits, own, strict=True):
        log_posterior += fit.evidence + likelihood.log_prior()[0]
    return Tried(choice, state.kernel, state.likelihoods, fits, log_posterior)


def _held_out(context: Context, state: State, problem: Problem, precision: str, tried: Tried) -> FloatArray:
    """Log densities of the rows held out, (heads, rows)."""
    validation = context.validation
    if len(validation.rows) == 0:
        return np.zeros((len(problem.heads), 0))
    densities = np.empty((len(problem.heads), len(validation.rows)))
    state = replace(state, kernel=tried.kernel, likelihoods=tried.likelihoods)
    snapshot = _snapshot(state, precision, tried.approximation, tried.fits)
    for start in range(0, len(validation.rows), VALIDATION_BLOCK):
        here = slice(start, start + VALIDATION_BLOCK)
        marginals = snapshot.marginals(context.inputs(validation.features[here]))
        assert marginals.variance is not None
        for place, head in enumerate(problem.heads):
            targets = context.head_targets(validation.targets[here], head)
            mean, variance = marginals.mean[:, place], marginals.variance[:, place]
            densities[place, here] = state.likelihoods[head].log_predictive_density(targets, mean, variance)
    return densities


def _snapshot(state: State, precision: str, choice: Approximation, fits: tuple[Fit, ...]) -> Snapshot:
    inducing = inducing_of(state)
    basis = make_basis(state.kernel, inducing, precision)
    columns = slice(0, len(inducing))
    heads = tuple(
        head_from_posterior(basis, fit.posterior, columns, residual=choice.residual) for fit in fits
    )
    return Snapshot(state.kernel, inducing, heads)


def _single_is_enough(context: Context, state: State, problem: Problem, best: Tried) -> bool:
    if context.settings.precision == "float32":
        return True
    snapshot = _snapshot(state, "float32", best.approximation, best.fits)
    probe = problem.inputs[:256]
    return choose_dtype("auto", snapshot, probe, context.prepared.rows.n_rows) == np.float32


def _moments(fit: Fit) -> tuple[FloatArray, FloatArray]:
    """The sums that a posterior was made of: A − 1 and r."""
    spread = np.asarray(fit.posterior.spread, np.float64)
    # A = R⁻ᵀ R⁻¹, R upper triangular.
    inverse = np.linalg.inv(spread)
    matrix = inverse.T @ inverse
    return matrix - np.eye(len(matrix)), inverse.T @ fit.posterior.projected_targets
