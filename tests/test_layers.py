"""Imports point downward only, and each outside library stays in its rooms."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "streamgp"

LAYERS = [  # top to bottom; rooms of one line never import each other
    {"__main__"},
    {"cli"},
    {"__init__"},
    {"estimators"},
    {"report"},
    {"training"},
    {"settings"},
    {"selection", "inference"},
    {"tables"},
    {"passes"},
    {"posterior", "persistence"},
    {"data", "kernels", "likelihoods"},
    {"numerics"},
    {"budget"},
    {"errors", "arrays"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
ALLOWED = {  # outside library: rooms that may use it
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "numba": {"numerics"},
    "zarr": {"data", "passes", "persistence", "tables"},
    "dask": {"data", "passes", "estimators"},
    "distributed": {"passes"},
    "sklearn": {"estimators", "report"},
    "pyarrow": {"passes", "tables"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))
TRAINING = [  # walls inside of training, top to bottom; rooms of one line never import each other
    {"preview", "forecast"},
    {"fit"},
    {"recipe"},
    {"choices", "fit_memory"},
    {"learn", "select", "group", "infer", "calibrate"},
]
MODES_LIVE_IN = ("training/recipe.py", "training/choices/", "training/auto.py")
MODE = re.compile(  # what tells methods apart: settings, choices, and the values that only some methods have
    r"isinstance\([^)]*\b(selection|inference|snapshot)\b|isinstance\([^)]*\bLocal|PREDICTIVE|BY_CRITERION"
    r"|settings\.(inference|learning|selection|multiclass|shared)\b|choices\.(inference|learning|selection)\b"
    r"|sees_all_rows"
)
BRANCH = re.compile(r"\b(if|elif|while|assert|and|or|not|in|is)\b|==|!=|\bisinstance\(")
PROSE = re.compile(r'\s*("""|#|from |import |def |class )')
MOST_BRANCHES = 15


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


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "training").rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_stages_do_not_know_each_other(path):
    level = {room: number for number, rooms in enumerate(TRAINING) for room in rooms}
    room = path.relative_to(PACKAGE / "training").parts[0].removesuffix(".py")
    for name in imports(path):
        if name.startswith("streamgp.training."):
            target = name.split(".")[2]
            below = level.get(target, len(TRAINING)) > level.get(room, len(TRAINING))
            shared = target not in level and room not in level
            assert target == room or below or shared, f"training/{room} must not import {name}"


def test_every_room_has_a_place():
    assert {room_of(path) for path in MODULES} <= set(LEVEL)


def branches_on_modes() -> list[str]:
    """Lines of training and estimators that branch on a mode, outside of the files that may."""
    found = []
    for path in sorted([*(PACKAGE / "training").rglob("*.py"), *(PACKAGE / "estimators").rglob("*.py")]):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(MODES_LIVE_IN):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if MODE.search(line) and BRANCH.search(line) and not PROSE.match(line):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


def test_few_lines_outside_of_the_recipe_branch_on_a_mode():
    found = branches_on_modes()
    assert len(found) <= MOST_BRANCHES, "\n".join(found)


if __name__ == "__main__":  # python -m tests.test_layers: where they are
    sys.stdout.write("\n".join([*branches_on_modes(), ""]))
