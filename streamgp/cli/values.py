"""Estimator parameters as options: each parameter is one, whatever its values are.

The options are read off the estimator's constructor, so that a new parameter, or a new value of one, needs
nothing here.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
from typing import Any

from streamgp import kernels, likelihoods, settings
from streamgp.errors import ParameterError
from streamgp.estimators.parameters import StreamGPParameters

ELSEWHERE = ("client", "checkpoint", "progress", "random_state", "verbose", "warm_start")
"""Parameters that a command line cannot give, or has options of its own for."""


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """An option for each parameter of the estimators."""
    group = parser.add_argument_group(
        "the model",
        "parameters of the estimators; a value may be a word, a number, or settings such as "
        '"FPASS(p_exc=0.1)" or "RBF() + Linear()"',
    )
    described = _descriptions()
    for name, parameter in inspect.signature(StreamGPParameters).parameters.items():
        if name not in ELSEWHERE:
            group.add_argument(
                f"--{name.replace('_', '-')}",
                dest=f"parameter_{name}",
                type=_typed,
                default=argparse.SUPPRESS,
                metavar="VALUE",
                help=f"{described.get(name, '')} (default: {parameter.default})".strip().replace("%", "%%"),
            )
    group.add_argument("--random-state", type=int, default=0, help="seed of all random draws (default: 0)")


def given_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were given, by name; the others have the estimator's defaults."""
    marked = {name: value for name, value in vars(options).items() if name.startswith("parameter_")}
    parameters = {name.removeprefix("parameter_"): value for name, value in marked.items()}
    return {**parameters, "random_state": options.random_state}


def value(text: str) -> Any:
    """What a word on the command line means.

    >>> value("500"), value("1GiB"), value("none"), value("ivm")
    (500, '1GiB', None, 'ivm')
    >>> value("RBF(lengthscale=2.0) + Linear()")
    RBF(variance=1.0, lengthscale=2.0) + Linear(variance=1.0)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return text
    return _built(tree, text)


def _typed(text: str) -> Any:
    try:
        return value(text)
    except (ParameterError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _built(tree: ast.expr, text: str) -> Any:
    families = _families()
    if isinstance(tree, ast.Name):
        known = {"true": True, "false": False, "none": None}
        return families[tree.id]() if tree.id in families else known.get(tree.id.lower(), text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in families:
        named = {keyword.arg: _built(keyword.value, text) for keyword in tree.keywords if keyword.arg}
        return families[tree.func.id](*(_built(part, text) for part in tree.args), **named)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        left, right = _built(tree.left, text), _built(tree.right, text)
        return left + right if isinstance(tree.op, ast.Add) else left * right
    if isinstance(tree, ast.List | ast.Tuple):
        parts = [_built(part, text) for part in tree.elts]
        if any(part is text for part in parts):  # a word that means nothing here
            return text
        return parts if isinstance(tree, ast.List) else tuple(parts)
    if isinstance(tree, ast.Call):
        raise ParameterError(f"{text!r} is not known; known are {', '.join(sorted(families))}")
    try:
        return ast.literal_eval(tree)
    except ValueError:
        return text


def _families() -> dict[str, Any]:
    """Kernels, likelihoods and settings by the names of their classes."""
    return {
        name: kind
        for module in (kernels, likelihoods, settings)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not settings.FitSettings
    }


def _descriptions() -> dict[str, str]:
    """The first sentence about each parameter in their docstring."""
    text = inspect.cleandoc(StreamGPParameters.__doc__ or "")
    parameters = text.partition("Parameters\n----------\n")[2]
    entries = re.split(r"\n(?=\w+ : )", "\n" + parameters)
    found = {}
    for entry in filter(None, map(str.strip, entries)):
        head, _, body = entry.partition("\n")
        words = " ".join(re.sub(r":\w+:`~?([^`]*)`", r"\1", body).replace("``", "").split())
        found[head.split(" : ")[0]] = words.split(". ")[0].rstrip(".")
    return found
