"""Means first: where sweeps over all rows begin, from the mode of as many rows as memory holds.

The posterior that a sample leaves knows the spread well enough, but its mean follows its own rows. The mode
of all rows costs m a row and evaluation, where a sweep costs m².
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.held import HeldRows
from streamgp.inference.inducing.mode import HeadTerms, find_mode
from streamgp.passes.run import available_threads
from streamgp.training.heads import inducing_of
from streamgp.training.held import held_sample, rows_that_fit
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.sweeps import Sweeps

MOST_ROWS = 50_000
MOST_STEPS = 30
TOLERANCE = 1e-4
"""Share of the log posterior that a step must gain for the search to go on: the mode is a start, no more."""


def find_first_means() -> Stage:
    """The mean of every head becomes its mode; the spread stays that of the sample.

    Safe for likelihoods that are not log-concave: every step is uphill from the mean that the sample has, and
    only the first sweep makes sites, from moments, of which none has a negative precision.
    """
    return once("infer: means", _moved)


def _moved(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    sweeps = draft.sweeps
    assert isinstance(sweeps, Sweeps)
    size = min(len(problem.sample.rows), rows_that_fit(problem, draft, sweeps.precision), MOST_ROWS)
    if size < min(len(problem.sample.rows), draft.n_active):  # fewer rows than numbers to be found
        return draft, {"rows": 0, "evaluations": []}
    basis = sweeps.basis(draft.kernel, inducing_of(draft)).astype(sweeps.precision)
    everybody = problem.holds_all_rows and size == len(problem.sample.rows)
    rows = held_sample(problem, basis, size, as_they_are=everybody)
    vectors, evaluations = sweeps.moment_vectors.copy(), []
    for head in range(problem.n_heads):
        if problem.is_late():
            break
        terms = HeadTerms(draft.likelihoods[head], problem.prepared.targets, head, sweeps.approximation)
        mean, needed = _mode(sweeps, head, rows, terms)
        vectors[head] = sweeps.moment_matrices[head] @ mean + mean
        evaluations.append(needed)
    told = {"rows": size, "evaluations": evaluations}
    return replace(draft, sweeps=replace(sweeps, moment_vectors=vectors)), told


def _mode(sweeps: Sweeps, head: int, rows: tuple[HeldRows, ...], terms: HeadTerms) -> tuple[FloatArray, int]:
    """The mode (m,) uphill from the mean of the posterior, in coordinates in which that is round."""
    posterior = sweeps.posterior(head)
    found = find_mode(
        rows,
        terms,
        n_functions=1,
        start=posterior.inducing_mean[:, None],
        scale=np.asarray(posterior.spread, np.float64),
        most_steps=MOST_STEPS,
        tolerance=TOLERANCE,
        workers=available_threads(),
    )
    moved = np.isfinite(found.value) and bool(np.all(np.isfinite(found.weights)))
    return found.weights[:, 0] if moved else posterior.inducing_mean, found.evaluations
