"""Kernels proposed by regression on labels and judged by held-out rows: how joint classes learn, fast.

Each candidate is judged by the log loss that its mode, found on a sample, gives to rows held out: no sites,
no m² a row. The variance of the latent functions is searched along a path, each mode starting the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.mode import find_mode
from streamgp.inference.label_regression import label_evidence
from streamgp.kernels import RBF, Kernel, Matern12, Matern32, Matern52, Polynomial
from streamgp.likelihoods import Gaussian, JointLikelihood
from streamgp.passes.candidates import Pool
from streamgp.training.optimise import descend, logged, minus_log_posterior, pack, pack_bounds, unpack
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.starts import Starts

JUDGED_ROWS = 10_000
JUDGED_INDUCING = 500
FEWEST_JUDGES, MOST_JUDGES = 1000, 3000
LABEL_ROWS = 1000
LABEL_STEPS = 20
MODE_STEPS = 60
VARIANCES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
PIXEL_LENGTHSCALES = (0.4, 0.6)
"""Of the median distance, for an RBF of pixels."""


class Jury(NamedTuple):
    """Rows in memory: those that modes are fitted to, the inducing ones among them, and those that judge."""

    inputs: FloatArray
    encoded: FloatArray
    weights: FloatArray
    held_inputs: FloatArray
    held_encoded: FloatArray
    n_classes: int
    likelihood: JointLikelihood


class Verdict(NamedTuple):
    """A kernel with the variance that suits it, and the mean log loss of the judges."""

    kernel: Kernel
    log_loss: float


def judge_kernels(starts: Starts | None, default: Starts) -> Stage:
    """The kernel of least held-out log loss; where no starts are given only its variance is chosen."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        jury = _jury(problem, draft)
        proposals: list[Callable[[], Kernel]] = [lambda: draft.kernel]
        if starts is not None:
            proposals = _proposals(problem, jury, default)
        verdicts: list[Verdict] = []
        for propose in proposals:
            if verdicts and problem.is_late():
                break
            verdicts.append(_judged(jury, propose()))
        best = min(verdicts, key=lambda verdict: verdict.log_loss)
        told = {
            "kernel": repr(best.kernel),
            "log_density": -best.log_loss,
            "tried": [[type(one.kernel).__name__, one.log_loss] for one in verdicts],
            "left_out": len(proposals) - len(verdicts),
        }
        return replace(draft, kernel=best.kernel), told

    return once("learn: judged", work)


def _jury(problem: Problem, draft: Draft) -> Jury:
    """Rows of the sample to fit, and rows to judge: those held out, and where they are few, of the sample."""
    sample, judges = problem.sample, problem.held_out
    order = problem.sample_order(JUDGED_ROWS)
    judges = judges.take(np.argsort(judges.keys, kind="stable")[:MOST_JUDGES])
    missing = min(FEWEST_JUDGES - len(judges.rows), len(order) // 4)
    if missing > 0:
        order, more = order[:-missing], sample.take(order[-missing:])
        judges = Pool._make(map(np.concatenate, zip(judges, more, strict=True)))
    [likelihood] = draft.likelihoods
    assert isinstance(likelihood, JointLikelihood)
    encoded = sample.targets[order]
    weights = problem.sample_weights(encoded) * problem.weights.of_rows(sample.rows[order], encoded)
    return Jury(
        problem.inputs(sample.features[order]),
        encoded,
        weights,
        problem.inputs(judges.features),
        judges.targets,
        problem.n_heads,
        likelihood,
    )


def _proposals(problem: Problem, jury: Jury, default: Starts) -> list[Callable[[], Kernel]]:
    """Kernels to be judged, each made when its turn comes.

    Pixels have polynomials of the cosine, and an RBF. Else each feature has a lengthscale (where features are
    few), learned by regression on labels, for a smooth kernel and rough ones.
    """
    base = default.default(problem)
    rbf = base if isinstance(base, RBF) else base.terms[0]  # type: ignore[attr-defined]
    assert isinstance(rbf, RBF)
    if default.with_polynomials:
        smooth = [Polynomial(5, 1.0, offset, normalize=True) for offset in (0.3, 0.6)]
        median = np.median(np.atleast_1d(rbf.lengthscale))
        rough = [RBF(1.0, float(factor * median)) for factor in PIXEL_LENGTHSCALES]
        return [partial(_itself, kernel) for kernel in (*smooth, *rough)]
    families = (RBF, Matern52, Matern32, Matern12)
    return [partial(_by_label_regression, problem, jury, kind(0.1, rbf.lengthscale)) for kind in families]


def _itself(kernel: Kernel) -> Kernel:
    return kernel


def _by_label_regression(problem: Problem, jury: Jury, kernel: Kernel) -> Kernel:
    """The kernel of largest evidence of a few rows, whose labels are regressed on."""
    inputs = jury.inputs[:LABEL_ROWS]
    labels = np.eye(jury.n_classes)[jury.encoded[:LABEL_ROWS].astype(np.intp)]
    labels -= labels.mean(axis=0)
    noise = (Gaussian(0.1),)

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        fitted, likelihoods = unpack(kernel, noise, vector)
        found = label_evidence(fitted, likelihoods[0], inputs, labels)  # type: ignore[arg-type]
        return minus_log_posterior(fitted.log_prior(inputs.shape[1]), likelihoods, [found])

    log = logged(objective, {}, lambda arrays: None)
    start, bounds = pack(kernel, noise), pack_bounds(kernel, noise)
    found, _ = descend(log, start, bounds, LABEL_STEPS, 2 * LABEL_STEPS, problem.is_late)
    return unpack(kernel, noise, found)[0]


def _judged(jury: Jury, kernel: Kernel) -> Verdict:
    """The best variance for a kernel, and its log loss; the path ends where the loss has risen twice."""
    logs = kernel.log_parameters
    variances = [place for place, name in enumerate(kernel.parameter_names) if name.endswith("variance")]
    unit = kernel.with_log_parameters(logs - logs[variances[0]] * np.isin(np.arange(len(logs)), variances))
    basis = make_basis(unit, jury.inputs[:JUDGED_INDUCING], np.float32).astype(np.float32)
    features = whiten(basis, jury.inputs.astype(np.float32)).features
    held = whiten(basis, jury.held_inputs.astype(np.float32)).features
    losses: list[float] = []
    weights = None
    for variance in VARIANCES:
        weights = find_mode(
            features,
            jury.encoded,
            jury.weights,
            jury.likelihood,
            variance=variance,
            start=weights,
            n_classes=jury.n_classes,
            most_steps=MODE_STEPS,
        ).weights
        latent = held @ weights.astype(np.float32)
        losses.append(-float(jury.likelihood.mode_terms(jury.held_encoded, latent).log_density.mean()))
        if losses[-1] > min(losses) and len(losses) - int(np.argmin(losses)) > 2:
            break
    shift = np.log(VARIANCES[int(np.argmin(losses))])
    scaled = unit.log_parameters + shift * np.isin(np.arange(len(logs)), variances)
    return Verdict(unit.with_log_parameters(scaled), min(losses))
