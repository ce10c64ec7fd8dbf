"""scikit-learn estimators that learn from stores larger than memory."""

from __future__ import annotations

from typing import Any

from streamgp.data import ClassTargets
from streamgp.data.rows import Names, Store
from streamgp.data.targets import Task
from streamgp.estimators.base import StreamGPEstimator
from streamgp.estimators.classifier import StreamGPClassifier
from streamgp.estimators.fitting import fit_store
from streamgp.estimators.regressor import StreamGPRegressor
from streamgp.inference.local.snapshot import LocalSnapshot
from streamgp.persistence import read_record
from streamgp.posterior import Snapshot
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
    allow_missing_chunks: bool = False,
    **parameters: Any,
) -> Estimator:
    """Fit a classifier or a regressor to a store, whichever its targets ask for.

    ``task="auto"``: strings and booleans are classes, floating-point targets numbers, integers are classes up
    to 100 distinct values. ``allow_missing_chunks``: see the estimators' ``fit_stream``. All other
    parameters are those of the estimators.
    """
    fitted = fit_store(
        StreamGPEstimator(**parameters), store, x, y, task, allow_missing_chunks=allow_missing_chunks
    )
    return _kind(fitted.model)(**parameters)._adopt(*fitted)


def load(path: Any) -> Estimator:
    """Read a model that ``save`` wrote.

    Parameters come back too, settings objects, kernel and likelihood among them; what cannot be written to a
    file (a client, rows named for validation) has its default.
    """
    header, arrays = read_record(path, kind="model")
    model = Model.from_record(
        header, arrays, LocalSnapshot.from_record if "local" in header else Snapshot.from_record
    )
    believed("model", lambda: check_witness(model, arrays))
    return believed("fit", lambda: _adopted(model, header))


def _adopted(model: Model, header: dict[str, Any]) -> Estimator:
    """The estimator of a record whose parameters are such that a fit would take them."""
    check_history(header)
    parameters = {name: parameter_from_json(value) for name, value in header["parameters"].items()}
    estimator = _kind(model)(**parameters)
    fit_settings(estimator.get_params(deep=False), seed=0)
    return estimator._adopt(model, header["history"], header["recipe"], header.get("about", {}))


def _kind(model: Model) -> type[Estimator]:
    return StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
