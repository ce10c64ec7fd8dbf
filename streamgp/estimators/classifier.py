"""The classifier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self

import dask.array
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.arrays import Array, FloatArray
from streamgp.data import open_rows
from streamgp.data.rows import Store
from streamgp.data.standardize import Standardize
from streamgp.estimators.common import (
    Selection,
    adopt,
    by_block,
    fit_settings,
    latent,
    marginals_of,
    planned,
    save_model,
    visit,
    write_predictions,
)
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes import ClassEvaluation
from streamgp.passes.evaluation import ClassScore
from streamgp.posterior import Marginals, Precision
from streamgp.posterior.predictive import ClassPredictive
from streamgp.training.fit import fit


class StreamGPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process classification with a sparse active set.

    Parameters
    ----------
    n_active : int
        Size of the active set: rows that the model keeps. Cost grows with its square.
    selection : {"ivm", "pass", "fpass", "random", "kmeans", "gain"} or settings of one of them
        How active rows are chosen: greedily; by thresholds on their predictive probability, up to
        ``n_active`` of them; by exchanges at fixed size; at random; centres of clusters, each class with its
        own, or rows that raise the evidence most (both ``"fitc"`` only). Settings: :mod:`streamgp.selection`.
        ``"pass"`` and ``"fpass"`` come with ``inference="ep"``, or with ``"fitc"``.
    inference : {"adf", "ep", "fitc"}
        What the active set then says: ``"adf"`` visits each site once, ``"ep"`` (expectation propagation)
        until nothing changes; ``"fitc"`` (generalized FITC) is expectation propagation over *all* rows, with
        the active set as inducing inputs that all classes share: one pass a sweep, the best probabilities.
    kernel : Kernel, optional
        Covariance of the latent function on standardised features, and where learning starts; default an RBF
        of median distance, plus a linear kernel unless the evidence learns a lengthscale for each feature.
    likelihood : Likelihood, optional
        Default :class:`~streamgp.likelihoods.Probit` with a bias from the class's share.
    multiclass : {"auto", "per_class", "shared"}
        More than two classes are learned one against the rest, all in one stream: with an active set of
        ``n_active`` rows for each class (``"auto"``), or with one set that all share, cheaper to predict.
    class_weight : "balanced" or dict, optional
        Of ``"fitc"``: how often rows of each class count.
    residual, power : float or "auto"
        Of ``"fitc"``: how much of what the inducing inputs leave unexplained of a row counts (1: FITC, 0: the
        projected process), and the power of expectation propagation (1: EP, towards 0: variational);
        ``"auto"`` keeps (1, 1) unless rows held out prefer another by more than a standard error of their
        log density. The learned variance (of real targets, the noise) is refitted for each by its evidence.
    learn_hyperparameters : bool or {"constant", "hybrid", "evidence", "passes"}
        Learn the parameters of kernel and likelihood on a sample. By the IVM's criterion, with sites held
        ``"constant"`` in the inner loop, or set anew before every search direction (``"hybrid"``); or by the
        ``"evidence"`` of the sample seen through inducing inputs; ``"passes"``, for ``"fitc"``, in the end by
        the evidence of all rows, in passes over them. True chooses: for ``"fitc"``, ``"pass"`` and
        ``"fpass"`` the evidence, where features are few (at most 100); for ``"fitc"`` also where targets are
        real or inducing inputs are learned; else ``"constant"``.
    learn_inducing : bool or "auto"
        Of ``"fitc"``: whether learning moves the inducing inputs too; ``"auto"`` where they are few.
    calibrate : bool
        Rescale latent means and variances by the density of training rows, each as if left out.
    standardize : {"auto", "common"} or bool
        Shift and scale of the features; see :func:`streamgp.data.standardize.choose_standardizer`.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the passes; factors are always float64.
    memory_budget : int or str
        Bytes, or a size such as ``"1GiB"``, that the fit may use beside Python and its libraries.
    validation : None, False, float or array of row numbers
        Rows held out to stop early, or to choose the approximation: None for min(5 %, 10000) of them,
        stratified; False for none.
    max_seconds : float, optional
        Stop growing the active set, or sweeping, after this time.
    random_state : int, RandomState or None
        Source of all random draws.
    client : distributed.Client, optional
        Where passes run; default the current client, else threads.
    checkpoint : path, optional
        Folder where the state is kept after every step; a fit that finds one continues there.
    scratch : path, optional
        Folder where ``"fitc"`` keeps two numbers for each row and class meanwhile; every worker must see it.
        Default beside the checkpoint, else the system's folder for temporary files.
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
    history_ : list of dict
        One record per step: active rows, held-out log density, seconds, peak memory.
    """

    def __init__(
        self,
        n_active: int = 500,
        *,
        selection: Selection = "ivm",
        inference: Literal["adf", "ep", "fitc"] = "adf",
        kernel: Kernel | None = None,
        likelihood: Likelihood | None = None,
        multiclass: Literal["auto", "per_class", "shared"] = "auto",
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        residual: float | Literal["auto"] = "auto",
        power: float | Literal["auto"] = "auto",
        learn_hyperparameters: bool | Literal["constant", "hybrid", "evidence", "passes"] = True,
        learn_inducing: bool | Literal["auto"] = "auto",
        calibrate: bool = True,
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
        self.residual = residual
        self.power = power
        self.learn_hyperparameters = learn_hyperparameters
        self.learn_inducing = learn_inducing
        self.calibrate = calibrate
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
        rows = open_rows(store, x, y)
        adopt(self, *fit(rows, "classification", fit_settings(self, sample_weight)))
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
