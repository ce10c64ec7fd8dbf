"""From settings to choices: what was left open is settled by the shape of the data."""

from __future__ import annotations

from dataclasses import replace

from streamgp.errors import ParameterError
from streamgp.kernels import ClassKernels
from streamgp.likelihoods import Gaussian
from streamgp.selection import FPASS, IVM2003, IVM2006, PASS
from streamgp.selection.predictive import REAL_UPDATES
from streamgp.settings import FitSettings, Local
from streamgp.training.choices.joint import joint_likelihoods
from streamgp.training.choices.printed import printed_ivm, printed_pass
from streamgp.training.choices.values import Choices, Traits
from streamgp.training.learn.evidence import FOR_CLASSES, FOR_REAL_TARGETS
from streamgp.training.starts import Starts

MOST_LEARNED_INPUTS = 4000
"""Numbers in the inducing inputs up to which they are learned, where nothing else is asked for."""
MOST_JUDGED_FEATURES = 300
"""Features up to which each has its own lengthscale where rows that are not learned from decide about it, and
features are no pixels."""
FEWEST_MEANS_FIRST = 300
"""Inducing inputs from which sweeps of classes begin at the mode: with fewer a sweep costs as little."""
EVIDENCE = ("evidence", "passes")
"""Ways of learning by the evidence: of a sample alone, or in the end of all rows."""
PREDICTIVE = (PASS, FPASS)
"""Selections by predictive probability."""


def resolve(settings: FitSettings, traits: Traits) -> Choices:
    """Settle everything that was left open. The reasons stand in docs/decisions.md."""
    selection, choices = settings.selection, _settled(settings, traits)
    if settings.multiclass == "joint" and not settings.inference.sees_all_rows:
        own = settings.kernel if isinstance(settings.kernel, ClassKernels) else None
        if own is not None and len(own) != traits.n_heads:
            raise ParameterError(f"kernel is a list of {len(own)} kernels for {traits.n_heads} classes")
        by_default = "judged" if own is None else "constant"
        return replace(
            choices,
            kernel_by_class=own is not None,
            learning=by_default if settings.learning is True else choices.learning,
            likelihoods=(),
            multiway=choices.likelihoods[0].of_shares(traits.class_shares),
            likelihood=None,
            validation=False,
        )
    if isinstance(selection, IVM2003 | IVM2006):
        return printed_ivm(settings, traits, choices)
    return printed_pass(settings, traits, choices) if getattr(selection, "literal", False) else choices


def _settled(settings: FitSettings, traits: Traits) -> Choices:
    """The choices of every method; some are made again where a paper says otherwise."""
    inference, classes = settings.inference, traits.is_classification
    wish = getattr(inference, "learn_inducing", False)
    few_numbers = traits.n_active * traits.n_features <= MOST_LEARNED_INPUTS
    learn_inducing = few_numbers if wish == "auto" else bool(wish)
    update_every = getattr(settings.selection, "update_every", None)
    learning = _learning(settings, traits, learn_inducing, update_every)
    if learning == "along":
        update_every = update_every or REAL_UPDATES
    starts = _starts(settings, traits, learning)
    return Choices(
        selection=settings.selection,
        inference=inference,
        learning="joint evidence" if settings.joint_spread and settings.learning == "evidence" else learning,
        update_every=update_every,
        learn_inducing=learn_inducing,
        validation=False if settings.validation is None and _judges_itself(settings) else settings.validation,
        default_kernel=starts,
        starts=None if settings.kernel is not None else starts,
        sizes=FOR_CLASSES if classes else FOR_REAL_TARGETS,
        likelihoods=joint_likelihoods(settings, traits),
        has_many_classes=traits.n_heads > 1,
        likelihood=settings.likelihood,
        joint_spread=settings.joint_spread,
        has_normal_noise=not classes and isinstance(settings.likelihood, Gaussian | None),
        means_first=classes and traits.n_active >= FEWEST_MEANS_FIRST,
    )


def _starts(settings: FitSettings, traits: Traits, learning: str) -> Starts:
    """Kernels that learning starts from; the first of them where nothing is learned."""
    classes = traits.is_classification
    per_feature = learning != "none" and _has_lengthscales(settings, traits)
    return Starts(
        variance=30.0 if classes else 1.0,
        variances=(1.0, 10.0, 100.0) if classes else (1.0,),
        per_feature=per_feature,
        with_linear=not (per_feature and classes and learning in EVIDENCE),
        with_polynomials=traits.has_common_scale,
    )


def _judges_itself(settings: FitSettings) -> bool:
    """Predictive selections judge themselves by rows of the sample, local blocks by each row left out."""
    inference = settings.inference
    predictive = type(settings.selection) in PREDICTIVE and not inference.sees_all_rows
    return predictive or isinstance(inference, Local)


def _has_lengthscales(settings: FitSettings, traits: Traits) -> bool:
    """Whether each feature can have a lengthscale of its own."""
    is_judged = settings.multiclass == "joint" or isinstance(settings.inference, Local)
    if is_judged and not traits.has_common_scale:
        return traits.n_features <= MOST_JUDGED_FEATURES
    return traits.has_few_features


def _learning(settings: FitSettings, traits: Traits, learn_inducing: bool, update_every: int | None) -> str:
    """The way of learning: as asked for, else by the rules of "auto"."""
    if settings.learning is not True:
        return settings.learning or "none"
    few, classes = traits.has_few_features, traits.is_classification
    if isinstance(settings.inference, Local):
        # A given kernel is learned by the blocks' own criterion; judges would choose its variance alone.
        return "judged" if traits.n_heads > 1 and settings.kernel is None else "blocks"
    if settings.inference.sees_all_rows:
        known = "constant" if update_every is None else "along"
        return "evidence" if not classes or learn_inducing or few else known
    if type(settings.selection) not in PREDICTIVE:
        return "constant"
    if update_every is not None or not classes:
        return "along"
    return "evidence" if few else "constant"
