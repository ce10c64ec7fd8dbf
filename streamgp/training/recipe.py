"""From settings to a recipe: the only file that knows modes, and the only home of "auto"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.likelihoods import JointLikelihood, Logit, Probit, Softmax
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans, Random
from streamgp.selection.predictive import REAL_UPDATES
from streamgp.settings import ADF, EP, FITC, FitSettings, Inference, Local, Selection
from streamgp.training.calibrate import calibration, combination, local_calibration, point_calibration
from streamgp.training.group import group_rows
from streamgp.training.infer.active import propagate_actives
from streamgp.training.infer.all_rows import sweep_all_rows
from streamgp.training.infer.approximation import choose_approximation
from streamgp.training.infer.joint import sweep_joint_classes
from streamgp.training.infer.local import sweep_local_blocks
from streamgp.training.infer.mode import find_joint_mode
from streamgp.training.learn.active import best_start, climb_active_evidence, climb_evidence_alone
from streamgp.training.learn.all_rows import refine_by_all_rows
from streamgp.training.learn.criterion import choose_start, learn_by_criterion
from streamgp.training.learn.evidence import (
    FOR_CLASSES,
    FOR_REAL_TARGETS,
    Sizes,
    climb_starts,
    refine_with_centres,
    refine_with_inducing,
)
from streamgp.training.learn.judged import judge_kernels
from streamgp.training.learn.local import learn_local
from streamgp.training.learn.local_near import learn_near
from streamgp.training.learn.printed import choose_by_errors, learn_as_printed
from streamgp.training.select.centres import centre_inducing
from streamgp.training.select.draw import draw_actives, draw_first, draw_inducing, draw_printed
from streamgp.training.select.exchange import Exchange
from streamgp.training.select.gain import gain_inducing
from streamgp.training.select.grow import grow_actives
from streamgp.training.select.multiway import select_multiway
from streamgp.training.select.printed import add_bias_variance, select_printed
from streamgp.training.select.virtual import select_again
from streamgp.training.select.watch import Watching
from streamgp.training.stage import Recipe
from streamgp.training.starts import Starts

MOST_LEARNED_INPUTS = 4000
"""Numbers in the inducing inputs up to which they are learned, where nothing else is asked for."""
MOST_ARD_FEATURES = 100
"""Features up to which each has its own lengthscale."""
MOST_JUDGED_FEATURES = 300
"""The same where rows that are not learned from decide about it, and features are no pixels."""
EVIDENCE = ("evidence", "passes")
"""Ways of learning by the evidence: of a sample alone, or in the end of all rows."""
BY_CRITERION = (True, "constant", "hybrid", "exact")
"""Ways that can mean learning by the IVM's criterion, whatever the data turn out to be."""


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


@dataclass(frozen=True)
class Choices:
    """What settings amount to for data of some traits: nothing is "auto" any more.

    ``learning`` is a key of the tables below. ``update_every``: blocks of a predictive selection between two
    updates of its hyperparameters, None: no updates. ``starts`` None: learning starts from the given kernel.
    ``likelihoods`` are those of joint classes; ``likelihood`` is that of every head, None: by the targets.
    """

    selection: Any  # settings of a kind that SELECT knows
    inference: Any  # settings of a kind that COMPOSE knows
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
    is_printed: bool = False  # a paper's algorithm as it is printed
    multiway: Any = None  # likelihood of all classes, of which each has an active set of its own


Compose = Callable[[Choices], Recipe]


def compose(settings: FitSettings, traits: Traits) -> Recipe:
    """The stages of a fit."""
    choices = resolve(settings, traits)
    if choices.multiway is not None:
        return _multiway(choices)
    if choices.likelihoods:
        return _jointly(choices)
    printed = PRINTED.get(type(choices.selection))
    if printed is not None and choices.is_printed:
        return printed(choices)
    return COMPOSE[type(choices.inference)](choices)


def resolve(settings: FitSettings, traits: Traits) -> Choices:
    """Settle everything that was left open. The reasons stand in docs/decisions.md."""
    selection, inference, classes = settings.selection, settings.inference, traits.is_classification
    wish = getattr(inference, "learn_inducing", False)
    few_numbers = traits.n_active * traits.n_features <= MOST_LEARNED_INPUTS
    learn_inducing = few_numbers if wish == "auto" else bool(wish)
    update_every = getattr(selection, "update_every", None)
    learning = _learning(settings, traits, learn_inducing, update_every)
    if learning == "along":
        update_every = update_every or REAL_UPDATES
    per_feature = learning != "none" and _has_lengthscales(settings, traits)
    starts = Starts(
        variance=30.0 if classes else 1.0,
        variances=(1.0, 10.0, 100.0) if classes else (1.0,),
        per_feature=per_feature,
        with_linear=not (per_feature and classes and learning in EVIDENCE),
        with_polynomials=traits.has_common_scale,
    )
    # Predictive selections judge themselves by rows of the sample, local blocks by each row left out.
    predictive = type(selection) in PREDICTIVE and not inference.sees_all_rows
    judges_itself = predictive or isinstance(inference, Local)
    choices = Choices(
        selection=selection,
        inference=inference,
        learning=learning,
        update_every=update_every,
        learn_inducing=learn_inducing,
        validation=False if judges_itself and settings.validation is None else settings.validation,
        default_kernel=starts,
        starts=None if settings.kernel is not None else starts,
        sizes=FOR_CLASSES if classes else FOR_REAL_TARGETS,
        likelihoods=_joint_likelihoods(settings, traits),
        has_many_classes=traits.n_heads > 1,
        likelihood=settings.likelihood,
        joint_spread=settings.joint_spread,
    )
    if settings.multiclass == "joint" and not inference.sees_all_rows:
        return replace(
            choices, likelihoods=(), multiway=choices.likelihoods[0], likelihood=None, validation=False
        )
    if isinstance(selection, IVM2003 | IVM2006):
        return _printed_ivm(settings, traits, choices)
    return _printed_pass(settings, traits, choices) if getattr(selection, "literal", False) else choices


def _check_two_classes(name: str, traits: Traits, *, real_too: bool = False) -> None:
    """Refuse what a paper's algorithm has no word about."""
    if not traits.is_classification and not real_too:
        raise ParameterError(f"{name} is for two classes, but the targets are real numbers")
    if traits.n_heads > 1:
        raise ParameterError(
            f"{name} is for two classes: the paper has one model, with its own kernel, for each. "
            f"Give it to sklearn.multiclass.OneVsRestClassifier"
        )


def _printed_ivm(settings: FitSettings, traits: Traits, choices: Choices) -> Choices:
    """What the papers of the IVM leave open, and what they do not: see docs/papers/ivm.md."""
    is_first, classes = isinstance(choices.selection, IVM2003), traits.is_classification
    _check_two_classes(f"IVM.paper{2003 if is_first else 2006}()", traits, real_too=not is_first)
    starts = Starts(
        variance=10.0 if classes else 1.0,
        variances=(1.0, 10.0, 100.0),
        per_feature=not classes,
        with_linear=False,
        with_polynomials=False,
    )
    by_errors = is_first and settings.learning is True and settings.kernel is None
    return replace(
        choices,
        learning="none"
        if not settings.learning
        else "constant"
        if settings.learning is True
        else choices.learning,
        default_kernel=starts,
        starts=starts if settings.kernel is None else None,
        validation=settings.validation if by_errors or settings.validation is not None else False,
        is_printed=True,
    )


def _printed_pass(settings: FitSettings, traits: Traits, choices: Choices) -> Choices:
    """What [PASS2012] leaves open, and what it does not: see docs/papers/passgp.md."""
    _check_two_classes(f"{type(choices.selection).__name__}.paper()", traits)
    return replace(
        choices,
        is_printed=True,
        learning="along" if settings.learning else "none",
        update_every=(choices.selection.update_every or 1) if settings.learning else None,
        default_kernel=Starts(
            1.0, (1.0,), per_feature=False, with_linear=False, with_polynomials=False, with_white=True
        ),
        likelihood=Probit() if settings.likelihood is None else settings.likelihood,
    )


def _joint_likelihoods(settings: FitSettings, traits: Traits) -> tuple[Any, ...]:
    """One likelihood of all classes, where they are to be learned jointly; of two there is one function."""
    given, shares = settings.likelihood, np.asarray(traits.class_shares)
    if traits.n_heads == 1 and isinstance(given, JointLikelihood):
        raise ParameterError(f"likelihood={given!r} is for three classes or more; here are two")
    if settings.multiclass != "joint":
        return ()
    if traits.n_heads > 1 and given is not None and not isinstance(given, JointLikelihood):
        raise ParameterError(f"likelihood={given!r} is for two classes; here are {traits.n_heads}")
    over_all_rows = settings.inference.sees_all_rows
    if traits.n_heads == 1 and not over_all_rows:
        raise ParameterError(
            "multiclass='joint' with selection='ivm' is for three classes or more; here are two: leave it out"
        )
    spreads = over_all_rows and settings.joint_spread and traits.n_heads > 1
    ignored = {
        "inference": over_all_rows and not (spreads or _leaves_open(settings.inference)),
        "learn_hyperparameters": over_all_rows and settings.learning not in (True, False),
        "scratch": settings.scratch is not None and not spreads,
    }
    for name in (name for name, is_given in ignored.items() if is_given):
        value = settings.learning if name == "learn_hyperparameters" else getattr(settings, name)
        raise ParameterError(f"{name}={value!r} has no effect with multiclass='joint': leave it out")
    if over_all_rows and settings.kernel is not None and settings.kernel.has_white_noise and not spreads:
        raise ParameterError(
            f"the white noise of kernel={settings.kernel!r} has no effect with multiclass='joint', a "
            f"mode without variances: leave it out, or give multiclass='shared'"
        )
    if given is not None:
        return (given,)
    if traits.n_heads == 1:
        return (Logit(bias=float(np.log(shares[1] / shares[0]))),)
    return (Softmax(biases=tuple((np.log(shares) - np.log(shares).mean()).tolist())),)


def _has_lengthscales(settings: FitSettings, traits: Traits) -> bool:
    """Whether each feature can have a lengthscale of its own."""
    is_judged = settings.multiclass == "joint" or isinstance(settings.inference, Local)
    if is_judged and not traits.has_common_scale:
        return traits.n_features <= MOST_JUDGED_FEATURES
    return traits.has_few_features


def _leaves_open(inference: Any) -> bool:
    """Whether nothing is asked of inference that a mode does not have: it has a tolerance and a limit."""
    return (inference.residual, inference.power, inference.learn_inducing) == ("auto",) * 3


def _learning(settings: FitSettings, traits: Traits, learn_inducing: bool, update_every: int | None) -> str:
    """The way of learning: as asked for, else by the rules of "auto"."""
    if settings.learning is not True:
        return settings.learning or "none"
    few, classes = traits.has_few_features, traits.is_classification
    if isinstance(settings.inference, Local):
        return "blocks"
    if settings.inference.sees_all_rows:
        known = "constant" if update_every is None else "along"
        return "evidence" if not classes or learn_inducing or few else known
    if type(settings.selection) not in PREDICTIVE:
        return "constant"
    if update_every is not None or not classes:
        return "along"
    return "evidence" if few else "constant"


# Ways of learning before the selection, and after it; each is a function of the choices that gives stages.


def _nothing(choices: Choices) -> Recipe:
    return ()


def _by_criterion(choices: Choices) -> Recipe:
    own, tune = choices.selection, choices.inference.calibrate
    selection = own if isinstance(own, IVM) else IVM()
    rounds = learn_by_criterion(selection, strategy=choices.learning, tune=tune)
    return choose_start(selection, choices.starts), rounds


def _by_evidence(choices: Choices) -> Recipe:
    return (climb_starts(choices.sizes, choices.starts),)


def _by_blocks(choices: Choices) -> Recipe:
    return learn_local(choices.starts), learn_near()


def _by_evidence_and_centres(choices: Choices) -> Recipe:
    # Active rows are chosen by the kernel that is learned in full.
    return (*_by_evidence(choices), refine_with_centres(choices.sizes))


def _refine(choices: Choices) -> Recipe:
    # Inducing inputs are chosen in the learned metric, and then take part in learning.
    return (refine_with_inducing(choices.sizes, learn_inputs=choices.learn_inducing),)


def _refine_by_all_rows(choices: Choices) -> Recipe:
    most_sweeps = choices.inference.most_sweeps
    last = refine_by_all_rows(learn_inputs=choices.learn_inducing, most_sweeps=most_sweeps)
    return (*_refine(choices), last)


BEFORE: dict[str, Compose] = dict.fromkeys(("constant", "hybrid", "exact"), _by_criterion)
BEFORE_ACTIVE = BEFORE | {"evidence": _by_evidence_and_centres}
BEFORE_INDUCING = BEFORE | {"evidence": _by_evidence, "passes": _by_evidence}
BEFORE_BLOCKS = BEFORE_INDUCING | {"blocks": _by_blocks}
AFTER_INDUCING: dict[str, Compose] = {"evidence": _refine, "passes": _refine_by_all_rows}


# Selections.


def _grow(choices: Choices) -> Recipe:
    # With inference over all rows the sites of this selection are not the model's: no use in watching.
    watching = None if choices.inference.sees_all_rows else Watching(choices.inference.calibrate)
    selection = choices.selection
    first = (grow_actives(selection, watching),)
    return first if selection.virtual is None else (*first, select_again(selection.virtual, first))


def _exchange(choices: Choices) -> Recipe:
    selection, every, calibrated = choices.selection, choices.update_every, choices.inference.calibrate
    chooses = choices.learning == "along" and choices.starts is not None
    choose_kernel = partial(best_start, choices.default_kernel) if chooses else None
    update = None if every is None else climb_active_evidence
    first = draw_first(selection, choose_kernel), Exchange(selection, update, every or 1, calibrated).stage()
    if selection.virtual is None:
        return first
    own = _of_virtual(selection)
    again = draw_first(own, None), Exchange(own, None, 1, calibrated).stage()
    return *first, select_again(selection.virtual, again)


def _of_virtual(selection: Any) -> Any:
    """The second selection of PASS-GP, from active rows and their transformations: more rows enter."""
    return replace(selection, p_inc=selection.p_inc_virtual) if isinstance(selection, PASS) else selection


def _draw(choices: Choices) -> Recipe:
    return (draw_inducing() if choices.inference.sees_all_rows else draw_actives(),)


SELECT: dict[type[Selection], Compose] = {
    IVM: _grow,
    PASS: _exchange,
    FPASS: _exchange,
    Random: _draw,
    Kmeans: lambda choices: (centre_inducing(choices.selection),),
    EvidenceGain: lambda choices: (gain_inducing(choices.selection),),
}
SELECT_INDUCING: dict[type[Selection], Compose] = SELECT | {Random: lambda choices: (draw_inducing(),)}
PREDICTIVE = (PASS, FPASS)


# Inferences: each knows where learning and selection stand.


def _select(choices: Choices) -> Recipe:
    return SELECT[type(choices.selection)](choices)


def _combine(choices: Choices) -> Recipe:
    # Probabilities of one class against the rest, normalised, are not yet those of classes.
    return (combination(),) if choices.has_many_classes else ()


def _with_active_set(choices: Choices) -> Recipe:
    calibrated = (calibration(),) if choices.inference.calibrate else ()
    return (
        *BEFORE_ACTIVE.get(choices.learning, _nothing)(choices),
        *_select(choices),
        *SITES[type(choices.inference)](choices),
        *calibrated,
        *(_combine(choices) if calibrated else ()),
    )


def _over_all_rows(choices: Choices) -> Recipe:
    inference = choices.inference
    return (
        *BEFORE_INDUCING.get(choices.learning, _nothing)(choices),
        *_select(choices),
        *AFTER_INDUCING.get(choices.learning, _nothing)(choices),
        choose_approximation(inference, refit=choices.learning != "none"),
        sweep_all_rows(inference),
        *_combine(choices),
    )


def _as_printed(choices: Choices) -> Recipe:
    """Algorithm 1 of [PASS2012], nothing added."""
    selection, every = choices.selection, choices.update_every
    update = None if every is None else climb_evidence_alone
    exchange = Exchange(selection, update, every or 1, calibrated=False, keeps_best=False)
    first: Recipe = (draw_printed(selection), exchange.stage())
    if selection.virtual is not None:
        own = _of_virtual(selection)
        again = Exchange(own, None, 1, calibrated=False, keeps_best=False)
        first = (*first, select_again(selection.virtual, (draw_printed(own), again.stage())))
    return *first, *_propagate(choices)


def _as_in_2003(choices: Choices) -> Recipe:
    """The IVM of [IVM2003]: kernels judged by errors, the bias's variance, randomised greedy selection."""
    selection, starts = choices.selection, choices.starts
    learned = () if choices.learning == "none" or starts is None else (choose_by_errors(selection, starts),)
    return *learned, add_bias_variance(selection), select_printed(selection), *_calibrate_if_asked(choices)


def _as_in_2006(choices: Choices) -> Recipe:
    """The IVM of [IVM2006]: learning by the criterion of all rows, then the selection once more."""
    selection = choices.selection
    learned = () if choices.learning == "none" else (learn_as_printed(selection, choices.learning),)
    return *learned, select_printed(selection), *_calibrate_if_asked(choices)


def _calibrate_if_asked(choices: Choices) -> Recipe:
    return (calibration(),) if choices.inference.calibrate else ()


def _in_blocks(choices: Choices) -> Recipe:
    inference = choices.inference
    return (
        *BEFORE_BLOCKS.get(choices.learning, _nothing)(choices),
        *_select(choices),
        *AFTER_INDUCING.get(choices.learning, _nothing)(choices),
        group_rows(inference),
        sweep_local_blocks(inference),
        local_calibration(),
    )


def _jointly(choices: Choices) -> Recipe:
    learned = () if choices.learning == "none" else (judge_kernels(choices.starts, choices.default_kernel),)
    selected = SELECT_INDUCING[type(choices.selection)](choices)
    mode = find_joint_mode(choices.inference)
    # A temperature is for a point; where variances are asked for, they are what tempers.
    last = sweep_joint_classes(choices.inference) if choices.joint_spread else point_calibration()
    return *learned, *selected, mode, last


def _multiway(choices: Choices) -> Recipe:
    # The paper has no criterion for several classes: the kernel is learned by each of them against the rest.
    learned = BEFORE_ACTIVE.get(choices.learning, _nothing)(choices)
    return *learned, select_multiway(choices.selection, choices.multiway)


def _propagate(choices: Choices) -> Recipe:
    return (propagate_actives(with_all_rows=type(choices.selection) in PREDICTIVE),)


PRINTED: dict[type[Selection], Compose] = {
    PASS: _as_printed,
    FPASS: _as_printed,
    IVM2003: _as_in_2003,
    IVM2006: _as_in_2006,
}
SITES: dict[type[Inference], Compose] = {ADF: _nothing, EP: _propagate}
COMPOSE: dict[type[Inference], Compose] = {
    ADF: _with_active_set,
    EP: _with_active_set,
    FITC: _over_all_rows,
    Local: _in_blocks,
}
