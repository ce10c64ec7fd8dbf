"""What a fit knows between two steps: plain arrays and JSON, so that a checkpoint is this record on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from streamgp.arrays import Array
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import Kernel, kernel_from_json
from streamgp.likelihoods import Likelihood, likelihood_from_json
from streamgp.posterior.calibration import Calibration
from streamgp.training.fitc_state import SweepState

Record = tuple[dict[str, Any], dict[str, Array]]

_COLUMNS = ("rows", "inputs", "targets", "precision", "precision_mean")


class Best(NamedTuple):
    """The best parameters that learning has met, and the density that they gave to rows left out."""

    density: float
    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]


class Kept(NamedTuple):
    """Active sets that were best so far, with what they were chosen under."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    actives: tuple[ActiveSet, ...]


@dataclass(frozen=True, eq=False)
class State:
    """The state of a fit.

    ``phase`` names the step that comes next. One likelihood, one active set and one calibration per head.
    ``stopped`` heads have enough active rows. ``evaluations`` are those of an optimisation under way.
    ``sweeps`` belong to inference over all rows, whose inducing inputs are those of the first active set.
    """

    phase: str
    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    actives: tuple[ActiveSet, ...]
    calibrations: tuple[Calibration, ...]
    stopped: tuple[bool, ...]
    step: int = 0
    round: int = 0
    best: Best | None = None
    kept: Kept | None = None
    evaluations: dict[str, Array] = field(default_factory=dict)
    sweeps: SweepState | None = None
    history: tuple[dict[str, Any], ...] = ()

    @property
    def n_active(self) -> int:
        """Size of the largest active set."""
        return max(active.count for active in self.actives)

    def told(self, **record: Any) -> State:
        """The state with one more entry in its history."""
        return replace(self, history=(*self.history, {"step": self.step, "phase": self.phase, **record}))

    def to_record(self) -> Record:
        """JSON and arrays for the disk; factors are left out, they follow from the sites."""
        header = {
            "phase": self.phase,
            **_parameters_to_json(self.kernel, self.likelihoods),
            "calibrations": [list(calibration) for calibration in self.calibrations],
            "stopped": list(self.stopped),
            "step": self.step,
            "round": self.round,
            "best": None if self.best is None else _best_to_json(self.best),
            "history": list(self.history),
        }
        arrays = _actives_to_arrays(self.actives)
        arrays |= {f"evaluations/{name}": array for name, array in self.evaluations.items()}
        if self.kept is not None:
            header["kept"] = _parameters_to_json(self.kept.kernel, self.kept.likelihoods)
            arrays |= {f"kept/{name}": array for name, array in _actives_to_arrays(self.kept.actives).items()}
        if self.sweeps is not None:
            header["sweeps"], moments = self.sweeps.to_record()
            arrays |= {f"sweeps/{name}": array for name, array in moments.items()}
        return header, arrays

    @staticmethod
    def from_record(header: dict[str, Any], arrays: dict[str, Array]) -> State:
        """The state that was written."""
        kernel, likelihoods = _parameters_from_json(header)
        return State(
            phase=header["phase"],
            kernel=kernel,
            likelihoods=likelihoods,
            actives=_actives_from_arrays(arrays),
            calibrations=tuple(Calibration(*values) for values in header["calibrations"]),
            stopped=tuple(header["stopped"]),
            step=header["step"],
            round=header["round"],
            best=None if header["best"] is None else _best_from_json(header["best"]),
            kept=_kept_from_record(header["kept"], _under("kept/", arrays)) if "kept" in header else None,
            evaluations=_under("evaluations/", arrays),
            sweeps=SweepState.from_record(header["sweeps"], _under("sweeps/", arrays))
            if "sweeps" in header
            else None,
            history=tuple(header["history"]),
        )


def _actives_to_arrays(actives: tuple[ActiveSet, ...]) -> dict[str, Array]:
    return {
        f"actives/{head}/{name}": getattr(active, name)[: active.count]
        for head, active in enumerate(actives)
        for name in _COLUMNS
    }


def _actives_from_arrays(arrays: dict[str, Array]) -> tuple[ActiveSet, ...]:
    actives: list[ActiveSet] = []
    while f"actives/{len(actives)}/rows" in arrays:
        columns = {name: arrays[f"actives/{len(actives)}/{name}"] for name in _COLUMNS}
        count, n_features = columns["inputs"].shape
        active = ActiveSet.empty(count, n_features)
        for name, column in columns.items():
            getattr(active, name)[:] = column
        actives.append(replace(active, count=count))
    return tuple(actives)


def _under(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _parameters_to_json(kernel: Kernel, likelihoods: tuple[Likelihood, ...]) -> dict[str, Any]:
    return {
        "kernel": kernel.to_json(),
        "likelihoods": [likelihood.to_json() for likelihood in likelihoods],
    }


def _parameters_from_json(document: dict[str, Any]) -> tuple[Kernel, tuple[Likelihood, ...]]:
    likelihoods = tuple(likelihood_from_json(item) for item in document["likelihoods"])
    return kernel_from_json(document["kernel"]), likelihoods


def _best_to_json(best: Best) -> dict[str, Any]:
    return {"density": best.density, **_parameters_to_json(best.kernel, best.likelihoods)}


def _best_from_json(document: dict[str, Any]) -> Best:
    return Best(document["density"], *_parameters_from_json(document))


def _kept_from_record(document: dict[str, Any], arrays: dict[str, Array]) -> Kept:
    return Kept(*_parameters_from_json(document), _actives_from_arrays(arrays))
