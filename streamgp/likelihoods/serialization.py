"""Likelihoods from JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from streamgp.errors import ParameterError
from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.custom import Custom
from streamgp.likelihoods.gaussian import Gaussian
from streamgp.likelihoods.joint import JointLikelihood
from streamgp.likelihoods.laplace import Laplace
from streamgp.likelihoods.logit import Logit
from streamgp.likelihoods.multivariate_probit import MultivariateProbit
from streamgp.likelihoods.null_category import NullCategory
from streamgp.likelihoods.ordinal import Ordinal
from streamgp.likelihoods.poisson import Poisson
from streamgp.likelihoods.probit import Probit
from streamgp.likelihoods.registry import registered
from streamgp.likelihoods.softmax import Softmax
from streamgp.likelihoods.student import StudentT

_KINDS: dict[str, type[Likelihood | JointLikelihood]] = {
    kind.__name__: kind
    for kind in (
        Probit,
        Gaussian,
        Logit,
        MultivariateProbit,
        Softmax,
        Poisson,
        StudentT,
        Laplace,
        Ordinal,
        NullCategory,
    )
}

NAMED_LIKELIHOODS = {
    name.lower(): kind for name, kind in _KINDS.items() if kind not in (Ordinal, NullCategory)
}
"""Likelihoods that can be asked for by name; how many categories there are, or what says that a row has
no label, only the user knows."""


def _is_log_density(function: Callable[..., Any]) -> bool:
    """Whether the function wants two positional arguments (targets, latent); a factory wants none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a ufunc or a builtin
        return True
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in places and p.default is inspect.Parameter.empty]
    return len(required) >= 2


def _custom(
    name: str,
    parameters: Mapping[str, float],
    positive: list[str],
    is_classification: bool,
    scales_targets: bool = True,  # as in the first models
    bias: float | None = None,
) -> Likelihood:
    source = registered(name)
    constant = {} if bias is None else {"bias": bias}
    if isinstance(source, Custom):
        return source.with_values({**parameters, **constant})
    assert callable(source)
    if _is_log_density(source):
        return Custom(
            source,
            name,
            parameters,
            positive=tuple(positive),
            is_classification=is_classification,
            scales_targets=scales_targets,
            bias=bias,
        )
    made = source(**parameters)
    made = made.with_values(constant) if constant and isinstance(made, Custom) else made
    if not isinstance(made, Likelihood):
        raise ParameterError(
            f"The factory registered as {name!r} returned {made!r}; it must return a likelihood."
        )
    return made


def likelihood_from_json(record: Mapping[str, Any] | str) -> Any:
    """The likelihood, or joint likelihood, that ``to_json`` described; a JSON string is read first.

    Examples
    --------
    >>> likelihood_from_json(Probit(bias=0.25).to_json())
    Probit(bias=0.25)
    """
    fields = dict(json.loads(record) if isinstance(record, str) else record)
    kind = fields.pop("kind", None)
    try:
        return _custom(**fields) if kind == "Custom" else _KINDS[kind](**fields)
    except (KeyError, TypeError) as error:
        raise ParameterError(
            f"{record!r} does not describe a likelihood: kind is {kind!r}, one of "
            f"{[*_KINDS, 'Custom']} with its own parameters is needed."
        ) from error
