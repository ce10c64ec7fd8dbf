"""What "auto" means: the methods that suit data of some shape, simplest first, and how large they should be.

Which of them a fit uses is decided by a trial on a sample (:mod:`streamgp.training.trial`). Every rule here
is explained in docs/decisions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from streamgp.kernels import RBF, Constant, Linear
from streamgp.likelihoods import Likelihood
from streamgp.selection import Kmeans, Random
from streamgp.settings import FITC, FitSettings, Local

CONSTANT, LINE, EXACT = "constant", "linear model", "small exact model"
INDUCING, BLOCKS = "inducing inputs", "local blocks"
"""Names of the methods, for people."""
MOST_INDUCING = 2000
MOST_KERNEL_ENTRIES = 10**10
"""Entries of the kernel block of all rows: a pass makes about 2e9 of them a second."""
FEWEST_LARGE = 1000
"""Inducing inputs that even the largest data get."""
LOCAL_INDUCING, ROWS_PER_LOCAL_INDUCING = 300, 3
"""Inducing inputs beside local blocks, which do most of the work; fewer where rows are few."""
MOST_LOCAL_FEATURES, MOST_LOCAL_PIXELS = 300, 60
"""Features up to which near rows may tell more than far ones: few of them can matter, but many pixels do."""
MOST_LOCAL_CLASSES = 12
MOST_EXACT = 500
"""Rows up to which an exact model with one lengthscale is tried: few rows cannot choose among kernels."""
SPARE_ROWS = 50
"""Inducing rows of a linear model beyond two for each feature."""
MOST_LINEAR = 1000
"""Features up to which a linear model is tried."""
KEPT_SHARE = 0.5
"""Where a trial had this share of all rows, its hyperparameters are kept."""


@dataclass(frozen=True)
class Shape:
    """What the rules look at. ``n_classes`` is 0 where targets are real."""

    n_rows: int
    n_features: int
    n_classes: int
    has_common_scale: bool = False


class Method(NamedTuple):
    """A way to fit: its name for people, whether it can be used here, and its settings.

    ``learns_from_few``: learning never looks at more rows than a trial has.
    """

    name: str
    suits: Callable[[FitSettings, Shape], bool]
    settle: Callable[[FitSettings, Shape], FitSettings]
    learns_from_few: Callable[[FitSettings, Shape], bool]


class Candidate(NamedTuple):
    """A method with settings in which nothing is open any more.

    What a trial learned from ``enough_rows`` or more is as good as what the fit would learn, and is kept.
    """

    name: str
    settings: FitSettings
    enough_rows: int


def candidates(settings: FitSettings, shape: Shape) -> tuple[Candidate, ...]:
    """All that may be tried on data of this shape, the simplest first; at least one."""
    return tuple(
        Candidate(
            method.name,
            replace(method.settle(settings, shape), method_is_open=False),
            1 if method.learns_from_few(settings, shape) else math.ceil(KEPT_SHARE * shape.n_rows),
        )
        for method in METHODS
        if method.suits(settings, shape)
    )


def worth_trying(options: Sequence[Candidate], shape: Shape) -> list[Candidate]:
    """The candidates that a trial compares.

    Inducing inputs are left out where something contains them: blocks of real targets, an exact model.
    """
    names = [option.name for option in options]
    contained = EXACT in names or (shape.n_classes == 0 and BLOCKS in names)
    return [option for option in options if not (contained and option.name == INDUCING)]


def with_size(settings: FitSettings, shape: Shape) -> FitSettings:
    """The settings with ``n_active`` chosen, where it was left open: from the rows and what a pass costs."""
    if not settings.size_is_open:
        return settings
    size = settings.n_active
    if settings.inference.sees_all_rows:
        affordable = max(FEWEST_LARGE, MOST_KERNEL_ENTRIES // shape.n_rows)
        size = min(MOST_INDUCING, affordable)
    return replace(settings, n_active=min(size, shape.n_rows), size_is_open=False)


def _constant(settings: FitSettings, shape: Shape) -> FitSettings:
    """The same for every row: shares of classes, or mean and variance; it is what others must beat."""
    chosen = replace(settings, kernel=Constant(1.0), selection=Random(), n_active=1, size_is_open=False)
    return _inducing(chosen, shape)


def _linear(settings: FitSettings, shape: Shape) -> FitSettings:
    """A linear function of the features, held by random inducing rows that span all its coefficients.

    As many rows as coefficients would do if no two were alike; of categories many are.
    """
    chosen = replace(
        settings,
        kernel=Constant(1.0) + Linear(1.0 / shape.n_features),
        selection=Random(),
        n_active=min(2 * shape.n_features + SPARE_ROWS, shape.n_rows),
        size_is_open=False,
    )
    return _inducing(chosen, shape)


def _exact(settings: FitSettings, shape: Shape) -> FitSettings:
    """Every row induces, one lengthscale for all features: three numbers are learned, by the evidence."""
    return replace(
        settings,
        kernel=RBF(10.0 if shape.n_classes else 1.0, 0.5 * math.sqrt(shape.n_features)),
        selection=Random(),
        inference=FITC(residual=1.0, power=1.0, learn_inducing=False),
        n_active=shape.n_rows,
        size_is_open=False,
        validation=False if settings.validation is None else settings.validation,
    )


def _inducing(settings: FitSettings, shape: Shape) -> FitSettings:
    """All rows seen through inducing inputs; several classes jointly."""
    jointly = _can_be_joint(settings, shape)
    selection = settings.selection if isinstance(settings.selection, Random) else Kmeans()
    chosen = replace(settings, selection=selection, inference=FITC())
    if jointly:
        chosen = replace(chosen, multiclass="joint", scratch=None)
    return with_size(chosen, shape)


def _blocks(settings: FitSettings, shape: Shape) -> FitSettings:
    """Blocks of near rows beside a few inducing inputs."""
    size = max(1, min(LOCAL_INDUCING, shape.n_rows // ROWS_PER_LOCAL_INDUCING))
    return replace(
        settings,
        selection=Kmeans(),
        inference=Local(),
        n_active=size if settings.size_is_open else settings.n_active,
        size_is_open=False,
    )


def _can_be_local(settings: FitSettings, shape: Shape) -> bool:
    widest = MOST_LOCAL_PIXELS if shape.has_common_scale else MOST_LOCAL_FEATURES
    return shape.n_features <= widest and shape.n_classes <= MOST_LOCAL_CLASSES


def _can_be_exact(settings: FitSettings, shape: Shape) -> bool:
    few = shape.n_rows <= MOST_EXACT and shape.n_classes <= 2
    return few and settings.kernel is None and settings.size_is_open


def _can_be_joint(settings: FitSettings, shape: Shape) -> bool:
    return shape.n_classes > 0 and not isinstance(settings.likelihood, Likelihood)


METHODS = (
    Method(
        CONSTANT,
        lambda settings, shape: settings.kernel is None,
        _constant,
        lambda settings, shape: True,
    ),
    Method(
        LINE,
        lambda settings, shape: settings.kernel is None and shape.n_features <= MOST_LINEAR,
        _linear,
        lambda settings, shape: True,
    ),
    Method(EXACT, _can_be_exact, _exact, lambda settings, shape: False),
    Method(INDUCING, lambda settings, shape: True, _inducing, _can_be_joint),
    Method(BLOCKS, _can_be_local, _blocks, lambda settings, shape: False),
)
