"""What classifier and regressor have in common: checking parameters, passes of a fitted model, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array, FloatArray
from streamgp.budget import parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.rows import Store
from streamgp.errors import ParameterError
from streamgp.passes import CollectMarginals, PassSettings, PredictionWriter, Reading, Visitor, run_pass
from streamgp.passes.marginals import concatenate
from streamgp.passes.prediction import Columns, Predictions, output_group
from streamgp.passes.run import available_threads
from streamgp.persistence import write_record
from streamgp.posterior import Marginals
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive
from streamgp.selection import FPASS, IVM, PASS
from streamgp.selection.inducing import EvidenceGain, Kmeans
from streamgp.selection.predictive import Predictive
from streamgp.training.context import FitSettings
from streamgp.training.fitc_approximate import check_approximation
from streamgp.training.plan import Demand, make_plan

T = TypeVar("T")
Selection = (
    Literal["ivm", "pass", "fpass", "random", "kmeans", "gain"] | IVM | PASS | FPASS | Kmeans | EvidenceGain
)


def fit_settings(estimator: Any, sample_weight: Any = None) -> FitSettings:
    """What a fit is asked for, checked once, here."""
    selection = _selection(estimator.selection)
    predictive = isinstance(selection, Predictive)
    if estimator.inference not in ("adf", "ep", "fitc"):
        raise ParameterError(f"inference={estimator.inference!r} is not known; use 'adf', 'ep' or 'fitc'")
    over_all_rows = estimator.inference == "fitc"
    if isinstance(selection, Kmeans | EvidenceGain) and not over_all_rows:
        raise ParameterError(
            "selection='kmeans' and 'gain' choose inducing inputs: they come with inference='fitc'"
        )
    weighted = sample_weight is not None or getattr(estimator, "class_weight", None) is not None
    if weighted and not over_all_rows:
        raise ParameterError("weights of rows and classes are for inference over all rows: inference='fitc'")
    if estimator.learn_hyperparameters == "passes" and not over_all_rows:
        raise ParameterError(
            "learn_hyperparameters='passes' is for inference over all rows: inference='fitc'"
        )
    if estimator.learn_inducing is True and estimator.learn_hyperparameters in ("constant", "hybrid"):
        raise ParameterError(
            "learn_inducing=True needs the evidence: learn_hyperparameters=True, 'evidence' or 'passes'"
        )
    check_approximation(estimator.residual, estimator.power)
    if estimator.learn_inducing not in (True, False, "auto"):
        raise ParameterError(
            f"learn_inducing must be True, False or 'auto', not {estimator.learn_inducing!r}"
        )
    if isinstance(estimator.n_active, bool) or not isinstance(estimator.n_active, int | np.integer):
        raise ParameterError(f"n_active must be an integer of at least 1, not {estimator.n_active!r}")
    return FitSettings(
        n_active=int(estimator.n_active),
        selection=selection,
        # A predictive selection is built on expectation propagation; there is nothing to stop early.
        inference="ep" if predictive and not over_all_rows else estimator.inference,
        shared=_is_shared(getattr(estimator, "multiclass", "auto")) or over_all_rows,
        kernel=estimator.kernel,
        likelihood=estimator.likelihood,
        learning=_learning(estimator.learn_hyperparameters),
        calibrate=bool(estimator.calibrate),
        standardize=estimator.standardize,
        precision=estimator.precision,
        memory_budget=parse_size(estimator.memory_budget),
        validation=False
        if predictive and not over_all_rows and estimator.validation is None
        else estimator.validation,
        max_seconds=estimator.max_seconds,
        seed=_seed(estimator.random_state),
        client=estimator.client,
        checkpoint=estimator.checkpoint,
        progress=estimator.progress,
        residual=estimator.residual,
        power=estimator.power,
        learn_inducing=estimator.learn_inducing,
        scratch=estimator.scratch,
        class_weight=getattr(estimator, "class_weight", None),
        sample_weight=None if sample_weight is None else np.asarray(sample_weight, np.float64),
    )


def _selection(selection: Any) -> IVM | Predictive | Kmeans | EvidenceGain | None:
    if isinstance(selection, IVM | Predictive | Kmeans | EvidenceGain):
        return selection
    known: dict[Any, IVM | Predictive | Kmeans | EvidenceGain | None] = {
        "ivm": IVM(),
        "pass": PASS(),
        "fpass": FPASS(),
        "random": None,
        "kmeans": Kmeans(),
        "gain": EvidenceGain(),
    }
    if not isinstance(selection, str) or selection not in known:
        raise ParameterError(
            f"selection={selection!r} is not known; use 'ivm', 'pass', 'fpass', 'random', 'kmeans', 'gain', "
            f"or settings: IVM(...), PASS(...), FPASS(...), Kmeans(...), EvidenceGain(...)"
        )
    return known[selection]


def _is_shared(multiclass: Any) -> bool:
    if multiclass not in ("auto", "per_class", "shared"):
        raise ParameterError(f"multiclass must be 'auto', 'per_class' or 'shared', not {multiclass!r}")
    return bool(multiclass == "shared")


def _learning(learn: Any) -> str | None:
    if learn not in (True, False, "constant", "hybrid", "evidence", "passes"):
        raise ParameterError(
            f"learn_hyperparameters must be True, False, 'constant', 'hybrid', 'evidence' or 'passes', "
            f"not {learn!r}"
        )
    return {True: "auto", False: None}.get(learn, learn)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def adopt(estimator: Any, model: Model, history: Sequence[dict[str, Any]]) -> None:
    """Give an estimator its learned attributes."""
    estimator.model_ = model
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
    snapshot, settings = estimator.model_.snapshot, fit_settings(estimator)
    largest = max(len(head.projected_targets) for head in snapshot.heads)
    demand = Demand(
        rows,
        snapshot.kernel,
        largest,
        len(snapshot.heads),
        snapshot.dtype.itemsize,
        shared=len(snapshot.active_inputs) == largest,
        fitted=True,
    )
    plan = make_plan(demand, settings.memory_budget, available_threads())
    return rows.cut(plan.span_rows), PassSettings(
        plan.rows_per_block, plan.tasks_in_flight, settings.client, settings.progress
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
    header["parameters"] = {
        name: value for name, value in estimator.get_params().items() if isinstance(value, str | int | float)
    }
    write_record(path, header, arrays, kind="model")
