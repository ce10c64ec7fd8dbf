"""scikit-learn estimators that learn from stores larger than memory."""

from __future__ import annotations

from typing import Any

from streamgp.data import ClassTargets, Standardizer
from streamgp.data.rows import Names, Store
from streamgp.data.targets import Task
from streamgp.estimators.base import StreamGPEstimator
from streamgp.estimators.classifier import StreamGPClassifier
from streamgp.estimators.fitting import fit_store
from streamgp.estimators.regressor import StreamGPRegressor
from streamgp.inference.local.snapshot import LocalSnapshot
from streamgp.persistence import read_record
from streamgp.posterior import ClassesSnapshot, Snapshot
from streamgp.posterior.believed import believed, check_history
from streamgp.posterior.model import Model
from streamgp.posterior.witness import check_witness
from streamgp.settings import fit_settings, parameter_from_json

__all__ = ["StreamGPClassifier", "StreamGPRegressor", "fit_stream", "load"]

Estimator = StreamGPClassifier | StreamGPRegressor


def fit_stream(
    store: Store,
    x: Names = "X",
    y: str = "y",
    task: Task = "auto",
    *,
    sample_weight: Any = None,
    allow_missing_chunks: bool = False,
    **parameters: Any,
) -> Estimator:
    """Fit a classifier or a regressor to a store, whichever its targets ask for.

    Parameters
    ----------
    store : path, URL, zarr.Group, xarray.Dataset, or pair of arrays (X, y)
        The rows, which are read chunk by chunk. The arrays of a pair may be NumPy, Zarr, Dask or xarray
        arrays, or data frames.
    x : str or list of str
        Name of the array of features in the store, or of arrays that hold one column each.
    y : str
        Name of the array of targets.
    task : {"auto", "classification", "regression"}
        "auto" looks at the targets: strings and booleans are classes, floating-point numbers are real
        targets, and integers are classes if there are at most 100 different ones.
    sample_weight : array, optional
        How often each row counts: see the method ``fit_stream`` of the estimators.
    allow_missing_chunks : bool
        Whether chunks that are not stored are read as the fill value, instead of refused.
    **parameters
        Those of :class:`~streamgp.estimators.parameters.StreamGPParameters`, such as ``memory_budget``.

    Returns
    -------
    StreamGPClassifier or StreamGPRegressor
        The fitted model.
    """
    known = StreamGPEstimator._get_param_names()
    if unknown := sorted(set(parameters) - set(known)):
        raise TypeError(f"fit_stream has no parameter {unknown[0]!r}; it has {', '.join(known)}")
    unfitted = StreamGPEstimator(**parameters)
    fitted = fit_store(unfitted, store, x, y, task, sample_weight, allow_missing_chunks)
    return _kind(fitted.model)(**parameters)._adopt(*fitted)


def load(path: Any) -> Estimator:
    """Read a model that ``save`` wrote.

    The estimator's parameters come back too, with their settings objects, kernel and likelihood. Parameters
    that cannot be written to a file (a client, row numbers given for validation) have their defaults.
    """
    header, arrays = read_record(path, kind="model")
    model = Model.from_record(header, arrays, _read_snapshot)
    believed("model", lambda: check_witness(model, arrays))
    return believed("fit", lambda: _adopted(model, header))


def _adopted(model: Model, header: dict[str, Any]) -> Estimator:
    """The estimator of a record whose parameters are such that a fit would take them."""
    check_history(header)
    parameters = {name: parameter_from_json(value) for name, value in header["parameters"].items()}
    estimator = _kind(model)(**parameters)
    fit_settings(estimator.get_params(deep=False), seed=0)
    return estimator._adopt(model, header["history"], header["recipe"], header.get("about", {}))


def _read_snapshot(header: dict[str, Any], arrays: dict[str, Any], standardizer: Standardizer) -> Any:
    kind: Any = LocalSnapshot if "local" in header else ClassesSnapshot if "kernels" in header else Snapshot
    return kind.from_record(header, arrays, standardizer)


def _kind(model: Model) -> type[Estimator]:
    return StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
