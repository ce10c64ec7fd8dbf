"""Blocks held between sweeps: the same bits, up to so many bytes, and in one process only."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import prior_posterior
from streamgp.inference.inducing.sweep import flat_sites
from streamgp.inference.local.held import HeldBlocks, held_prior_bytes
from streamgp.inference.local.prior import block_prior
from streamgp.inference.local.sweep import sweep_block
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit

ROWS, INDUCING, AMPLE = 41, 6, 10**6


@pytest.fixture(scope="module")
def block():
    generator = np.random.default_rng(5)
    X = generator.uniform(-3.0, 3.0, (ROWS, 2))
    basis = make_basis(RBF(3.0, 1.0), generator.uniform(-3.0, 3.0, (INDUCING, 2)))
    return basis, X, np.where(np.sin(2.0 * X[:, 0]) > 0.0, 1.0, -1.0)


def sweeps(block, held, dtype=np.float64, weights=None, number=4):
    """Sweeps of one block in one room, with what was held; each sweep's sites and sums."""
    basis, X, y = block
    room, posterior, sites, found = Workspace(), prior_posterior(INDUCING), flat_sites(ROWS), []
    for _ in range(number):
        prior = held.prior(3) or block_prior(basis, X, room)
        held.keep_prior(3, prior)
        swept = sweep_block(
            prior,
            posterior.astype(dtype),
            y,
            Probit(),
            sites,
            0.7,
            weights=weights,
            start=held.start(3, 0),
            room=room,
        )
        held.keep_start(3, 0, swept.end)
        sites, posterior = swept.sites, swept.sums.sums.posterior()
        found.append((*sites, *swept.sums.sums[:3]))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_held_changes_no_bit(block, dtype, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, ROWS) if weighted else None
    held = HeldBlocks(AMPLE)
    for one, other in zip(
        sweeps(block, HeldBlocks(0), dtype, weights), sweeps(block, held, dtype, weights), strict=True
    ):
        for wanted, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert held.start(3, 0) is not None


def test_a_start_serves_its_own_sites_and_products_only(block):
    held = HeldBlocks(AMPLE)
    precision, precision_mean, *_ = sweeps(block, held)[-1]
    start, other = held.start(3, 0), precision.copy()
    other[0] *= 1.0 + 1e-15
    assert start.serves((precision, precision_mean), np.float64)
    assert not start.serves((precision, precision_mean), np.float32)
    assert not start.serves((other, precision_mean), np.float64)


def test_no_more_is_held_than_allowed(block):
    prior = held_prior_bytes(ROWS, INDUCING)
    for most, wanted in ((prior - 1, 0), (prior, prior), (prior + 10, prior)):
        held = HeldBlocks(most)
        sweeps(block, held)
        assert held.nbytes == wanted
        assert (held.prior(3) is not None) == (wanted > 0)
        assert held.start(3, 0) is None
    held = HeldBlocks(AMPLE)
    sweeps(block, held, number=7)
    assert held.nbytes == prior + held_prior_bytes(ROWS, INDUCING)  # L and Y have the shapes of R and W
    held.keep_start(3, 0, None)
    assert held.nbytes == prior
    held.restart(0)
    assert held.nbytes == 0
    assert held.prior(3) is None


def test_other_processes_hold_nothing(block):
    held = HeldBlocks(AMPLE)
    sweeps(block, held)
    sent = pickle.loads(pickle.dumps(held))
    sweeps(block, sent)
    assert sent.nbytes == 0
    assert sent.prior(3) is None
