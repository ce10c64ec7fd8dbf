"""Results for people and for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Verbs = Any
"""What ``add_subparsers`` gives."""


def add_verb(
    verbs: Verbs, common: argparse.ArgumentParser, name: str, run: Any, purpose: str, example: str
) -> argparse.ArgumentParser:
    """A verb with what all of them have: a purpose, an example, the common options."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        parents=[common],
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def tell(options: argparse.Namespace, result: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Print a result: the object as JSON where that was asked for, else lines for people."""
    if options.json:
        print(json.dumps(result))
    else:
        for line in lines:
            print(line)


def table(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Rows of cells in aligned columns: the first to the left, the others to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    return [
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
