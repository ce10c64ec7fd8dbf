"""Kernels judged by held-out rows: how a mode learns, fast.

A candidate is judged by the log loss that its mode, found on a sample, gives to rows held out: no sites, no
m² a row. The variance of the latent functions is searched uphill and downhill from that of the candidate
before, each mode starting the next one. Simple candidates come first; one with more parameters must win by
two standard errors. In the end the best one and the best of another kind are tried as a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.held import HeldRows
from streamgp.inference.inducing.mode import PointTerms, find_mode
from streamgp.kernels import Kernel, Linear
from streamgp.passes.candidates import Pool
from streamgp.passes.run import available_threads
from streamgp.training.judge import is_better
from streamgp.training.learn.proposals import Proposals, propose
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.starts import Starts

JUDGED_ROWS = 8000
JUDGED_INDUCING = (100, 500)
ROWS_PER_INDUCING = 25
FEWEST_JUDGES, MOST_JUDGES = 1000, 3000
MODE_STEPS = 40
MODE_TOLERANCE = 1e-4
TILE_ROWS = 1000
VARIANCES = tuple(float(variance) for variance in np.geomspace(1.0, 1e4, 9))
FIRST_VARIANCE = 4
ERRORS, TOGETHER_ERRORS = 2.0, 1.0
"""Standard errors by which a kernel of more parameters must be better, and a sum of two that were judged."""


class Jury(NamedTuple):
    """Rows in memory: those that modes are fitted to, of which the first induce, and those that judge."""

    n_inducing: int
    inputs: FloatArray
    encoded: FloatArray
    weights: FloatArray
    held_inputs: FloatArray
    held_encoded: FloatArray
    n_functions: int
    terms: PointTerms


@dataclass(frozen=True, eq=False)
class Verdict:
    """A kernel with the variance that suits it (by its place), and what the judges lose by it, each."""

    kernel: Kernel
    place: int
    losses: FloatArray

    @property
    def loss(self) -> float:
        """The mean log loss."""
        return float(self.losses.mean())


def judge_kernels(starts: Starts | None, default: Starts, likelihood: Any = None) -> Stage:
    """The kernel of least held-out log loss; where no starts are given only its variance is chosen.

    ``likelihood`` of all classes: where it is not the draft's, which then has one for each class.
    """

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        jury = _jury(problem, likelihood or draft.likelihoods[0])
        if starts is None:
            tried = [_judged(jury, draft.kernel, FIRST_VARIANCE)]
            best = tried[0]
        else:
            best, tried = _search(problem, jury, propose(problem, jury.inputs, jury.encoded, default))
        told = {
            "kernel": repr(best.kernel),
            "log_density": -best.loss,
            "tried": [[_name(one.kernel), one.loss] for one in tried],
        }
        return replace(draft, kernel=best.kernel), told

    return once("learn: judged", work)


def _name(kernel: Kernel) -> str:
    """A kernel in a few words: of many lengthscales none is told."""
    words = repr(kernel)
    return words if len(words) < 120 else " + ".join(type(atom).__name__ for _, atom in kernel._atoms())


def _search(problem: Problem, jury: Jury, proposals: Proposals) -> tuple[Verdict, list[Verdict]]:
    """Judge simple kernels, then those near the best, then what is added to it; until time is up."""
    tried: list[Verdict] = []

    def judge(kernels: Sequence[Kernel] | Iterator[Kernel], best: Verdict | None, errors: float) -> Verdict:
        for kernel in kernels:
            if best is not None and problem.is_late():
                break
            found = _judged(jury, kernel, FIRST_VARIANCE if best is None else best.place)
            tried.append(found)
            if best is None or is_better(-found.losses, -best.losses, errors):
                best = found
        assert best is not None
        return best

    best = judge(proposals.simple, None, 0.0)
    best = judge(proposals.near(best.kernel), best, 0.0)
    for richer in proposals.richer:
        best = judge(richer(best.kernel), best, ERRORS)
    return judge(_together(best, tried), best, TOGETHER_ERRORS), tried


def _together(best: Verdict, tried: Sequence[Verdict]) -> list[Kernel]:
    """The best kernel and the best one of another kind, each with the variance that suits it, as one."""
    others = [one for one in tried if _kind(one.kernel) != _kind(best.kernel)]
    return [best.kernel + min(others, key=lambda one: one.loss).kernel] if others else []


def _kind(kernel: Kernel) -> tuple[tuple[type[Kernel], bool], ...]:
    """The families of a kernel but linear ones, and whether each has a lengthscale for every feature."""
    atoms = [atom for _, atom in kernel._atoms() if not isinstance(atom, Linear)]
    return tuple((type(atom), np.ndim(getattr(atom, "lengthscale", 0.0)) > 0) for atom in atoms)


def _jury(problem: Problem, likelihood: Any) -> Jury:
    """Rows of the sample to fit, and rows to judge: those held out, and where they are few, of the sample."""
    sample, judges = problem.sample, problem.held_out
    # Learning is to cost no more than the fit does: few inducing inputs are judged by few.
    n_inducing = int(np.clip(2 * problem.plan.n_active, *JUDGED_INDUCING))
    order = problem.sample_order(min(JUDGED_ROWS, ROWS_PER_INDUCING * n_inducing))
    judges = judges.take(np.argsort(judges.keys, kind="stable")[:MOST_JUDGES])
    missing = min(FEWEST_JUDGES - len(judges.rows), len(order) // 4)
    if missing > 0:
        order, more = order[:-missing], sample.take(order[-missing:])
        judges = Pool._make(map(np.concatenate, zip(judges, more, strict=True)))
    encoded = sample.targets[order]
    return Jury(
        n_inducing,
        problem.inputs(sample.features[order]),
        encoded,
        problem.sample_weights(encoded) * problem.weights.of_rows(sample.rows[order], encoded),
        problem.inputs(judges.features),
        judges.targets,
        problem.n_heads,
        PointTerms(likelihood, problem.prepared.targets),
    )


def _judged(jury: Jury, kernel: Kernel, place: int) -> Verdict:
    """The best variance for a kernel, from one that suited another, and the losses of the judges."""
    unit = scaled(kernel, 1.0)
    basis = make_basis(unit, jury.inputs[: jury.n_inducing], np.float32).astype(np.float32)
    features = whiten(basis, jury.inputs.astype(np.float32)).features
    held = whiten(basis, jury.held_inputs.astype(np.float32)).features
    tiles = [slice(begin, begin + TILE_ROWS) for begin in range(0, len(features), TILE_ROWS)]
    rows = [HeldRows(features[tile], jury.encoded[tile], jury.weights[tile]) for tile in tiles]
    losses: dict[int, FloatArray] = {}
    weights = None

    def loss(at: int) -> float:
        nonlocal weights
        if at not in losses:
            weights = find_mode(
                rows,
                jury.terms,
                n_functions=jury.n_functions,
                variance=VARIANCES[at],
                start=weights,
                most_steps=MODE_STEPS,
                tolerance=MODE_TOLERANCE,
                workers=available_threads(),
            ).weights
            latent = held @ weights.astype(np.float32)
            losses[at] = -jury.terms(jury.held_encoded, latent).log_density
        return float(losses[at].mean())

    best = place
    for step in (1, -1):
        while 0 <= best + step < len(VARIANCES) and loss(best + step) < loss(best):
            best += step
    loss(best)
    return Verdict(scaled(kernel, VARIANCES[best]), best, losses[best])


def scaled(kernel: Kernel, variance: float) -> Kernel:
    """The kernel times such a number that its first variance is this; its other terms keep their shares."""
    logs = kernel.log_parameters
    is_variance = np.array([name.endswith("variance") for name in kernel.parameter_names])
    shift = np.log(variance) - logs[np.argmax(is_variance)]
    return kernel.with_log_parameters(logs + shift * is_variance)
