"""Learning where every class has a kernel of its own: each class against the rest, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamgp.kernels import ClassKernels
from streamgp.training.codec import record
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Recipe, Save, Stage


@record
@dataclass(frozen=True, eq=False)
class ByClass:
    """The class at work, the inner stage, and that stage's own record."""

    head: int = 0
    stage: int = 0
    own: Any = None


def learn_by_class(inner: Recipe) -> Stage:
    """Run the stages for every class alone, with its kernel and its likelihood."""

    def step(
        problem: Problem, draft: Draft, own: ByClass, save: Save
    ) -> tuple[Draft, ByClass | None, dict[str, Any]]:
        kernels, head, stage = draft.kernels, own.head, inner[own.stage]
        assert kernels is not None
        alone = replace(problem, only=head)
        part = replace(
            draft,
            kernel=kernels[head],
            kernels=None,
            likelihoods=draft.likelihoods[head : head + 1],
            actives=draft.actives[head : head + 1],
            calibrations=draft.calibrations[head : head + 1],
        )
        begun = stage.init(alone, part) if own.own is None else own.own
        part, following, told = stage.step(alone, part, begun, partial(_save_inner, save, own))
        draft = replace(
            draft,
            kernels=ClassKernels(_with(kernels.kernels, head, part.kernel)),
            likelihoods=_with(draft.likelihoods, head, part.likelihoods[0]),
        )
        told |= {"class": head, "inner": stage.name}
        if following is not None:
            return draft, replace(own, own=following), told
        if own.stage + 1 < len(inner):
            return draft, replace(own, stage=own.stage + 1, own=None), told
        return draft, ByClass(head + 1) if head + 1 < problem.n_heads else None, told

    return Stage("learn: each class", lambda problem, draft: ByClass(), step)


def _save_inner(save: Save, own: ByClass, inner: Any) -> None:
    save(replace(own, own=inner))


def _with(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])
