"""Parameters of an estimator on disk: plain values, settings objects, kernels and likelihoods."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.kernels import Kernel, kernel_from_json
from streamgp.likelihoods import JointLikelihood, Likelihood, likelihood_from_json
from streamgp.settings.methods import INFERENCES, SELECTIONS

_KINDS = {kind.__name__: kind for kind in (*SELECTIONS.values(), *INFERENCES.values())}


def parameter_to_json(value: Any) -> Any:
    """A parameter as JSON, None where it cannot be written down (a client, rows of a validation set)."""
    if type(value).__name__ in _KINDS:
        return {"settings": type(value).__name__, "fields": dataclasses.asdict(value)}
    if isinstance(value, Kernel | Likelihood | JointLikelihood):
        try:
            return {"kernel" if isinstance(value, Kernel) else "likelihood": value.to_json()}
        except ParameterError:  # a likelihood of the user's own that is not registered
            return None
    if isinstance(value, dict) and all(isinstance(part, str | int | float) for part in value.values()):
        pairs = [[label.item() if isinstance(label, np.generic) else label, w] for label, w in value.items()]
        return {"weights": pairs} if all(isinstance(label, str | int | float) for label, _ in pairs) else None
    return value if isinstance(value, str | int | float) else None


def parameter_from_json(document: Any) -> Any:
    """The parameter that was written."""
    if not isinstance(document, dict):
        return document
    if "settings" in document:
        return _KINDS[document["settings"]](**document["fields"])
    if "weights" in document:
        return dict(document["weights"])
    if "kernel" in document:
        return kernel_from_json(document["kernel"])
    return likelihood_from_json(document["likelihood"])
