"""Reading the records of a history: stages tell what they know under names of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DENSITIES = ("held_out_log_density", "log_density", "left_out_log_density")
"""Names of the mean log density of rows that were not learned from."""
SUMMED = ("seconds", "rows_read", "pass_seconds")
EVIDENCES = ("log_evidence", "log_evidence_all", "log_evidence_active")


def held_out_log_density(entry: Mapping[str, Any]) -> float | None:
    """Mean log density, in nats, that a step gave to rows it did not learn from; None where it has none."""
    for name in DENSITIES:
        if entry.get(name) is not None:
            return _mean(entry[name])
    looks = entry.get("validation")
    return float(looks[-1]["log_density"]) if looks else None


def log_evidence(entry: Mapping[str, Any]) -> float | None:
    """Log evidence of a step, summed over latent functions, in nats; None where it has none."""
    found = next((entry[name] for name in EVIDENCES if entry.get(name) is not None), None)
    return None if found is None else float(sum(found) if isinstance(found, list | tuple) else found)


def final_evidence(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Log evidence of the inference that a fit ended with; None where that has none, as a mode.

    Where stages ran for one class after the other, the sum of what each ended with.
    """
    inferred = (entry for entry in history if entry.get("inner", entry["stage"]).startswith("infer:"))
    last = {entry.get("class"): log_evidence(entry) for entry in inferred}
    found = [value for value in last.values() if value is not None]
    return sum(found) if found and len(found) == len(last) else None


def n_active(entry: Mapping[str, Any]) -> int | None:
    """Size of the largest active set after a step; None where the step did not tell."""
    found = entry.get("n_active")
    return None if found is None else int(max(found) if isinstance(found, list | tuple) else found)


def active_points(history: Sequence[Mapping[str, Any]]) -> int:
    """Active rows or inducing inputs that a fit ended with."""
    return next((found for found in map(n_active, reversed(history)) if found is not None), 0)


def by_stage(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One record for each stage of a history: steps, seconds, rows read, what it led to."""
    stages: list[dict[str, Any]] = []
    for entry in history:
        if not stages or stages[-1]["stage"] != entry["stage"]:
            stages.append({"stage": entry["stage"], "steps": 0, **dict.fromkeys(SUMMED, 0)})
        stage = stages[-1]
        stage["steps"] += 1
        for name in SUMMED:
            stage[name] += entry.get(name, 0)
        for name, found in (("n_active", n_active(entry)), ("log_density", held_out_log_density(entry))):
            if found is not None:
                stage[name] = found
        stage["peak_memory_bytes"] = entry.get("peak_memory")
    return stages


def _mean(value: Any) -> float:
    return float(sum(value) / len(value)) if isinstance(value, list | tuple) else float(value)
