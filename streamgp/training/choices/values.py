"""What decides about a recipe, and what is decided: two frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamgp.data import RealTargets
from streamgp.data.targets import n_heads
from streamgp.training.learn.evidence import Sizes
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared
from streamgp.training.starts import Starts

MOST_ARD_FEATURES = 100
"""Features up to which each has its own lengthscale."""


@dataclass(frozen=True)
class Traits:
    """What decides about a recipe beside the settings: the shape of the data and of the model."""

    n_features: int
    n_active: int
    n_heads: int
    is_classification: bool
    has_common_scale: bool  # features are pixels or counts, of one scale
    class_shares: tuple[float, ...] = ()  # of all rows, in the order of classes

    @property
    def has_few_features(self) -> bool:
        """Whether each feature can have a lengthscale of its own."""
        return self.n_features <= MOST_ARD_FEATURES

    @classmethod
    def of(cls, prepared: Prepared, plan: MemoryPlan) -> Traits:
        """What the recipe needs to know of the rows."""
        return cls(
            n_features=prepared.rows.n_features,
            n_active=plan.n_active,
            is_classification=not isinstance(prepared.targets, RealTargets),
            n_heads=n_heads(prepared.targets),
            has_common_scale=prepared.standardizer.is_common,
            class_shares=tuple((prepared.class_counts / prepared.class_counts.sum()).tolist()),
        )


@dataclass(frozen=True)
class Choices:
    """What settings amount to for data of some traits: nothing is "auto" any more.

    ``learning`` is a key of the tables of ``recipe.py``. ``update_every``: blocks of a predictive selection
    between two updates of its hyperparameters, None: no updates. ``starts`` None: learning starts from the
    given kernel.
    ``likelihoods`` are those of joint classes; ``likelihood`` is that of every head, None: by the targets.
    """

    selection: Any  # settings of a kind that SELECT of recipe.py knows
    inference: Any  # settings of a kind that COMPOSE of recipe.py knows
    learning: str
    update_every: int | None
    learn_inducing: bool
    validation: Any
    default_kernel: Starts
    starts: Starts | None
    sizes: Sizes
    likelihoods: tuple[Any, ...] = ()
    has_many_classes: bool = False
    likelihood: Any = None
    joint_spread: bool = False
    has_normal_noise: bool = False  # real targets, and no likelihood of another kind
    means_first: bool = False  # sweeps over all rows begin at the mode
    is_printed: bool = False  # a paper's algorithm as it is printed
    multiway: Any = None  # likelihood of all classes, of which each has an active set of its own
    kernel_by_class: bool = False  # and a kernel of its own
