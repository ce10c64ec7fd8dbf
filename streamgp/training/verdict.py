"""What a trial found, for the fit that follows, for people, and for a fit that is resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from streamgp.data.standardize import Bend
from streamgp.kernels import kernel_from_json
from streamgp.likelihoods import Gaussian, likelihood_from_json
from streamgp.persistence import CheckpointFolder
from streamgp.settings import FitSettings
from streamgp.training.auto import CONSTANT, LINE, Candidate


class Trial(NamedTuple):
    """What a trial found: the candidate to use, and mean log losses of the judges by candidate.

    ``kernel`` and ``likelihood`` (JSON) are those that the chosen candidate learned from so many rows; where
    every class has a likelihood of its own there is None, and the fit makes them anew. ``n_active``: so many
    active rows instead of those planned; ``left_out``: candidates that ``max_seconds`` did not allow.
    ``is_decided``: the chosen one is clearly better than every other. ``bend`` (JSON): columns of long tails
    that are bent before anything is learned. ``weights``: how far each candidate is to be believed where
    the fit is an average of them, and ``average`` its log loss; None: the chosen one alone.
    ``failed``: why a candidate could not be judged, by name.
    Without losses there was no time for a trial, and ``kernel`` is empty.
    """

    chosen: str
    log_losses: dict[str, float]
    kernel: dict[str, Any]
    likelihood: dict[str, Any] | None
    rows: int
    seconds: float
    n_active: int | None = None
    left_out: Sequence[str] = ()
    is_decided: bool = True
    bend: dict[str, Any] | None = None
    weights: Mapping[str, float] | None = None
    average: float | None = None
    failed: Mapping[str, str] = MappingProxyType({})

    @property
    def members(self) -> dict[str, float]:
        """Names and weights of the candidates that the fit consists of, the one of most weight first."""
        weights = self.weights or {self.chosen: 1.0}
        return dict(sorted(weights.items(), key=lambda one: -one[1]))

    def settled(self, option: Candidate) -> FitSettings:
        """Settings of the chosen candidate, with what it has learned already where that is enough."""
        settings = option.settings
        if self.bend is not None:
            settings = replace(settings, standardize=Bend.of(self.bend))
        if self.n_active is not None:
            settings = replace(settings, n_active=self.n_active)
        if self.rows < option.enough_rows or settings.learning is not True:
            return settings
        likelihood = settings.likelihood
        if likelihood is None and self.likelihood is not None:
            likelihood = likelihood_from_json(self.likelihood)
            if isinstance(likelihood, Gaussian):  # tails are looked for anew, in the rows of the fit
                likelihood = replace(likelihood, degrees=None)
        return replace(settings, kernel=kernel_from_json(self.kernel), likelihood=likelihood, learning=False)

    def sentence(self) -> str:
        """For people: ``local blocks: held-out log loss 0.125 against 0.41 by inducing inputs``."""
        late = f"; no time for {', '.join(self.left_out)}" if self.left_out else ""
        late += "".join(f"; {name} failed ({reason})" for name, reason in self.failed.items())
        if not self.log_losses:
            is_simple = self.n_active is None or self.chosen in (CONSTANT, LINE)
            size = "" if is_simple else f" ({self.n_active} of them)"
            return f"{self.chosen}{size}, chosen by max_seconds without a trial{late}"
        others = sorted((loss, name) for name, loss in self.log_losses.items() if name != self.chosen)
        beaten = ", ".join(f"{loss:.4g} by {_with_article(name)}" for loss, name in others)
        against = f" against {beaten}" if beaten else ""
        tails = ""
        if self.bend is not None:
            tails = f"; columns of long tails are bent ({len(self.bend['columns'])})"
        if len(self.members) > 1:
            parts = ", ".join(f"{weight:.2f} {name}" for name, weight in self.members.items())
            by_loss = sorted((loss, name) for name, loss in self.log_losses.items())
            alone = ", ".join(f"{loss:.4g} by {_with_article(name)}" for loss, name in by_loss)
            return (
                f"average of {parts}: held-out log loss {self.average:.4g} against {alone} alone{tails}{late}"
            )
        loss = self.log_losses[self.chosen]
        return f"{self.chosen}: held-out log loss {loss:.4g}{against}{tails}{late}"

    def entry(self) -> dict[str, Any]:
        """For the history of a fit."""
        return {"stage": "trial", **self.record()}

    def record(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return {**self._asdict(), "left_out": list(self.left_out), "failed": dict(self.failed)}


def _with_article(name: str) -> str:
    return name if name.endswith("s") else f"a {name}"


def trial_folder(checkpoint: Any, identity: Mapping[str, Any] | None = None) -> CheckpointFolder:
    """Where a verdict is kept, beside the checkpoints of the fit."""
    return CheckpointFolder(Path(checkpoint) / "trial", identity=identity)
