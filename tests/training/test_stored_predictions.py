"""Models of small generated data are those of the day when their predictions were stored, on any machine.

Where a change is meant: ``python -m tests.safety_net --store``, and say why in the commit.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.safety_cases import CASES, STORED, STORED_PATH, STORED_ROWS, fit_case, model_bits

PREDICTIONS = json.loads(STORED_PATH.read_text())


def test_all_cases_are_stored():
    assert set(PREDICTIONS) == set(STORED)


@pytest.mark.parametrize("name", STORED)
def test_predictions_are_the_stored_ones(name):
    found = model_bits(fit_case(CASES[name]), STORED_ROWS)
    stored = PREDICTIONS[name]
    assert found.keys() == stored.keys()
    assert found["active_rows"].tolist() == stored["active_rows"]
    for part, numbers in stored.items():
        np.testing.assert_allclose(found[part].ravel(), numbers, rtol=1e-6, atol=1e-7, err_msg=part)
