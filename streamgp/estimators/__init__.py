"""scikit-learn estimators that learn from stores larger than memory."""

from __future__ import annotations

from typing import Any

from streamgp.data import ClassTargets, open_rows
from streamgp.data.rows import Store
from streamgp.data.targets import Task
from streamgp.estimators.classifier import StreamGPClassifier
from streamgp.estimators.common import adopt, fit_settings
from streamgp.estimators.regressor import StreamGPRegressor
from streamgp.persistence import read_record
from streamgp.posterior.model import Model
from streamgp.training.fit import fit

__all__ = ["StreamGPClassifier", "StreamGPRegressor", "fit_stream", "load"]

Estimator = StreamGPClassifier | StreamGPRegressor


def fit_stream(store: Store, x: str = "X", y: str = "y", task: Task = "auto", **parameters: Any) -> Estimator:
    """Fit a classifier or a regressor to a store, whichever its targets ask for.

    ``task="auto"``: strings and booleans are classes, floating-point targets numbers, integers are classes up
    to 100 distinct values. All other parameters are those of the estimators.
    """
    rows = open_rows(store, x, y)
    model, history = fit(rows, task, fit_settings(StreamGPClassifier(**parameters)))
    kind = StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
    estimator: Estimator = kind(**parameters)
    adopt(estimator, model, history)
    return estimator


def load(path: Any) -> Estimator:
    """Read a model that ``save`` wrote.

    Parameters that are plain values come back too; others (kernel, likelihood, client) are the defaults, what
    was learned stands in ``kernel_`` and ``likelihood_``.
    """
    header, arrays = read_record(path, kind="model")
    model = Model.from_record(header, arrays)
    kind = StreamGPClassifier if isinstance(model.targets, ClassTargets) else StreamGPRegressor
    estimator: Estimator = kind(**header["parameters"])
    adopt(estimator, model, header["history"])
    return estimator
