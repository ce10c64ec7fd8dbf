"""The regressor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self

import dask.array
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array, FloatArray
from streamgp.data import open_rows
from streamgp.data.rows import Store
from streamgp.data.standardize import Standardize
from streamgp.estimators.common import (
    adopt,
    by_block,
    fit_store,
    latent,
    marginals_of,
    planned,
    save_model,
    visit,
    write_predictions,
)
from streamgp.estimators.nested import NestedParameters
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes import RealEvaluation
from streamgp.passes.evaluation import RealScore
from streamgp.posterior import Marginals, Precision
from streamgp.posterior.predictive import RealPredictive
from streamgp.settings import Inference, Selection


class StreamGPRegressor(RegressorMixin, NestedParameters):  # type: ignore[misc]
    """Gaussian-process regression with a sparse active set.

    Parameters are those of :class:`StreamGPClassifier`; the default likelihood is
    :class:`~streamgp.likelihoods.Gaussian`. Targets are centred and scaled, predictions mapped back.
    """

    def __init__(
        self,
        n_active: int = 500,
        *,
        selection: str | Selection = "ivm",
        inference: str | Inference = "auto",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        learn_hyperparameters: bool | Literal["constant", "hybrid", "evidence", "passes"] = True,
        standardize: Standardize = "auto",
        precision: Precision = "auto",
        memory_budget: int | str = "1GiB",
        validation: Any = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: Any = None,
        scratch: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.n_active = n_active
        self.selection = selection
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to arrays in memory, or to Dask arrays; ``sample_weight`` as for :meth:`fit_stream`."""
        if not isinstance(X, dask.array.Array):
            X, y = validate_data(self, X, y, dtype="numeric", y_numeric=True)
        return self.fit_stream((X, y), sample_weight=sample_weight)

    def fit_stream(self, store: Store, x: str = "X", y: str = "y", *, sample_weight: Any = None) -> Self:
        """Fit to a Zarr group (path, URL or ``zarr.Group``) or to a pair of arrays, chunk by chunk.

        ``sample_weight``, one number a row, in memory, is for ``inference="fitc"``.
        """
        parameters = self.get_params(deep=False)
        adopt(self, *fit_store(parameters, store, x, y, "regression", sample_weight))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of each row, and its standard deviation (of a new observation) where asked for.

        The mean alone costs O(d) a row instead of O(d²). A Dask array gives Dask arrays.
        """
        if isinstance(X, dask.array.Array):
            both = by_block(partial(_mean_and_deviation, self), X, self, np.dtype(np.float64), 2)
            return (both[:, 0], both[:, 1]) if return_std else by_block(self.predict, X, self, both.dtype)
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        if not return_std and self.model_.predictive.mean_is_latent:
            return self.model_.predictive.latent_mean(marginals_of(self, X, with_variance=False))
        mean, variance = self.model_.predictive.predict(marginals_of(self, X))
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, in units of the scaled target."""
        return latent(marginals_of(self, X))

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads."""
        save_model(self, path)

    def predict_stream(self, store: Store, out: Any, x: str = "X") -> None:
        """Write ``mean`` and ``variance`` of every row to a new Zarr group."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        columns = {name: ((), np.dtype(np.float64)) for name in ("mean", "variance")}
        write_predictions(self, store, x, out, columns, partial(_real_columns, self.model_.predictive))

    def evaluate_stream(self, store: Store, x: str = "X", y: str = "y") -> RealScore:
        """Root mean squared error, log loss and coverage on a store, in one pass."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        return visit(self, *planned(self, open_rows(store, x, y)), RealEvaluation(self.model_.predictive))


def _mean_and_deviation(estimator: StreamGPRegressor, X: Array) -> Array:
    return np.column_stack(estimator.predict(X, return_std=True))


def _real_columns(predictive: RealPredictive, marginals: Marginals) -> Mapping[str, Array]:
    return predictive.predict(marginals)._asdict()
