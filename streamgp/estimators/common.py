"""What classifier and regressor have in common: checking parameters, passes of a fitted model, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array, FloatArray
from streamgp.budget import parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.rows import Store
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.passes import CollectMarginals, PassSettings, PredictionWriter, Reading, Visitor, run_pass
from streamgp.passes.marginals import concatenate
from streamgp.passes.prediction import Columns, Predictions, output_group
from streamgp.passes.run import available_threads
from streamgp.persistence import write_record
from streamgp.posterior import Marginals
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive
from streamgp.settings import fit_settings, parameter_to_json
from streamgp.training.fit import Fitted, fit
from streamgp.training.plan import Demand, make_plan

T = TypeVar("T")


def fit_store(parameters: dict[str, Any], store: Store, x: str, y: str, task: Task, weight: Any) -> Fitted:
    """Fit a store with an estimator's parameters."""
    settings = fit_settings(parameters, _seed(parameters["random_state"]), weight)
    return fit(open_rows(store, x, y), task, settings)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def adopt(estimator: Any, model: Model, history: Sequence[dict[str, Any]], recipe: str) -> None:
    """Give an estimator its learned attributes."""
    estimator.model_ = model
    estimator.recipe_ = recipe
    estimator.n_features_in_ = model.snapshot.active_inputs.shape[1]
    estimator.active_rows_ = model.active_rows
    estimator.kernel_ = model.snapshot.kernel
    estimator.history_ = list(history)
    if isinstance(model.predictive, ClassPredictive):
        assert isinstance(model.targets, ClassTargets)
        estimator.classes_ = model.targets.classes
        estimator.likelihood_ = model.predictive.likelihoods
    else:
        estimator.likelihood_ = model.predictive.likelihood


def planned(estimator: Any, rows: Rows) -> tuple[Rows, PassSettings]:
    """Rows cut into spans, and the settings of passes of the fitted model over them, inside the budget."""
    if rows.n_features != estimator.n_features_in_:
        raise ParameterError(
            f"rows have {rows.n_features} features, but the model was fitted to {estimator.n_features_in_}"
        )
    snapshot = estimator.model_.snapshot
    largest = max(len(head.projected_targets) for head in snapshot.heads)
    demand = Demand(
        rows,
        snapshot.kernel,
        largest,
        len(snapshot.heads),
        snapshot.dtype.itemsize,
        shared=len(snapshot.active_inputs) == largest,
        fitted=True,
        likelihood=estimator.model_.predictive.likelihoods[0],
    )
    plan = make_plan(demand, parse_size(estimator.memory_budget), available_threads())
    return rows.cut(plan.span_rows), PassSettings(
        plan.rows_per_block, plan.tasks_in_flight, estimator.client, estimator.progress
    )


def visit(estimator: Any, rows: Rows, settings: PassSettings, visitor: Visitor[T]) -> T:
    """One pass of the fitted model over rows."""
    model = estimator.model_
    reading = Reading(model.standardizer, model.targets, model.snapshot.dtype)
    return run_pass(rows, visitor, settings, reading=reading, snapshot=model.snapshot, label="predict")


def marginals_of(estimator: Any, X: Any, with_variance: bool = True) -> Marginals:
    """Latent marginals of rows in memory, inside the budget."""
    check_is_fitted(estimator)
    features = validate_data(estimator, X, dtype="numeric", reset=False)
    rows, settings = planned(estimator, open_rows(features, y=None))
    return concatenate(visit(estimator, rows, settings, CollectMarginals(with_variance)))


def by_block(
    predict: Callable[[Array], Array],
    X: Any,
    estimator: Any,
    dtype: np.dtype[Any],
    columns: int | None = None,
) -> Any:
    """Predictions of a Dask array as a Dask array: block by block, lazily."""
    check_is_fitted(estimator)
    features = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    if columns is None:
        return features.map_blocks(predict, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (features.chunks[0], (columns,))
    return features.map_blocks(predict, dtype=dtype, chunks=chunks, meta=np.empty((0, columns), dtype))


def latent(marginals: Marginals) -> tuple[FloatArray, FloatArray]:
    """Mean and variance as users expect them: (rows,) for one latent function, else (rows, heads)."""
    mean, variance = marginals
    assert variance is not None
    return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)


def write_predictions(
    estimator: Any,
    store: Store,
    x: str,
    out: Any,
    columns: Columns,
    predict: Callable[[Marginals], Predictions],
) -> None:
    """Write what ``predict`` makes of every row of a store to a new Zarr group."""
    rows, settings = planned(estimator, open_rows(store, x, None))
    with output_group(out, rows, columns) as arrays:
        visit(estimator, rows, settings, PredictionWriter(predict, arrays))


def save_model(estimator: Any, path: Any) -> None:
    """Write a fitted estimator: its model, its history, its parameters that are plain values."""
    check_is_fitted(estimator)
    header, arrays = estimator.model_.to_record()
    header["history"] = estimator.history_
    header["recipe"] = estimator.recipe_
    written = {name: parameter_to_json(value) for name, value in estimator.get_params(deep=False).items()}
    header["parameters"] = {name: value for name, value in written.items() if value is not None}
    write_record(path, header, arrays, kind="model")
