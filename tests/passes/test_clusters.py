"""A round of Lloyd's algorithm in a pass is the round of scikit-learn's k-means, class by class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

import streamgp
from streamgp.passes.block import Block
from streamgp.passes.nearest import Assign, ClusterSums, nearest_sums
from streamgp.selection import Kmeans


def block(start, X, codes):
    return Block(start, X, X, codes, None)


def test_one_round_is_that_of_kmeans(generator):
    X = generator.standard_normal((400, 3))
    centres = X[:12].copy()
    found = nearest_sums(X, centres)
    wanted = KMeans(12, init=centres, n_init=1, max_iter=1, tol=0.0).fit(X)
    np.testing.assert_allclose(found.centres(centres), wanted.cluster_centers_, atol=1e-12)
    assert found.sizes.sum() == 400


def test_classes_have_centres_of_their_own_and_held_out_rows_do_not_count(generator):
    X = generator.standard_normal((300, 2)).astype(np.float32)
    codes = (np.arange(300) % 3 == 0).astype(float)
    excluded = np.arange(0, 300, 7)
    scale = np.array([1.0, 4.0])
    centres = tuple((X[codes == code][:size] / scale).astype(float) for code, size in ((0, 9), (1, 4)))
    visitor = Assign(centres, scale, excluded)
    found = visitor.merge(
        visitor.visit(block(0, X[:110], codes[:110])), visitor.visit(block(110, X[110:], codes[110:]))
    )
    kept = ~np.isin(np.arange(300), excluded)
    parts = [
        nearest_sums((X[kept & (codes == code)] / scale).astype(np.float32), own)
        for code, own in enumerate(centres)
    ]
    np.testing.assert_allclose(found.sums, np.concatenate([part.sums for part in parts]), atol=1e-12)
    np.testing.assert_array_equal(found.sizes, np.concatenate([part.sizes for part in parts]))


def test_empty_clusters_stay():
    sums = ClusterSums(np.array([[4.0], [0.0]]), np.array([2.0, 0.0]))
    np.testing.assert_array_equal(sums.centres(np.array([[7.0], [8.0]])), [[2.0], [8.0]])
    assert nearest_sums(np.zeros((0, 1)), np.ones((2, 1))).sizes.tolist() == [0.0, 0.0]
    assert nearest_sums(np.zeros((3, 1)), np.ones((0, 1))).sums.shape == (0, 1)


@pytest.mark.parametrize("chunk_rows", [111, 2000])
def test_a_pass_over_all_rows_brings_centres_nearer(generator, make_store, chunk_rows):
    X = generator.standard_normal((2000, 2)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    settings = {"n_active": 40, "inference": "fitc", "kernel": streamgp.kernels.RBF(4.0, 1.0)}
    fixed = {"learn_hyperparameters": False, "standardize": False, "random_state": 0, "validation": False}

    def distortion(passes):
        # A sample of 20 rows for each centre: 800 of the 2000.
        store = make_store(X, y, chunk_rows=chunk_rows)
        model = streamgp.fit_stream(store, selection=Kmeans(passes=passes), **settings, **fixed)
        centres = model.model_.snapshot.active_inputs
        assert model.active_rows_.size == 0
        return np.square(X[:, None] - centres).sum(axis=2).min(axis=1).mean()

    values = [distortion(passes) for passes in range(3)]
    assert values[0] > values[1] > values[2]


def test_a_class_of_few_rows_among_many_has_centres(generator, make_store):
    X = generator.standard_normal((20_000, 2)).astype(np.float32)
    y = np.zeros(len(X), int)
    y[::2000] = 1
    X[::2000] += 50.0
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=5000),
        n_active=40,
        inference="fitc",
        selection="kmeans",
        kernel=streamgp.kernels.RBF(4.0, 1.0),
        learn_hyperparameters=False,
        standardize=False,
        random_state=0,
        validation=False,
    )
    of_the_class = model.model_.snapshot.active_inputs[:, 0] > 25.0
    assert 5 <= of_the_class.sum() <= 10
