"""Lists all benchmarks: ``python -m benchmarks``."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parent


def scripts() -> dict[str, str]:
    """Module name of every benchmark, and what the first line of its docstring says."""
    sources = {path: path.read_text() for path in sorted(FOLDER.glob("*/*.py"))}
    found = {
        f"benchmarks.{path.parent.name}.{path.stem}".removesuffix(".__main__"): ast.get_docstring(
            ast.parse(source)
        )
        for path, source in sources.items()
        if "SCRIPT = Script(" in source
    }
    return {name: (about or "").split("\n")[0] for name, about in sorted(found.items())}


def listing() -> str:
    """One line for each benchmark."""
    found = scripts()
    width = max(map(len, found))
    return "\n".join(f"{name:<{width}}  {about}" for name, about in found.items())


if __name__ == "__main__":
    print(listing())
