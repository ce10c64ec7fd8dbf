"""The regressor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import dask.array
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array
from streamgp.data.labels import plain_labels
from streamgp.data.lazy import is_lazy
from streamgp.data.rows import Names, Store
from streamgp.estimators.base import StreamGPEstimator
from streamgp.estimators.inputs import by_block, lazily, refuse_other_than_numbers
from streamgp.estimators.passes import evaluate, marginals, write
from streamgp.likelihoods import Ordinal
from streamgp.passes import RealEvaluation
from streamgp.passes.scores import RealScore
from streamgp.posterior import Marginals
from streamgp.posterior.predictive import RealPredictive


def _is_ordinal(estimator: StreamGPRegressor) -> bool:
    return isinstance(getattr(estimator, "likelihood_", estimator.likelihood), Ordinal)


class StreamGPRegressor(RegressorMixin, StreamGPEstimator):  # type: ignore[misc]
    """Gaussian-process regression with a sparse active set, learned from stores larger than memory.

    Parameters are those of :class:`~streamgp.estimators.parameters.StreamGPParameters`, attributes those of
    :class:`~streamgp.estimators.base.StreamGPEstimator`.
    """

    task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to arrays or data frames, in memory or of Dask; ``sample_weight`` as for :meth:`fit_stream`.

        Targets are centred and scaled, predictions mapped back; counts and ordered categories
        (``likelihood=Poisson()``, ``Ordinal(5)``) are taken as they are.
        """
        names = None
        if not is_lazy(X):
            y = plain_labels(y) if np.ma.is_masked(y) else y  # which refuses it
            refuse_other_than_numbers(X)
            X, y = validate_data(self, X, y, dtype="numeric", y_numeric=True)
            names = getattr(self, "feature_names_in_", None)
        self._fit((X, y), "X", "y", sample_weight, names=names)
        return self if is_lazy(X) else self._remember_active(X, y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a batch of rows, in memory, together with those of earlier batches.

        As long as all rows so far fit into an eighth of ``memory_budget``, this gives exactly the model that
        ``fit`` would make of all of them. Beyond that, the active rows are remembered and a random part of
        the others, each with the weight of the rows that it stands for; new rows compete with them for the
        active set. After a ``fit`` in memory only its active rows are remembered. Rows of a store need no
        batches: ``fit_stream`` takes all of it.
        """
        refuse_other_than_numbers(X)
        reset = not hasattr(self, "model_")
        X, y = validate_data(self, X, y, dtype="numeric", y_numeric=True, reset=reset)
        return self._fit_partially(X, y, sample_weight)

    @property
    def _predictive(self) -> RealPredictive:
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, RealPredictive)
        return self.model_.predictive

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of each row, and its standard deviation (of a new observation) where asked for.

        The mean alone costs O(d) a row instead of O(d²). A Dask array gives Dask arrays.
        """
        X = lazily(self, X)
        if isinstance(X, dask.array.Array):
            both = by_block(self, "_mean_and_deviation", X, np.dtype(np.float64), 2)
            return (both[:, 0], both[:, 1]) if return_std else by_block(self, "predict", X, both.dtype)
        if not return_std and self._predictive.mean_is_latent:
            return self._predictive.latent_mean(marginals(self, X, with_variance=False))
        mean, variance = self._predictive.predict(marginals(self, X))
        return (mean, np.sqrt(variance)) if return_std else mean

    @available_if(_is_ordinal)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probability of every category, (n, categories): where the likelihood is ``Ordinal``."""
        likelihood = self._predictive.likelihood
        assert isinstance(likelihood, Ordinal)
        mean, variance = marginals(self, X)
        assert variance is not None
        return likelihood.category_probabilities(mean[:, 0], variance[:, 0])

    def _mean_and_deviation(self, X: Array) -> Array:
        return np.column_stack(self.predict(X, return_std=True))

    def predict_stream(
        self,
        store: Store,
        out: Any,
        x: Names = "X",
        *,
        on_bad_rows: str = "raise",
        allow_missing_chunks: bool = False,
    ) -> None:
        """Write ``mean`` and ``variance`` of every row to a new Zarr group.

        A path that ends in .parquet or .csv becomes a table instead, with ``mean`` and
        ``standard_deviation``. A run to a group that was killed goes on where it was.

        ``on_bad_rows`` says what becomes of rows with NaN, infinity or numbers beyond float32: "raise" names
        the first of them; "nan" writes NaN, and their number as the attribute ``streamgp_bad_rows``.
        """
        columns = {name: ((), np.dtype(np.float64)) for name in ("mean", "variance")}
        write(
            self,
            store,
            x,
            out,
            columns,
            partial(_real_columns, self._predictive),
            on_bad_rows,
            allow_missing_chunks,
        )

    @property
    def _evaluation(self) -> RealEvaluation:
        return RealEvaluation(self._predictive)

    def evaluate_stream(
        self,
        store: Store,
        x: Names = "X",
        y: str = "y",
        *,
        on_bad_rows: str = "raise",
        allow_missing_chunks: bool = False,
    ) -> RealScore:
        """Root mean squared error, log density and coverage of intervals on a store, in one pass.

        Its ``baseline`` always predicts the mean and variance of the targets; ``to_dict()`` suits JSON.
        ``on_bad_rows`` as for :meth:`predict_stream`; "nan" leaves such rows out of the score.
        """
        return evaluate(self, store, x, y, self._evaluation, on_bad_rows, allow_missing_chunks)


def _real_columns(predictive: RealPredictive, marginals: Marginals) -> Mapping[str, Array]:
    return predictive.predict(marginals)._asdict()
