"""The multi-way IVM: one active set for each class, chosen together by a likelihood of all classes.

[IVM2006] section 4: the posterior factorises over classes, each with an IVM representation of its own; rows
enter the active set of a class, (row, class) by (row, class), by how much that class's function would learn.
Classes share a kernel, or each has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from streamgp.arrays import FloatArray, Floats, IntArray
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, include
from streamgp.kernels import ClassKernels, Kernel, each_kernel
from streamgp.likelihoods import JointLikelihood
from streamgp.passes.blas import single_threaded_blas
from streamgp.selection import IVM
from streamgp.selection.scores import SCORES
from streamgp.training.greedy import TIE

GROWTH = 1.5
"""Room that is made for a class whose active set is full, relative to its size."""


@dataclass(frozen=True, eq=False)
class Ways:
    """Active sets and candidates of all classes, the same candidate rows for each; buffers in place.

    Sites of candidates (s, C) are those of the active sets that a row is in, else 0.
    """

    actives: tuple[ActiveSet, ...]
    candidates: tuple[Candidates, ...]
    precision: FloatArray
    precision_mean: FloatArray

    @property
    def n_inclusions(self) -> int:
        """Sizes of all active sets together."""
        return sum(active.count for active in self.actives)


def grow_multiway(
    selection: IVM,
    kernel: Kernel | ClassKernels,
    likelihood: JointLikelihood,
    rows: IntArray,
    inputs: Floats,
    codes: IntArray,
    n_classes: int,
    until: int,
    generator: np.random.Generator,
    weights: FloatArray | None = None,
) -> tuple[ActiveSet, ...]:
    """Active sets of all classes with ``until`` inclusions in all, or fewer where no other would teach.

    All candidates are current at every inclusion where ``selection.hot`` is None, else so many rows, those of
    best score, and the others every ``selection.delay`` inclusions. A row of weight ω has its sites to the
    power of ω.
    Shapes: rows, codes and weights (s,) in ascending order of rows, inputs (s, p).
    Cost: the likelihood's moments of the current rows, and O(s d_c), for an inclusion.
    Source: [IVM2006] section 4.2.  Oracle: tests/reference/multiway_dense.py
    """
    flat, kernels = np.zeros((len(rows), n_classes)), each_kernel(kernel, n_classes)
    ways = Ways(
        tuple(ActiveSet.empty(0, inputs.shape[1]) for _ in kernels),
        tuple(Candidates.new(rows, inputs, codes.astype(np.float64), own, 0, weights) for own in kernels),
        flat,
        flat.copy(),
    )
    with single_threaded_blas():
        while ways.n_inclusions < until:
            before, size = ways.n_inclusions, min(selection.delay, until - ways.n_inclusions)
            ways = _with_room(ways, size)
            ways = _grow_block(selection, kernels, likelihood, codes, ways, size, generator)
            if ways.n_inclusions < before + size:
                break
    return ways.actives


def _grow_block(
    selection: IVM,
    kernels: tuple[Kernel, ...],
    likelihood: JointLikelihood,
    codes: IntArray,
    ways: Ways,
    size: int,
    generator: np.random.Generator,
) -> Ways:
    """Some inclusions, from all candidates or from the hottest of them."""
    hot = selection.hot
    if hot is None or hot >= len(codes):
        return _include_some(selection, kernels, likelihood, codes, ways, size, generator)
    scores, _, _ = _scored(selection, likelihood, codes, ways)
    slots = np.sort(np.argpartition(-scores.max(axis=1), hot)[:hot])
    since = [active.count for active in ways.actives]
    window = Ways(
        ways.actives,
        tuple(each.window(slots, each.stubs.shape[1]) for each in ways.candidates),
        ways.precision[slots],
        ways.precision_mean[slots],
    )
    window = _include_some(selection, kernels, likelihood, codes[slots], window, size, generator)
    ways.precision[slots], ways.precision_mean[slots] = window.precision, window.precision_mean
    for kernel, active, part, whole, first in zip(
        kernels, window.actives, window.candidates, ways.candidates, since, strict=True
    ):
        whole.available[slots] = part.available
        catch_up(active, whole, kernel, first)
    return replace(ways, actives=window.actives)


def _include_some(
    selection: IVM,
    kernels: tuple[Kernel, ...],
    likelihood: JointLikelihood,
    codes: IntArray,
    ways: Ways,
    size: int,
    generator: np.random.Generator,
) -> Ways:
    """Inclusions with all candidates kept current."""
    actives, inputs = list(ways.actives), ways.candidates[0].inputs
    column_of = _columns(kernels, inputs)
    for _ in range(size):
        scores, precision, precision_mean = _scored(selection, likelihood, codes, ways)
        place = int(np.argmax(scores))  # the lowest row, then the first class, among equals
        best = scores.flat[place]
        if best == -np.inf:
            break
        if not any(active.count for active in actives):
            place = int(generator.choice(np.flatnonzero(scores.ravel() >= best * (1.0 - TIE))))
        slot, head = divmod(place, len(actives))
        column = column_of(head, slot)
        site = float(precision[slot, head]), float(precision_mean[slot, head])
        actives[head] = include(actives[head], ways.candidates[head], slot, column, *site)
        ways.precision[slot, head], ways.precision_mean[slot, head] = site
    return replace(ways, actives=tuple(actives))


def _columns(kernels: tuple[Kernel, ...], inputs: Floats) -> Callable[[int, int], Floats]:
    """The function (class, slot) → covariances of the row with all, (s,).

    A kernel that all share is made ready once; copies of the rows for every class would be too many.
    """
    if all(kernel is kernels[0] for kernel in kernels):
        ready = kernels[0].prepared(inputs)
        return lambda head, slot: ready.block(inputs[slot : slot + 1])[0]
    return lambda head, slot: kernels[head].block(inputs[slot : slot + 1], inputs)[0]


def _scored(
    selection: IVM, likelihood: JointLikelihood, codes: IntArray, ways: Ways
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores of every row and class, −inf where there is nothing to include, and sites; (s, C) each.

    A row that is active for some class is seen without its own site there.  Source: [IVM2006] eq. 7.
    """
    mean = np.column_stack([each.mean for each in ways.candidates])
    variance = np.column_stack([each.variance for each in ways.candidates])
    available = np.column_stack([each.available for each in ways.candidates])
    kept = np.maximum(1.0 - variance * ways.precision, 1e-12)
    cavity_variance = variance / kept
    cavity_mean = (mean - variance * ways.precision_mean) / kept
    _, precision, precision_mean = likelihood.tilted_sites(codes, cavity_mean, cavity_variance)
    weights = ways.candidates[0].weights[:, None]
    precision, precision_mean = weights * precision, weights * precision_mean
    score = SCORES["information_gain" if selection.score == "auto" else selection.score]
    scores = score(cavity_mean, cavity_variance, precision, precision_mean)
    eligible = available & (precision > selection.least_precision) & np.isfinite(scores)
    return np.where(eligible, scores, -np.inf), precision, precision_mean


def _with_room(ways: Ways, size: int) -> Ways:
    """The same with room for so many inclusions into any of the active sets."""
    actives, candidates = list(ways.actives), list(ways.candidates)
    for head, (active, each) in enumerate(zip(actives, candidates, strict=True)):
        d = active.count
        if d + size <= len(active.rows):
            continue
        capacity = max(d + size, round(GROWTH * d))
        larger = active.with_capacity(capacity)
        larger.factor[:d, :d] = active.factor[:d, :d]
        larger.projected_targets[:d] = active.projected_targets[:d]
        actives[head] = larger
        candidates[head] = each.window(np.arange(len(each.rows)), capacity)
    return replace(ways, actives=tuple(actives), candidates=tuple(candidates))
