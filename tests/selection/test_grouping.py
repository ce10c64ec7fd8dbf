"""Rows in blocks: nearest centres for any chunking, sizes within bounds, halos."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.passes import nearest
from streamgp.selection import grouping
from streamgp.selection.grouping import (
    Nearest,
    Sizes,
    balanced_centres,
    block_counts,
    grouping_bytes,
    halo_blocks,
    halo_limits,
    kmeans,
    nearest_centres,
    regroup,
    slices,
)
from tests.inference.test_fitc_evidence import peak_bytes

SIZES = Sizes(target=100, least=30, most=170)


def dense_nearest(rows, centres, count):
    """All differences, stable order: of equal distances the lowest number comes first."""
    squares = np.array([[sum((x - c) ** 2) for c in centres] for x in rows])
    order = np.argsort(squares, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(squares, order, axis=1)


@given(seed=st.integers(0, 2**20), count=st.integers(1, 4), dtype=st.sampled_from([np.float32, np.float64]))
def test_nearest_centres_are_those_of_all_differences(seed, count, dtype):
    generator = np.random.default_rng(seed)
    # Few distinct coordinates, so that many distances are equal.
    rows = generator.integers(0, 4, (40, 3)).astype(dtype)
    centres = generator.integers(0, 4, (9, 3)) / 2.0
    labels, squares = dense_nearest(rows.astype(np.float64), centres, count)
    found = nearest_centres(rows, centres, count)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.squares, squares)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_any_chunking_gives_the_same_bits(offset):
    generator = np.random.default_rng(0)
    rows = offset + generator.standard_normal((5000, 7))
    centres = rows[:60] + 1e-9 * generator.standard_normal((60, 7))
    whole = nearest_centres(rows, centres, 3)
    for size in (1, 13, 700):
        stop = 40 * size if size < 700 else 5000
        pieces = [nearest_centres(rows[start : start + size], centres, 3) for start in range(0, stop, size)]
        np.testing.assert_array_equal(np.concatenate([p.labels for p in pieces]), whole.labels[:stop])
        np.testing.assert_array_equal(np.concatenate([p.squares for p in pieces]), whole.squares[:stop])


def test_more_centres_than_there_are():
    found = nearest_centres(np.zeros((3, 2)), np.ones((2, 2)), 5)
    assert found.labels.shape == (3, 2)


class TestKmeans:
    def test_finds_clusters_that_are_apart(self):
        generator = np.random.default_rng(0)
        truth = 10.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        rows = truth[np.arange(300) % 3] + generator.standard_normal((300, 2))
        found = nearest_centres(truth, kmeans(rows, 3))
        assert sorted(found.labels[:, 0]) == [0, 1, 2]
        assert found.squares.max() < 0.5

    def test_equal_rows_have_one_centre(self):
        np.testing.assert_array_equal(kmeans(np.ones((50, 2)), 5), np.ones((1, 2)))

    def test_a_feature_that_never_changes_does_no_harm(self):
        rows = np.column_stack([np.random.default_rng(0).standard_normal(200), np.full(200, 1e6)])
        assert len(np.unique(nearest_centres(rows, kmeans(rows, 5)).labels)) == 5


class TestRegroup:
    def test_large_clusters_are_split_and_tiny_ones_join_the_nearest(self):
        generator = np.random.default_rng(0)
        centres = np.array([[0.0], [10.0], [11.0], [30.0]])
        counts = np.array([400, 100, 5, 100])
        sample = np.concatenate([generator.normal(0.0, 1.0, (80, 1)), np.full((1, 1), 11.0)])
        labels = np.concatenate([np.zeros(80, int), [2]])
        found = regroup(centres, counts, sample, labels, SIZES)
        assert (found.split, found.merged) == (1, 1)
        assert len(found.centres) == 4 + 2  # four parts of the first; the second took the third; the fourth
        assert np.sum(np.abs(found.centres) < 5.0) == 4
        assert np.any(np.isclose(found.centres, (100 * 10.0 + 5 * 11.0) / 105))

    def test_two_tiny_clusters_may_become_one(self):
        centres, counts = np.array([[0.0], [1.0], [50.0]]), np.array([20, 25, 170])
        found = regroup(centres, counts, np.zeros((0, 1)), np.zeros(0, int), SIZES)
        np.testing.assert_allclose(found.centres, [[25 / 45], [50.0]])

    def test_a_tiny_cluster_that_no_one_can_take_stays(self):
        centres, counts = np.array([[0.0], [1.0]]), np.array([20, 160])
        found = regroup(centres, counts, np.zeros((0, 1)), np.zeros(0, int), SIZES)
        assert (len(found.centres), found.split, found.merged) == (2, 0, 0)

    def test_rows_that_are_alike_cannot_be_split(self):
        sample = np.ones((60, 2))
        found = regroup(np.ones((1, 2)), np.array([6000]), sample, np.zeros(60, int), SIZES)
        assert found.split == 0
        cuts = slices(np.array([6000]), SIZES.most)
        assert np.diff(cuts).max() <= SIZES.most

    @pytest.mark.parametrize("shape", ["normal", "ring and dust", "sorted line"])
    def test_sizes_come_within_bounds(self, shape):
        generator = np.random.default_rng(0)
        rows = generator.standard_normal((6000, 3))
        if shape == "ring and dust":
            rows[:5000] /= 20.0 * np.linalg.norm(rows[:5000], axis=1, keepdims=True)
        if shape == "sorted line":
            rows = np.sort(generator.gamma(0.3, 1.0, (6000, 1)), axis=0)
        sample = rows[generator.permutation(6000)[:4000]]
        centres = balanced_centres(sample, 6000, SIZES)
        counts = block_counts(nearest_centres(rows, centres).labels[:, 0], len(centres))
        assert np.mean((counts >= SIZES.least) & (counts <= 1.1 * SIZES.most)) > 0.9
        assert counts.max() < 2 * SIZES.most
        again = balanced_centres(sample, 6000, SIZES)
        np.testing.assert_array_equal(centres, again)


def test_slices_cover_all_rows_in_order():
    cuts = slices(np.array([0, 10, 25, 0, 7]), 10)
    np.testing.assert_array_equal(cuts, [0, 10, 18, 26, 35, 42])
    np.testing.assert_array_equal(slices(np.zeros(3, np.int64), 10), [0])


class TestHalo:
    def nearest(self, count=4):
        rows = np.random.default_rng(1).standard_normal((3000, 2))
        centres = kmeans(rows, 12)
        return rows, centres, nearest_centres(rows, centres, count)

    @pytest.mark.parametrize("share", [0.25, 1.0])
    def test_has_about_the_wanted_size(self, share):
        _, centres, nearest = self.nearest(6)
        limits = halo_limits(nearest, len(centres), share)
        inside = halo_blocks(nearest, limits)
        own = block_counts(nearest.labels[:, 0], len(centres))
        adopted = block_counts(nearest.labels[inside], len(centres))
        assert np.all(adopted <= np.rint(share * own))
        assert np.mean(adopted >= 0.9 * share * own) > 0.7
        assert not inside[:, 0].any()

    def test_holds_the_rows_nearest_to_the_border(self):
        rows, centres, nearest = self.nearest(12)
        inside = halo_blocks(nearest, halo_limits(nearest, len(centres), 0.5))
        adopted = np.flatnonzero(
            (nearest.labels == 3).any(axis=1) & (inside & (nearest.labels == 3)).any(axis=1)
        )
        squares = ((rows[:, None] - centres) ** 2).sum(axis=2)
        margin = squares[:, 3] - squares.min(axis=1)
        others = np.flatnonzero(nearest.labels[:, 0] != 3)
        expected = others[np.argsort(margin[others])[: len(adopted)]]
        np.testing.assert_array_equal(np.sort(adopted), np.sort(expected))

    def test_a_rule_of_a_sample_serves_rows_one_by_one(self):
        _, centres, nearest = self.nearest()
        sample = Nearest(nearest.labels[:1500], nearest.squares[:1500])
        limits = halo_limits(sample, len(centres))
        whole = halo_blocks(nearest, limits)
        single = [
            halo_blocks(Nearest(nearest.labels[[i]], nearest.squares[[i]]), limits) for i in (0, 7, 2999)
        ]
        np.testing.assert_array_equal(np.concatenate(single), whole[[0, 7, 2999]])

    def test_a_single_block_has_none(self):
        nearest = nearest_centres(np.zeros((5, 2)), np.zeros((1, 2)), 3)
        assert not halo_blocks(nearest, halo_limits(nearest, 1)).any()


def test_nearest_centres_stay_within_their_stated_bytes():
    generator = np.random.default_rng(0)
    rows, centres = generator.standard_normal((5000, 10)), generator.standard_normal((300, 10))
    bound = grouping_bytes(5000, 300, 10, 3)
    elsewhere = 2**18  # what other threads of this process may allocate meanwhile
    assert 0.25 * bound < peak_bytes(lambda: nearest_centres(rows, centres, 3)) <= bound + elsewhere


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tree_finds_the_same_centres(dtype, monkeypatch):
    generator = np.random.default_rng(1)
    rows, centres = generator.standard_normal((300, 3)).astype(dtype), generator.standard_normal((60, 3))
    plain = nearest_centres(rows, centres, 4)
    monkeypatch.setattr(nearest, "TREE_CENTRES", 50)
    by_tree = nearest_centres(rows, centres, 4)
    np.testing.assert_array_equal(by_tree.labels, plain.labels)
    np.testing.assert_allclose(by_tree.squares, plain.squares, rtol=1e-12)
    pieces = [nearest_centres(rows[start : start + 70], centres, 4) for start in range(0, 300, 70)]
    np.testing.assert_array_equal(np.concatenate([piece.squares for piece in pieces]), by_tree.squares)


def test_many_centres_are_found_on_two_levels(monkeypatch):
    monkeypatch.setattr(grouping, "MOST_AT_ONCE", 8)
    # One half of the rows lie in a hundredth of the room.
    generator = np.random.default_rng(2)
    rows = generator.uniform(0, 1, (4000, 2)) * np.where(np.arange(4000) % 2, 0.1, 1.0)[:, None]
    found = kmeans(rows, 40)
    assert 35 <= len(found) <= 45
    assert 0.3 < np.mean((found < 0.1).all(axis=1)) < 0.7
    centres = balanced_centres(rows, len(rows), SIZES)
    counts = block_counts(nearest_centres(rows, centres).labels[:, 0], len(centres))
    assert counts.min() >= SIZES.least
    assert counts.max() <= SIZES.most
