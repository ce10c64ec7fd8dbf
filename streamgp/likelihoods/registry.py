"""Names under which custom likelihoods are saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamgp.errors import ParameterError

_REGISTERED: dict[str, Callable[..., Any] | object] = {}


def register_likelihood(name: str, source: Callable[..., Any] | object) -> None:
    """Make a custom likelihood known by name, so that models which use it can be saved and loaded.

    ``source``: a ``Custom`` likelihood, whose parameters are replaced by the saved ones; or a log density
    ``(targets, latent, **parameters)``; or a factory that returns a likelihood, called with the saved
    parameters by keyword. A process that loads the model registers the name first; a second call replaces.
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The name of a likelihood is {name!r}; it must be a string that is not empty.")
    if not callable(source) and not hasattr(source, "log_density"):
        raise ParameterError(
            f"Likelihood {name!r} is registered with {source!r}; give a Custom or a function."
        )
    _REGISTERED[name] = source


def registered(name: str) -> Callable[..., Any] | object:
    """What stands under a name; an unknown name raises and says how to register it."""
    if name not in _REGISTERED:
        raise ParameterError(
            f"Likelihood {name!r} is not registered, so it cannot be saved or loaded; call "
            f"streamgp.likelihoods.register_likelihood({name!r}, <Custom likelihood or log density>) first."
        )
    return _REGISTERED[name]
