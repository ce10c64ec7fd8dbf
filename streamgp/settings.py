"""Settings of the public interface, checked at the door: what is asked for, and what cannot go together.

The settings of a selection live in :mod:`streamgp.selection`; all of them can be imported from here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.budget import parse_size
from streamgp.data.standardize import Standardize
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.inference.inducing.basis import Approximation
from streamgp.kernels import NAMED_KERNELS, Kernel, kernel_from_json
from streamgp.likelihoods import NAMED_LIKELIHOODS, JointLikelihood, Likelihood, likelihood_from_json
from streamgp.passes.progress import Progress
from streamgp.passes.run import check_client
from streamgp.posterior import Precision
from streamgp.posterior.precision import check_precision
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans, Random


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
        process (DTC).
    power : float or "auto"
        Power of expectation propagation. 1 is EP, towards 0 it becomes variational.
    learn_inducing : bool or "auto"
        Whether learning moves the inducing inputs. "auto": where they are at most 4000 numbers in all.
    tolerance : float
        Sweeps end when tilted moments and posterior agree as closely as this.
    most_sweeps : int
        Sweeps over all rows at most.
    """

    residual: float | Literal["auto"] = "auto"
    power: float | Literal["auto"] = "auto"
    learn_inducing: bool | Literal["auto"] = "auto"
    tolerance: float = 1e-3
    most_sweeps: int = 60

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
    training rows, on disk or, where they are few, in memory, and so does a saved one.

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
            _count("block_rows", self.block_rows)
        _count("neighbours", self.neighbours)
        if not self.tolerance > 0.0 or self.most_sweeps < 1:
            raise ParameterError(
                f"tolerance must be above 0 and most_sweeps at least 1, not {self.tolerance!r} and "
                f"{self.most_sweeps!r}"
            )


APPROXIMATIONS = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.1), (0.0, 1.0))
"""Residual and power: FITC, two powers between it and a variational bound, the projected process."""

Selection = IVM | IVM2003 | IVM2006 | PASS | FPASS | Random | Kmeans | EvidenceGain
Inference = ADF | EP | FITC | Local

SELECTIONS: dict[str, type[Selection]] = {
    "ivm": IVM,
    "ivm2003": IVM2003,
    "ivm2006": IVM2006,
    "pass": PASS,
    "fpass": FPASS,
    "random": Random,
    "kmeans": Kmeans,
    "gain": EvidenceGain,
}
INFERENCES: dict[str, type[Inference]] = {"adf": ADF, "ep": EP, "fitc": FITC, "local": Local}
DEFAULT_INFERENCE: dict[type[Selection], Callable[[], Inference]] = {
    IVM: ADF,
    IVM2003: lambda: ADF(calibrate=False),
    IVM2006: lambda: ADF(calibrate=False),
    Random: ADF,
    PASS: EP,
    FPASS: EP,
    Kmeans: FITC,
    EvidenceGain: FITC,
}
DEFAULT_SELECTION: dict[type[Inference], type[Selection]] = {ADF: IVM, EP: IVM, FITC: Kmeans, Local: Kmeans}
DEFAULT_ACTIVE = 500
"""Active rows where ``n_active`` is left open and no rule of ``streamgp.training.auto`` asks for others."""
LEARNING = (True, False, "constant", "hybrid", "exact", "evidence", "passes")


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
    kernel: Kernel | None
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
    def shared(self) -> bool:
        """Whether all classes share their active rows."""
        return self.inference.sees_all_rows or self.multiclass == "shared"


def fit_settings(parameters: dict[str, Any], seed: int, sample_weight: Any = None) -> FitSettings:
    """The settings of a fit from an estimator's parameters: each is checked alone, then with the others."""
    known = {field.name for field in dataclasses.fields(FitSettings)}
    checked = {name: value for name, value in parameters.items() if name in known}
    size_is_open = _is_auto(parameters["n_active"])
    method = _method(parameters)
    selection, inference = method or (Kmeans(), FITC())
    settings = FitSettings(
        **checked
        | {
            "n_active": DEFAULT_ACTIVE if size_is_open else _count("n_active", parameters["n_active"]),
            "selection": selection,
            "inference": inference,
            "method_is_open": method is None,
            "size_is_open": size_is_open,
            "multiclass": _one_of("multiclass", parameters.get("multiclass", "auto"), MULTICLASS),
            "kernel": _value("kernel", parameters["kernel"], Kernel, NAMED_KERNELS),
            "likelihood": _value(
                "likelihood", parameters["likelihood"], Likelihood | JointLikelihood, NAMED_LIKELIHOODS
            ),
            "client": None if parameters["client"] is None else check_client(parameters["client"]),
            "learning": _one_of("learn_hyperparameters", parameters["learn_hyperparameters"], LEARNING),
            "class_weight": parameters.get("class_weight"),
            "memory_budget": parse_size(parameters["memory_budget"]),
            "max_seconds": _seconds(parameters["max_seconds"]),
            "sample_weight": None if sample_weight is None else np.asarray(sample_weight, np.float64),
            "seed": seed,
        }
    )
    check_precision(settings.precision)
    check_together(settings)
    return settings


MULTICLASS = ("auto", "joint", "per_class", "shared")


def check_together(settings: FitSettings) -> None:
    """Refuse settings of which one would be ignored, with both named."""
    selection, inference, learning = settings.selection, settings.inference, settings.learning
    inducing, predictive = isinstance(selection, Kmeans | EvidenceGain), isinstance(selection, PASS | FPASS)
    over_all_rows, fitc = inference.sees_all_rows, isinstance(inference, FITC)
    by_probability = predictive and not over_all_rows
    name, is_literal = type(selection).__name__, getattr(selection, "literal", False)
    pairs = [
        (inducing and not over_all_rows, f"selection={name}(...)", OVER_ALL_ROWS),
        (
            predictive and isinstance(inference, ADF),
            f"selection={name}(...)",
            "inference='ep', 'fitc' or 'local'",
        ),
        (settings.class_weight is not None and by_probability, "class_weight", WEIGHTED),
        (settings.sample_weight is not None and by_probability, "sample_weight", WEIGHTED),
        (settings.scratch is not None and not over_all_rows, "scratch", OVER_ALL_ROWS),
        (learning == "passes" and not fitc, "learn_hyperparameters='passes'", "inference='fitc'"),
        (
            over_all_rows and settings.multiclass == "per_class",
            "multiclass='per_class'",
            "inference='adf' or 'ep': with 'fitc' and 'local' all classes share their inducing inputs",
        ),
        (settings.multiclass == "joint" and not fitc, "multiclass='joint'", "inference='fitc'"),
        (
            settings.multiclass == "joint" and isinstance(selection, IVM | PASS | FPASS),
            "multiclass='joint'",
            f"selection='kmeans', 'random' or 'gain': {name} chooses rows for one class at a time",
        ),
        (
            isinstance(settings.likelihood, JointLikelihood) and settings.multiclass != "joint",
            f"likelihood={type(settings.likelihood).__name__}(...)",
            "multiclass='joint'",
        ),
        (
            settings.kernel is not None
            and settings.kernel.has_white_noise
            and getattr(inference, "residual", 1.0) == 0.0,
            f"kernel={settings.kernel!r}, whose white noise is residual variance,",
            "a residual above 0",
        ),
        (
            isinstance(inference, FITC)
            and inference.learn_inducing is True
            and learning not in (True, "evidence", "passes"),
            "learn_inducing=True",
            "the evidence: learn_hyperparameters=True, 'evidence' or 'passes'",
        ),
        (
            isinstance(selection, IVM2003 | IVM2006) and not isinstance(inference, ADF),
            f"selection={name}(...)",
            "inference='adf'",
        ),
        (
            isinstance(selection, IVM2003) and not isinstance(learning, bool),
            f"selection={name}(...)",
            "learn_hyperparameters=True or False: kernels are chosen by errors of rows held out",
        ),
        (
            isinstance(selection, IVM2006) and learning == "evidence",
            "learn_hyperparameters='evidence'",
            f"another selection than {name}(...), which learns by the criterion",
        ),
        (is_literal and not isinstance(inference, EP), f"{name}.paper()", "inference='ep'"),
        (
            is_literal and not isinstance(learning, bool),
            f"{name}.paper()",
            "learn_hyperparameters=True or False",
        ),
        (
            predictive and getattr(selection, "update_every", None) is not None and learning in NO_UPDATES,
            f"{name}(update_every=...)",
            f"learn_hyperparameters=True, 'evidence' or 'passes', not {learning!r}",
        ),
    ]
    for cannot_act, one, other in pairs:
        if cannot_act:
            raise ParameterError(f"{one} goes only with {other}")


OVER_ALL_ROWS = "inference='fitc' or 'local'"
WEIGHTED = (
    f"{OVER_ALL_ROWS}, or selection='ivm' or 'random': 'pass' and 'fpass' exchange rows by probability, "
    "whatever they weigh"
)
NO_UPDATES = (False, "constant", "hybrid", "exact")


def refuse_for_real_targets(settings: FitSettings) -> None:
    """Refuse what only classes have, once the targets are known to be real numbers."""
    for name, value, default in (
        ("multiclass", settings.multiclass, "auto"),
        ("class_weight", settings.class_weight, None),
    ):
        if value != default:
            raise ParameterError(
                f"{name}={value!r} is for classes, but the targets are real numbers: leave it out, or give "
                f"task='classification'"
            )


def task_of(task: Task, likelihood: Any) -> Task:
    """The task, which a likelihood decides where it is left open; a contradiction is refused."""
    if likelihood is None:
        return task
    classes = isinstance(likelihood, JointLikelihood) or likelihood.is_classification
    if task == "auto":
        return "classification" if classes else "regression"
    if classes != (task == "classification"):
        kind = "classes" if classes else "numbers"
        raise ParameterError(
            f"likelihood={likelihood!r} is for {kind}, but the task is {task}: leave the likelihood out, or "
            f"use the other estimator"
        )
    return task


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(f"{name} must be an integer of at least 1, not {value!r}")
    return int(value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value < math.inf:
        raise ParameterError(f"max_seconds must be None or a number of at least 0, not {value!r}")
    return float(value)


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if not isinstance(value, bool | str) or value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def _chosen(name: str, value: Any, known: dict[str, Any]) -> Any:
    """Settings as given, or the defaults of the kind that a string names."""
    if isinstance(value, tuple(known.values())):
        return value
    if not isinstance(value, str) or value not in known:
        words = ", ".join(map(repr, known))
        objects = ", ".join(f"{kind.__name__}(...)" for kind in known.values())
        raise ParameterError(f"{name}={value!r} is not known; use {words}, or settings: {objects}")
    return known[value]()


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _method(parameters: dict[str, Any]) -> tuple[Selection, Inference] | None:
    """Selection and inference as given, or as the other parameters imply them; None: data decide."""
    selection, inference = parameters["selection"], parameters["inference"]
    if not _is_auto(inference):
        inference = _chosen("inference", inference, INFERENCES)
    if not _is_auto(selection):
        selection = _chosen("selection", selection, SELECTIONS)
        return selection, DEFAULT_INFERENCE[type(selection)]() if _is_auto(inference) else inference
    if not _is_auto(inference):
        return DEFAULT_SELECTION[type(inference)](), inference
    learning, multiclass = parameters["learn_hyperparameters"], parameters.get("multiclass", "auto")
    if multiclass in ("per_class", "shared") or learning in ("constant", "hybrid", "exact"):
        return IVM(), ADF()
    over_all_rows = multiclass == "joint" or isinstance(parameters["likelihood"], JointLikelihood)
    if over_all_rows or learning in ("evidence", "passes"):
        return Kmeans(), FITC()
    return None


def _value(name: str, value: Any, kind: Any, known: dict[str, Any]) -> Any:
    """A kernel or likelihood as given, or that of a name."""
    if value is None or isinstance(value, kind):
        return value
    if isinstance(value, str) and value in known:
        return known[value]()
    kinds = ", ".join(f"{each.__name__}(...)" for each in known.values())
    raise ParameterError(
        f"{name}={value!r} is not known; use one of streamgp.{name}s: {kinds}, or a name: "
        f"{', '.join(map(repr, known))}"
    )


# Parameters of an estimator on disk: plain values, settings objects, kernels and likelihoods.

_KINDS = {kind.__name__: kind for kind in (*SELECTIONS.values(), *INFERENCES.values())}


def parameter_to_json(value: Any) -> Any:
    """A parameter as JSON, None where it cannot be written down (a client, rows of a validation set)."""
    if type(value).__name__ in _KINDS:
        return {"settings": type(value).__name__, "fields": dataclasses.asdict(value)}
    if isinstance(value, Kernel | Likelihood | JointLikelihood):
        try:
            return {"kernel" if isinstance(value, Kernel) else "likelihood": value.to_json()}
        except ParameterError:  # a likelihood of the user's own that is not registered
            return None
    if isinstance(value, dict) and all(isinstance(part, str | int | float) for part in value.values()):
        pairs = [[label.item() if isinstance(label, np.generic) else label, w] for label, w in value.items()]
        return {"weights": pairs} if all(isinstance(label, str | int | float) for label, _ in pairs) else None
    return value if isinstance(value, str | int | float) else None


def parameter_from_json(document: Any) -> Any:
    """The parameter that was written."""
    if not isinstance(document, dict):
        return document
    if "settings" in document:
        return _KINDS[document["settings"]](**document["fields"])
    if "weights" in document:
        return dict(document["weights"])
    if "kernel" in document:
        return kernel_from_json(document["kernel"])
    return likelihood_from_json(document["likelihood"])
