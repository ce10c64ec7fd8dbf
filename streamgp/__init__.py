"""Gaussian-process classification and regression on data larger than memory."""

from importlib.metadata import version

from streamgp import settings
from streamgp.estimators import StreamGPClassifier, StreamGPRegressor, fit_stream, load
from streamgp.tables import ingest

__version__ = version("streamgp")
__all__ = [
    "StreamGPClassifier",
    "StreamGPRegressor",
    "__version__",
    "fit_stream",
    "ingest",
    "load",
    "settings",
]
