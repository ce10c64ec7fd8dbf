"""Classes that are learned jointly: their likelihood, and what has no effect on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.likelihoods import JointLikelihood, Logit, Softmax
from streamgp.settings import FitSettings
from streamgp.training.choices.values import Traits


def joint_likelihoods(settings: FitSettings, traits: Traits) -> tuple[Any, ...]:
    """One likelihood of all classes, where they are to be learned jointly; of two there is one function."""
    given, shares = settings.likelihood, np.asarray(traits.class_shares)
    if traits.n_heads == 1 and isinstance(given, JointLikelihood):
        raise ParameterError(f"likelihood={given!r} is for three classes or more; here are two")
    if settings.multiclass != "joint":
        return ()
    if traits.n_heads > 1 and given is not None and not isinstance(given, JointLikelihood):
        raise ParameterError(f"likelihood={given!r} is for two classes; here are {traits.n_heads}")
    if traits.n_heads == 1 and not settings.inference.sees_all_rows:
        raise ParameterError(
            "multiclass='joint' with selection='ivm' is for three classes or more; here are two: leave it out"
        )
    _refuse_without_effect(settings, traits)
    if given is not None:
        return (given,)
    if traits.n_heads == 1:
        return (Logit(bias=float(np.log(shares[1] / shares[0]))),)
    return (Softmax().of_shares(shares),)


def _refuse_without_effect(settings: FitSettings, traits: Traits) -> None:
    """Refuse what was asked for and would not act: a mode has no variances and no sites."""
    over_all_rows = settings.inference.sees_all_rows
    spreads = over_all_rows and settings.joint_spread and traits.n_heads > 1
    ignored = {
        "inference": over_all_rows and not (spreads or _leaves_open(settings.inference)),
        "learn_hyperparameters": over_all_rows
        and settings.learning not in (True, False, *(["evidence"] if spreads else [])),
        "scratch": settings.scratch is not None and not spreads,
    }
    for name in (name for name, is_given in ignored.items() if is_given):
        value = settings.learning if name == "learn_hyperparameters" else getattr(settings, name)
        raise ParameterError(f"{name}={value!r} has no effect with multiclass='joint': leave it out")
    if over_all_rows and settings.kernel is not None and settings.kernel.has_white_noise and not spreads:
        raise ParameterError(
            f"the white noise of kernel={settings.kernel!r} has no effect with multiclass='joint', a "
            f"mode without variances: leave it out, or give multiclass='shared'"
        )


def _leaves_open(inference: Any) -> bool:
    """Whether nothing is asked of inference that a mode does not have: it has a tolerance and a limit."""
    return (inference.residual, inference.power, inference.learn_inducing) == ("auto",) * 3
