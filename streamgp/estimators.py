"""scikit-learn estimators that learn from stores larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar

import dask.array
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.budget import parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.rows import Store
from streamgp.data.standardize import Standardize
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes import (
    ClassEvaluation,
    CollectMarginals,
    PassSettings,
    PredictionWriter,
    Reading,
    RealEvaluation,
    Visitor,
    run_pass,
)
from streamgp.passes.evaluation import ClassScore, RealScore
from streamgp.passes.marginals import concatenate
from streamgp.passes.prediction import Columns, Predictions, output_group
from streamgp.passes.run import available_threads
from streamgp.persistence import read_record, write_record
from streamgp.posterior import Marginals, Precision
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive, RealPredictive
from streamgp.selection import IVM
from streamgp.training.context import FitSettings
from streamgp.training.fit import fit
from streamgp.training.plan import Demand, make_plan

Array = NDArray[Any]
T = TypeVar("T")


class StreamGPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process classification with a sparse active set.

    Parameters
    ----------
    n_active : int
        Size of the active set: rows that the model keeps. Cost grows with its square.
    selection : {"ivm", "random"} or IVM
        How active rows are chosen: greedily, or at random; settings by :class:`streamgp.selection.IVM`.
    inference : {"adf"}
        What the active set then says: ``"adf"`` visits each site once.
    kernel : Kernel, optional
        Covariance of the latent function on standardised features, and where learning starts; default an RBF
        of median distance plus a linear kernel.
    likelihood : Likelihood, optional
        Default :class:`~streamgp.likelihoods.Probit` with a bias from the class's share.
    multiclass : {"auto", "per_class", "shared"}
        More than two classes are learned one against the rest, all in one stream: with an active set of
        ``n_active`` rows for each class (``"auto"``), or with one set that all share, cheaper to predict.
    learn_hyperparameters : bool or {"constant", "hybrid"}
        Learn the parameters of kernel and likelihood on a sample, True: with sites held constant in the inner
        loop; ``"hybrid"`` sets them anew before every search direction.
    calibrate : bool
        Rescale latent means and variances by the density of training rows, each as if left out.
    standardize : {"auto", "common"} or bool
        Shift and scale of the features; see :func:`streamgp.data.standardize.choose_standardizer`.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the passes; factors are always float64.
    memory_budget : int or str
        Bytes, or a size such as ``"1GiB"``, that the fit may use beside Python and its libraries.
    validation : None, False, float or array of row numbers
        Rows held out to stop early: None for min(5 %, 10000) of them, stratified; False for none.
    max_seconds : float, optional
        Stop growing the active set after this time.
    random_state : int, RandomState or None
        Source of all random draws.
    client : distributed.Client, optional
        Where passes run; default the current client, else threads.
    checkpoint : path, optional
        Folder where the state is kept after every step; a fit that finds one continues there.
    progress : bool, optional
        Progress bars; default only on a terminal.

    Attributes
    ----------
    classes_, n_features_in_
        As usual.
    active_rows_ : array
        Row numbers of the active sets, one class after the other, in the order of inclusion.
    kernel_, likelihood_
        With learned parameters; one likelihood per latent function.
    history_ : list of dict
        One record per step: active rows, held-out log density, seconds, peak memory.
    """

    def __init__(
        self,
        n_active: int = 500,
        *,
        selection: Literal["ivm", "random"] | IVM = "ivm",
        inference: Literal["adf"] = "adf",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        multiclass: Literal["auto", "per_class", "shared"] = "auto",
        learn_hyperparameters: bool | Literal["constant", "hybrid"] = True,
        calibrate: bool = True,
        standardize: Standardize = "auto",
        precision: Precision = "auto",
        memory_budget: int | str = "1GiB",
        validation: Any = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.n_active = n_active
        self.selection = selection
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.multiclass = multiclass
        self.learn_hyperparameters = learn_hyperparameters
        self.calibrate = calibrate
        self.standardize = standardize
        self.precision = precision
        self.memory_budget = memory_budget
        self.validation = validation
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.client = client
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to arrays in memory, or to Dask arrays."""
        if not isinstance(X, dask.array.Array):
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], accept_sparse=False)
            check_classification_targets(y)
            y = np.asarray(y, dtype=str) if y.dtype.kind == "O" else y
        return self.fit_stream((X, y))

    def fit_stream(self, store: Store, x: str = "X", y: str = "y") -> Self:
        """Fit to a Zarr group (path, URL or ``zarr.Group``) or to a pair of arrays, chunk by chunk."""
        rows = open_rows(store, x, y)
        _adopt(self, *fit(rows, "classification", _settings(self)))
        return self

    def predict(self, X: Any) -> Any:
        """The most probable class of each row.

        Of two classes a symmetric likelihood needs the latent mean alone, far cheaper than variances.
        """
        if isinstance(X, dask.array.Array):
            return _by_block(self.predict, X, self, self.classes_.dtype)
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        if self.model_.predictive.decides_by_mean:
            positive = self.model_.predictive.is_positive(_marginals(self, X, with_variance=False))
            return self.classes_[positive.astype(np.intp)]
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, in the order of ``classes_``; a Dask array for a Dask array."""
        if isinstance(X, dask.array.Array):
            return _by_block(self.predict_proba, X, self, np.dtype(np.float64), len(self.classes_))
        marginals = _marginals(self, X)
        assert isinstance(self.model_.predictive, ClassPredictive)
        return np.exp(self.model_.predictive.log_probabilities(marginals))

    def predict_latent(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and variance of the latent functions: (rows, heads) each, (rows,) for one head."""
        return _latent(_marginals(self, X))

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads."""
        _save(self, path)

    def predict_stream(self, store: Store, out: Any, x: str = "X") -> None:
        """Write ``label`` (a class number) and ``probability`` of every row to a new Zarr group."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        columns = {
            "label": ((), np.dtype(np.int32)),
            "probability": ((self.model_.predictive.n_classes,), np.dtype(np.float32)),
        }
        _write(self, store, x, out, columns, partial(_class_columns, self.model_.predictive))

    def evaluate_stream(self, store: Store, x: str = "X", y: str = "y") -> ClassScore:
        """Error, log loss, Brier score, calibration and rejection curve on a store, in one pass."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        return _visit(self, *_planned(self, open_rows(store, x, y)), ClassEvaluation(self.model_.predictive))


class StreamGPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process regression with a sparse active set.

    Parameters are those of :class:`StreamGPClassifier`; the default likelihood is
    :class:`~streamgp.likelihoods.Gaussian`. Targets are centred and scaled, predictions mapped back.
    """

    def __init__(
        self,
        n_active: int = 500,
        *,
        selection: Literal["ivm", "random"] | IVM = "ivm",
        inference: Literal["adf"] = "adf",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        learn_hyperparameters: bool | Literal["constant", "hybrid"] = True,
        calibrate: bool = True,
        standardize: Standardize = "auto",
        precision: Precision = "auto",
        memory_budget: int | str = "1GiB",
        validation: Any = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.n_active = n_active
        self.selection = selection
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.learn_hyperparameters = learn_hyperparameters
        self.calibrate = calibrate
        self.standardize = standardize
        self.precision = precision
        self.memory_budget = memory_budget
        self.validation = validation
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.client = client
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to arrays in memory, or to Dask arrays."""
        if not isinstance(X, dask.array.Array):
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True)
        return self.fit_stream((X, y))

    def fit_stream(self, store: Store, x: str = "X", y: str = "y") -> Self:
        """Fit to a Zarr group (path, URL or ``zarr.Group``) or to a pair of arrays, chunk by chunk."""
        rows = open_rows(store, x, y)
        _adopt(self, *fit(rows, "regression", _settings(self)))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of each row, and its standard deviation (of a new observation) where asked for.

        The mean alone costs O(d) a row instead of O(d²). A Dask array gives Dask arrays.
        """
        if isinstance(X, dask.array.Array):
            both = _by_block(partial(_mean_and_deviation, self), X, self, np.dtype(np.float64), 2)
            return (both[:, 0], both[:, 1]) if return_std else _by_block(self.predict, X, self, both.dtype)
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        if not return_std and self.model_.predictive.mean_is_latent:
            return self.model_.predictive.latent_mean(_marginals(self, X, with_variance=False))
        mean, variance = self.model_.predictive.predict(_marginals(self, X))
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_latent(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and variance of the latent function, in units of the scaled target."""
        return _latent(_marginals(self, X))

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads."""
        _save(self, path)

    def predict_stream(self, store: Store, out: Any, x: str = "X") -> None:
        """Write ``mean`` and ``variance`` of every row to a new Zarr group."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        columns = {name: ((), np.dtype(np.float64)) for name in ("mean", "variance")}
        _write(self, store, x, out, columns, partial(_real_columns, self.model_.predictive))

    def evaluate_stream(self, store: Store, x: str = "X", y: str = "y") -> RealScore:
        """Root mean squared error, log loss and coverage on a store, in one pass."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        return _visit(self, *_planned(self, open_rows(store, x, y)), RealEvaluation(self.model_.predictive))


Estimator = StreamGPClassifier | StreamGPRegressor


def _settings(estimator: Estimator) -> FitSettings:
    if estimator.inference != "adf":
        raise ParameterError(f"inference={estimator.inference!r} is not known; use 'adf'")
    if isinstance(estimator.n_active, bool) or not isinstance(estimator.n_active, int | np.integer):
        raise ParameterError(f"n_active must be an integer of at least 1, not {estimator.n_active!r}")
    return FitSettings(
        n_active=int(estimator.n_active),
        selection=_selection(estimator.selection),
        shared=_is_shared(getattr(estimator, "multiclass", "auto")),
        kernel=estimator.kernel,
        likelihood=estimator.likelihood,
        learning=_learning(estimator.learn_hyperparameters),
        calibrate=bool(estimator.calibrate),
        standardize=estimator.standardize,
        precision=estimator.precision,
        memory_budget=parse_size(estimator.memory_budget),
        validation=estimator.validation,
        max_seconds=estimator.max_seconds,
        seed=_seed(estimator.random_state),
        client=estimator.client,
        checkpoint=estimator.checkpoint,
        progress=estimator.progress,
    )


def _selection(selection: Any) -> IVM | None:
    if isinstance(selection, IVM):
        return selection
    if selection not in ("ivm", "random"):
        raise ParameterError(f"selection={selection!r} is not known; use 'ivm', 'random' or an IVM(...)")
    return IVM() if selection == "ivm" else None


def _is_shared(multiclass: Any) -> bool:
    if multiclass not in ("auto", "per_class", "shared"):
        raise ParameterError(f"multiclass must be 'auto', 'per_class' or 'shared', not {multiclass!r}")
    return bool(multiclass == "shared")


def _learning(learn: Any) -> str | None:
    if learn not in (True, False, "constant", "hybrid"):
        raise ParameterError(
            f"learn_hyperparameters must be True, False, 'constant' or 'hybrid', not {learn!r}"
        )
    return {True: "constant", False: None}.get(learn, learn)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _adopt(estimator: Estimator, model: Model, history: Sequence[dict[str, Any]]) -> None:
    """Give an estimator its learned attributes."""
    estimator.model_ = model
    estimator.n_features_in_ = model.snapshot.active_inputs.shape[1]
    estimator.active_rows_ = model.active_rows
    estimator.kernel_ = model.snapshot.kernel
    estimator.history_ = list(history)
    if isinstance(estimator, StreamGPClassifier):
        assert isinstance(model.targets, ClassTargets)
        assert isinstance(model.predictive, ClassPredictive)
        estimator.classes_ = model.targets.classes
        estimator.likelihood_ = model.predictive.likelihoods
    else:
        assert isinstance(model.predictive, RealPredictive)
        estimator.likelihood_ = model.predictive.likelihood


def _planned(estimator: Estimator, rows: Rows) -> tuple[Rows, PassSettings]:
    """Rows cut into spans, and the settings of passes of the fitted model over them, inside the budget."""
    if rows.n_features != estimator.n_features_in_:
        raise ParameterError(
            f"rows have {rows.n_features} features, but the model was fitted to {estimator.n_features_in_}"
        )
    snapshot, settings = estimator.model_.snapshot, _settings(estimator)
    demand = Demand(
        rows, snapshot.kernel, len(snapshot.active_inputs), len(snapshot.heads), snapshot.dtype.itemsize
    )
    plan = make_plan(demand, settings.memory_budget, available_threads())
    return rows.cut(plan.span_rows), PassSettings(
        plan.rows_per_block, plan.tasks_in_flight, settings.client, settings.progress
    )


def _visit(estimator: Estimator, rows: Rows, settings: PassSettings, visitor: Visitor[T]) -> T:
    """One pass of the fitted model over rows."""
    model = estimator.model_
    reading = Reading(model.standardizer, model.targets, model.snapshot.dtype)
    return run_pass(rows, visitor, settings, reading=reading, snapshot=model.snapshot, label="predict")


def _marginals(estimator: Estimator, X: Any, with_variance: bool = True) -> Marginals:
    check_is_fitted(estimator)
    features = validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False)
    rows, settings = _planned(estimator, open_rows(features, y=None))
    return concatenate(_visit(estimator, rows, settings, CollectMarginals(with_variance)))


def _by_block(
    predict: Callable[[Array], Array],
    X: Any,
    estimator: Estimator,
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


def _mean_and_deviation(estimator: StreamGPRegressor, X: Array) -> Array:
    return np.column_stack(estimator.predict(X, return_std=True))


def _latent(marginals: Marginals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, variance = marginals
    assert variance is not None
    return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)


def _class_columns(predictive: ClassPredictive, marginals: Marginals) -> Mapping[str, Array]:
    log_probabilities = predictive.log_probabilities(marginals)
    return {
        "label": np.argmax(log_probabilities, axis=1).astype(np.int32),
        "probability": np.exp(log_probabilities).astype(np.float32),
    }


def _real_columns(predictive: RealPredictive, marginals: Marginals) -> Mapping[str, Array]:
    return predictive.predict(marginals)._asdict()


def _write(
    estimator: Estimator,
    store: Store,
    x: str,
    out: Any,
    columns: Columns,
    predict: Callable[[Marginals], Predictions],
) -> None:
    rows, settings = _planned(estimator, open_rows(store, x, None))
    with output_group(out, rows, columns) as arrays:
        _visit(estimator, rows, settings, PredictionWriter(predict, arrays))


def fit_stream(store: Store, x: str = "X", y: str = "y", task: Task = "auto", **parameters: Any) -> Estimator:
    """Fit a classifier or a regressor to a store, whichever its targets ask for.

    ``task="auto"``: strings and booleans are classes, floating-point targets numbers, integers are classes up
    to 100 distinct values. All other parameters are those of the estimators.
    """
    rows = open_rows(store, x, y)
    model, history = fit(rows, task, _settings(StreamGPClassifier(**parameters)))
    kind = StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
    estimator: Estimator = kind(**parameters)
    _adopt(estimator, model, history)
    return estimator


def _save(estimator: Estimator, path: Any) -> None:
    check_is_fitted(estimator)
    header, arrays = estimator.model_.to_record()
    header["history"] = estimator.history_
    header["parameters"] = {
        name: value for name, value in estimator.get_params().items() if isinstance(value, str | int | float)
    }
    write_record(path, header, arrays, kind="model")


def load(path: Any) -> Estimator:
    """Read a model that ``save`` wrote.

    Parameters that are plain values come back too; others (kernel, likelihood, client) are the defaults, what
    was learned stands in ``kernel_`` and ``likelihood_``.
    """
    header, arrays = read_record(path, kind="model")
    model = Model.from_record(header, arrays)
    kind = StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
    estimator: Estimator = kind(**header["parameters"])
    _adopt(estimator, model, header["history"])
    return estimator
