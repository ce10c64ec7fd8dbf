"""Inferences: what an active set says, once it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from streamgp.errors import ParameterError
from streamgp.inference.inducing.basis import Approximation
from streamgp.settings.checks import count

APPROXIMATIONS = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.1), (0.0, 1.0))
"""Residual and power: FITC, two powers between it and a variational bound, the projected process."""


@dataclass(frozen=True)
class ADF:
    """Assumed density filtering: each site of the active set is visited once, as in the IVM.

    Parameters
    ----------
    calibrate : bool
        Rescale latent means and variances by the density of training rows, each as if left out.
    """

    calibrate: bool = True

    sees_all_rows: ClassVar[bool] = False
    powers: ClassVar[tuple[float, ...]] = (1.0,)


@dataclass(frozen=True)
class EP:
    """Expectation propagation on the active set, until nothing changes.

    Parameters
    ----------
    calibrate : bool
        Rescale latent means and variances by the density of training rows, each as if left out.
    """

    calibrate: bool = True

    sees_all_rows: ClassVar[bool] = False
    powers: ClassVar[tuple[float, ...]] = (1.0,)


@dataclass(frozen=True)
class FITC:
    """Generalized FITC: expectation propagation over all rows, with the active set as inducing inputs.

    "auto" keeps residual and power at 1 unless rows held out prefer another pair by more than a standard
    error of their log density. The kernel's variance (for real targets, the noise) is refitted for each pair.

    Parameters
    ----------
    residual : float or "auto"
        How much of what the inducing inputs leave unexplained of a row counts. 1 is FITC, 0 the projected
        process (DTC). With ``multiclass="joint"`` a number asks for variances beside the mode, for which
        ``learn_hyperparameters="evidence"`` learns by the evidence of all classes together.
    power : float or "auto"
        Power of expectation propagation. 1 is EP, towards 0 it becomes variational.
    learn_inducing : bool or "auto"
        Whether learning moves the inducing inputs. "auto": where they are at most 4000 numbers in all.
    tolerance : float
        Sweeps end when tilted moments and posterior agree as closely as this.
    most_sweeps : int
        Sweeps over all rows at most.
    virtual_rows : bool
        With a selection that has ``virtual``: transformations of the selected rows are rows of inference too.
    hyperpriors : bool
        Whether learning by the evidence adds log hyperpriors to it; False: the evidence alone.
    """

    residual: float | Literal["auto"] = "auto"
    power: float | Literal["auto"] = "auto"
    learn_inducing: bool | Literal["auto"] = "auto"
    tolerance: float = 1e-3
    most_sweeps: int = 60
    virtual_rows: bool = False
    hyperpriors: bool = True

    calibrate: ClassVar[bool] = True  # as far as a selection of inducing inputs asks
    sees_all_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("residual", "power"):
            value = getattr(self, name)
            if value != "auto" and (isinstance(value, bool | str) or not isinstance(value, int | float)):
                raise ParameterError(f"{name} must be 'auto' or a number, not {value!r}")
        Approximation(*(1.0 if each == "auto" else float(each) for each in (self.residual, self.power)))
        if self.learn_inducing not in (True, False, "auto"):
            raise ParameterError(f"learn_inducing must be True, False or 'auto', not {self.learn_inducing!r}")
        if not self.tolerance > 0.0 or self.most_sweeps < 1:
            raise ParameterError(
                f"tolerance must be above 0 and most_sweeps at least 1, not {self.tolerance!r} and "
                f"{self.most_sweeps!r}"
            )

    @staticmethod
    def paper(**changes: Any) -> FITC:
        """Generalized FITC as it is printed in [FITC2007]; ``changes`` are its fields.

        The paper has one isotropic RBF as kernel. The differences from the defaults are numbered in
        docs/papers/fitc.md.
        """
        literal = {"residual": 1.0, "power": 1.0, "learn_inducing": True, "hyperpriors": False}
        return FITC(**(literal | changes))

    @property
    def approximations(self) -> list[Approximation]:
        """Those among which "auto" chooses; a number given for residual or power is kept."""
        residual, power = self.residual, self.power
        pairs = [
            (s if residual == "auto" else float(residual), a if power == "auto" else float(power))
            for s, a in APPROXIMATIONS
        ]
        return [Approximation(*pair) for pair in dict.fromkeys(pairs)]

    @property
    def powers(self) -> tuple[float, ...]:
        """Powers of the likelihood that may be computed with."""
        return tuple({choice.power for choice in self.approximations})


@dataclass(frozen=True)
class Local:
    """Local blocks: expectation propagation over all rows, in which near rows speak for themselves.

    What the inducing inputs leave unexplained is explained by blocks of near rows. The model holds all
    training rows, on disk or, where they are few, in memory, and so does a saved one. Where a model must not
    contain them, ``inference="fitc"`` excludes blocks from what "auto" may choose.

    Several classes are told apart one against the rest: each class has its own sites in the same blocks, all
    share one kernel, which is judged for all classes jointly, and their probabilities are calibrated
    together. So C classes cost C times as much as two; no joint likelihood is used for sites, which was no
    better where it was tried.

    Parameters
    ----------
    block_rows : int or "auto"
        Rows of a block. More are more accurate, and a row costs their square. "auto": 500, or all rows in one
        block up to 1000 of them, which is the exact process; fewer where the memory budget asks for it.
    neighbours : int
        Blocks that predict a new row: the nearest ones.
    tolerance : float
        Sweeps end when the left-out log density of a row changes by no more than this, on average.
    most_sweeps : int
        Sweeps over all rows at most.
    """

    block_rows: int | Literal["auto"] = "auto"
    neighbours: int = 2
    tolerance: float = 2e-3
    most_sweeps: int = 40

    calibrate: ClassVar[bool] = True
    sees_all_rows: ClassVar[bool] = True
    powers: ClassVar[tuple[float, ...]] = (1.0,)

    def __post_init__(self) -> None:
        if self.block_rows != "auto":
            count("block_rows", self.block_rows)
        count("neighbours", self.neighbours)
        if not self.tolerance > 0.0 or self.most_sweeps < 1:
            raise ParameterError(
                f"tolerance must be above 0 and most_sweeps at least 1, not {self.tolerance!r} and "
                f"{self.most_sweeps!r}"
            )
