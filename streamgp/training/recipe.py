"""From choices to a recipe: which stages a method consists of, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from streamgp.likelihoods import Softmax
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans, Random
from streamgp.settings import ADF, EP, FITC, FitSettings, Inference, Local, Selection
from streamgp.training.by_class import fit_by_class, learn_by_class
from streamgp.training.calibrate import (
    calibration,
    combination,
    local_calibration,
    point_calibration,
    spread_calibration,
    tails,
)
from streamgp.training.choices import PREDICTIVE, Choices, Traits, resolve
from streamgp.training.group import group_rows
from streamgp.training.infer.active import propagate_actives
from streamgp.training.infer.all_rows import sweep_all_rows
from streamgp.training.infer.approximation import choose_approximation
from streamgp.training.infer.extra_rows import over_extra_rows
from streamgp.training.infer.joint import sweep_joint_classes
from streamgp.training.infer.local import sweep_local_blocks
from streamgp.training.infer.means import find_first_means
from streamgp.training.infer.mode import find_joint_mode
from streamgp.training.learn.active import best_start, climb_active_evidence, climb_evidence_alone
from streamgp.training.learn.all_rows import refine_by_all_rows
from streamgp.training.learn.criterion import choose_start, learn_by_criterion
from streamgp.training.learn.evidence import climb_starts, refine_with_centres, refine_with_inducing
from streamgp.training.learn.joint import climb_joint_evidence
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
from streamgp.training.select.virtual import of_fewer, select_again
from streamgp.training.select.watch import Watching
from streamgp.training.stage import Recipe, Stage

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
        stages = printed(choices)
        # The papers have a model with its own parameters for each class.
        return (fit_by_class(stages),) if choices.has_many_classes else stages
    return COMPOSE[type(choices.inference)](choices)


# Ways of learning before the selection, and after it; each is a function of the choices that gives stages.


def _nothing(choices: Choices) -> Recipe:
    return ()


def _by_criterion(choices: Choices) -> Recipe:
    own, tune = choices.selection, choices.inference.calibrate
    selection = own if isinstance(own, IVM) else IVM()
    rounds = learn_by_criterion(selection, strategy=choices.learning, tune=tune)
    return choose_start(selection, choices.starts), rounds


def _by_judges(choices: Choices) -> Recipe:
    return (judge_kernels(choices.starts, choices.default_kernel, choices.multiway),)


def _by_evidence(choices: Choices) -> Recipe:
    return (climb_starts(choices.sizes, choices.starts),)


def _by_blocks(choices: Choices) -> Recipe:
    return learn_local(choices.starts), learn_near(chooses_family=choices.starts is not None)


def _by_judges_and_near_rows(choices: Choices) -> Recipe:
    # The kernel that suits classes jointly suits each of them against the rest.
    judges = judge_kernels(choices.starts, choices.default_kernel, Softmax())
    return judges, learn_near(chooses_family=True)


def _by_evidence_and_centres(choices: Choices) -> Recipe:
    # Active rows are chosen by the kernel that is learned in full.
    return (*_by_evidence(choices), refine_with_centres(choices.sizes))


def _by_joint_evidence(choices: Choices) -> Recipe:
    # Judges choose a family, where none is given; evidence is for the kernel that it leads to.
    first = () if choices.starts is None else _by_judges(choices)
    return *first, climb_joint_evidence(float(choices.inference.residual))


def _refine(choices: Choices) -> Recipe:
    # Inducing inputs are chosen in the learned metric, and then take part in learning.
    return (refine_with_inducing(choices.sizes, learn_inputs=choices.learn_inducing),)


def _refine_by_all_rows(choices: Choices) -> Recipe:
    most_sweeps = choices.inference.most_sweeps
    last = refine_by_all_rows(learn_inputs=choices.learn_inducing, most_sweeps=most_sweeps)
    return (*_refine(choices), last)


JOINTLY: dict[str, Compose] = {"none": _nothing, "joint evidence": _by_joint_evidence}
BEFORE: dict[str, Compose] = dict.fromkeys(("constant", "hybrid", "exact"), _by_criterion)
BEFORE_ACTIVE = BEFORE | {"evidence": _by_evidence_and_centres}
BEFORE_MULTIWAY = BEFORE_ACTIVE | {"judged": _by_judges}
BEFORE_INDUCING = BEFORE | {"evidence": _by_evidence, "passes": _by_evidence}
BEFORE_BLOCKS = BEFORE_INDUCING | {"blocks": _by_blocks, "judged": _by_judges_and_near_rows}
AFTER_INDUCING: dict[str, Compose] = {"evidence": _refine, "passes": _refine_by_all_rows}


# Selections.


def _grow(choices: Choices) -> Recipe:
    # With inference over all rows the sites of this selection are not the model's: no use in watching.
    watching = None if choices.inference.sees_all_rows else Watching(choices.inference.calibrate)
    return _chosen_again(choices.selection, grow_actives(choices.selection, watching))


def _chosen_again(selection: IVM, chosen: Stage) -> Recipe:
    """A selection and, where it has transformations, the same once more from what it has chosen."""
    if selection.virtual is None:
        return (chosen,)
    first = chosen if selection.n_first is None else of_fewer(chosen, selection.n_first)
    return first, select_again(selection.virtual, (chosen,))


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


def _first_means(choices: Choices) -> Recipe:
    # Rows that are made of others have no place in the store, where first sites are kept.
    return (find_first_means(),) if choices.means_first and not choices.inference.virtual_rows else ()


def _sweep(choices: Choices) -> Stage:
    sweeps = sweep_all_rows(choices.inference)
    return over_extra_rows(choices.selection.virtual, sweeps) if choices.inference.virtual_rows else sweeps


def _over_all_rows(choices: Choices) -> Recipe:
    inference = choices.inference
    return (
        *BEFORE_INDUCING.get(choices.learning, _nothing)(choices),
        *_select(choices),
        *AFTER_INDUCING.get(choices.learning, _nothing)(choices),
        choose_approximation(inference, refit=choices.learning != "none"),
        *_first_means(choices),
        _sweep(choices),
        *_combine(choices),
        *((tails(),) if choices.has_normal_noise and choices.validation is not False else ()),
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
    learned = JOINTLY.get(choices.learning, _by_judges)(choices)
    selected = SELECT_INDUCING[type(choices.selection)](choices)
    mode = find_joint_mode(choices.inference)
    if not choices.joint_spread:
        return *learned, *selected, mode, point_calibration()
    return *learned, *selected, mode, sweep_joint_classes(choices.inference), spread_calibration()


def _multiway(choices: Choices) -> Recipe:
    # The paper has no criterion for several classes: rows held out judge, or each class against the rest.
    learned = BEFORE_MULTIWAY.get(choices.learning, _nothing)(choices)
    if choices.kernel_by_class and learned:
        learned = (learn_by_class(learned),)
    chosen = select_multiway(choices.selection, choices.multiway)
    return *learned, *_chosen_again(choices.selection, chosen)


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
