"""What a fit over all rows through inducing inputs knows between two sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Approximation, Basis, make_basis
from streamgp.inference.inducing.fit import Damping
from streamgp.inference.inducing.posterior import InducingPosterior, posterior_from_moments
from streamgp.kernels import Kernel


@dataclass(frozen=True, eq=False)
class SweepState:
    """Moments of the present sites, and how far they have come.

    ``generation`` numbers the sites on disk; 0: they are flat, and the moments are those of a sample that
    stands for all rows; Gaussian noise has none there. ``precision`` is the type of the
    passes. One entry per head in ``damping``, ``converged``, ``evidence`` and ``skipped``, the number of rows
    without a cavity.
    Shapes: moment_matrices (heads, m, m), moment_vectors (heads, m).
    """

    approximation: Approximation
    precision: str
    moment_matrices: FloatArray
    moment_vectors: FloatArray
    generation: int = 0
    damping: tuple[Damping, ...] = ()
    converged: tuple[bool, ...] = ()
    evidence: tuple[float, ...] = ()
    skipped: tuple[int, ...] = ()

    def basis(self, kernel: Kernel, inducing: FloatArray) -> Basis:
        """The basis that all sweeps and the model share, in float64."""
        return make_basis(kernel, inducing, self.precision)

    def posteriors(self) -> tuple[InducingPosterior, ...]:
        """The posterior of each head."""
        pairs = zip(self.moment_matrices, self.moment_vectors, strict=True)
        return tuple(posterior_from_moments(matrix, vector) for matrix, vector in pairs)

    def to_record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON and arrays for the disk."""
        header = {
            "approximation": [self.approximation.residual, self.approximation.power],
            "precision": self.precision,
            "generation": self.generation,
            # JSON has no infinity, which is where residuals start.
            "damping": [[d.step, d.residual if np.isfinite(d.residual) else None] for d in self.damping],
            "converged": list(self.converged),
            "evidence": list(self.evidence),
            "skipped": list(self.skipped),
        }
        return header, {"matrices": self.moment_matrices, "vectors": self.moment_vectors}

    @staticmethod
    def from_record(header: dict[str, Any], arrays: dict[str, Array]) -> SweepState:
        """The state that was written."""
        return SweepState(
            approximation=Approximation(*header["approximation"]),
            precision=header["precision"],
            moment_matrices=arrays["matrices"],
            moment_vectors=arrays["vectors"],
            generation=header["generation"],
            damping=tuple(
                Damping(step, np.inf if residual is None else residual)
                for step, residual in header["damping"]
            ),
            converged=tuple(header["converged"]),
            evidence=tuple(header["evidence"]),
            skipped=tuple(header["skipped"]),
        )
