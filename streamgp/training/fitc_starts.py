"""Kernels that learning by evidence starts from."""

from __future__ import annotations

from streamgp.kernels import RBF, Kernel, Linear, Matern32
from streamgp.kernels.composite import Sum
from streamgp.training.context import Context
from streamgp.training.starts import start_kernels


def evidence_starts(context: Context) -> list[Kernel]:
    """The usual starts, and each of their RBFs as a Matern: evidence tells smooth functions from rough ones.

    A linear part of its own is left out where it is one of many terms that the evidence could tell.
    """
    starts = start_kernels(context)
    return starts + [_rougher(start) for start in starts if isinstance(start, Sum)]


def _rougher(kernel: Sum) -> Kernel:
    terms = [
        Matern32(term.variance, term.lengthscale) if isinstance(term, RBF) else term for term in kernel.terms
    ]
    assert any(isinstance(term, Linear) for term in terms)
    return Sum(tuple(terms))
