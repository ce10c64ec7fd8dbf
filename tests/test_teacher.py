"""The teacher of large made-up stores: rows do not depend on how they are written, and errors are as said."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from benchmarks.scale import make_teacher
from benchmarks.scale.make_teacher import UNIT_ROWS, Teacher, write_teacher


def test_a_row_is_a_function_of_its_number():
    teacher = Teacher(classes=3, drift=1.0, period=20_000)
    whole = teacher.rows(0, 3 * UNIT_ROWS)
    part = teacher.rows(UNIT_ROWS - 5, 2 * UNIT_ROWS + 7)
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one[UNIT_ROWS - 5 : 2 * UNIT_ROWS + 7], other)


@pytest.mark.parametrize("classes", [2, 4])
def test_who_knows_the_teacher_has_the_bayes_error(classes):
    teacher = Teacher(classes=classes)
    drawn = teacher.rows(0, 10 * UNIT_ROWS)
    rough, smooth = teacher.functions
    latent = rough(drawn.features) + smooth(drawn.features)
    best = latent.argmax(axis=1) if classes > 2 else latent[:, 0] > 0.0
    deviation = np.sqrt(0.25 / len(best))
    assert abs(np.mean(best != drawn.targets) - drawn.error.mean()) < 4.0 * deviation


def test_drift_and_order_are_in_the_features_and_labels_follow():
    teacher = Teacher(sorted=True, drift=2.0, period=4 * UNIT_ROWS)
    drawn = teacher.rows(0, 4 * UNIT_ROWS)
    assert (np.diff(drawn.features[:, 0]) > 0.0).all()
    early, late = drawn.features[: 2 * UNIT_ROWS, 1], drawn.features[2 * UNIT_ROWS :, 1]
    assert 0.9 < late.mean() - early.mean() < 1.1


def test_real_targets_have_the_noise_that_is_said():
    teacher = Teacher(classes=0, noise=0.1)
    drawn = teacher.rows(0, 4 * UNIT_ROWS)
    rough, smooth = teacher.functions
    error = drawn.targets - (rough(drawn.features) + smooth(drawn.features))[:, 0]
    assert np.mean(error**2) == pytest.approx(drawn.error.mean(), rel=0.05)


def test_an_interrupted_store_is_completed(tmp_path, capsys):
    teacher = Teacher(period=2500)
    found = write_teacher(tmp_path / "whole", teacher, 2500, chunk_rows=1000)
    write_teacher(tmp_path / "begun", teacher, 2500, chunk_rows=1000)
    group = zarr.open_group(tmp_path / "begun", mode="r+")
    group["bayes"][1] = np.nan  # as if the second chunk had not been finished
    group["X"][1500:2000] = 0.0
    make_teacher.main([str(tmp_path / "begun"), "--rows", "2500", "--chunk-rows", "1000"])
    assert json.loads(capsys.readouterr().out) == found
    whole = zarr.open_group(tmp_path / "whole", mode="r")
    for name in ("X", "y"):
        np.testing.assert_array_equal(group[name][:], whole[name][:])
    with pytest.raises(ValueError, match="another teacher"):
        write_teacher(tmp_path / "begun", Teacher(seed=1), 2500, chunk_rows=1000)
