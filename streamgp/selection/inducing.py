"""Settings of selections that are made for inference over all rows: which inputs see the others best."""

from __future__ import annotations

from dataclasses import dataclass

from streamgp.errors import ParameterError


@dataclass(frozen=True)
class Kmeans:
    """Centres of clusters as inducing inputs, each class with its own, in the metric of the kernel.

    Parameters
    ----------
    steps : int
        Most rounds of Lloyd's algorithm on a sample.
    passes : int
        Rounds over all rows after that, one pass each: unlike mini-batches, the same for any chunking and on
        any number of workers.
    least_share : float
        Share of an equal part that rare classes get at least, of the rows and so of the centres.
    """

    steps: int = 10
    passes: int = 1
    least_share: float = 0.5

    def __post_init__(self) -> None:
        if min(self.steps, self.passes) < 0 or not 0.0 <= self.least_share <= 1.0:
            raise ParameterError(
                f"steps and passes must be at least 0 and least_share between 0 and 1, not {self.steps!r}, "
                f"{self.passes!r} and {self.least_share!r}"
            )


@dataclass(frozen=True)
class EvidenceGain:
    """Rows of the sample whose addition as an inducing input would raise the evidence most, greedily.

    Parameters
    ----------
    rows : int
        Rows whose evidence counts.
    candidates_per_input : float
        Candidates for each inducing input that is wanted.
    """

    rows: int = 1500
    candidates_per_input: float = 2.0

    def __post_init__(self) -> None:
        if self.rows < 1 or self.candidates_per_input < 1.0:
            raise ParameterError(
                f"rows and candidates_per_input must be at least 1, not {self.rows!r} and "
                f"{self.candidates_per_input!r}"
            )
