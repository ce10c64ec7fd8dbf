"""Imports point downward only, and each outside library stays in its rooms."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "streamgp"

LAYERS = [  # top to bottom; rooms of one line never import each other
    {"__main__"},
    {"cli"},
    {"__init__"},
    {"estimators"},
    {"training"},
    {"selection", "inference"},
    {"passes"},
    {"posterior", "persistence"},
    {"data", "kernels", "likelihoods"},
    {"numerics"},
    {"budget"},
    {"errors", "arrays"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
ALLOWED = {  # outside library: rooms that may use it
    "numba": {"numerics"},
    "zarr": {"data", "passes", "persistence"},
    "dask": {"data", "passes", "estimators"},
    "distributed": {"passes"},
    "sklearn": {"estimators"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_only_what_its_room_may(path):
    room = room_of(path)
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "streamgp":
            target = rest.split(".")[0] or "__init__"
            below = LEVEL[target] > LEVEL[room]
            assert target == room or below, f"{room} must not import {name}"
        elif top in ALLOWED:
            assert room in ALLOWED[top], f"{top} does not belong into {room}"


def test_every_room_has_a_place():
    assert {room_of(path) for path in MODULES} <= set(LEVEL)
