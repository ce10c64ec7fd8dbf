from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from streamgp.numerics.stretched_rule import Stretch, fill_nodes


def rule(stretch, count):
    nodes, weights = np.empty(count), np.empty(count)
    fill_nodes(stretch, nodes, weights)
    return nodes, weights


def test_nodes_run_from_low_to_high_and_are_densest_at_the_corner():
    nodes, weights = rule(Stretch(-3.0, 10.0, -1.0, 0.1), 64)
    np.testing.assert_allclose(nodes[[0, -1]], [-3.0, 10.0], rtol=1e-12)
    assert abs(nodes[np.argmin(np.diff(nodes))] + 1.0) < 0.05
    np.testing.assert_allclose(weights[1:-1], 0.5 * (nodes[2:] - nodes[:-2]), rtol=0.02)


@pytest.mark.parametrize(("steepness", "count"), [(1.0, 40), (30.0, 80), (1000.0, 128)])
def test_an_edge_in_a_wide_normal(steepness, count):
    """∫ N(t) Φ(steepness (t − 1)) dt = Φ(−1/√(1 + steepness⁻²))."""
    nodes, weights = rule(Stretch(1 - 8.5 / steepness, 8.5, 1.0, 8 / np.hypot(1, steepness)), count)
    if steepness == 1.0:
        nodes, weights = rule(Stretch(-8.5, 8.5, 1.0, 8 / np.hypot(1, steepness)), count)
    found = weights @ (norm.pdf(nodes) * ndtr(steepness * (nodes - 1)))
    assert found == pytest.approx(ndtr(-1 / np.hypot(1, 1 / steepness)), rel=1e-9)
