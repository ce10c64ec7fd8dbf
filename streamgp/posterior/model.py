"""A fitted model as one frozen record, and that record as plain arrays and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamgp.arrays import IntArray
from streamgp.data import ClassTargets, RealTargets, Standardizer, Targets
from streamgp.data.standardize import Bend
from streamgp.data.targets import NoLabel
from streamgp.likelihoods import likelihood_from_json
from streamgp.posterior.believed import believed, check_members, check_model_record
from streamgp.posterior.calibration import Calibration
from streamgp.posterior.mixture import MixedClasses, MixedReals, MixtureSnapshot
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
        header, arrays = self._members_record() if self.is_mixed else self._own_record()
        if self.feature_names is not None:
            header["feature_names"] = list(self.feature_names)
        if self.column_recipe is not None:
            header["column_recipe"] = self.column_recipe
        return header, arrays

    @property
    def is_mixed(self) -> bool:
        """Whether the model is an average of several."""
        return isinstance(self.snapshot, MixtureSnapshot)

    def _members_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights, and the record of each member below a name of its own."""
        arrays: dict[str, Any] = {}
        headers, predictive = [], self.predictive
        assert isinstance(predictive, MixedClasses | MixedReals)
        members: Sequence[ClassPredictive | RealPredictive] = predictive.members
        parts = zip(self.snapshot.members, members, strict=True)
        for number, (snapshot, part) in enumerate(parts):
            header, own = replace(self, snapshot=snapshot, predictive=part)._own_record()
            headers.append(header)
            arrays |= {f"members/{number}/{name}": array for name, array in own.items()}
        return {"members": headers, "weights": list(predictive.weights)}, arrays

    def _own_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header, arrays = self.snapshot.to_record()
        header["likelihoods"] = [likelihood.to_json() for likelihood in self.predictive.likelihoods]
        header["combination"] = [list(each) for each in getattr(self.predictive, "combination", ())]
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
        made = Model._mixed if "members" in header else Model._made
        return believed("model", lambda: made(header, arrays, read_snapshot))

    @staticmethod
    def _mixed(header: dict[str, Any], arrays: dict[str, Any], read_snapshot: ReadSnapshot) -> Model:
        check_members(header, arrays)
        members = []
        for number, own in enumerate(header["members"]):
            place = f"members/{number}/"
            below = {name[len(place) :]: arrays[name] for name in arrays if name.startswith(place)}
            members.append(Model._made(own, below, read_snapshot))
        return mixed(members, header["weights"])._named(header)

    def _named(self, header: dict[str, Any]) -> Model:
        """With names of features and the recipe of columns that a header has, or has not."""
        names = tuple(header["feature_names"]) if "feature_names" in header else None
        return replace(self, feature_names=names, column_recipe=header.get("column_recipe"))

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
        )._named(header)


def mixed(members: Sequence[Model], weights: Sequence[float]) -> Model:
    """The average of models of the same rows, weights summing to one; the first is the one of most weight."""
    first, parts = members[0], [member.predictive for member in members]
    own = first.predictive
    predictive: ClassPredictive | RealPredictive
    if isinstance(own, ClassPredictive):
        classes = tuple(part for part in parts if isinstance(part, ClassPredictive))
        predictive = MixedClasses(own.likelihoods, members=classes, weights=tuple(weights))
    else:
        reals = tuple(part for part in parts if isinstance(part, RealPredictive))
        predictive = MixedReals(own.likelihood, own.targets, reals, tuple(weights))
    snapshot = MixtureSnapshot(tuple(member.snapshot for member in members))
    return replace(first, snapshot=snapshot, predictive=predictive)
