"""Rows on disk or in memory: opening, cutting into spans of whole chunks, standardising, encoding targets."""

from streamgp.data.rows import Rows, Span, open_rows
from streamgp.data.standardize import Standardizer
from streamgp.data.targets import ClassTargets, RealTargets, Targets

__all__ = ["ClassTargets", "RealTargets", "Rows", "Span", "Standardizer", "Targets", "open_rows"]
