"""Settings and rules of the informative vector machine as its two papers print it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamgp.arrays import BoolArray, FloatArray, IntArray
from streamgp.errors import ParameterError
from streamgp.passes.candidates import smallest
from streamgp.selection.ivm import IVM


@dataclass(frozen=True)
class IVM2003:
    """The randomised greedy selection of [IVM2003]: made by :meth:`streamgp.selection.IVM.paper2003`.

    Parameters
    ----------
    score : {"entropy_reduction", "information_gain"}
        What the best candidate is best at.
    n_random : int
        Rows drawn at random to begin with.
    n_full : int
        Inclusions after these for which J is all rows.
    candidates : int
        Size of J from then on.
    retained : float
        Share of J that stays after an inclusion, that of best scores; J is filled up by rows at random.
    bias_variance : float
        Variance of the bias, a constant that is added to the kernel.
    least_precision : float
        Sites of less precision are never set.
    """

    score: str = "entropy_reduction"
    n_random: int = 2
    n_full: int = 198
    candidates: int = 500
    retained: float = 0.5
    bias_variance: float = 0.1
    least_precision: float = 1e-10

    needs_all_rows = True  # J is filled up from all of them again and again, so they must be in memory

    def __post_init__(self) -> None:
        _ = self.greedy
        _check_share("retained", self.retained)
        if self.n_random < 1 or self.n_full < 0 or self.candidates < 1:
            raise ParameterError(
                f"n_random and candidates must be at least 1 and n_full at least 0, not {self.n_random!r}, "
                f"{self.candidates!r} and {self.n_full!r}"
            )
        if not self.bias_variance > 0.0:
            raise ParameterError(f"bias_variance must be above 0, not {self.bias_variance!r}")

    @cached_property
    def greedy(self) -> IVM:
        """Scores and sites of single inclusions, all candidates kept current."""
        return IVM(score=self.score, hot=None, delay=2**31, least_precision=self.least_precision)

    def stays_until(self, n_active: int) -> int:
        """Size of the active set up to which J stays as it is at ``n_active``."""
        return max(n_active + 1, self.n_random + self.n_full)

    def kept(
        self, n_active: int, scores: FloatArray, available: BoolArray, generator: np.random.Generator
    ) -> IntArray:
        """Slots of J that stay: all at first, then those of best score."""
        slots = np.flatnonzero(available)
        if n_active < self.n_random + self.n_full:
            return slots
        return slots[smallest(-scores[slots], round(self.retained * self.candidates))]

    def n_fresh(self, n_active: int, n_kept: int) -> int:
        """Rows outside of J and the active set that are drawn to fill J up."""
        return 0 if n_active < self.n_random + self.n_full else max(0, self.candidates - n_kept)


@dataclass(frozen=True)
class IVM2006:
    """The greedy selection of [IVM2006] with a set J that shrinks: made by ``IVM.paper2006()``.

    Parameters
    ----------
    score : {"information_gain", "entropy_reduction"}
        What the best candidate is best at.
    entries : int
        B: J shrinks so that |J| times the size of the active set never exceeds it.
    block : int
        k: inclusions between two changes of J.
    retained : float
        ρ: share of a smaller J that is chosen by score; the rest is drawn from the old J at random.
    rounds : int
        Major steps of learning, each with a new selection from all rows.
    minor_steps : int
        Steps of the optimiser between two of them.
    least_precision : float
        ε: sites of less precision are never set.
    """

    score: str = "information_gain"
    entries: int = 36_000_000
    block: int = 100
    retained: float = 0.5
    rounds: int = 15
    minor_steps: int = 8
    least_precision: float = 1e-10

    n_random = 0
    needs_all_rows = False

    def __post_init__(self) -> None:
        _ = self.greedy
        _check_share("retained", self.retained)
        for name in ("entries", "block", "rounds", "minor_steps"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1, not {getattr(self, name)!r}")

    @cached_property
    def greedy(self) -> IVM:
        """Scores and sites of single inclusions, all candidates kept current."""
        return IVM(score=self.score, hot=None, delay=2**31, least_precision=self.least_precision)

    def stays_until(self, n_active: int) -> int:
        """Size of the active set up to which J stays as it is at ``n_active``."""
        return n_active + self.block

    def kept(
        self, n_active: int, scores: FloatArray, available: BoolArray, generator: np.random.Generator
    ) -> IntArray:
        """Slots of J that stay: all, as far as the budget goes; else a share by score, the rest at random."""
        slots = np.flatnonzero(available)
        most = max(1, self.entries // self.stays_until(n_active))
        if len(slots) <= most:
            return slots
        # Before the first inclusion no row is better than another.
        best = smallest(-scores[slots], round(self.retained * most) if n_active else 0)
        rest = np.setdiff1d(np.arange(len(slots)), best)
        drawn = generator.choice(rest, most - len(best), replace=False)
        chosen: IntArray = slots[np.sort(np.concatenate([best, drawn]))]
        return chosen

    def n_fresh(self, n_active: int, n_kept: int) -> int:
        """None: J only shrinks."""
        return 0


PrintedIVM = IVM2003 | IVM2006


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ParameterError(f"{name} is a share between 0 and 1, not {value!r}")
