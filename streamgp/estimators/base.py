"""The estimator that classifier and regressor are kinds of: parameters, fitting, passes of a fitted model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array, FloatArray
from streamgp.budget import format_size, parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.fingerprint import fingerprint
from streamgp.data.lazy import as_dask, is_lazy
from streamgp.data.missing import warn_of_absent
from streamgp.data.rows import Names, Store
from streamgp.data.sample import take_sample
from streamgp.data.standardize import Standardize
from streamgp.data.targets import Task
from streamgp.errors import MissingExtraError, ParameterError
from streamgp.estimators.columns import encoded, opened
from streamgp.estimators.nested import nested, replaced
from streamgp.estimators.partial import Remembered, after_fit, counted, with_earlier
from streamgp.estimators.running import n_threads, running
from streamgp.inference.local.snapshot import LocalSnapshot, marginals_side_by_side
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes import CollectMarginals, PassSettings, PredictionWriter, Reading, Visitor, run_pass
from streamgp.passes.bad_rows import LeaveOutBadRows, check_on_bad_rows, warn_of_bad_rows
from streamgp.passes.marginals import concatenate
from streamgp.passes.prediction import IDENTITY, Columns, Predictions, output_group
from streamgp.passes.progress import Progress
from streamgp.persistence import LargeArray, record_digest, write_record
from streamgp.posterior import Marginals, Precision
from streamgp.posterior.model import Model
from streamgp.posterior.witness import WITNESS, witness_of
from streamgp.settings import Inference, Selection, fit_settings, parameter_to_json
from streamgp.tables.formats import is_frame, is_raw
from streamgp.training.fit import Fitted, fit, resumed_seed
from streamgp.training.plan import Demand, make_plan
from streamgp.training.preview import Preview, preview

T = TypeVar("T")

logger = logging.getLogger(__name__)


class StreamGPEstimator(BaseEstimator):  # type: ignore[misc]
    """Gaussian process with a sparse active set, learned from stores larger than memory.

    Parameters
    ----------
    n_active : int or "auto"
        Size of the active set: rows that the model keeps, or inducing inputs. Time grows with its square.
        "auto": from the number of rows, the budget and what a pass costs.
    selection : {"auto", "ivm", "pass", "fpass", "random", "kmeans", "gain"} or settings of one of them
        How active rows are chosen. "auto": where ``inference`` is "auto" too, a trial on a sample decides
        among a linear model, inducing inputs and local blocks by rows that none of them saw, and
        ``recipe_`` says what it found; else "kmeans" for "fitc" and "local", "ivm" for "adf" and "ep".
        "ivm": greedily, by what each row would teach. "pass": rows that are predicted badly enter and rows
        that are predicted well leave, up to ``n_active`` rows. "fpass": the same, always with ``n_active``
        rows. "random": at random. "kmeans": centres of clusters, each class with its own. "gain": rows that
        raise the evidence most. Settings: :mod:`streamgp.settings`.
    inference : {"auto", "adf", "ep", "fitc", "local"} or settings of one of them
        What the active set then says. "adf" visits each site once. "ep" is expectation propagation on the
        active set until nothing changes. "fitc" is expectation propagation over *all* rows, with the active
        set as inducing inputs that all classes share: one pass a sweep. "local" is the same, and what the
        inducing inputs leave unexplained is explained by blocks of near rows: most accurate where a few
        hundred inducing inputs cannot resolve the function; the model then holds all training rows. "auto":
        by a trial (see ``selection``); after a selection that is given, "ep" for "pass" and "fpass", "fitc"
        for "kmeans" and "gain", else "adf". Settings: :class:`~streamgp.settings.ADF`,
        :class:`~streamgp.settings.EP`, :class:`~streamgp.settings.FITC`, :class:`~streamgp.settings.Local`.
    kernel : Kernel, optional
        Covariance of the latent function on standardised features; learning starts from it. Default: what
        rows held or left out prefer of several families ("local", "joint" classes), else an RBF with a
        lengthscale for each feature up to 100 of them, plus a linear kernel (left out where the evidence
        learns classes).
    likelihood : Likelihood, optional
        Default :class:`~streamgp.likelihoods.Probit` with a bias from the class's share, or
        :class:`~streamgp.likelihoods.Gaussian`.
    multiclass : {"auto", "joint", "per_class", "shared"}
        How more than two classes are learned. "per_class": one against the rest, with an active set of
        ``n_active`` rows for each class; the default of "adf" and "ep". "shared": one against the rest, with
        one active set for all; the default of "fitc" and "local". "joint": by one likelihood of all classes
        (:class:`~streamgp.likelihoods.Softmax`; of two classes, one function and
        :class:`~streamgp.likelihoods.Logit`), whose mode is found over all rows, without variances; goes with
        "fitc" and "kmeans", "random" or "gain", and gives the best probabilities of many classes, fast.
    class_weight : "balanced" or dict, optional
        For classes: how often rows of each count, as ``sample_weight`` of :meth:`fit_stream` says for rows.
    learn_hyperparameters : bool or {"constant", "hybrid", "exact", "evidence", "passes"}
        How the parameters of kernel and likelihood are learned, on a sample. "constant": by the IVM's
        criterion, with sites held fixed in the inner loop. "hybrid": the same, with sites set anew before
        every search direction; "exact": at every evaluation. "evidence": by the evidence of the sample seen
        through inducing inputs.
        "passes": in the end by the evidence of all rows, in passes over them; goes with "fitc". True chooses:
        the evidence for "fitc" and for "pass" and "fpass" where there are at most 100 features (for "fitc"
        also where targets are real or inducing inputs are learned), else "constant". For "pass" and "fpass"
        on real targets, True follows the evidence of the active set every 8 blocks.
    standardize : {"auto", "common"} or bool
        Shift and scale of the features; see :func:`streamgp.data.standardize.choose_standardizer`.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the passes; factors are always float64.
    memory_budget : int or str
        Bytes, or a size such as ``"1GiB"``, that the fit may use beside Python, its libraries and their
        compiled code: what it adds to a process that has run a small one.
    validation : None, False, float or array of row numbers
        Rows held out to stop early, or to choose the approximation. None: min(5 %, 10000) of them,
        stratified; none for "pass" and "fpass" with "ep", and for "local". False: none.
    max_seconds : float, optional
        Time after which every stage ends with its current step; ``history_`` says what was left out.
    random_state : int, RandomState or None
        Source of all random draws.
    client : distributed.Client, optional
        Where passes run; default the current client, else threads.
    checkpoint : path, optional
        Folder where the state is kept after every step; a fit that finds one continues there.
    scratch : path, optional
        Folder where "fitc" keeps two numbers for each row and class meanwhile, and "local" its rows; every
        worker must see it. Default: beside the checkpoint, else the system's folder for temporary files.
    progress : bool or Progress, optional
        Progress bars: one for the whole fit, and one for each pass; default only on a terminal or in a
        notebook. A :class:`~streamgp.passes.progress.Progress` counts too.
    n_jobs : int, optional
        Threads of this process that fits and passes use; the model does not depend on it. Default and -1: all
        cores that it may use. Where a ``client`` reads the rows, its workers have threads of their own.
    verbose : bool or int
        Whether a fit tells its plan, its recipe and its steps on the error stream.
    warm_start : bool
        Whether a fit that follows another one starts learning from the kernel that was learned there, instead
        of from several starts: fewer steps where data have changed little.

    Attributes
    ----------
    classes_, n_features_in_
        As usual.
    feature_names_in_ : array of str
        Where the store or the data frame has names; features made by :func:`streamgp.ingest` have those of
        their columns ("city=Rome").
    active_rows_ : array
        Row numbers of the active sets, one class after the other, in the order of inclusion; inducing inputs
        that are no rows (centres, or learned) are not among them.
    kernel_, likelihood_
        With learned parameters; one likelihood per latent function.
    recipe_ : str
        The stages of the fit, such as ``learn: criterion -> select: ivm -> calibrate``, and where a trial
        decided, what it found.
    history_ : list of dict
        One record per step: stage, active rows, held-out log density, seconds, rows read, peak memory.
    about_ : dict
        Facts about the fit: rows, memory plan and budget, seconds, versions of the libraries.
    """

    task: Task = "auto"
    _named_by_frame = False

    def __init__(
        self,
        n_active: int | Literal["auto"] = "auto",
        *,
        selection: str | Selection = "auto",
        inference: str | Inference = "auto",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        multiclass: Literal["auto", "joint", "per_class", "shared"] = "auto",
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        learn_hyperparameters: bool | Literal["constant", "hybrid", "exact", "evidence", "passes"] = True,
        standardize: Standardize = "auto",
        precision: Precision = "auto",
        memory_budget: int | str = "1GiB",
        validation: Any = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: Any = None,
        scratch: Any = None,
        progress: bool | Progress | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        warm_start: bool = False,
    ) -> None:
        self.n_active = n_active
        self.selection = selection
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.learn_hyperparameters = learn_hyperparameters
        self.standardize = standardize
        self.precision = precision
        self.memory_budget = memory_budget
        self.validation = validation
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.client = client
        self.checkpoint = checkpoint
        self.scratch = scratch
        self.progress = progress
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_clone__(self) -> Self:
        """A copy that uses the same client: a connection cannot be copied."""
        bare = copy(self)
        bare.client = None
        cloned: Self = super(StreamGPEstimator, bare).__sklearn_clone__()
        cloned.client = self.client
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the client, which another process cannot use; rows of blocks are read."""
        state: dict[str, Any] = super().__getstate__()
        model = state.get("model_")
        if model is not None and isinstance(model.snapshot, LocalSnapshot):
            state = state | {"model_": replace(model, snapshot=model.snapshot.in_memory())}
        return {**state, "client": None} if "client" in state else state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` adds the fields of kernel, likelihood and settings objects."""
        parameters: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in list(parameters):
                parameters |= {f"{name}__{path}": value for path, value in nested(parameters[name]).items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; a field of a frozen value replaces the value by a changed copy."""
        super().set_params(**{name: value for name, value in parameters.items() if "__" not in name})
        for name, value in parameters.items():
            owner, _, path = name.partition("__")
            if path and owner not in self.get_params(deep=False):
                raise ParameterError(f"{owner!r} is no parameter of {type(self).__name__}")
            if path:
                setattr(self, owner, replaced(getattr(self, owner), path, value, name))
        return self

    def fit_stream(
        self,
        store: Store,
        x: Names = "X",
        y: str = "y",
        *,
        sample_weight: Any = None,
        allow_missing_chunks: bool = False,
    ) -> Self:
        """Fit to a Zarr group (path, URL, group, Zarr store), an ``xarray.Dataset`` or a pair of arrays.

        All are read chunk by chunk. ``x`` is the name of one array, or a list of arrays of one column each.
        ``sample_weight``, one number a row, in memory: with "fitc" and "local" a row of weight 2 counts as
        two equal rows do. With "adf" and "ep" (after "ivm" or "random") its site is raised to that power, and
        it competes for the active set accordingly; their kernel is learned from all rows of positive weight
        alike. Chunks that must have been lost are refused; ``allow_missing_chunks`` reads them as the fill
        value.
        """
        return self._fit(store, x, y, sample_weight, allow_missing_chunks=allow_missing_chunks)

    def _fit(
        self,
        store: Store,
        x: Names,
        y: str,
        weight: Any,
        *,
        allow_missing_chunks: bool = False,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Fit; ``names`` are those of features that have lost theirs on their way to an array."""
        fitted = fit_store(self, store, x, y, self.task, weight, allow_missing_chunks)
        self._remembered: Remembered | None = None
        self._named_by_frame = names is not None
        if names is not None:
            fitted = fitted._replace(model=replace(fitted.model, feature_names=tuple(names)))
        return self._adopt(*fitted)

    def _remember_active(self, X: Array, y: Array) -> Self:
        """After a fit in memory: its active rows, so that batches can follow."""
        rows = np.unique(self.active_rows_)
        self._remembered = Remembered.batch(X[rows], y[rows], None, np.zeros(len(rows)))
        return self

    def _fit_partially(self, X: Array, y: Array, sample_weight: Any) -> Self:
        """Fit to what is remembered and to a batch; then remember as much of both as the budget allows."""
        rows = with_earlier(self, X, y, sample_weight, _seed(self.random_state))
        names = getattr(self, "feature_names_in_", None)
        self._fit((rows.features, rows.targets), "X", "y", counted(rows), names=names)
        self._remembered = after_fit(rows, self)
        return self

    def plan_stream(self, store: Store, x: str = "X", y: str = "y", *, task: Task | None = None) -> Preview:
        """The recipe and the memory of a fit to a store; a few chunks are read, nothing is learned."""
        with running(self.n_jobs, verbose=False):
            settings = fit_settings(self.get_params(deep=False), _seed(self.random_state))
            return preview(open_rows(store, x, y), task or self.task, settings)

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent functions: (rows,) each for one, else (rows, heads).

        For real targets they are in units of the scaled target.
        """
        mean, variance = self._marginals(X)
        assert variance is not None
        return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)

    @property
    def active_inputs_(self) -> FloatArray:
        """Inputs that the model keeps, in the features' own units: active rows, centres, learned ones."""
        check_is_fitted(self)
        standardizer = self.model_.standardizer
        kept = np.asarray(self.model_.snapshot.active_inputs, np.float64)
        inputs: FloatArray = standardizer.shift + standardizer.scale * kept
        return inputs

    @property
    def active_starts_(self) -> list[int]:
        """Where the inputs of each latent function begin in ``active_inputs_``; [0] where all share them."""
        check_is_fitted(self)
        snapshot = self.model_.snapshot
        if isinstance(snapshot, LocalSnapshot):
            return [0]
        return sorted({head.columns.start for head in snapshot.heads})

    def report(self, path: Any, data: Store | None = None, x: str = "X", y: str = "y") -> None:
        """Write one HTML page about the model: scores on ``data``, features, active rows, stages, cost.

        The page needs no network. Needs matplotlib and Jinja2: ``pip install "streamgp[report]"``.
        """
        check_is_fitted(self)
        try:
            from streamgp.report import write_report
        except ImportError as error:
            raise MissingExtraError(
                f"a report needs {error.name}, which is not installed: pip install 'streamgp[report]'"
            ) from error
        if data is None:
            write_report(self, path)
            return
        with opened(self, data, x, y) as rows:
            score = self._visit(*self._planned(rows), self._evaluation)
            write_report(self, path, score, take_sample(rows, seed=0))

    @property
    def _evaluation(self) -> Visitor[Any]:
        """The visitor that scores the model."""
        raise NotImplementedError

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads.

        A model of local blocks contains the training rows, and so does its file.
        """
        check_is_fitted(self)
        if isinstance(self.model_.snapshot, LocalSnapshot):
            size = format_size(self.model_.snapshot.store.nbytes)
            logger.warning("%s contains the training rows of the model: %s before compression", path, size)
        header, arrays = self.model_.to_record()
        written = {name: parameter_to_json(value) for name, value in self.get_params(deep=False).items()}
        header["parameters"] = {name: value for name, value in written.items() if value is not None}
        header |= {"history": self.history_, "recipe": self.recipe_, "about": self.about_}
        if not any(isinstance(array, LargeArray) for array in arrays.values()):
            arrays[WITNESS] = witness_of(self.model_)  # blocks of rows are checked when they are read
        write_record(path, header, arrays, kind="model")

    def _adopt(
        self, model: Model, history: Sequence[dict[str, Any]], recipe: str, about: dict[str, Any]
    ) -> Self:
        """Take over what a fit has learned."""
        self.model_, self.history_, self.recipe_, self.about_ = model, list(history), recipe, about
        self.n_features_in_ = model.snapshot.active_inputs.shape[1]
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        self.active_rows_, self.kernel_ = model.active_rows, model.snapshot.kernel
        self.likelihood_: Any = model.predictive.likelihoods
        if isinstance(model.targets, ClassTargets):
            self.classes_ = model.targets.classes
        else:
            [self.likelihood_] = model.predictive.likelihoods
        return self

    def _planned(self, rows: Rows) -> tuple[Rows, PassSettings]:
        """Rows cut into spans, and the settings of passes of the fitted model over them, in the budget."""
        if rows.n_features != self.n_features_in_:
            raise ParameterError(
                f"rows have {rows.n_features} features, but the model was fitted to {self.n_features_in_}"
            )
        demand = fitted_demand(self.model_, rows)
        plan = make_plan(demand, parse_size(self.memory_budget), n_threads(self.n_jobs))
        snapshot, rows_per_block = self.model_.snapshot, plan.rows_per_block
        if isinstance(snapshot, LocalSnapshot):
            # Rows are gathered block by block: the more at a time, the fewer heads are made.
            snapshot.recent.resize(plan.cache_bytes)
            rows_per_block = plan.span_rows
        settings = PassSettings(rows_per_block, plan.tasks_in_flight, self.client, self.progress)
        return rows.cut(plan.span_rows), settings

    def _visit(
        self, rows: Rows, settings: PassSettings, visitor: Visitor[T], on_bad_rows: str = "raise", **how: Any
    ) -> T:
        """One pass of the fitted model over rows."""
        model = self.model_
        how |= {"reading": Reading(model.standardizer, model.targets, model.snapshot.dtype)}
        how |= {"on_bad_rows": check_on_bad_rows(on_bad_rows), "snapshot": model.snapshot, "label": "predict"}
        return run_pass(rows, visitor, settings, **how)

    def _marginals(self, X: Any, with_variance: bool = True) -> Marginals:
        """Latent marginals of rows in memory, inside the budget."""
        check_is_fitted(self)
        features = self._features(X)
        rows, settings = self._planned(open_rows(features, y=None))
        if isinstance(self.model_.snapshot, LocalSnapshot) and isinstance(features, np.ndarray):
            inputs = self.model_.standardizer.apply(features, np.float64)
            return marginals_side_by_side(self.model_.snapshot, inputs, settings)
        return concatenate(self._visit(rows, settings, CollectMarginals(with_variance)))

    def _features(self, X: Any) -> Any:
        """Rows as an array of features; raw columns are encoded as those of the training store were."""
        if self._takes_raw(X):
            return encoded(self, X)
        if is_lazy(X):
            return X
        store_named = self.model_.feature_names is not None and not self._named_by_frame
        # Features that are made already: of a store's names, unlike a frame's, an array need not know.
        if self.model_.column_recipe is not None or (store_named and not hasattr(X, "columns")):
            return check_array(X, dtype="numeric")
        return validate_data(self, X, dtype="numeric", reset=False)

    def _lazily(self, X: Any) -> Any:
        """A Dask array for features that are lazy; everything else, and raw columns, as they are."""
        check_is_fitted(self)
        return X if self._takes_raw(X) else as_dask(X)

    def _takes_raw(self, X: Any) -> bool:
        """Whether rows are raw columns to this model; without a recipe, a frame holds features."""
        return is_raw(X) and (self.model_.column_recipe is not None or not is_frame(X))

    def _by_block(
        self,
        predict: Callable[[Array], Array],
        X: Any,
        dtype: np.dtype[Any],
        columns: int | None = None,
    ) -> Any:
        """Predictions of a Dask array as a Dask array: block by block, lazily."""
        check_is_fitted(self)
        features = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        if columns is None:
            return features.map_blocks(predict, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
        chunks = (features.chunks[0], (columns,))
        return features.map_blocks(predict, dtype=dtype, chunks=chunks, meta=np.empty((0, columns), dtype))

    def _evaluate(
        self,
        store: Store,
        x: Names,
        y: str,
        visitor: Visitor[T],
        on_bad_rows: str,
        allow_missing_chunks: bool,
    ) -> T:
        """One pass of a visitor that compares predictions with the targets of a store."""
        check_is_fitted(self)
        with opened(self, store, x, y, allow_missing_chunks) as found:
            rows, settings = self._planned(found)
            warn_of_absent(*rows.check_chunks())
            counted: tuple[T, int] = self._visit(rows, settings, LeaveOutBadRows(visitor), on_bad_rows)
        warn_of_bad_rows(counted[1], "are left out of the score")
        return counted[0]

    def _write(
        self,
        store: Store,
        x: Names,
        out: Any,
        columns: Columns,
        predict: Callable[[Marginals], Predictions],
        on_bad_rows: str,
        allow_missing_chunks: bool,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Write what ``predict`` makes of every row of a store to a new Zarr group, or go on doing so."""
        check_is_fitted(self)
        with opened(self, store, x, None, allow_missing_chunks) as found:
            rows, settings = self._planned(found)
            warn_of_absent(*rows.check_chunks())
            how = [fingerprint(rows.features), rows.span_rows, on_bad_rows]
            header, arrays = self.model_.to_record()
            # The posterior is a sum over all rows: those that the model holds need not be read to tell it.
            small = {name: array for name, array in arrays.items() if not isinstance(array, LargeArray)}
            identity = record_digest(header, small, extra=how)
            with output_group(out, rows, columns, {IDENTITY: identity, **(attributes or {})}) as output:
                writer = PredictionWriter(predict, output.arrays)
                bad = output.bad_rows
                if output.spans:
                    bad += self._visit(rows, settings, writer, on_bad_rows, spans=output.spans)[1]
                output.note_bad_rows(bad)
        warn_of_bad_rows(bad, "have NaN as predictions, and -1 as label")


def fitted_demand(model: Model, rows: Rows) -> Demand:
    """What passes of a fitted model over rows ask of the memory."""
    snapshot, likelihood = model.snapshot, model.predictive.likelihoods[0]
    if isinstance(snapshot, LocalSnapshot):
        size, heads = len(snapshot.active_inputs), len(snapshot.posteriors)
        most = snapshot.table.most_rows
        kernel = snapshot.kernel
        return Demand(
            rows, kernel, size, heads, 8, shared=True, fitted=True, likelihood=likelihood, head_rows=most
        )
    largest = max(len(head.projected_targets) for head in snapshot.heads)
    matrices = sum(head.projection is not None for head in snapshot.heads)
    return Demand(
        rows,
        snapshot.kernel,
        largest,
        max(1, matrices),
        snapshot.dtype.itemsize,
        shared=len(snapshot.active_inputs) == largest,
        fitted=True,
        likelihood=likelihood,
        joint_classes=len(snapshot.heads),
    )


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
        seed = resumed_seed(estimator.checkpoint) if estimator.random_state is None else None
        settings = fit_settings(parameters, _seed(estimator.random_state) if seed is None else seed, weight)
        rows = open_rows(store, x, y, allow_missing_chunks=allow_missing_chunks)
        fitted = fit(rows, task, settings)
    named = replace(fitted.model, feature_names=rows.feature_names, column_recipe=rows.column_recipe)
    return fitted._replace(model=named)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
