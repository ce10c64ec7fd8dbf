"""What a fit is asked for, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamgp.arrays import FloatArray
from streamgp.data.standardize import Standardize
from streamgp.kernels import ClassKernels, Kernel
from streamgp.passes.progress import Progress
from streamgp.posterior import Precision
from streamgp.settings.inferences import FITC
from streamgp.settings.methods import Inference, Selection


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What a fit is asked for; names and meanings are those of the estimators' parameters.

    ``multiclass`` "auto", ``learning`` True, ``validation`` None and so on are left to the recipe. Where
    ``method_is_open`` or ``size_is_open``, selection and inference, or ``n_active``, are stand-ins: the fit
    settles them when it has seen the data (:mod:`streamgp.training.auto`).
    """

    n_active: int
    selection: Selection
    inference: Inference
    multiclass: str
    kernel: Kernel | ClassKernels | None
    likelihood: Any
    learning: bool | str
    class_weight: Any
    sample_weight: FloatArray | None
    standardize: Standardize
    precision: Precision
    memory_budget: int
    validation: Any
    max_seconds: float | None
    seed: int
    client: Any
    checkpoint: Any
    scratch: Any
    progress: bool | Progress | None
    method_is_open: bool = False
    size_is_open: bool = False

    @property
    def joint_spread(self) -> bool:
        """Whether joint classes are to have variances: a residual is given, and nothing that they lack."""
        inference = self.inference
        if self.multiclass != "joint" or not isinstance(inference, FITC) or inference.residual == "auto":
            return False
        return inference.power in ("auto", 1) and inference.learn_inducing == "auto"

    @property
    def shared(self) -> bool:
        """Whether all classes share their active rows."""
        return self.inference.sees_all_rows or self.multiclass == "shared"
