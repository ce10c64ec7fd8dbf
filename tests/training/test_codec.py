"""Records of stages come back equal from a checkpoint, and a file cannot name others."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Probit, Softmax
from streamgp.training.codec import decode, encode
from streamgp.training.learn.evidence import Climbs
from streamgp.training.select.watch import Look, Looks


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, -2.5, float("inf"), "text", True, None),
        {"a": (1, 2), "b": {"c": ()}},
        Looks((Look(32, -0.5), Look(40, -0.4)), np.arange(4.0), 3),
        Climbs(2, -12.5, RBF(2.0, (1.0, 3.0)) + Linear(0.5), (Probit(0.2),), {"x": np.eye(2)}),
        Softmax(biases=(0.1, -0.1, 0.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back_equal(value):
    header, arrays = encode(value)
    found = decode(header, arrays)
    assert type(found) is type(value)
    assert encode(found)[0] == header
    for name, array in encode(found)[1].items():
        np.testing.assert_array_equal(array, arrays[name])


def test_a_kind_of_record_that_is_not_known_is_refused():
    header, arrays = encode(Look(1, 0.0))
    header["value"]["record"] = "Popen"
    with pytest.raises(CheckpointError, match="Popen"):
        decode(header, arrays)
