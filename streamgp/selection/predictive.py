"""Settings and rules of predictive active set selection: rows enter and leave by the weight they would have.

The posterior mean is Σ k(x, x_n) α_n with α_n = d log Z_n/dh at the marginal without row n, so a row whose
target is predicted well has almost no weight, in the active set or outside [PASS2012] section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.data.targets import Targets, head_targets
from streamgp.errors import ParameterError
from streamgp.likelihoods import Likelihood
from streamgp.posterior import Marginals
from streamgp.selection.virtual import as_virtual

MOST_LEAVING = 0.25
"""Share of an active set that leaves at once at most: two rows alike are each sure thanks to the other."""

SURE = 0.7
"""Probability, given all others, that an active row of a full set must have to be exchanged. The paper has no
such limit; without it a set too small for its task loses all rows but the contradictory ones."""

PRINTED_STEPS = 20
"""Steps of the optimiser before each block of a literal mode: the paper maximises, and does not say how."""

REAL_UPDATES = 8
"""Blocks between two updates where targets are real and nothing else is asked for."""


class Fit(NamedTuple):
    """How well targets are predicted: a probability in (0, 1], and the weight that ranks them; (c,) each."""

    probability: FloatArray
    weight: FloatArray

    def worst(self, other: Fit) -> Fit:
        """Of two latent functions, what the one says that would learn more."""
        return Fit(np.minimum(self.probability, other.probability), np.maximum(self.weight, other.weight))

    def counted(self, counts: FloatArray, p_min: float = 0.0) -> Fit:
        """The same for rows that count so often: ω equal rows are as probable as one to the power of ω.

        Whether a row is less probable than ``p_min``, and so perhaps wrong, does not depend on its count.
        """
        together = np.maximum(self.probability**counts, p_min)
        return Fit(np.where(self.probability < p_min, self.probability, together), counts * self.weight)


class Exchange(NamedTuple):
    """IntArray of candidates that enter, and of active rows that leave, both in order of place."""

    enter: IntArray
    leave: IntArray
    is_full: bool  # whether more would have entered than there is room for


def predictive_fit(
    likelihood: Likelihood, targets: FloatArray, mean: FloatArray, variance: FloatArray
) -> Fit:
    """How well marginals predict targets: of candidates their own, of active rows those of the cavity.

    Two classes: p(y), and −log p(y), which rises with the weight |α|.
    Else: exp(−½ α²/ν), for a Gaussian the density relative to its peak, and |α| itself.
    α slope and −ν second derivative of log Z by the mean.  Shapes: (c,) each.
    Source: [PASS2012] eq. 2, 3 and section 4.
    """
    log_z, slope, curvature = likelihood.tilted_moments(targets, mean, variance)
    if likelihood.is_classification:
        return Fit(np.exp(np.minimum(log_z, 0.0)), -log_z)
    distance = slope * slope / np.maximum(curvature, 1e-300)
    return Fit(np.exp(-0.5 * np.minimum(distance, 1e3)), np.abs(slope))


@dataclass(frozen=True)
class PASS:
    """Predictive active set selection by thresholds (PASS-GP): the size of the active set follows from them.

    The paper's thresholds are 0.6 and 0.99; these gave smaller active sets of less error on digits.
    Regression has no such probabilities: there it is the predictive density relative to its peak.

    Parameters
    ----------
    p_inc : float
        Rows enter whose target has a smaller predictive probability; 0.5 stands for the misclassified ones.
    p_del : float
        Active rows leave whose target has a larger probability given all other active rows.
    n_init : int
        Rows drawn at random to begin with.
    n_pass : int
        How often all rows are visited.
    block_rows : int
        Rows that are scored with one posterior; then rows enter and leave, and it is updated.
    update_every : int, optional
        Blocks between two updates of the hyperparameters by the evidence of the active sets, as in the paper.
        Default: every 8 blocks for regression; never for classification, FITC or other ways of learning.
    most_steps : int
        Steps of the optimiser in one such update.
    p_exc : float
        Share of a full active set (``n_active``, what memory was planned for) that is exchanged in a block.
    p_min : float
        Rows less probable than this stay outside: what everything contradicts is often a wrong label. 0 is
        the paper's rule.
    virtual : translate(...), rotate(...) or a function, optional
        What may be done to a row without changing its target: the active set is chosen anew from the active
        rows and their transformations, with the parameters that were learned.
    p_inc_virtual : float
        ``p_inc`` of that second selection: the paper needs a large active set there (0.99 for USPS, 0.9 for
        MNIST).
    literal : bool
        Whether a fit is algorithm 1 of the paper with nothing added: see :meth:`paper`.
    """

    p_inc: float = 0.7
    p_del: float = 0.9
    n_init: int = 300
    n_pass: int = 4
    block_rows: int = 750
    update_every: int | None = None
    most_steps: int = 6
    p_exc: float = 0.02
    p_min: float = 0.0
    virtual: Any = None
    p_inc_virtual: float = 0.9
    literal: bool = False

    is_of_fixed_size: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("p_inc", "p_inc_virtual"):
            if not 0 < getattr(self, name) <= 1:
                raise ParameterError(f"{name} is a probability above 0, not {getattr(self, name)!r}")
        if self.virtual is None and self.p_inc_virtual != PASS.p_inc_virtual:
            raise ParameterError(f"p_inc_virtual={self.p_inc_virtual!r} goes only with virtual=...")
        _check_visits(self)
        if self.literal and self.p_exc != PASS.p_exc:
            raise ParameterError(f"p_exc={self.p_exc!r} has no effect on PASS.paper(): leave it out")

    @classmethod
    def paper(cls, **changes: Any) -> PASS:
        """PASS-GP as it is printed [PASS2012]: its thresholds, θ before every block, and no safeguard.

        For two classes, with all rows in memory; ``changes`` are other fields. The differences from the
        defaults are numbered in docs/papers/passgp.md.
        """
        printed = {"p_inc": 0.6, "p_del": 0.99, "n_init": 300, "n_pass": 2, "most_steps": PRINTED_STEPS}
        return cls(**{**printed, **changes, "literal": True})

    def initial_size(self, capacity: int) -> int:
        """Rows to begin with."""
        return min(self.n_init, capacity)

    def exchange(self, candidates: Fit, active: Fit, capacity: int) -> Exchange:
        """Rows below ``p_inc`` enter, if not below ``p_min``; those above ``p_del`` leave.

        Beyond ``capacity`` as :class:`FPASS`.
        """
        sure = np.flatnonzero(active.probability > self.p_del)
        if self.literal:
            return self._printed(candidates, sure, len(active.weight), capacity)
        leave = sure[_largest(active.probability[sure], int(MOST_LEAVING * len(active.weight)))]
        wanted = np.flatnonzero(
            (candidates.probability < self.p_inc) & (candidates.probability >= self.p_min)
        )
        if len(active.weight) - len(leave) + len(wanted) <= capacity:
            return Exchange(wanted, leave, is_full=False)
        return _at_fixed_size(candidates, wanted, active, capacity, self.p_exc, SURE)

    def _printed(self, candidates: Fit, sure: IntArray, count: int, capacity: int) -> Exchange:
        """All that the thresholds ask for, however many."""
        wanted = np.flatnonzero(
            (candidates.probability < self.p_inc) & (candidates.probability >= self.p_min)
        )
        size = count - len(sure) + len(wanted)
        if not 0 < size <= capacity:
            raise ParameterError(
                f"PASS.paper() wants {size} active rows, but n_active={capacity}: give a larger n_active, or "
                f"other thresholds"
            )
        return Exchange(wanted, sure, is_full=False)


@dataclass(frozen=True)
class FPASS:
    """Predictive active set selection of fixed size (fPASS-GP): ``n_active`` rows, some exchanged a block.

    Parameters
    ----------
    p_exc : float
        Share of the active set that is exchanged in a block: the least probable rows of the block for those
        active rows that are most probable given all others, as long as these weigh less.
    p_del : float
        Probability, given all others, that an active row must have to be exchanged. A larger one keeps more
        rows that are predicted well among the hard ones, which helps probabilities where a learned kernel is
        sure of most rows.
    p_min : float
        Rows less probable than this stay outside. The paper's rule is 0: all may enter. A set too small for
        all hard rows then fills with rows that everything else contradicts, not with those at the border.
    n_pass, block_rows, update_every, most_steps, virtual, literal
        As for :class:`PASS`.
    """

    p_exc: float = 0.05
    p_del: float = SURE
    p_min: float = 0.0
    n_pass: int = 4
    block_rows: int = 750
    update_every: int | None = None
    most_steps: int = 6
    virtual: Any = None
    literal: bool = False

    is_of_fixed_size: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_visits(self)
        if self.literal and self.p_del != SURE:
            raise ParameterError(f"p_del={self.p_del!r} has no effect on FPASS.paper(): leave it out")

    @classmethod
    def paper(cls, **changes: Any) -> FPASS:
        """fPASS-GP as it is printed [PASS2012]: a fixed share is exchanged, whatever that is worth.

        For two classes, with all rows in memory; ``changes`` are other fields. The differences from the
        defaults are numbered in docs/papers/passgp.md.
        """
        return cls(**{"p_exc": 0.02, "n_pass": 4, "most_steps": PRINTED_STEPS, **changes, "literal": True})

    def initial_size(self, capacity: int) -> int:
        """All of them."""
        return capacity

    def exchange(self, candidates: Fit, active: Fit, capacity: int) -> Exchange:
        """The candidates of largest weight, contradicted ones aside, for the active rows of smallest."""
        wanted = np.flatnonzero(candidates.probability >= self.p_min)
        if self.literal:
            size = min(max(1, round(self.p_exc * capacity)), len(wanted), len(active.weight))
            enter = wanted[_largest(candidates.weight[wanted], size)]
            return Exchange(enter, _largest(active.probability, size), is_full=True)
        return _at_fixed_size(candidates, wanted, active, capacity, self.p_exc, self.p_del)


Predictive = PASS | FPASS


def _check_visits(selection: Predictive) -> None:
    object.__setattr__(selection, "virtual", as_virtual(selection.virtual))
    if not 0 < selection.p_del <= 1:
        raise ParameterError(f"p_del is a probability above 0, not {selection.p_del!r}")
    if not 0 <= selection.p_min < selection.p_del:
        raise ParameterError(
            f"p_min is a probability below p_del ({selection.p_del!r}), 0 included, not {selection.p_min!r}"
        )
    if not 0 < selection.p_exc <= 1:
        raise ParameterError(f"p_exc is a share above 0, not {selection.p_exc!r}")
    counts = {
        name: getattr(selection, name) for name in ("n_pass", "block_rows", "update_every", "most_steps")
    }
    if isinstance(selection, PASS):
        counts["n_init"] = selection.n_init
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ParameterError(f"{name} must be at least 1, not {count!r}")


def _largest(values: FloatArray, count: int) -> IntArray:
    return np.sort(np.argsort(-values, kind="stable")[:count])


def _at_fixed_size(
    candidates: Fit, wanted: IntArray, active: Fit, capacity: int, share: float, sure: float
) -> Exchange:
    """Fill what room there is, then exchange candidates of largest weight for sure rows of the smallest."""
    by_weight = wanted[np.argsort(-candidates.weight[wanted], kind="stable")]
    room = capacity - len(active.weight)
    entering = by_weight[room:]
    ready = np.flatnonzero(active.probability > sure)
    leaving = ready[np.argsort(active.weight[ready], kind="stable")]
    size = min(max(1, round(share * capacity)), len(entering), len(leaving))
    # Weights fall on one side and rise on the other: the pairs that improve are the first ones.
    count = int(np.count_nonzero(candidates.weight[entering[:size]] > active.weight[leaving[:size]]))
    return Exchange(np.sort(by_weight[: room + count]), np.sort(leaving[:count]), is_full=True)


@dataclass(frozen=True, eq=False)
class PredictiveScores:
    """Weights of a block of rows for every head, none below ``p_min``: a pass's step function.

    ``counts`` says how often rows count, from their numbers and encoded targets; None: each once.
    """

    targets: Targets
    likelihoods: tuple[Likelihood, ...]
    p_min: float
    counts: Callable[[IntArray, FloatArray], FloatArray] | None = None

    def __call__(self, rows: IntArray, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Shapes: rows, encoded (c,), marginals (c, heads) → (c, heads)."""
        assert marginals.variance is not None
        scores = np.empty_like(marginals.mean)
        for head, likelihood in enumerate(self.likelihoods):
            targets = head_targets(self.targets, encoded, head)
            mean, variance = marginals.mean[:, head], marginals.variance[:, head]
            fit = predictive_fit(likelihood, targets, mean, variance)
            scores[:, head] = np.where(fit.probability < self.p_min, 0.0, fit.weight)
        return scores if self.counts is None else scores * self.counts(rows, encoded)[:, None]
