"""A sweep of all latent functions over a block: they share inducing inputs, so rows are whitened once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Targets
from streamgp.data.targets import head_targets
from streamgp.inference.inducing.basis import Approximation, Basis, whiten, whiten_bytes
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.slopes import EvidenceSums, evidence_whitened
from streamgp.inference.inducing.sweep import SweepSums, exact_whitened, sweep_whitened
from streamgp.inference.inducing.updates import exact_rows
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.numerics import projection as numerics
from streamgp.passes.candidates import is_among


@dataclass(frozen=True, eq=False)
class RowWeights:
    """How often each row counts: ``excluded`` rows (sorted) not at all, others once, or as they are weighted.

    A weight ω counts a row's site ω times. Shapes: by_class (classes,), by_row (n,), where given.
    """

    excluded: IntArray
    by_class: FloatArray | None = None
    by_row: FloatArray | None = None

    @property
    def are_even(self) -> bool:
        """Whether all rows that are not excluded count once."""
        return self.by_class is None and self.by_row is None

    def made_even(self) -> RowWeights:
        """The same rows excluded, all others once."""
        return RowWeights(self.excluded)

    def __call__(self, start: int, encoded: FloatArray) -> FloatArray:
        """Weights of consecutive rows from their encoded targets.  Shapes: (c,) → (c,)."""
        rows = np.arange(start, start + len(encoded))
        return np.where(is_among(rows, self.excluded), 0.0, self.of_rows(rows, encoded))

    def of_rows(self, rows: IntArray, encoded: FloatArray) -> FloatArray:
        """Weights of any rows, whether they are excluded or not."""
        weights = np.ones(len(rows)) if self.by_row is None else self.by_row[rows]
        return weights if self.by_class is None else weights * self.by_class[encoded.astype(np.intp)]


@dataclass(frozen=True, eq=False)
class HeadSweep:
    """One damped sweep of some heads, as the step of a pass; see :func:`sweep_block`.

    ``posteriors`` and ``damping`` are of the heads that move, by their number; other heads keep their sites.
    Rows of weight 0 keep flat sites: nothing is learned from them.
    """

    basis: Basis
    posteriors: Mapping[int, InducingPosterior]
    likelihoods: tuple[Likelihood, ...]
    targets: Targets
    approximation: Approximation
    damping: Mapping[int, float]
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """New sites (c, heads, 2), and sums of the heads that move, in their order.

        Cost: 2 p m + m² flops a row, and 2 m² for each head.
        """
        weights = self.weights(start, encoded)
        old = np.zeros((len(encoded), len(self.likelihoods), 2)) if sites is None else sites
        new, sums = old.copy(), []
        rows, last = whiten(self.basis, features), max(self.damping)
        for head, step in self.damping.items():
            # A sweep overwrites its rows: all heads but the last work on a copy.
            own = rows if head == last else rows.copy()
            (swept, part), _ = sweep_whitened(
                self.posteriors[head],
                own,
                head_targets(self.targets, encoded, head),
                self.likelihoods[head],
                Sites(old[:, head, 0], old[:, head, 1]),
                self.approximation,
                step,
                weights,
            )
            new[:, head, 0] = np.where(weights > 0.0, swept.precision, 0.0)
            new[:, head, 1] = np.where(weights > 0.0, swept.precision_mean, 0.0)
            sums.append(part)
        return new, sums


@dataclass(frozen=True, eq=False)
class ExactSums:
    """What Gaussian noise needs of all rows, final after one pass; see :func:`exact_block`."""

    basis: Basis
    likelihood: Gaussian
    approximation: Approximation
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[SweepSums]]:
        """Sums of the one head that there is; no sites are kept."""
        rows, weights = whiten(self.basis, features), self.weights(start, encoded)
        return None, [exact_whitened(rows, encoded, self.likelihood, self.approximation, weights).sums]


@dataclass(frozen=True, eq=False)
class HeadEvidence:
    """What rows add to the evidence of converged sites and its gradient; see :func:`evidence_whitened`.

    ``posteriors`` are of the heads that take part, by their number.
    """

    basis: Basis
    posteriors: Mapping[int, InducingPosterior]
    likelihoods: tuple[Likelihood, ...]
    targets: Targets
    approximation: Approximation
    weights: RowWeights
    inputs: bool

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[EvidenceSums]]:
        """Sums of these heads; sites that were not kept, those of Gaussian noise, are computed again."""
        weights, sums, rows = self.weights(start, encoded), [], whiten(self.basis, features)
        for head, posterior in self.posteriors.items():
            likelihood, targets = self.likelihoods[head], head_targets(self.targets, encoded, head)
            if sites is not None:
                own = Sites(sites[:, head, 0], sites[:, head, 1])
            else:
                assert isinstance(likelihood, Gaussian)
                own = exact_rows(likelihood, targets, rows.residual_variance, self.approximation).sites
            sums.append(
                evidence_whitened(
                    self.basis,
                    posterior,
                    rows,
                    features,
                    targets,
                    likelihood,
                    own,
                    self.approximation,
                    weights,
                    inputs=self.inputs,
                )
            )
        return None, sums


def heads_bytes(
    kernel: Kernel,
    rows: int,
    n_inducing: int,
    n_features: int,
    n_heads: int,
    n_at_once: int,
    itemsize: int,
) -> int:
    """Upper bound of the bytes that a sweep of ``n_at_once`` of the heads takes, without the likelihood's.

    With its sums and those that they are added to, and the sites of all heads, old and new.
    """
    copy = rows * n_inducing * itemsize if n_at_once > 1 else 0
    sums = 2 * n_at_once * 8 * n_inducing * (n_inducing + 1)
    local = rows * (40 * 8 + 48 * n_heads)
    product = n_inducing * n_inducing * itemsize
    tile = numerics.workspace_bytes(rows, itemsize)
    whitening = whiten_bytes(kernel, rows, n_inducing, n_features, itemsize)
    return whitening + copy + sums + local + product + tile


def inducing_bytes(n_inducing: int, n_features: int, n_heads: int, n_at_once: int, itemsize: int) -> int:
    """Upper bound of the bytes that sweeps hold beside their tasks.

    Of each head: moments of this sweep and the next. Of those in one pass: the posterior in float64 and in
    the type of the pass, sums that wait for their turn to be added. The basis in both types; matrices of a
    factorisation.
    """
    matrix = n_inducing * n_inducing
    moving = n_at_once * matrix * (3 * 8 + itemsize)
    return n_heads * 2 * 8 * matrix + moving + matrix * (5 * 8 + itemsize) + 8 * n_inducing * n_features
