"""Small fits of every kind, and the bits of their models: the table of :mod:`tests.safety_net`."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array
import numpy as np
import zarr
from numpy.typing import NDArray

import streamgp
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Logit
from streamgp.persistence import CheckpointFolder
from streamgp.selection import FPASS, IVM, PASS

Bits = dict[str, NDArray[Any]]

N_ROWS, NEW_ROWS, CHUNK_ROWS = 600, 200, 140  # the last of five chunks has 40 rows
DASK_CHUNKS = (90, 210, 40, 160, 100)
MOST_KILLS = 200

SELECTIONS: dict[str, Any] = {
    "ivm": "ivm",
    "ivm_few": IVM(candidates=100),  # with 40 active rows: two stages, a pass between them
    "random": "random",
    "pass": PASS(n_init=12, block_rows=150),
    "pass_update": PASS(n_init=12, block_rows=150, update_every=2),
    "fpass": FPASS(block_rows=150),
    "kmeans": "kmeans",
    "gain": "gain",
}
SELECTIONS_OF = {
    "adf": ("ivm", "ivm_few", "random"),
    "ep": ("ivm", "ivm_few", "random", "pass", "pass_update", "fpass"),
    "fitc": tuple(SELECTIONS),
}
LEARNING = {"off": False, "on": True} | {name: name for name in ("constant", "hybrid", "evidence", "passes")}
IN_INFERENCE = ("residual", "power", "learn_inducing", "calibrate")
"""Parameters of the settings FITC, ADF and EP."""

# Learning has one start instead of several, and moves away from it: what is undone in the end shows little.
START = {"kernel": RBF(1.0, 5.0) + Linear(1.0)}
CRITERION, EVIDENCE, PASSES = (
    {"learn_hyperparameters": name, **START} for name in ("constant", "evidence", "passes")
)
SHARED = {"multiclass": "shared"}
# A part of the rows in memory, so that candidates and blocks come from the store.
LITTLE, LITTLE_FITC = {"memory_budget": "1MiB"}, {"memory_budget": "1280KiB"}

SPECIAL: dict[str, dict[str, Any]] = {  # a regular case, and what is changed in it
    "three/ivm/adf/off +criterion": CRITERION,
    "three/fpass/ep/off +evidence": EVIDENCE,
    "three/kmeans/fitc/off +passes": PASSES,
    "three/ivm/adf/off +shared": SHARED,
    "three/ivm_few/ep/off +shared": SHARED,
    "three/random/ep/off +shared": SHARED,
    "three/pass/ep/off +shared": SHARED,
    "three/ivm/adf/off +shared+criterion": SHARED | CRITERION,
    "two/ivm/adf/off +uncalibrated": {"calibrate": False},
    "two/ivm/adf/constant +uncalibrated": {"calibrate": False},
    "two/fpass/ep/off +uncalibrated": {"calibrate": False},
    "two/random/fitc/off +projected": {"residual": 0.0},
    "two/random/fitc/off +power": {"residual": 0.5, "power": 0.5},
    "real/ivm/fitc/evidence +projected": {"residual": 0.0},
    "two/ivm/fitc/on +learned_inputs": {"learn_inducing": True, **START},
    "real/kmeans/fitc/passes +kept_inputs": {"learn_inducing": False},
    "three/ivm/fitc/off +class_weights": {"class_weight": "balanced"},
    "two/kmeans/fitc/off +row_weights": {"weighted": True},
    "real/gain/fitc/evidence +row_weights": {"weighted": True},
    "two/ivm/adf/constant +little_memory": LITTLE | {"n_active": 50},
    "three/ivm/adf/off +little_memory": LITTLE | {"n_active": 40},
    "real/random/ep/off +little_memory": LITTLE,
    "two/pass/ep/off +little_memory": LITTLE,
    "two/pass_update/ep/on +little_memory": LITTLE,
    "three/fpass/ep/off +little_memory": LITTLE,
    "two/ivm_few/fitc/off +little_memory": LITTLE_FITC,
    "two/kmeans/fitc/off +little_memory": LITTLE_FITC,
    "real/gain/fitc/evidence +little_memory": LITTLE_FITC,
    "two/ivm/adf/off +float32": {"precision": "float32"},
    "two/ivm_few/adf/off +float32": {"precision": "float32"},
    "three/random/fitc/off +float32": {"precision": "float32"},
    "two/ivm/ep/off +logit": {"likelihood": Logit()},
    "two/ivm/adf/off +arrays": {"source": "arrays"},
    "two/pass/ep/off +arrays": {"source": "arrays", "selection": "pass"},
    "real/fpass/ep/on +arrays": {"source": "arrays", "selection": "fpass"},
    "two/ivm/adf/constant +dask": {"source": "dask"},
    "real/kmeans/fitc/evidence +dask": {"source": "dask"},
    "two/ivm/adf/off +none_held_out": {"validation": False},
    "two/random/fitc/off +many_held_out": {"validation": 0.3},
    "two/ivm/adf/off +common_scale": {"standardize": "common"},
    "two/random/ep/off +all_active": {"n_active": 700},
    "two/ivm/adf/off +entropy": {"selection": IVM("entropy_reduction", hot=20, delay=4)},
    "two/ivm_few/adf/off +half_refreshed": {"selection": IVM(candidates=80, refresh=0.5)},
    "two/fpass/ep/off +doubted": {"selection": FPASS(block_rows=150, p_min=0.1, p_del=0.9)},
    "two/ivm_few/adf/on +late": {"max_seconds": 0.0},
    "two/fpass/ep/constant +late": {"max_seconds": 0.0},
    "real/ivm/fitc/passes +late": {"max_seconds": 0.0},
    "two/ivm_few/adf/constant +killed": {"killed_every": 15},
    "three/ivm_few/adf/off +killed": {"killed_every": 1, **SHARED},
    "two/pass_update/ep/on +killed": {"killed_every": 15},
    "real/kmeans/fitc/passes +killed": {"killed_every": 30},
    "two/gain/fitc/off +killed": {"killed_every": 2},
}

STORED = (
    "two/ivm/adf/off",
    "two/ivm/adf/constant",
    "two/ivm_few/ep/off",
    "two/pass/ep/off",
    "two/gain/fitc/off",
    "two/random/fitc/off+power",
    "three/ivm/adf/off+little_memory",
    "three/ivm_few/ep/off+shared",
    "three/fpass/ep/off+little_memory",
    "three/ivm/fitc/off+class_weights",
    "real/ivm/adf/off",
    "real/kmeans/fitc/off",
)
"""Cases that other processors move by 1e-11 at most; most of those that learn by the evidence move more."""
STORED_ROWS = 6
STORED_PATH = Path(__file__).parent / "training" / "stored_predictions.json"


@dataclass(frozen=True)
class Case:
    """One fit: its data, the estimator's parameters, where rows come from, and how often it is killed."""

    data: str
    settings: Mapping[str, Any]
    source: str = "store"
    weighted: bool = False
    killed_every: int = 0  # checkpoints after which the fit dies; then it is called again


def is_regular(data: str, selection: str, inference: str, learning: str) -> bool:
    """Whether all four can act, and show what no quicker case does: only real targets have all of them."""
    if learning == "passes" and inference != "fitc":
        return False
    if selection == "pass_update" and learning in ("off", "constant", "hybrid"):
        return False  # what is updated along the way is not learned by the criterion
    on_is_evidence = inference == "fitc" or selection in ("pass", "fpass")
    if data == "two" and learning == "passes":
        return selection in ("ivm", "fpass", "kmeans")
    if data == "two" and learning == "evidence":
        return not on_is_evidence
    return data != "three" or learning == "off"


def make_cases() -> dict[str, Case]:
    """Selection × inference × learning, then the special ones."""
    cases = {}
    for data, inference, learning in itertools.product(("two", "three", "real"), SELECTIONS_OF, LEARNING):
        for selection in SELECTIONS_OF[inference]:
            if is_regular(data, selection, inference, learning):
                settings = {"selection": SELECTIONS[selection], "inference": inference}
                settings["n_active"] = 40 if selection == "ivm_few" else 24
                settings["learn_hyperparameters"] = LEARNING[learning]
                given = {} if learning in ("off", "on") else START
                cases[f"{data}/{selection}/{inference}/{learning}"] = Case(data, settings | given)
    for name, changes in SPECIAL.items():
        regular, _, what = name.partition(" ")
        own = {key: value for key, value in changes.items() if key in ("source", "weighted", "killed_every")}
        others = {key: value for key, value in changes.items() if key not in own}
        cases[regular + what] = Case(cases[regular].data, {**cases[regular].settings, **others}, **own)
    return cases


CASES = make_cases()


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the estimator, whichever of its constructors is here.

    Before there was ``streamgp.settings`` it took the parameters of the inference itself: the ``except`` can
    go when the baseline has moved.
    """
    inner = {name: value for name, value in settings.items() if name in IN_INFERENCE}
    outer = {name: value for name, value in settings.items() if name not in inner}
    try:
        from streamgp import settings as kinds
    except ImportError:
        return outer | inner
    return outer | ({"inference": getattr(kinds, outer["inference"].upper())(**inner)} if inner else {})


def make_rows(seed: int, n_rows: int) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
    """Features in different units, and targets of each kind, with noise."""
    generator = np.random.default_rng(seed)
    a, b, c, d = generator.standard_normal((4, n_rows))
    real = np.sin(1.5 * a) + 0.5 * b * c + 0.2 * generator.standard_normal(n_rows)
    two = np.where(real + 0.3 * d > 0.0, "yes", "no")
    features = np.stack([0.1 * a, b, 10.0 * c, d], axis=1) + 3.0
    return features.astype(np.float32), {"real": real, "two": two, "three": np.digitize(real, [-0.5, 0.5])}


def fit_case(case: Case) -> Any:
    """The fitted estimator."""
    X, targets = make_rows(0, N_ROWS)
    y = targets[case.data]
    weights = np.random.default_rng(2).integers(1, 4, N_ROWS) if case.weighted else None
    kind = streamgp.StreamGPRegressor if case.data == "real" else streamgp.StreamGPClassifier
    estimator = kind(**parameters(case.settings), random_state=3, progress=False)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.source == "arrays":
            return estimator.fit(X, y, sample_weight=weights)
        if case.source == "dask":
            chunked = (dask.array.from_array(part, chunks=(DASK_CHUNKS, *part.shape[1:])) for part in (X, y))
            return estimator.fit(*chunked, sample_weight=weights)
        store = zarr.open_group(Path(folder, "rows.zarr"), mode="w")
        for name, part in (("X", X), ("y", y)):
            dtype = str if part.dtype.kind == "U" else part.dtype
            chunks = (CHUNK_ROWS, *part.shape[1:])
            store.create_array(name, shape=part.shape, dtype=dtype, chunks=chunks)[:] = part
        if not case.killed_every:
            return estimator.fit_stream(store, sample_weight=weights)
        estimator.set_params(checkpoint=Path(folder, "checkpoint"))
        return resumed(lambda: estimator.fit_stream(store, sample_weight=weights), case.killed_every)


class KillError(BaseException):
    """What a fit dies of: nothing catches it."""


def resumed(fit: Callable[[], Any], killed_every: int) -> Any:
    """What a fit arrives at that dies whenever it has saved so many checkpoints, and is called again."""
    save = CheckpointFolder.save
    for _ in range(MOST_KILLS):
        saves = itertools.count(1)

        def save_and_die(*arguments: Any, saves: Any = saves, **named: Any) -> None:
            save(*arguments, **named)
            if next(saves) == killed_every:
                raise KillError

        with patch.object(CheckpointFolder, "save", save_and_die), suppress(KillError):
            return fit()
    raise RuntimeError(f"killed {MOST_KILLS} times and still not fitted")


def model_bits(model: Any, n_rows: int = NEW_ROWS) -> Bits:
    """What must be the same of two models: what they have learned, and what they say of new rows."""
    X, _ = make_rows(1, n_rows)
    mean, variance = model.predict_latent(X)
    is_real = not hasattr(model, "classes_")
    likelihoods = (model.likelihood_,) if is_real else model.likelihood_
    return {
        "active_rows": model.active_rows_,
        "kernel": model.kernel_.log_parameters,
        "likelihood": np.concatenate([likelihood.parameters for likelihood in likelihoods]),
        "latent_mean": mean,
        "latent_variance": variance,
        "prediction": np.stack(model.predict(X, return_std=True), 1) if is_real else model.predict_proba(X),
    }
