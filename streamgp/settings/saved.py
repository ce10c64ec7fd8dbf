"""Parameters of an estimator on disk: plain values, settings objects, kernels and likelihoods."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.kernels import ClassKernels, Kernel, kernel_from_json
from streamgp.likelihoods import JointLikelihood, Likelihood, likelihood_from_json
from streamgp.selection.virtual import Rotations, Transformation, Translations
from streamgp.settings.methods import INFERENCES, SELECTIONS

_KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (*SELECTIONS.values(), *INFERENCES.values(), Translations, Rotations)
}
NOT_WRITTEN = "a function of the user's"


def parameter_to_json(value: Any) -> Any:
    """A parameter as JSON, None where it cannot be written down (a client, rows of a validation set)."""
    if type(value).__name__ in _KINDS:
        names = [field.name for field in dataclasses.fields(value)]
        fields = {name: _field_to_json(getattr(value, name)) for name in names}
        return (
            None if NOT_WRITTEN in fields.values() else {"settings": type(value).__name__, "fields": fields}
        )
    if isinstance(value, list | tuple | ClassKernels) and all(isinstance(part, Kernel) for part in value):
        return {"kernels": [part.to_json() for part in value]}
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
        fields = {name: _field_from_json(part) for name, part in document["fields"].items()}
        return _KINDS[document["settings"]](**fields)
    if "weights" in document:
        return dict(document["weights"])
    if "kernels" in document:
        return [kernel_from_json(part) for part in document["kernels"]]
    if "kernel" in document:
        return kernel_from_json(document["kernel"])
    return likelihood_from_json(document["likelihood"])


def _field_to_json(value: Any) -> Any:
    """A field of settings: a plain value, or settings again."""
    if isinstance(value, Transformation):
        return NOT_WRITTEN
    return parameter_to_json(value) if type(value).__name__ in _KINDS else value


def _field_from_json(document: Any) -> Any:
    if isinstance(document, dict):
        return parameter_from_json(document)
    return tuple(document) if isinstance(document, list) else document
