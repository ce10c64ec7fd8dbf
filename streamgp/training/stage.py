"""What a fit is made of: stages, the draft that passes between them, and the loop that runs them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from streamgp.budget import peak_memory
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import ClassKernels, Kernel
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.progress import Progress
from streamgp.persistence import CheckpointFolder
from streamgp.posterior.calibration import Calibration
from streamgp.training.codec import decode, encode, record
from streamgp.training.history import held_out_log_density
from streamgp.training.problem import Problem

logger = logging.getLogger(__name__)

History = tuple[dict[str, Any], ...]


@record
@dataclass(frozen=True, eq=False)
class Draft:
    """The model so far: all that a later stage needs to know of the earlier ones.

    One likelihood, one active set and one calibration for each latent function (head); one likelihood of all
    where classes are learned jointly. ``sweeps`` is the posterior of inference over all rows, a value with a
    method ``model_snapshot``; its inducing inputs are the inputs of the first active set.
    ``combination`` (if any) is what becomes of the log odds of each head before they are normalised.
    ``kernels`` (if any) are those of classes that have their own; then ``kernel`` is the first of them.
    ``step`` counts the steps that led here; random draws are named after it.
    """

    kernel: Kernel
    likelihoods: tuple[Any, ...]
    actives: tuple[ActiveSet, ...]
    calibrations: tuple[Calibration, ...]
    sweeps: Any = None
    step: int = 0
    combination: tuple[Calibration, ...] = ()
    kernels: ClassKernels | None = None

    @property
    def n_active(self) -> int:
        """Size of the largest active set."""
        return max(active.count for active in self.actives)

    @property
    def sizes(self) -> list[int]:
        """Size of every active set."""
        return [active.count for active in self.actives]


Save = Callable[[Any], None]
"""Writes a checkpoint in the middle of a step, with the stage's own record as it is then."""


class Stage(NamedTuple):
    """One method, ready to run: a name for people, and two functions.

    ``init(problem, draft)`` gives the stage's own record: what it remembers between its steps, a value that
    :mod:`streamgp.training.codec` can write. ``step(problem, draft, own, save)`` gives the next draft, the
    next own record (None when the stage is done), and what the history says about the step. A stage does not
    know which stages come before or after it.
    """

    name: str
    init: Callable[[Problem, Draft], Any]
    step: Callable[[Problem, Draft, Any, Save], tuple[Draft, Any, dict[str, Any]]]


Recipe = tuple[Stage, ...]


def describe(recipe: Recipe) -> str:
    """A recipe for people: ``learn: criterion -> select: ivm -> calibrate``."""
    return " -> ".join(stage.name for stage in recipe)


def once(name: str, work: Callable[[Problem, Draft], tuple[Draft, dict[str, Any]]]) -> Stage:
    """A stage of a single step that remembers nothing."""

    def step(problem: Problem, draft: Draft, own: Any, save: Save) -> tuple[Draft, None, dict[str, Any]]:
        following, told = work(problem, draft)
        return following, None, told

    return Stage(name, lambda problem, draft: {}, step)


def run(
    recipe: Recipe, problem: Problem, draft: Draft, folder: CheckpointFolder | None
) -> tuple[Draft, History]:
    """Run the stages one after the other, from the newest checkpoint if there is one."""
    history: History = ()
    number, own = 0, None
    saved = None if folder is None else folder.latest()
    if saved is not None:
        number, draft, own, history = decode(saved.header, saved.arrays)
        logger.info("resumed at step %d", draft.step)

    def checkpoint(number: int, draft: Draft, own: Any) -> None:
        if folder is not None:
            folder.save(draft.step, *encode((number, draft, own, history)))

    progress = Progress.of(problem.settings.progress)
    with progress.fitting(len(recipe)):
        while number < len(recipe):
            stage, begun = recipe[number], problem.seconds()
            read, passing = progress.rows_read, progress.pass_seconds
            progress.reached(number + _part_done(problem, draft, own), stage.name, _told(draft, history))
            # Steps mix products of NumPy's BLAS and of SciPy's, whose thread pools get into each other's
            # way; what is large is divided among threads of our own.
            with single_threaded_blas():
                own = stage.init(problem, draft) if own is None else own
                step = draft.step
                draft, own, told = stage.step(problem, draft, own, partial(checkpoint, number, draft))
            entry = {"step": step, "stage": stage.name, **told, "seconds": problem.seconds() - begun}
            entry |= {"rows_read": progress.rows_read - read, "peak_memory": peak_memory()}
            entry |= {"pass_seconds": progress.pass_seconds - passing}
            history = (*history, entry)
            draft, number = replace(draft, step=step + 1), number + (own is None)
            logger.info("%s: %.1f s, %d active rows", stage.name, entry["seconds"], draft.n_active)
            checkpoint(number, draft, own)
        progress.reached(number, "fit", _told(draft, history))
    return draft, history


def _part_done(problem: Problem, draft: Draft, own: Any) -> float:
    """How much of the current stage is done, as far as the size of the active sets tells."""
    return 0.0 if own is None else min(draft.n_active / problem.plan.n_active, 0.99)


def _told(draft: Draft, history: History) -> str:
    """What the bar of a fit says beside the time."""
    density = next(
        (found for found in map(held_out_log_density, reversed(history)) if found is not None), None
    )
    parts = [f"{draft.n_active} active rows"] if draft.n_active else []
    return ", ".join(parts if density is None else [*parts, f"held-out {density:.4f} nats"])
