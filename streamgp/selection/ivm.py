"""Settings of the informative vector machine's selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.data.targets import Targets, head_targets
from streamgp.errors import ParameterError
from streamgp.likelihoods import Likelihood, Probit
from streamgp.numerics.scores import ENTROPY_REDUCTION, INFORMATION_GAIN, probit_scores, score_limits
from streamgp.posterior import Marginals
from streamgp.selection.scores import SCORES, Score, entropy_reduction, information_gain
from streamgp.selection.virtual import as_virtual

if TYPE_CHECKING:
    from streamgp.selection.printed import IVM2003, IVM2006

HOT_ROWS = 1024
_COMPILED: dict[Score, int] = {information_gain: INFORMATION_GAIN, entropy_reduction: ENTROPY_REDUCTION}


@dataclass(frozen=True)
class IVM:
    """Greedy selection from a set J of candidates that passes over the data refresh.

    Parameters
    ----------
    score : {"auto", "information_gain", "entropy_reduction"}
        What the best candidate is best at. "auto": information gain; entropy reduction where the likelihood
        expects outliers, which are the most surprising rows, and the least worth learning.
    candidates : int, optional
        Size of J. By default, and at most, what the memory budget allows.
    hot : int, optional
        Candidates that are current at every inclusion; all others are brought up to date after ``delay``
        inclusions, by matrix products. None keeps all current, slower: with all rows in J that is algorithm 1
        of the papers, exactly.
    delay : int
        Inclusions between two updates of all candidates.
    retained : float
        Share of J that is chosen by score; the rest is drawn at random, stratified by class.
    refresh : float
        Share of the data that a refresh of J reads: 1 for all of it; below, the next spans in turn.
    least_precision : float
        Sites of less precision are never set.
    virtual : translate(...), rotate(...) or a function, optional
        What may be done to a row without changing its target: the active set is chosen anew from the active
        rows and their transformations, with the parameters that were learned. A function takes rows (n, p) as
        they are stored and gives k versions of them, (k, n, p).
    n_first : int, optional
        Active rows of the first selection where there are transformations; default ``n_active``. Fewer leave
        the second selection, of ``n_active`` rows from so many more, less to leave out.
    """

    score: str = "auto"
    candidates: int | None = None
    hot: int | None = HOT_ROWS
    delay: int = 32
    retained: float = 0.75
    refresh: float = 1.0
    least_precision: float = 1e-10
    virtual: Any = None
    n_first: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "virtual", as_virtual(self.virtual))
        if self.score not in ("auto", *SCORES):
            known = ", ".join(map(repr, ("auto", *SCORES)))
            raise ParameterError(f"score must be one of {known}, not {self.score!r}")
        for name in ("candidates", "hot", "delay", "n_first"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ParameterError(f"{name} must be at least 1, not {count!r}")
        if self.n_first is not None and self.virtual is None:
            raise ParameterError(f"n_first={self.n_first} goes only with virtual=...")
        if not 0 <= self.retained <= 1 or not 0 < self.refresh <= 1:
            raise ParameterError(
                f"retained and refresh are shares between 0 and 1, not {self.retained!r} and {self.refresh!r}"
            )

    @staticmethod
    def paper2003(**changes: Any) -> IVM2003:
        """The IVM with randomised greedy selection as it is printed in [IVM2003]; ``changes`` are its fields.

        For two classes. The differences from the defaults are numbered in docs/papers/ivm.md.
        """
        from streamgp.selection.printed import IVM2003

        return IVM2003(**changes)

    @staticmethod
    def paper2006(**changes: Any) -> IVM2006:
        """The IVM with a shrinking J, and learning on all rows, as in [IVM2006]; ``changes`` are its fields.

        For two classes or real targets. The differences from the defaults are numbered in docs/papers/ivm.md.
        """
        from streamgp.selection.printed import IVM2006

        return IVM2006(**changes)

    def score_function(self, likelihood: Likelihood) -> Score:
        """The score by its name, or by the likelihood."""
        if self.score == "auto":
            return entropy_reduction if likelihood.expects_outliers else information_gain
        return SCORES[self.score]

    def candidate_scores(
        self,
        likelihood: Likelihood,
        targets: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        weights: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Scores, −inf where the site would be too flat, and the sites (π, b) that inclusions would set.

        A row of weight ω has its site to the power of ω: (ω π, ω b).
        """
        _, precision, precision_mean = likelihood.tilted_sites(targets, mean, variance)
        if weights is not None:
            precision, precision_mean = weights * precision, weights * precision_mean
        scores = self.score_function(likelihood)(mean, variance, precision, precision_mean)
        eligible = (precision > self.least_precision) & np.isfinite(scores)
        return np.where(eligible, scores, -np.inf), precision, precision_mean


@dataclass(frozen=True, eq=False)
class HeadScores:
    """Scores of a block of rows for every head: a pass's step function."""

    selection: IVM
    targets: Targets
    likelihoods: tuple[Likelihood, ...]
    weights: Callable[[IntArray, FloatArray], FloatArray] | None = None  # of rows and their encoded targets
    limits: FloatArray | None = None

    def above(self, floor: float) -> HeadScores:
        """The same, but −inf may stand for a score below the floor: most rows cost next to nothing then."""
        kind = _COMPILED[self.selection.score_function(Probit())]
        return replace(self, limits=score_limits(kind, floor))

    def __call__(self, rows: IntArray, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Shapes: rows, encoded (c,), marginals (c, heads) → (c, heads)."""
        assert marginals.variance is not None
        scores = np.empty_like(marginals.mean)
        weights = None if self.weights is None else self.weights(rows, encoded)
        for head, likelihood in enumerate(self.likelihoods):
            targets = head_targets(self.targets, encoded, head)
            mean = np.ascontiguousarray(marginals.mean[:, head])
            variance = np.ascontiguousarray(marginals.variance[:, head])
            if weights is None and type(likelihood) is Probit:
                scores[:, head] = self._of_probit(likelihood, targets, mean, variance)
                continue
            scores[:, head], _, _ = self.selection.candidate_scores(
                likelihood, targets, mean, variance, weights
            )
        return scores

    def _of_probit(
        self, likelihood: Probit, targets: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """The same scores in one compiled loop."""
        limits, kind = self.limits, _COMPILED[self.selection.score_function(likelihood)]
        if limits is None:
            limits = score_limits(kind, -np.inf)
        scores = np.empty(len(mean))
        targets = np.ascontiguousarray(targets, np.float64)
        least = self.selection.least_precision
        probit_scores(kind, likelihood.bias, least, limits, targets, mean, variance, scores)
        return scores
