"""The classifier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import dask.array
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from streamgp.arrays import Array
from streamgp.data.labels import plain_labels
from streamgp.data.lazy import is_lazy
from streamgp.data.rows import Names, Store
from streamgp.errors import ParameterError
from streamgp.estimators.base import StreamGPEstimator
from streamgp.estimators.inputs import by_block, lazily, refuse_other_than_numbers
from streamgp.estimators.partial import known_classes
from streamgp.estimators.passes import evaluate, marginals, write
from streamgp.passes import ClassEvaluation
from streamgp.passes.scores import ClassScore
from streamgp.posterior import Marginals
from streamgp.posterior.predictive import ClassPredictive
from streamgp.training.prepare import no_label_of


class StreamGPClassifier(ClassifierMixin, StreamGPEstimator):  # type: ignore[misc]
    """Gaussian-process classification with a sparse active set, learned from stores larger than memory.

    Parameters are those of :class:`~streamgp.estimators.parameters.StreamGPParameters`, attributes those of
    :class:`~streamgp.estimators.base.StreamGPEstimator`.
    """

    task = "classification"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to arrays or data frames, in memory or of Dask; ``sample_weight`` as for :meth:`fit_stream`.

        With ``likelihood=NullCategory()`` rows may have no label: NaN, None, masked, or as ``missing`` says.
        """
        names = None
        if not is_lazy(X):
            refuse_other_than_numbers(X)
            X, y = _validated(self, X, y)
            names = getattr(self, "feature_names_in_", None)
        self._fit((X, y), "X", "y", sample_weight, names=names)
        return self if is_lazy(X) else self._remember_active(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of rows, in memory, together with those of earlier batches.

        As long as all rows so far fit into an eighth of ``memory_budget``, this gives exactly the model that
        ``fit`` would make of all of them. Beyond that, the active rows are remembered and a random part of
        the others, each with the weight of the rows that it stands for; new rows compete with them for the
        active set. After a ``fit`` in memory only its active rows are remembered. Rows of a store need no
        batches: ``fit_stream`` takes all of it.
        ``classes`` are all labels that will ever be met; the first batch must show each of them.
        """
        if no_label_of(self.likelihood) is not None:
            raise ParameterError("partial_fit is for rows with labels: leave the likelihood out, or use fit")
        refuse_other_than_numbers(X)
        X, y = validate_data(self, X, _plain(y), dtype="numeric", reset=not hasattr(self, "model_"))
        check_classification_targets(y)
        y = plain_labels(y)
        known_classes(self, y, classes)
        return self._fit_partially(X, y, sample_weight)

    @property
    def _predictive(self) -> ClassPredictive:
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        return self.model_.predictive

    def predict(self, X: Any) -> Any:
        """The most probable class of each row.

        Of two classes a symmetric likelihood needs the latent mean alone, far cheaper than variances.
        """
        X = lazily(self, X)
        if isinstance(X, dask.array.Array):
            return by_block(self, "predict", X, self.classes_.dtype)
        if self._predictive.decides_by_mean:
            positive = self._predictive.is_positive(marginals(self, X, with_variance=False))
            return self.classes_[positive.astype(np.intp)]
        found = marginals(self, X)
        return self.classes_[self._predictive.decided(found, self._predictive.log_probabilities(found))]

    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, in the order of ``classes_``; a Dask array for a Dask array."""
        X = lazily(self, X)
        if isinstance(X, dask.array.Array):
            return by_block(self, "predict_proba", X, np.dtype(np.float64), len(self.classes_))
        return np.exp(self._predictive.log_probabilities(marginals(self, X)))

    def decision_function(self, X: Any) -> Any:
        """How far each row is decided.

        Of two classes: the log odds of the second, (rows,), positive where it is predicted. Of more: the log
        probability of each, (rows, classes). A Dask array for a Dask array.
        """
        X = lazily(self, X)
        if isinstance(X, dask.array.Array):
            n_classes = self._predictive.n_classes
            columns = None if n_classes == 2 else n_classes
            return by_block(self, "decision_function", X, np.dtype(np.float64), columns)
        log_probabilities = self._predictive.log_probabilities(marginals(self, X))
        if log_probabilities.shape[1] > 2:
            return log_probabilities
        return log_probabilities[:, 1] - log_probabilities[:, 0]

    def predict_stream(
        self,
        store: Store,
        out: Any,
        x: Names = "X",
        *,
        on_bad_rows: str = "raise",
        allow_missing_chunks: bool = False,
    ) -> None:
        """Write ``label`` (a class number) and ``probability`` of every row to a new Zarr group.

        The group's attribute ``classes`` names the classes in the order of their numbers. A path that ends in
        .parquet or .csv becomes a table instead, with the label and a column ``p_<class>`` for each class.
        A run to a group that was killed goes on where it was.

        ``on_bad_rows`` says what becomes of rows with NaN, infinity or numbers beyond float32: "raise" names
        the first of them; "nan" writes NaN and label -1, and their number as the attribute
        ``streamgp_bad_rows``.
        """
        n_classes = self._predictive.n_classes
        columns = {
            "label": ((), np.dtype(np.int32)),
            "probability": ((n_classes,), np.dtype(np.float32)),
        }
        write(
            self,
            store,
            x,
            out,
            columns,
            partial(_class_columns, self._predictive),
            on_bad_rows,
            allow_missing_chunks,
            {"classes": self.classes_.tolist()},
        )

    @property
    def _evaluation(self) -> ClassEvaluation:
        return ClassEvaluation(self._predictive, tuple(self.classes_.tolist()))

    def evaluate_stream(
        self,
        store: Store,
        x: Names = "X",
        y: str = "y",
        *,
        on_bad_rows: str = "raise",
        allow_missing_chunks: bool = False,
    ) -> ClassScore:
        """Error, log loss, AUC, Brier score, calibration and rejection curve on a store, in one pass.

        Its ``baseline`` always predicts the shares of the classes; ``to_dict()`` suits JSON. ``on_bad_rows``
        as for :meth:`predict_stream`; "nan" leaves such rows out of the score.
        """
        return evaluate(self, store, x, y, self._evaluation, on_bad_rows, allow_missing_chunks)


def _validated(estimator: StreamGPClassifier, X: Any, y: Any) -> tuple[Array, Array]:
    """Features and labels as arrays; where rows may have no label, only the others' labels are looked at."""
    no_label = no_label_of(estimator.likelihood)
    if no_label is None:
        X, y = validate_data(estimator, X, _plain(y), dtype="numeric", accept_sparse=False)
        y = plain_labels(y)
        check_classification_targets(y)
        return X, y
    X = validate_data(estimator, X, dtype="numeric", accept_sparse=False)
    y = plain_labels(y, no_label=no_label)
    check_consistent_length(X, y)
    check_classification_targets(y[~no_label.mask(y)])
    return X, y


def _plain(y: Any) -> Any:
    """Labels that scikit-learn reads as they are meant.

    It would read what stands under a mask, and numbers where pandas has booleans or integers of its own.
    """
    dtype = getattr(y, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype) and np.ndim(y) == 1:
        return plain_labels(np.asarray(y, dtype=object))
    return plain_labels(y) if np.ma.is_masked(y) else y


def _class_columns(predictive: ClassPredictive, marginals: Marginals) -> Mapping[str, Array]:
    log_probabilities = predictive.log_probabilities(marginals)
    return {
        "label": predictive.decided(marginals, log_probabilities).astype(np.int32),
        "probability": np.exp(log_probabilities).astype(np.float32),
    }
