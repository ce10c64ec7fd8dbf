"""A few predictions kept beside a model: whoever changes a value of it changes what it says.

Checksums tell damage; they can be made anew after an edit. What a model says about some of its own active
inputs cannot be guessed, so a record whose values were edited no longer agrees with its witness.
"""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.errors import ModelFileError, ParameterError
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import RealPredictive
from streamgp.posterior.snapshot import Marginals

WITNESS = "witness"
TOLERANCE = 1e-3
"""Of float32 on another processor, relative to the size of a prediction."""


def witness_of(model: Model) -> FloatArray:
    """What the model predicts for some of its active inputs, moved a little so that no distance is zero.

    Shapes: (rows, 2 heads + classes), or (rows, 4) for real targets: latent marginals, then predictions.
    """
    inputs, most = model.snapshot.active_inputs, model.snapshot.witness_rows
    chosen = np.linspace(0, len(inputs) - 1, min(most, len(inputs))).astype(np.intp)
    shift = 0.1 * (1 + np.arange(inputs.shape[1]) % 3)
    rows = np.ascontiguousarray(inputs[chosen] + shift.astype(inputs.dtype), inputs.dtype)
    marginals = model.snapshot.marginals(rows)
    assert marginals.variance is not None
    if isinstance(model.predictive, RealPredictive):
        predicted = _predicted(model.predictive, marginals)
    else:
        predicted = model.predictive.log_probabilities(marginals)
    return np.column_stack([marginals.mean, marginals.variance, predicted])


def _predicted(predictive: RealPredictive, marginals: Marginals) -> FloatArray:
    """Mean and standard deviation of targets; a likelihood that knows none of them has only marginals."""
    try:
        return np.column_stack(predictive.predict(marginals))
    except ParameterError:
        return np.empty((len(marginals.mean), 0))


def check_witness(model: Model, arrays: dict[str, Array]) -> None:
    """Refuse a model that does not say what its witness has heard; the first models had none."""
    heard = arrays.get(WITNESS)
    if heard is None:
        return
    said = witness_of(model)
    agrees = heard.shape == said.shape and heard.dtype.kind == "f"
    if agrees:
        size = 1.0 + np.abs(heard).max(axis=0)
        agrees = bool(np.all(np.abs(said - heard) <= TOLERANCE * size))
    if not agrees:
        raise ModelFileError(
            "the model does not predict what it did when it was saved: a value of its file was changed; "
            "restore the file from a copy"
        )
