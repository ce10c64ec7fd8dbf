"""Settings of the public interface, checked at the door: what is asked for, and what cannot go together.

The settings of a selection live in :mod:`streamgp.selection`; all of them can be imported from here.
"""

from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans, Random
from streamgp.settings.door import DEFAULT_ACTIVE, fit_settings
from streamgp.settings.fit import FitSettings
from streamgp.settings.inferences import ADF, EP, FITC, Local
from streamgp.settings.methods import INFERENCES, SELECTIONS, Inference, Selection
from streamgp.settings.saved import parameter_from_json, parameter_to_json
from streamgp.settings.together import check_together, refuse_for_real_targets, task_of

__all__ = [
    "ADF",
    "DEFAULT_ACTIVE",
    "EP",
    "FITC",
    "FPASS",
    "INFERENCES",
    "IVM",
    "IVM2003",
    "IVM2006",
    "PASS",
    "SELECTIONS",
    "EvidenceGain",
    "FitSettings",
    "Inference",
    "Kmeans",
    "Local",
    "Random",
    "Selection",
    "check_together",
    "fit_settings",
    "parameter_from_json",
    "parameter_to_json",
    "refuse_for_real_targets",
    "task_of",
]
