"""The baseline that other selections are measured against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Random:
    """Active rows drawn at random. There is nothing to set."""
