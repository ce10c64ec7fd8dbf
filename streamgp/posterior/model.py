"""A fitted model as one frozen record, and that record as plain arrays and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamgp.arrays import Array, IntArray
from streamgp.data import ClassTargets, RealTargets, Standardizer, Targets
from streamgp.kernels import kernel_from_json
from streamgp.likelihoods import likelihood_from_json
from streamgp.posterior.calibration import Calibration
from streamgp.posterior.predictive import ClassPredictive, RealPredictive, class_predictive
from streamgp.posterior.snapshot import Head, Snapshot


@dataclass(frozen=True, eq=False)
class Model:
    """All that prediction needs: how to read rows, the posterior, what it says about targets."""

    standardizer: Standardizer
    targets: Targets
    snapshot: Snapshot
    predictive: ClassPredictive | RealPredictive
    active_rows: IntArray

    def to_record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON and arrays for the disk; prediction does not need the training data, so they are not in it."""
        heads = self.snapshot.heads
        header: dict[str, Any] = {
            "kernel": self.snapshot.kernel.to_json(),
            "likelihoods": [likelihood.to_json() for likelihood in self.predictive.likelihoods],
            "columns": [[head.columns.start, head.columns.stop] for head in heads],
            "calibrations": [list(head.calibration) for head in heads],
            "residuals": [head.residual for head in heads],
            "combination": [list(each) for each in getattr(self.predictive, "combination", ())],
        }
        arrays: dict[str, Array] = {
            "shift": self.standardizer.shift,
            "scale": self.standardizer.scale,
            "active_inputs": self.snapshot.active_inputs,
            "active_rows": self.active_rows,
        }
        if isinstance(self.targets, ClassTargets):
            arrays["classes"] = self.targets.classes
        else:
            header["targets"] = [self.targets.shift, self.targets.scale]
        for number, head in enumerate(heads):
            if head.projection is not None:
                arrays[f"heads/{number}/projection"] = head.projection
            arrays[f"heads/{number}/projected_targets"] = head.projected_targets
            if head.whitening is not None:
                arrays[f"heads/{number}/whitening"] = head.whitening
        return header, arrays

    @staticmethod
    def from_record(header: dict[str, Any], arrays: dict[str, Array]) -> Model:
        """The model that was written."""
        residuals = header.get("residuals", [1.0] * len(header["columns"]))  # absent from the first models
        heads = tuple(
            Head(
                arrays.get(f"heads/{number}/projection"),
                arrays[f"heads/{number}/projected_targets"],
                slice(*columns),
                Calibration(*calibration),
                residual,
                arrays.get(f"heads/{number}/whitening"),
            )
            for number, (columns, calibration, residual) in enumerate(
                zip(header["columns"], header["calibrations"], residuals, strict=True)
            )
        )
        likelihoods = tuple(likelihood_from_json(document) for document in header["likelihoods"])
        targets: Targets
        predictive: ClassPredictive | RealPredictive
        if "classes" in arrays:
            # Models of the first version have no combination.
            combination = tuple(Calibration(*each) for each in header.get("combination", ()))
            targets = ClassTargets(arrays["classes"])
            predictive = class_predictive(likelihoods, len(targets.classes), combination)
        else:
            targets = RealTargets(*header["targets"], *likelihoods[0].domain)
            predictive = RealPredictive(likelihoods[0], targets)
        return Model(
            Standardizer(arrays["shift"], arrays["scale"]),
            targets,
            Snapshot(kernel_from_json(header["kernel"]), arrays["active_inputs"], heads),
            predictive,
            arrays["active_rows"],
        )
