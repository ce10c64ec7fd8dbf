"""An average of posteriors: what several models say about a row, each believed by its weight.

Members stand side by side: their latent marginals are columns of one table, and only what is said about
targets is averaged. p(y | x) = Σ_k w_k p_k(y | x)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from streamgp.arrays import Array, FloatArray
from streamgp.kernels import Kernel
from streamgp.posterior.predictive import ClassPredictive, RealPrediction, RealPredictive
from streamgp.posterior.snapshot import Marginals


@dataclass(frozen=True, eq=False)
class MixtureSnapshot:
    """Posteriors side by side, the one of most weight first: kernel and active inputs are that one's."""

    members: tuple[Any, ...]

    witness_rows: ClassVar[int] = 2
    """Active inputs asked about when a saved model is checked: members may be local blocks."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of the first member."""
        kernel: Kernel = self.members[0].kernel
        return kernel

    @property
    def starts(self) -> list[int]:
        """Where the inputs of each latent function begin among those of the first member."""
        starts: list[int] = self.members[0].starts
        return starts

    @property
    def active_inputs(self) -> Array:
        """The active inputs of the first member."""
        inputs: Array = self.members[0].active_inputs
        return inputs

    @property
    def training_bytes(self) -> int:
        """Bytes of training rows that predictions need, of all members."""
        return sum(member.training_bytes for member in self.members)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which rows are read: that of the most exact member."""
        return np.result_type(*(member.dtype for member in self.members))

    @cached_property
    def prepared(self) -> None:
        """Every member has its kernel made ready."""
        for member in self.members:
            _ = member.prepared

    def in_memory(self) -> MixtureSnapshot:
        """The same posteriors with nothing left on disk."""
        return replace(self, members=tuple(member.in_memory() for member in self.members))

    def buffer(self, rows: int) -> None:
        """None: members are of different sizes."""

    def marginals(
        self, features: Array, with_variance: bool = True, kernel_out: Array | None = None
    ) -> Marginals:
        """Marginals of standardised rows, a member's columns after another's: (c, members x heads) each."""
        return beside(
            [
                member.marginals(features.astype(member.dtype, copy=False), with_variance)
                for member in self.members
            ]
        )

    def first(self, found: Marginals) -> Marginals:
        """The columns of the first member."""
        return next(_apart(found, len(self.members)))


def members_of(snapshot: Any) -> tuple[Any, ...]:
    """The posteriors that a snapshot consists of: itself, if it is no average."""
    return snapshot.members if isinstance(snapshot, MixtureSnapshot) else (snapshot,)


def beside(found: Sequence[Marginals]) -> Marginals:
    """Marginals of several posteriors as one table."""
    variances = [marginals.variance for marginals in found if marginals.variance is not None]
    variance = np.concatenate(variances, axis=1) if variances else None
    return Marginals(np.concatenate([marginals.mean for marginals in found], axis=1), variance)


def _apart(marginals: Marginals, members: int) -> Iterator[Marginals]:
    """The marginals of each member."""
    mean, variance = marginals
    assert variance is not None
    return map(Marginals, np.split(mean, members, axis=1), np.split(variance, members, axis=1))


@dataclass(frozen=True)
class MixedClasses(ClassPredictive):
    """Class probabilities of several members, averaged by their weights; likelihoods are the first one's."""

    members: tuple[ClassPredictive, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.members[0].n_classes

    @property
    def decides_by_mean(self) -> bool:
        """No: members can disagree."""
        return False

    def log_probabilities(self, marginals: Marginals) -> FloatArray:
        """Log probability of every class.  Shapes: (c, members x heads) → (c, classes)."""
        parts = zip(self.members, _apart(marginals, len(self.members)), strict=True)
        return _averaged([member.log_probabilities(part) for member, part in parts], self.weights)


@dataclass(frozen=True)
class MixedReals(RealPredictive):
    """Distributions of a real target by several members, averaged; the likelihood is the first one's."""

    members: tuple[RealPredictive, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def mean_is_latent(self) -> bool:
        """No: it is an average of several."""
        return False

    def predict(self, marginals: Marginals) -> RealPrediction:
        """Mean and variance of the average: m = Σ w_k m_k,  v = Σ w_k (v_k + (m_k − m)²)."""
        means, variances = self._moments(marginals)
        mean = np.einsum("k,kc->c", self.weights, means)
        variance = np.einsum("k,kc->c", self.weights, variances + (means - mean) ** 2)
        return RealPrediction(mean, variance)

    def log_density(self, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Log density of encoded targets, in the target's own units."""
        parts = zip(self.members, _apart(marginals, len(self.members)), strict=True)
        return _averaged([member.log_density(encoded, part) for member, part in parts], self.weights)

    def mass_below(self, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Distribution function at encoded targets, (c,)."""
        parts = zip(self.members, _apart(marginals, len(self.members)), strict=True)
        masses = [member.mass_below(encoded, part) for member, part in parts]
        return np.asarray(np.einsum("k,kc->c", self.weights, masses))

    def _moments(self, marginals: Marginals) -> tuple[FloatArray, FloatArray]:
        """Means and variances by member: (members, c) each."""
        parts = zip(self.members, _apart(marginals, len(self.members)), strict=True)
        means, variances = zip(*(member.predict(part) for member, part in parts), strict=True)
        return np.array(means), np.array(variances)


def _averaged(log_densities: Sequence[FloatArray], weights: Sequence[float]) -> FloatArray:
    """Log of Σ_k w_k exp(l_k), of arrays of equal shape."""
    shifted = [found + math.log(weight) for found, weight in zip(log_densities, weights, strict=True)]
    averaged: FloatArray = logsumexp(shifted, axis=0)
    return averaged
