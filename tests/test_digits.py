"""Digits without end: rows do not depend on how they are written, and the first ones are as they were."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from benchmarks.scale import make_digits
from benchmarks.scale.make_digits import SIDE, digits, write_digits


@pytest.fixture
def images(generator):
    """A few blobs in the middle of the page."""
    pages = np.zeros((50, SIDE, SIDE), np.uint8)
    pages[:, 8:20, 8:20] = generator.integers(50, 255, (50, 12, 12))
    return pages.reshape(50, -1)


def test_a_row_is_a_function_of_its_number(images):
    whole = digits(images, 0, 9000)
    np.testing.assert_array_equal(whole[:50], images)
    np.testing.assert_array_equal(whole[4000:8300], digits(images, 4000, 8300))


def test_later_rows_are_the_same_digits_a_little_moved(images):
    later, ink = digits(images, 100, 200).astype(float), images.astype(float).sum(axis=1)
    assert (np.abs(later[:50] - images).max(axis=1) > 20.0).all()
    assert np.abs(np.log(later.sum(axis=1) / np.tile(ink, 2))).max() < 0.6


def test_an_interrupted_store_is_completed(images, tmp_path, monkeypatch):
    monkeypatch.setattr(make_digits, "CHUNK_ROWS", 100)
    labels = np.arange(50) % 10
    write_digits(tmp_path / "whole", images, labels, 350)
    write_digits(tmp_path / "begun", images, labels, 350)
    group = zarr.open_group(tmp_path / "begun", mode="r+")
    group["written"][2] = 0  # as if the third chunk had not been finished
    group["X"][250:300] = 0
    write_digits(tmp_path / "begun", images, labels, 350)
    whole = zarr.open_group(tmp_path / "whole", mode="r")
    np.testing.assert_array_equal(group["X"][:], whole["X"][:])
    np.testing.assert_array_equal(group["y"][:], np.arange(350) % 50 % 10)
    with pytest.raises(ValueError, match="other digits"):
        write_digits(tmp_path / "begun", images, labels, 350, seed=1)
