"""The door: an estimator's parameters become the settings of a fit, or are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from streamgp.budget import parse_size
from streamgp.kernels import NAMED_KERNELS, ClassKernels, Kernel
from streamgp.likelihoods import NAMED_LIKELIHOODS, JointLikelihood, Likelihood
from streamgp.passes.run import check_client
from streamgp.posterior.precision import check_precision
from streamgp.selection import Kmeans
from streamgp.settings.checks import count, folder, is_auto, named, one_of, progress, seconds
from streamgp.settings.fit import FitSettings
from streamgp.settings.inferences import FITC
from streamgp.settings.methods import method
from streamgp.settings.together import check_together

DEFAULT_ACTIVE = 500
"""Active rows where ``n_active`` is left open and no rule of ``streamgp.training.auto`` asks for others."""
LEARNING = (True, False, "constant", "hybrid", "exact", "evidence", "passes")
MULTICLASS = ("auto", "joint", "per_class", "shared")


def fit_settings(parameters: dict[str, Any], seed: int, sample_weight: Any = None) -> FitSettings:
    """The settings of a fit from an estimator's parameters: each is checked alone, then with the others."""
    known = {field.name for field in dataclasses.fields(FitSettings)}
    checked = {name: value for name, value in parameters.items() if name in known}
    size_is_open = is_auto(parameters["n_active"])
    given = method(parameters)
    selection, inference = given or (Kmeans(), FITC())
    settings = FitSettings(
        **checked
        | {
            "n_active": DEFAULT_ACTIVE if size_is_open else count("n_active", parameters["n_active"]),
            "selection": selection,
            "inference": inference,
            "method_is_open": given is None,
            "size_is_open": size_is_open,
            "multiclass": one_of("multiclass", parameters.get("multiclass", "auto"), MULTICLASS),
            "kernel": _kernel(parameters["kernel"]),
            "likelihood": named(
                "likelihood",
                parameters["likelihood"],
                Likelihood | JointLikelihood,
                NAMED_LIKELIHOODS,
                ("Ordinal", "Custom"),
            ),
            "client": None if parameters["client"] is None else check_client(parameters["client"]),
            "learning": one_of("learn_hyperparameters", parameters["learn_hyperparameters"], LEARNING),
            "class_weight": parameters.get("class_weight"),
            "memory_budget": parse_size(parameters["memory_budget"]),
            "max_seconds": seconds(parameters["max_seconds"]),
            "sample_weight": None if sample_weight is None else np.asarray(sample_weight, np.float64),
            "checkpoint": folder("checkpoint", parameters["checkpoint"]),
            "scratch": folder("scratch", parameters["scratch"]),
            "progress": progress(parameters["progress"]),
            "seed": seed,
        }
    )
    check_precision(settings.precision)
    check_together(settings)
    return settings


def _kernel(given: Any) -> Kernel | ClassKernels | None:
    """The kernel as given, that of a name, or one for each class of a list."""
    if isinstance(given, list | tuple):
        return ClassKernels(tuple(_one_kernel(each) for each in given))
    if isinstance(given, ClassKernels):
        return given
    kernel: Kernel | None = _one_kernel(given)
    return kernel


def _one_kernel(given: Any) -> Any:
    return named("kernel", given, Kernel, NAMED_KERNELS, ("Polynomial",))
