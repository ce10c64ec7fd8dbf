"""The estimator that classifier and regressor are kinds of: it is fitted, planned, saved and reported."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamgp.arrays import Array, FloatArray
from streamgp.budget import format_size
from streamgp.data import ClassTargets, open_rows
from streamgp.data.rows import Names, Store
from streamgp.data.sample import take_sample
from streamgp.data.targets import Task
from streamgp.errors import MissingExtraError
from streamgp.estimators.columns import opened
from streamgp.estimators.fitting import fit_store, seed_of
from streamgp.estimators.parameters import StreamGPParameters
from streamgp.estimators.partial import Remembered, after_fit, counted, row_numbers, with_earlier
from streamgp.estimators.passes import marginals, planned, visit
from streamgp.estimators.running import running
from streamgp.passes import Visitor
from streamgp.persistence import write_record
from streamgp.posterior.model import Model
from streamgp.posterior.witness import WITNESS, witness_of
from streamgp.settings import fit_settings, parameter_to_json
from streamgp.training.history import final_evidence
from streamgp.training.prepare import no_label_of
from streamgp.training.preview import Preview, preview

logger = logging.getLogger(__name__)


class StreamGPEstimator(StreamGPParameters):
    """Gaussian process with a sparse active set, learned from stores larger than memory.

    Parameters are those of :class:`~streamgp.estimators.parameters.StreamGPParameters`.

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
        With learned parameters; one likelihood per latent function. ``kernel_`` is a sequence where each
        class has its own.
    log_evidence_ : float or None
        Log evidence, in nats, that the last sweep of the final inference found, summed over latent functions;
        of joint classes it is one number for all. None where inference has none: "adf", or a mode.
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

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the client, which another process cannot use; rows of blocks are read."""
        state: dict[str, Any] = super().__getstate__()
        model = state.get("model_")
        if model is not None:
            state = state | {"model_": replace(model, snapshot=model.snapshot.in_memory())}
        return {**state, "client": None} if "client" in state else state

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
        ``sample_weight`` is an array in memory with one number a row. With "fitc" and "local" a row of weight
        2 counts as two equal rows do. With "adf" and "ep" the weight acts on the row's site, and on how it
        competes for the active set: "ivm" weighs what the row would teach, "pass" and "fpass" take its
        probability to that power. Their kernel is learned from all rows of positive weight alike.

        Chunks that must have been lost are refused; ``allow_missing_chunks`` reads them as the fill value.
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
        rows = np.unique(row_numbers(self.active_rows_))
        self._remembered = Remembered.batch(X[rows], y[rows], None, np.zeros(len(rows)))
        return self

    def _fit_partially(self, X: Array, y: Array, sample_weight: Any) -> Self:
        """Fit to what is remembered and to a batch; then remember as much of both as the budget allows."""
        rows = with_earlier(self, X, y, sample_weight, seed_of(self.random_state))
        names = getattr(self, "feature_names_in_", None)
        self._fit((rows.features, rows.targets), "X", "y", counted(rows), names=names)
        self._remembered = after_fit(rows, self)
        return self

    def plan_stream(self, store: Store, x: str = "X", y: str = "y", *, task: Task | None = None) -> Preview:
        """The recipe and the memory of a fit to a store; a few chunks are read, nothing is learned."""
        with running(self.n_jobs, verbose=False):
            settings = fit_settings(self.get_params(deep=False), seed_of(self.random_state))
            rows = open_rows(store, x, y, no_label=no_label_of(settings.likelihood))
            return preview(rows, task or self.task, settings)

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent functions: (rows,) each for one, else (rows, heads).

        For real targets they are in units of the scaled target. Of an average they are those of the member
        of most weight: functions of different members mean different things.
        """
        found = marginals(self, X)
        mean, variance = self.model_.snapshot.first(found) if self.model_.is_mixed else found
        assert variance is not None
        return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)

    @property
    def active_inputs_(self) -> FloatArray:
        """Inputs that the model keeps, in the features' own units: active rows, centres, learned ones."""
        check_is_fitted(self)
        return self.model_.standardizer.undone(self.model_.snapshot.active_inputs)

    @property
    def active_starts_(self) -> list[int]:
        """Where the inputs of each latent function begin in ``active_inputs_``; [0] where all share them."""
        check_is_fitted(self)
        starts: list[int] = self.model_.snapshot.starts
        return starts

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
            score = visit(self, planned(self, rows), self._evaluation)
            features, targets = take_sample(rows, seed=0)
            no_label = getattr(self.model_.targets, "no_label", None)
            if no_label is not None:
                labelled = ~no_label.mask(targets)
                features, targets = features[labelled], targets[labelled]
            write_report(self, path, score, (features, targets))

    @property
    def _evaluation(self) -> Visitor[Any]:
        """The visitor that scores the model."""
        raise NotImplementedError

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads.

        A model of local blocks contains the training rows, and so does its file: a warning is logged, with
        its size. ``inference="fitc"`` excludes blocks from what "auto" may choose.
        """
        check_is_fitted(self)
        if size := self.model_.snapshot.training_bytes:
            what = "%s contains the training rows of the model: %s before compression"
            logger.warning(what, path, format_size(size))
        header, arrays = self.model_.to_record()
        written = {name: parameter_to_json(value) for name, value in self.get_params(deep=False).items()}
        header["parameters"] = {name: value for name, value in written.items() if value is not None}
        header |= {"history": self.history_, "recipe": self.recipe_, "about": self.about_}
        arrays[WITNESS] = witness_of(self.model_)
        write_record(path, header, arrays, kind="model")

    def _adopt(
        self, model: Model, history: Sequence[dict[str, Any]], recipe: str, about: dict[str, Any]
    ) -> Self:
        """Take over what a fit has learned."""
        self.model_, self.history_, self.recipe_, self.about_ = model, list(history), recipe, about
        self.log_evidence_ = final_evidence(self.history_)
        self.n_features_in_ = model.snapshot.active_inputs.shape[1]
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        self.active_rows_ = model.active_rows
        self.kernel_ = getattr(model.snapshot, "kernels", model.snapshot.kernel)
        self.likelihood_: Any = model.predictive.likelihoods
        if isinstance(model.targets, ClassTargets):
            self.classes_ = model.targets.classes
        else:
            [self.likelihood_] = model.predictive.likelihoods
        return self
