"""Parameters that cannot act together, or with the targets, are refused with both named."""

from __future__ import annotations

from typing import Any

from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.likelihoods import JointLikelihood
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans
from streamgp.settings.fit import FitSettings
from streamgp.settings.inferences import ADF, EP, FITC

OVER_ALL_ROWS = "inference='fitc' or 'local'"
NO_UPDATES = (False, "constant", "hybrid", "exact")


def check_together(settings: FitSettings) -> None:
    """Refuse settings of which one would be ignored, with both named."""
    selection, inference, learning = settings.selection, settings.inference, settings.learning
    inducing, predictive = isinstance(selection, Kmeans | EvidenceGain), isinstance(selection, PASS | FPASS)
    over_all_rows, fitc = inference.sees_all_rows, isinstance(inference, FITC)
    multiway = settings.multiclass == "joint" and isinstance(selection, IVM) and isinstance(inference, ADF)
    name, is_literal = type(selection).__name__, getattr(selection, "literal", False)
    pairs = [
        (inducing and not over_all_rows, f"selection={name}(...)", OVER_ALL_ROWS),
        (
            predictive and isinstance(inference, ADF),
            f"selection={name}(...)",
            "inference='ep', 'fitc' or 'local'",
        ),
        (settings.scratch is not None and not over_all_rows, "scratch", OVER_ALL_ROWS),
        (learning == "passes" and not fitc, "learn_hyperparameters='passes'", "inference='fitc'"),
        (
            over_all_rows and settings.multiclass == "per_class",
            "multiclass='per_class'",
            "inference='adf' or 'ep': with 'fitc' and 'local' all classes share their inducing inputs",
        ),
        (
            settings.multiclass == "joint" and not fitc and not multiway,
            "multiclass='joint'",
            "inference='fitc', or selection='ivm' with inference='adf'",
        ),
        (
            multiway and inference.calibrate,
            "ADF(calibrate=True)",
            "multiclass='per_class' or 'shared', not 'joint'",
        ),
        (
            multiway and getattr(selection, "virtual", None) is not None,
            "virtual=...",
            "another multiclass than 'joint'",
        ),
        (
            settings.multiclass == "joint" and not multiway and isinstance(selection, IVM | PASS | FPASS),
            "multiclass='joint'",
            f"selection='kmeans', 'random' or 'gain': {name} chooses rows for one class at a time",
        ),
        (
            isinstance(settings.likelihood, JointLikelihood) and settings.multiclass != "joint",
            f"likelihood={type(settings.likelihood).__name__}(...)",
            "multiclass='joint'",
        ),
        (
            settings.kernel is not None
            and settings.kernel.has_white_noise
            and getattr(inference, "residual", 1.0) == 0.0,
            f"kernel={settings.kernel!r}, whose white noise is residual variance,",
            "a residual above 0",
        ),
        (
            isinstance(inference, FITC)
            and inference.learn_inducing is True
            and learning not in (True, "evidence", "passes"),
            "learn_inducing=True",
            "the evidence: learn_hyperparameters=True, 'evidence' or 'passes'",
        ),
        (
            isinstance(selection, IVM2003 | IVM2006) and not isinstance(inference, ADF),
            f"selection={name}(...)",
            "inference='adf'",
        ),
        (
            isinstance(selection, IVM2003) and not isinstance(learning, bool),
            f"selection={name}(...)",
            "learn_hyperparameters=True or False: kernels are chosen by errors of rows held out",
        ),
        (
            isinstance(selection, IVM2006) and learning == "evidence",
            "learn_hyperparameters='evidence'",
            f"another selection than {name}(...), which learns by the criterion",
        ),
        (is_literal and not isinstance(inference, EP), f"{name}.paper()", "inference='ep'"),
        (
            is_literal and not isinstance(learning, bool),
            f"{name}.paper()",
            "learn_hyperparameters=True or False",
        ),
        (
            predictive and getattr(selection, "update_every", None) is not None and learning in NO_UPDATES,
            f"{name}(update_every=...)",
            f"learn_hyperparameters=True, 'evidence' or 'passes', not {learning!r}",
        ),
    ]
    for cannot_act, one, other in pairs:
        if cannot_act:
            raise ParameterError(f"{one} goes only with {other}")


def refuse_for_real_targets(settings: FitSettings) -> None:
    """Refuse what only classes have, once the targets are known to be real numbers."""
    for name, value, default in (
        ("multiclass", settings.multiclass, "auto"),
        ("class_weight", settings.class_weight, None),
    ):
        if value != default:
            raise ParameterError(
                f"{name}={value!r} is for classes, but the targets are real numbers: leave it out, or give "
                f"task='classification'"
            )


def task_of(task: Task, likelihood: Any) -> Task:
    """The task, which a likelihood decides where it is left open; a contradiction is refused."""
    if likelihood is None:
        return task
    classes = isinstance(likelihood, JointLikelihood) or likelihood.is_classification
    if task == "auto":
        return "classification" if classes else "regression"
    if classes != (task == "classification"):
        kind = "classes" if classes else "numbers"
        raise ParameterError(
            f"likelihood={likelihood!r} is for {kind}, but the task is {task}: leave the likelihood out, or "
            f"use the other estimator"
        )
    return task
