from __future__ import annotations

import numpy as np
import pytest

from streamgp.data.targets import ClassTargets, choose_task, class_targets, real_targets
from streamgp.errors import ParameterError, TargetError


def test_labels_become_codes_in_sorted_order():
    encoding = class_targets({"b": 3, "a": 1}, np.dtype("U1"))
    np.testing.assert_array_equal(encoding.encode(np.array(["b", "a", "b"])), [1, 0, 1])


def test_unknown_label_is_named():
    with pytest.raises(TargetError, match="label 9"):
        ClassTargets(np.array([1, 2])).encode(np.array([1, 9]))


@pytest.mark.parametrize(
    ("task", "kind", "n_labels", "expected"),
    [
        ("auto", "U", 2, "classification"),
        ("auto", "b", 2, "classification"),
        ("auto", "i", 100, "classification"),
        ("auto", "f", 0, "regression"),
        ("regression", "i", 7, "regression"),
        ("classification", "f", 7, "classification"),
    ],
)
def test_the_task_follows_from_the_targets(task, kind, n_labels, expected):
    assert choose_task(task, kind, n_labels) == expected


def test_many_integers_must_be_explained():
    with pytest.raises(TargetError, match="task="):
        choose_task("auto", "i", 101)


def test_nonsense_is_refused():
    with pytest.raises(ParameterError, match="'clustering'"):
        choose_task("clustering", "i", 2)
    with pytest.raises(TargetError, match="strings"):
        choose_task("regression", "T", 2)
    with pytest.raises(TargetError, match="all labels are 'a'"):
        class_targets({"a": 3}, np.dtype("U1"))
    with pytest.raises(TargetError, match="more than 1000"):
        class_targets(dict.fromkeys(range(1001), 1), np.dtype(int))
    with pytest.raises(TargetError, match="constant"):
        real_targets(5.0, 0.0)


def test_real_targets_are_centred_and_scaled():
    np.testing.assert_allclose(real_targets(3.0, 4.0).encode(np.array([3, 5])), [0, 1])
