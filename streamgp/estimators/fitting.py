"""Fitting with an estimator's parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from streamgp.data import open_rows
from streamgp.data.rows import Names, Store
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.estimators.running import running
from streamgp.settings import fit_settings
from streamgp.settings.checks import folder
from streamgp.training.fit import Fitted, fit
from streamgp.training.identity import resumed_seed
from streamgp.training.prepare import no_label_of

if TYPE_CHECKING:
    from streamgp.estimators.base import StreamGPEstimator


def fit_store(
    estimator: StreamGPEstimator,
    store: Store,
    x: Names,
    y: str,
    task: Task,
    weight: Any = None,
    allow_missing_chunks: bool = False,
) -> Fitted:
    """Fit a store with an estimator's parameters."""
    parameters = estimator.get_params(deep=False)
    if estimator.warm_start and hasattr(estimator, "kernel_"):
        parameters["kernel"] = estimator.kernel_
    with running(estimator.n_jobs, estimator.verbose):
        place = folder("checkpoint", estimator.checkpoint)
        seed = resumed_seed(place) if estimator.random_state is None else None
        settings = fit_settings(parameters, seed_of(estimator.random_state) if seed is None else seed, weight)
        no_label = no_label_of(settings.likelihood)
        rows = open_rows(store, x, y, allow_missing_chunks=allow_missing_chunks, no_label=no_label)
        fitted = fit(rows, task, settings)
    named = replace(fitted.model, feature_names=rows.feature_names, column_recipe=rows.column_recipe)
    return fitted._replace(model=named)


def seed_of(random_state: Any) -> int:
    """The seed that ``random_state`` stands for; None: another one each time."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ParameterError(
            f"random_state must be None, an integer of at least 0 or a RandomState, not {random_state!r}"
        ) from error
