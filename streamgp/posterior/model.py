"""A fitted model as one frozen record, and that record as plain arrays and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streamgp.arrays import IntArray
from streamgp.data import ClassTargets, RealTargets, Standardizer, Targets
from streamgp.data.standardize import Bend
from streamgp.data.targets import NoLabel
from streamgp.likelihoods import likelihood_from_json
from streamgp.posterior.believed import believed, check_model_record
from streamgp.posterior.calibration import Calibration
from streamgp.posterior.predictive import ClassPredictive, RealPredictive, class_predictive
from streamgp.posterior.snapshot import Snapshot

ReadSnapshot = Callable[[dict[str, Any], dict[str, Any], Standardizer], Any]
"""(header, arrays, how rows are standardised) → the posterior that was written."""


@dataclass(frozen=True, eq=False)
class Model:
    """All that prediction needs: how to read rows, the posterior, what it says about targets."""

    standardizer: Standardizer
    targets: Targets
    snapshot: Any  # a Snapshot, or another posterior of the same interface
    predictive: ClassPredictive | RealPredictive
    active_rows: IntArray
    feature_names: tuple[str, ...] | None = None
    column_recipe: Mapping[str, Any] | None = None
    """How features are made from raw columns, where the store was made by ``streamgp.ingest``."""

    def to_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON and arrays for the disk; of the training data only what the posterior itself holds."""
        header, arrays = self.snapshot.to_record()
        header["likelihoods"] = [likelihood.to_json() for likelihood in self.predictive.likelihoods]
        header["combination"] = [list(each) for each in getattr(self.predictive, "combination", ())]
        if self.feature_names is not None:
            header["feature_names"] = list(self.feature_names)
        if self.column_recipe is not None:
            header["column_recipe"] = self.column_recipe
        arrays |= {
            "shift": self.standardizer.shift,
            "scale": self.standardizer.scale,
            "active_rows": self.active_rows,
        }
        if self.standardizer.bend is not None:
            header["bend"] = self.standardizer.bend.record()
        if isinstance(self.targets, ClassTargets):
            arrays["classes"] = self.targets.classes
        else:
            header["targets"] = [self.targets.shift, self.targets.scale]
        return header, arrays

    @staticmethod
    def from_record(
        header: dict[str, Any],
        arrays: dict[str, Any],
        read_snapshot: ReadSnapshot = Snapshot.from_record,
    ) -> Model:
        """The model that was written; ``read_snapshot`` knows the kind of posterior that it has.

        What cannot have been written is refused.
        """
        return believed("model", lambda: Model._made(header, arrays, read_snapshot))

    @staticmethod
    def _made(header: dict[str, Any], arrays: dict[str, Any], read_snapshot: ReadSnapshot) -> Model:
        check_model_record(header, arrays)
        bend = Bend.of(header["bend"]) if "bend" in header else None
        standardizer = Standardizer(arrays["shift"], arrays["scale"], bend)
        likelihoods = tuple(likelihood_from_json(document) for document in header["likelihoods"])
        targets: Targets
        predictive: ClassPredictive | RealPredictive
        if "classes" in arrays:
            # Models of the first version have no combination.
            combination = tuple(Calibration(*each) for each in header.get("combination", ()))
            free = getattr(likelihoods[0], "takes_unlabelled", False)
            targets = ClassTargets(arrays["classes"], NoLabel(likelihoods[0].missing) if free else None)
            predictive = class_predictive(likelihoods, len(targets.classes), combination)
        else:
            targets = RealTargets(*header["targets"], *likelihoods[0].domain)
            predictive = RealPredictive(likelihoods[0], targets)
        snapshot = read_snapshot(header, arrays, standardizer)
        snapshot.kernel.check_features(len(standardizer.shift))
        return Model(
            standardizer,
            targets,
            snapshot,
            predictive,
            arrays["active_rows"],
            tuple(header["feature_names"]) if "feature_names" in header else None,
            header.get("column_recipe"),
        )
