"""Recipes that every test of robustness goes through: a new one joins by an entry here."""

from __future__ import annotations

from typing import Any

from streamgp.settings import FITC

Settings = dict[str, Any]

RECIPES: dict[str, Settings] = {
    "ivm, adf": {"selection": "ivm"},
    "ivm, ep": {"selection": "ivm", "inference": "ep"},
    "pass, ep": {"selection": "pass"},
    "fpass, ep": {"selection": "fpass"},
    "random, adf": {"selection": "random"},
    "random, fitc": {"selection": "random", "inference": "fitc"},
    "kmeans, fitc": {"selection": "kmeans"},
    "gain, fitc": {"selection": "gain"},
    "ivm, fitc, passes": {"selection": "ivm", "inference": "fitc", "learn_hyperparameters": "passes"},
    "kmeans, joint classes": {"selection": "kmeans", "multiclass": "joint", "classes": 3},
    "kmeans, joint sweeps": {
        "selection": "kmeans",
        "multiclass": "joint",
        "inference": FITC(residual=1.0),
        "classes": 3,
    },
    "local blocks": {"inference": "local"},
    "local blocks, three classes": {"inference": "local", "classes": 3},
    "chosen by a trial": {},
}
"""Settings of fits; ``classes`` is how many the data have, two where it is not said."""
