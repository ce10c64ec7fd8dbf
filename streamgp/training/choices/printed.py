"""What the papers leave open in their algorithms as they are printed, and what they do not."""

from __future__ import annotations

from dataclasses import replace

from streamgp.errors import ParameterError
from streamgp.likelihoods import Probit
from streamgp.selection import IVM2003
from streamgp.settings import FitSettings
from streamgp.training.choices.values import Choices, Traits
from streamgp.training.starts import Starts


def printed_ivm(settings: FitSettings, traits: Traits, choices: Choices) -> Choices:
    """What the papers of the IVM leave open, and what they do not: see docs/papers/ivm.md."""
    is_first, classes = isinstance(choices.selection, IVM2003), traits.is_classification
    _check_classes(f"IVM.paper{2003 if is_first else 2006}()", traits, real_too=not is_first)
    starts = Starts(
        variance=10.0 if classes else 1.0,
        variances=(1.0, 10.0, 100.0),
        per_feature=not classes,
        with_linear=False,
        with_polynomials=False,
        from_variances=classes and not is_first,
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


def printed_pass(settings: FitSettings, traits: Traits, choices: Choices) -> Choices:
    """What [PASS2012] leaves open, and what it does not: see docs/papers/passgp.md."""
    _check_classes(f"{type(choices.selection).__name__}.paper()", traits)
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


def _check_classes(name: str, traits: Traits, *, real_too: bool = False) -> None:
    """Refuse what a paper's algorithm has no word about."""
    if not traits.is_classification and not real_too:
        raise ParameterError(f"{name} is for two classes, but the targets are real numbers")
