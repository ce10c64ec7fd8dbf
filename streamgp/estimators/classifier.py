"""The classifier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self

import dask.array
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
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
from streamgp.passes import ClassEvaluation
from streamgp.passes.evaluation import ClassScore
from streamgp.posterior import Marginals, Precision
from streamgp.posterior.predictive import ClassPredictive
from streamgp.settings import Inference, Selection


class StreamGPClassifier(ClassifierMixin, NestedParameters):  # type: ignore[misc]
    """Gaussian-process classification with a sparse active set.

    Parameters
    ----------
    n_active : int
        Size of the active set: rows that the model keeps. Time grows with its square.
    selection : {"ivm", "pass", "fpass", "random", "kmeans", "gain"} or settings of one of them
        How active rows are chosen. "ivm": greedily, by what each row would teach. "pass": rows that are
        predicted badly enter and rows that are predicted well leave, up to ``n_active`` rows. "fpass": the
        same, always with ``n_active`` rows. "random": at random. "kmeans": centres of clusters, each class
        with its own. "gain": rows that raise the evidence most. Settings: :mod:`streamgp.settings`.
    inference : {"auto", "adf", "ep", "fitc"} or settings of one of them
        What the active set then says. "adf" visits each site once. "ep" is expectation propagation on the
        active set until nothing changes. "fitc" is expectation propagation over *all* rows, with the active
        set as inducing inputs that all classes share: one pass a sweep, the best probabilities. Default:
        "ep" after "pass" and "fpass", "fitc" after "kmeans" and "gain", else "adf". Settings:
        :class:`~streamgp.settings.ADF`, :class:`~streamgp.settings.EP`, :class:`~streamgp.settings.FITC`.
    kernel : Kernel, optional
        Covariance of the latent function on standardised features; learning starts from it. Default: an RBF,
        with a lengthscale for each feature up to 100 of them, plus a linear kernel (left out where the
        evidence learns classes).
    likelihood : Likelihood, optional
        Default :class:`~streamgp.likelihoods.Probit` with a bias from the class's share.
    multiclass : {"auto", "per_class", "shared"}
        More than two classes are learned one against the rest, all in one stream. "per_class" (default): an
        active set of ``n_active`` rows for each class. "shared": one set for all, cheaper to predict; this is
        the default of "fitc".
    class_weight : "balanced" or dict, optional
        How often rows of each class count; goes with "fitc".
    learn_hyperparameters : bool or {"constant", "hybrid", "evidence", "passes"}
        How the parameters of kernel and likelihood are learned, on a sample. "constant": by the IVM's
        criterion, with sites held fixed in the inner loop. "hybrid": the same, with sites set anew before
        every search direction. "evidence": by the evidence of the sample seen through inducing inputs.
        "passes": in the end by the evidence of all rows, in passes over them; goes with "fitc". True chooses:
        the evidence for "fitc" and for "pass" and "fpass" where there are at most 100 features (for "fitc"
        also where targets are real or inducing inputs are learned), else "constant". For "pass" and "fpass"
        on real targets, True follows the evidence of the active set every 8 blocks.
    standardize : {"auto", "common"} or bool
        Shift and scale of the features; see :func:`streamgp.data.standardize.choose_standardizer`.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the passes; factors are always float64.
    memory_budget : int or str
        Bytes, or a size such as ``"1GiB"``, that the fit may use beside Python and its libraries.
    validation : None, False, float or array of row numbers
        Rows held out to stop early, or to choose the approximation. None: min(5 %, 10000) of them,
        stratified; none for "pass" and "fpass" with "ep". False: none.
    max_seconds : float, optional
        Time after which every stage ends with its current step; ``history_`` says what was left out.
    random_state : int, RandomState or None
        Source of all random draws.
    client : distributed.Client, optional
        Where passes run; default the current client, else threads.
    checkpoint : path, optional
        Folder where the state is kept after every step; a fit that finds one continues there.
    scratch : path, optional
        Folder where "fitc" keeps two numbers for each row and class meanwhile; every worker must see it.
        Default: beside the checkpoint, else the system's folder for temporary files.
    progress : bool, optional
        Progress bars; default only on a terminal.

    Attributes
    ----------
    classes_, n_features_in_
        As usual.
    active_rows_ : array
        Row numbers of the active sets, one class after the other, in the order of inclusion; inducing inputs
        that are no rows (centres, or learned) are not among them.
    kernel_, likelihood_
        With learned parameters; one likelihood per latent function.
    recipe_ : str
        The stages of the fit, such as ``learn: criterion -> select: ivm -> calibrate``.
    history_ : list of dict
        One record per step: stage, active rows, held-out log density, seconds, peak memory.
    """

    def __init__(
        self,
        n_active: int = 500,
        *,
        selection: str | Selection = "ivm",
        inference: str | Inference = "auto",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        multiclass: Literal["auto", "per_class", "shared"] = "auto",
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to arrays in memory, or to Dask arrays; ``sample_weight`` as for :meth:`fit_stream`."""
        if not isinstance(X, dask.array.Array):
            X, y = validate_data(self, X, y, dtype="numeric", accept_sparse=False)
            check_classification_targets(y)
            y = np.asarray(y, dtype=str) if y.dtype.kind == "O" else y
        return self.fit_stream((X, y), sample_weight=sample_weight)

    def fit_stream(self, store: Store, x: str = "X", y: str = "y", *, sample_weight: Any = None) -> Self:
        """Fit to a Zarr group (path, URL or ``zarr.Group``) or to a pair of arrays, chunk by chunk.

        ``sample_weight``, one number a row, in memory, is for ``inference="fitc"``: a row of weight 2 counts
        as two equal rows do.
        """
        parameters = self.get_params(deep=False)
        adopt(self, *fit_store(parameters, store, x, y, "classification", sample_weight))
        return self

    def predict(self, X: Any) -> Any:
        """The most probable class of each row.

        Of two classes a symmetric likelihood needs the latent mean alone, far cheaper than variances.
        """
        if isinstance(X, dask.array.Array):
            return by_block(self.predict, X, self, self.classes_.dtype)
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        if self.model_.predictive.decides_by_mean:
            positive = self.model_.predictive.is_positive(marginals_of(self, X, with_variance=False))
            return self.classes_[positive.astype(np.intp)]
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, in the order of ``classes_``; a Dask array for a Dask array."""
        if isinstance(X, dask.array.Array):
            return by_block(self.predict_proba, X, self, np.dtype(np.float64), len(self.classes_))
        marginals = marginals_of(self, X)
        assert isinstance(self.model_.predictive, ClassPredictive)
        return np.exp(self.model_.predictive.log_probabilities(marginals))

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent functions: (rows, heads) each, (rows,) for one head."""
        return latent(marginals_of(self, X))

    def save(self, path: Any) -> None:
        """Write the fitted model to one file (or a ``.zarr`` folder) that :func:`load` reads."""
        save_model(self, path)

    def predict_stream(self, store: Store, out: Any, x: str = "X") -> None:
        """Write ``label`` (a class number) and ``probability`` of every row to a new Zarr group."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        columns = {
            "label": ((), np.dtype(np.int32)),
            "probability": ((self.model_.predictive.n_classes,), np.dtype(np.float32)),
        }
        write_predictions(self, store, x, out, columns, partial(_class_columns, self.model_.predictive))

    def evaluate_stream(self, store: Store, x: str = "X", y: str = "y") -> ClassScore:
        """Error, log loss, Brier score, calibration and rejection curve on a store, in one pass."""
        check_is_fitted(self)
        assert isinstance(self.model_.predictive, ClassPredictive)
        return visit(self, *planned(self, open_rows(store, x, y)), ClassEvaluation(self.model_.predictive))


def _class_columns(predictive: ClassPredictive, marginals: Marginals) -> Mapping[str, Array]:
    log_probabilities = predictive.log_probabilities(marginals)
    return {
        "label": np.argmax(log_probabilities, axis=1).astype(np.int32),
        "probability": np.exp(log_probabilities).astype(np.float32),
    }
