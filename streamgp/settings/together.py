"""Parameters that cannot act together, or with the targets, are refused with both named."""

from __future__ import annotations

from typing import Any

from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.kernels import ClassKernels
from streamgp.likelihoods import JointLikelihood
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans
from streamgp.settings.fit import FitSettings
from streamgp.settings.inferences import ADF, EP, FITC

OVER_ALL_ROWS = "inference='fitc' or 'local'"
NO_UPDATES = (False, "constant", "hybrid", "exact")


def check_together(settings: FitSettings) -> None:
    """Refuse settings of which one would be ignored, with both named."""
    for rules in (_methods, _classes, _approximation, _printed):
        for cannot_act, one, other in rules(settings):
            if cannot_act:
                raise ParameterError(f"{one} goes only with {other}")


Rules = list[tuple[bool, str, str]]
"""(whether two settings cannot act together, the one, what it goes with)."""


def _methods(settings: FitSettings) -> Rules:
    """Selections, inferences, and what belongs to some of them only."""
    selection, inference, name = settings.selection, settings.inference, type(settings.selection).__name__
    over_all_rows = inference.sees_all_rows
    return [
        (
            isinstance(selection, Kmeans | EvidenceGain) and not over_all_rows,
            f"selection={name}(...)",
            OVER_ALL_ROWS,
        ),
        (
            isinstance(selection, PASS | FPASS) and isinstance(inference, ADF),
            f"selection={name}(...)",
            "inference='ep', 'fitc' or 'local'",
        ),
        (settings.scratch is not None and not over_all_rows, "scratch", OVER_ALL_ROWS),
        (
            settings.learning == "passes" and not isinstance(inference, FITC),
            "learn_hyperparameters='passes'",
            "inference='fitc'",
        ),
    ]


def _classes(settings: FitSettings) -> Rules:
    """Ways to learn several classes."""
    selection, inference, is_joint = settings.selection, settings.inference, settings.multiclass == "joint"
    multiway = is_joint and isinstance(selection, IVM) and isinstance(inference, ADF)
    return [
        (
            inference.sees_all_rows and settings.multiclass == "per_class",
            "multiclass='per_class'",
            "inference='adf' or 'ep': with 'fitc' and 'local' all classes share their inducing inputs",
        ),
        (
            is_joint and not isinstance(inference, FITC) and not multiway,
            "multiclass='joint'",
            "inference='fitc', or selection='ivm' with inference='adf'",
        ),
        (
            isinstance(settings.kernel, ClassKernels) and not multiway,
            "a list of kernels, one for each class,",
            "the multi-way IVM: selection='ivm' and multiclass='joint'",
        ),
        (
            isinstance(settings.kernel, ClassKernels) and settings.learning == "evidence",
            "a list of kernels, one for each class,",
            "learn_hyperparameters=True, False, 'constant', 'hybrid' or 'exact'",
        ),
        (
            multiway and inference.calibrate,
            "ADF(calibrate=True)",
            "multiclass='per_class' or 'shared', not 'joint'",
        ),
        (
            is_joint and not multiway and isinstance(selection, IVM | PASS | FPASS),
            "multiclass='joint'",
            "selection='kmeans', 'random' or 'gain': "
            f"{type(selection).__name__} chooses rows for one class at a time",
        ),
        (
            isinstance(settings.likelihood, JointLikelihood) and not is_joint,
            f"likelihood={type(settings.likelihood).__name__}(...)",
            "multiclass='joint'",
        ),
    ]


def _approximation(settings: FitSettings) -> Rules:
    """Fields of an inference over all rows."""
    inference = settings.inference
    return [
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
            and settings.learning not in (True, "evidence", "passes"),
            "learn_inducing=True",
            "the evidence: learn_hyperparameters=True, 'evidence' or 'passes'",
        ),
        (
            isinstance(inference, FITC)
            and not inference.hyperpriors
            and settings.learning not in (True, "evidence", "passes"),
            "hyperpriors=False",
            "the evidence: learn_hyperparameters=True, 'evidence' or 'passes'",
        ),
    ]


def _printed(settings: FitSettings) -> Rules:
    """Algorithms as papers print them, and how they learn."""
    selection, inference, learning = settings.selection, settings.inference, settings.learning
    name, is_literal = type(selection).__name__, getattr(selection, "literal", False)
    return [
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
        (
            getattr(settings.likelihood, "takes_unlabelled", False)
            and (
                not (isinstance(selection, IVM) and isinstance(inference, ADF))
                or settings.multiclass == "joint"
            ),
            f"likelihood={settings.likelihood!r}",
            "selection='ivm' and inference='adf', and multiclass='per_class' or 'shared'",
        ),
        (
            getattr(settings.likelihood, "takes_unlabelled", False) and learning in ("evidence", "passes"),
            f"learn_hyperparameters={learning!r}",
            f"another likelihood than {type(settings.likelihood).__name__}",
        ),
        (
            getattr(inference, "virtual_rows", False) and getattr(selection, "virtual", None) is None,
            "FITC(virtual_rows=True)",
            "a selection that has virtual=..., such as IVM(virtual=translate(...))",
        ),
        (is_literal and not isinstance(inference, EP), f"{name}.paper()", "inference='ep'"),
        (
            is_literal and not isinstance(learning, bool),
            f"{name}.paper()",
            "learn_hyperparameters=True or False",
        ),
        (
            isinstance(selection, PASS | FPASS)
            and selection.update_every is not None
            and learning in NO_UPDATES,
            f"{name}(update_every=...)",
            f"learn_hyperparameters=True, 'evidence' or 'passes', not {learning!r}",
        ),
    ]


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
