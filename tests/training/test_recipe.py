"""Which stages a fit consists of: one line for each method that can be asked for."""

from __future__ import annotations

import pytest

from streamgp.estimators.parameters import StreamGPParameters
from streamgp.kernels import RBF
from streamgp.likelihoods import Poisson
from streamgp.settings import FITC, PASS, fit_settings
from streamgp.training.choices import Traits
from streamgp.training.recipe import compose
from streamgp.training.stage import describe

TRAITS = {
    "two classes": Traits(8, 50, 1, True, False, (0.5, 0.5)),
    "three classes": Traits(8, 50, 3, True, False, (0.3, 0.3, 0.4)),
    "two classes, many inputs": Traits(8, 300, 1, True, False, (0.5, 0.5)),
    "real targets": Traits(8, 50, 1, False, False),
    "real targets, many inputs": Traits(8, 300, 1, False, False),
    "pixels": Traits(784, 50, 10, True, True, (0.1,) * 10),
}
SWEEPS = "infer: approximation -> infer: all rows"
CRITERION = "learn: start -> learn: criterion"
RECIPES = [
    ("two classes", {"selection": "ivm"}, f"{CRITERION} -> select: ivm -> calibrate"),
    ("three classes", {"selection": "ivm"}, f"{CRITERION} -> select: ivm -> calibrate -> combine"),
    (
        "two classes",
        {"selection": "ivm", "inference": "ep"},
        f"{CRITERION} -> select: ivm -> infer: ep -> calibrate",
    ),
    ("two classes", {"selection": "ivm", "learn_hyperparameters": False}, "select: ivm -> calibrate"),
    (
        "two classes",
        {"selection": "fpass"},
        "learn: evidence -> learn: refine -> select: draw -> select: exchange -> infer: ep -> calibrate",
    ),
    (
        "real targets",
        {"selection": "pass"},
        "select: draw -> select: exchange -> infer: ep -> calibrate",
    ),
    (
        "pixels",
        {"selection": "pass"},
        f"{CRITERION} -> select: draw -> select: exchange -> infer: ep -> calibrate -> combine",
    ),
    (
        "two classes",
        {"inference": "fitc"},
        f"learn: evidence -> select: kmeans -> learn: refine -> {SWEEPS}",
    ),
    ("pixels", {"inference": "fitc"}, f"{CRITERION} -> select: kmeans -> {SWEEPS} -> combine"),
    (
        "two classes",
        {"selection": "gain", "learn_hyperparameters": "passes"},
        f"learn: evidence -> select: gain -> learn: refine -> learn: all rows -> {SWEEPS}",
    ),
    ("three classes", {"multiclass": "joint"}, "learn: judged -> select: kmeans -> infer: mode -> calibrate"),
    (
        "three classes",
        {"multiclass": "joint", "inference": FITC(residual=1.0), "learn_hyperparameters": "evidence"},
        "learn: judged -> learn: joint evidence -> select: kmeans -> infer: mode -> infer: joint sweeps "
        "-> calibrate",
    ),
    (
        "two classes, many inputs",
        {"inference": "fitc", "learn_hyperparameters": False},
        "select: kmeans -> infer: approximation -> infer: means -> infer: all rows",
    ),
    (
        "real targets, many inputs",
        {"inference": "fitc", "learn_hyperparameters": False, "likelihood": Poisson()},
        f"select: kmeans -> {SWEEPS}",
    ),
    (
        "real targets, many inputs",
        {"inference": "fitc", "learn_hyperparameters": False},
        f"select: kmeans -> {SWEEPS} -> calibrate: tails",
    ),
    (
        "real targets, many inputs",
        {"inference": "fitc", "learn_hyperparameters": False, "validation": False},
        f"select: kmeans -> {SWEEPS}",
    ),
    (
        "real targets",
        {"inference": "local"},
        "learn: local -> learn: near rows -> select: kmeans -> group: blocks -> infer: local -> calibrate",
    ),
    (
        "three classes",
        {"inference": "local"},
        "learn: judged -> learn: near rows -> select: kmeans -> group: blocks -> infer: local -> calibrate",
    ),
    (
        "three classes",
        {"inference": "local", "kernel": RBF(1.0, 1.0)},
        "learn: local -> learn: near rows -> select: kmeans -> group: blocks -> infer: local -> calibrate",
    ),
    (
        "two classes",
        {"selection": PASS.paper(), "learn_hyperparameters": False},
        "select: draw -> select: exchange -> infer: ep",
    ),
]


@pytest.mark.parametrize(("traits", "parameters", "expected"), RECIPES)
def test_the_stages_of_a_method(traits, parameters, expected):
    asked = StreamGPParameters(n_active=50, **parameters).get_params(deep=False)
    assert describe(compose(fit_settings(asked, seed=0), TRAITS[traits])) == expected
