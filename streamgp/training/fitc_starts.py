"""Kernels that learning by evidence starts from, beside the usual ones."""

from __future__ import annotations

from streamgp.kernels import RBF, Kernel, Matern32
from streamgp.kernels.composite import Sum


def rough_twin(kernel: Kernel) -> Kernel | None:
    """The kernel with every RBF replaced by a Matern, None where there is none.

    Evidence tells smooth functions from rough ones: protein is rough, kin40k smooth.
    """
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    if not any(isinstance(term, RBF) for term in terms):
        return None
    rough = tuple(
        Matern32(term.variance, term.lengthscale) if isinstance(term, RBF) else term for term in terms
    )
    return Sum(rough) if len(rough) > 1 else rough[0]
