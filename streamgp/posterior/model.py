"""A fitted model as one frozen record, and that record as plain arrays and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamgp.arrays import Array, IntArray
from streamgp.data import ClassTargets, RealTargets, Standardizer, Targets
from streamgp.kernels import kernel_from_json
from streamgp.likelihoods import likelihood_from_json
from streamgp.posterior.believed import believed, check_model_record
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
    feature_names: tuple[str, ...] | None = None
    column_recipe: Mapping[str, Any] | None = None
    """How features are made from raw columns, where the store was made by ``streamgp.ingest``."""

    def to_record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON and arrays for the disk; prediction does not need the training data, so they are not in it."""
        heads = self.snapshot.heads
        header: dict[str, Any] = {
            "kernel": self.snapshot.kernel.to_json(),
            "likelihoods": [likelihood.to_json() for likelihood in self.predictive.likelihoods],
            "columns": [[head.columns.start, head.columns.stop] for head in heads],
            "calibrations": [list(head.calibration) for head in heads],
            "residuals": [head.residual for head in heads],
        }
        if self.feature_names is not None:
            header["feature_names"] = list(self.feature_names)
        if self.column_recipe is not None:
            header["column_recipe"] = self.column_recipe
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
        """The model that was written; refuses what cannot have been."""
        return believed("model", lambda: Model._made(header, arrays))

    @staticmethod
    def _made(header: dict[str, Any], arrays: dict[str, Array]) -> Model:
        check_model_record(header, arrays)
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
            targets, predictive = (
                ClassTargets(arrays["classes"]),
                class_predictive(likelihoods, len(arrays["classes"])),
            )
        else:
            targets = RealTargets(*header["targets"], *likelihoods[0].domain)
            predictive = RealPredictive(likelihoods[0], targets)
        kernel = kernel_from_json(header["kernel"])
        kernel.check_features(arrays["active_inputs"].shape[1])
        return Model(
            Standardizer(arrays["shift"], arrays["scale"]),
            targets,
            Snapshot(kernel, arrays["active_inputs"], heads),
            predictive,
            arrays["active_rows"],
            tuple(header["feature_names"]) if "feature_names" in header else None,
            header.get("column_recipe"),
        )
