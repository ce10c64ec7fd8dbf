"""From settings to a recipe: the only file that knows modes, and the only home of "auto"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamgp.selection import IVM, EvidenceGain, Kmeans, Random
from streamgp.selection.predictive import REAL_UPDATES, Predictive
from streamgp.settings import ADF, EP, FITC, FitSettings, Inference, Selection
from streamgp.training.calibrate import calibration
from streamgp.training.infer.active import propagate_actives
from streamgp.training.infer.all_rows import sweep_all_rows
from streamgp.training.infer.approximation import choose_approximation
from streamgp.training.learn.active import best_start, climb_active_evidence
from streamgp.training.learn.all_rows import refine_by_all_rows
from streamgp.training.learn.criterion import choose_start, learn_by_criterion
from streamgp.training.learn.evidence import (
    FOR_CLASSES,
    FOR_REAL_TARGETS,
    climb_starts,
    refine_with_centres,
    refine_with_inducing,
)
from streamgp.training.problem import Problem
from streamgp.training.select.centres import centre_inducing
from streamgp.training.select.draw import draw_actives, draw_first
from streamgp.training.select.exchange import Exchange
from streamgp.training.select.gain import gain_inducing
from streamgp.training.select.grow import Watching, grow_actives
from streamgp.training.stage import Draft, Recipe
from streamgp.training.starts import Starts

MOST_LEARNED_INPUTS = 4000
"""Numbers in the inducing inputs up to which they are learned, where nothing else is asked for."""
MOST_ARD_FEATURES = 100
"""Features up to which each has its own lengthscale."""
EVIDENCE = ("evidence", "passes")
"""Ways of learning by the evidence: of a sample alone, or in the end of all rows."""


@dataclass(frozen=True)
class Traits:
    """What decides about a recipe beside the settings: the shape of the data and of the model."""

    n_features: int
    n_active: int
    is_classification: bool
    has_common_scale: bool  # features are pixels or counts, of one scale

    @property
    def has_few_features(self) -> bool:
        """Whether each feature can have a lengthscale of its own."""
        return self.n_features <= MOST_ARD_FEATURES


@dataclass(frozen=True)
class Choices:
    """What settings amount to for data of some traits: nothing is "auto" any more.

    ``by_evidence``: the evidence of rows seen through inducing inputs is learned from, else the IVM's
    criterion. ``update_every``: blocks of a predictive selection between two updates of its hyperparameters,
    None: no updates. ``along``: these updates are all the learning that there is.
    """

    selection: Selection
    inference: Inference
    learns: bool
    by_evidence: bool
    by_all_rows: bool
    hybrid: bool
    along: bool
    update_every: int | None
    learn_inducing: bool
    shared: bool
    calibrated: bool
    validation: Any
    starts: Starts
    has_kernel: bool
    is_classification: bool


def inference_of(settings: FitSettings) -> Inference:
    """The inference: as asked for, else the one that belongs to the selection."""
    if settings.inference is not None:
        return settings.inference
    if isinstance(settings.selection, Predictive):
        return EP()
    return FITC() if isinstance(settings.selection, Kmeans | EvidenceGain) else ADF()


def may_use_criterion(settings: FitSettings) -> bool:
    """Whether learning by the IVM's criterion can be part of the recipe, whatever the data turn out to be."""
    return settings.learning in (True, "constant", "hybrid")


def resolve(settings: FitSettings, traits: Traits) -> Choices:
    """Settle everything that was left open. The reasons stand in docs/decisions.md."""
    selection, inference, learning = settings.selection, inference_of(settings), settings.learning
    over_all_rows, predictive = isinstance(inference, FITC), isinstance(selection, Predictive)
    classes, learns = traits.is_classification, learning is not False
    learn_inducing = False
    if isinstance(inference, FITC):
        few_numbers = traits.n_active * traits.n_features <= MOST_LEARNED_INPUTS
        learn_inducing = few_numbers if inference.learn_inducing == "auto" else bool(inference.learn_inducing)
    update_every = getattr(selection, "update_every", None)
    if update_every is None and predictive and learning is True and not (classes or over_all_rows):
        update_every = REAL_UPDATES
    if learning is not True:
        by_evidence = learning in EVIDENCE
    elif over_all_rows:
        by_evidence = not classes or learn_inducing or traits.has_few_features
    else:
        by_evidence = traits.has_few_features and predictive and update_every is None
    per_feature = learns and traits.has_few_features
    return Choices(
        selection=selection,
        inference=inference,
        learns=learns,
        by_evidence=by_evidence,
        by_all_rows=learning == "passes",
        hybrid=learning == "hybrid",
        along=update_every is not None and not by_evidence,
        update_every=update_every,
        learn_inducing=learn_inducing,
        shared=over_all_rows or settings.multiclass == "shared",
        calibrated=getattr(inference, "calibrate", True),
        # Predictive selections judge themselves by rows of the sample.
        validation=False
        if predictive and not over_all_rows and settings.validation is None
        else settings.validation,
        starts=Starts(
            variance=30.0 if classes else 1.0,
            variances=(1.0, 10.0, 100.0) if classes else (1.0,),
            per_feature=per_feature,
            with_linear=not (per_feature and classes and by_evidence),
            with_polynomials=traits.has_common_scale,
        ),
        has_kernel=settings.kernel is not None,
        is_classification=classes,
    )


def compose(settings: FitSettings, traits: Traits) -> Recipe:
    """The stages of a fit."""
    choices = resolve(settings, traits)
    return (*_learn(choices), *_select(choices), *_infer(choices))


def _learn(choices: Choices) -> Recipe:
    """Learning before the selection."""
    if not choices.learns or choices.along:
        return ()
    starts = None if choices.has_kernel else choices.starts
    if choices.by_evidence:
        first = climb_starts(_sizes(choices), starts)
        # Inducing inputs are chosen in the learned metric; active rows by the kernel that is learned in full.
        over_all_rows = isinstance(choices.inference, FITC)
        return (first,) if over_all_rows else (first, refine_with_centres(_sizes(choices)))
    selection = choices.selection if isinstance(choices.selection, IVM) else IVM()
    rounds = learn_by_criterion(selection, hybrid=choices.hybrid, tune=choices.calibrated)
    return choose_start(selection, starts), rounds


def _select(choices: Choices) -> Recipe:
    """The selection of active rows, or of inducing inputs."""
    selection = choices.selection
    if isinstance(selection, Random):
        return (draw_actives(),)
    if isinstance(selection, Kmeans):
        return (centre_inducing(selection),)
    if isinstance(selection, EvidenceGain):
        return (gain_inducing(selection),)
    if isinstance(selection, IVM):
        # With inference over all rows the sites of this selection are not the model's: no use in watching.
        over_all_rows = isinstance(choices.inference, FITC)
        return (grow_actives(selection, None if over_all_rows else Watching(choices.calibrated)),)
    starts = choices.starts

    def choose_kernel(problem: Problem, draft: Draft, first: Any) -> Any:
        return best_start(problem, draft, starts, first)

    exchange = Exchange(
        selection,
        None if choices.update_every is None else climb_active_evidence,
        choices.update_every or 1,
        choices.calibrated,
    )
    chooses = choices.along and not choices.has_kernel
    return draw_first(selection, choose_kernel if chooses else None), exchange.stage()


def _infer(choices: Choices) -> Recipe:
    """What the active set then says, and learning that needs the inducing inputs."""
    inference = choices.inference
    if not isinstance(inference, FITC):
        with_all_rows = isinstance(choices.selection, Predictive)
        sites = (propagate_actives(with_all_rows=with_all_rows),) if isinstance(inference, EP) else ()
        return (*sites, calibration()) if choices.calibrated else sites
    learned: Recipe = ()
    if choices.by_evidence:
        learned = (refine_with_inducing(_sizes(choices), learn_inputs=choices.learn_inducing),)
    if choices.by_all_rows:
        learn_inputs, most = choices.learn_inducing, inference.most_sweeps
        learned = (*learned, refine_by_all_rows(learn_inputs=learn_inputs, most_sweeps=most))
    return (*learned, choose_approximation(inference, refit=choices.learns), sweep_all_rows(inference))


def _sizes(choices: Choices) -> Any:
    return FOR_CLASSES if choices.is_classification else FOR_REAL_TARGETS
