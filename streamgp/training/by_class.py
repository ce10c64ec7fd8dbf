"""Stages that run for every class alone, one class after the other, each with a kernel of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamgp.kernels import ClassKernels
from streamgp.training.codec import record
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Recipe, Save, Stage, describe


@record
@dataclass(frozen=True, eq=False)
class ByClass:
    """The class at work, the inner stage, and that stage's own record."""

    head: int = 0
    stage: int = 0
    own: Any = None


def learn_by_class(inner: Recipe) -> Stage:
    """Learn the kernel and the likelihood of every class against the rest; active sets are not kept."""
    return _by_class("learn: each class", inner, keeps_actives=False)


def fit_by_class(inner: Recipe) -> Stage:
    """A model of every class against the rest, with its own parameters and active set."""
    return _by_class(f"each class: ({describe(inner)})", inner, keeps_actives=True)


def _by_class(name: str, inner: Recipe, *, keeps_actives: bool) -> Stage:
    def step(
        problem: Problem, draft: Draft, own: ByClass, save: Save
    ) -> tuple[Draft, ByClass | None, dict[str, Any]]:
        head, stage = own.head, inner[own.stage]
        kernels = (draft.kernel,) * problem.n_heads if draft.kernels is None else draft.kernels.kernels
        alone, here = problem.of_class(head), slice(head, head + 1)
        part = replace(
            draft,
            kernel=kernels[head],
            kernels=None,
            likelihoods=draft.likelihoods[here],
            actives=draft.actives[here],
            calibrations=draft.calibrations[here],
        )
        begun = stage.init(alone, part) if own.own is None else own.own
        part, following, told = stage.step(alone, part, begun, partial(_save_inner, save, own))
        draft = replace(
            draft,
            kernels=ClassKernels(_with(kernels, head, part.kernel)),
            likelihoods=_with(draft.likelihoods, head, part.likelihoods[0]),
        )
        if keeps_actives:
            draft = replace(
                draft,
                actives=_with(draft.actives, head, part.actives[0]),
                calibrations=_with(draft.calibrations, head, part.calibrations[0]),
            )
            told |= {"n_active": draft.sizes}
        told |= {"class": head, "inner": stage.name}
        if following is not None:
            return draft, replace(own, own=following), told
        if own.stage + 1 < len(inner):
            return draft, replace(own, stage=own.stage + 1, own=None), told
        return draft, ByClass(head + 1) if head + 1 < problem.n_heads else None, told

    return Stage(name, lambda problem, draft: ByClass(), step)


def _save_inner(save: Save, own: ByClass, inner: Any) -> None:
    save(replace(own, own=inner))


def _with(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])
