"""Methods, which are pairs of a selection and an inference: their names, and which goes with which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamgp.likelihoods import JointLikelihood
from streamgp.selection import FPASS, IVM, IVM2003, IVM2006, PASS, EvidenceGain, Kmeans, Random
from streamgp.settings.checks import chosen, is_auto
from streamgp.settings.inferences import ADF, EP, FITC, Local

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


def method(parameters: dict[str, Any]) -> tuple[Selection, Inference] | None:
    """Selection and inference as given, or as the other parameters imply them; None: data decide."""
    selection, inference = parameters["selection"], parameters["inference"]
    if not is_auto(inference):
        inference = chosen("inference", inference, INFERENCES)
    if not is_auto(selection):
        selection = chosen("selection", selection, SELECTIONS)
        default = DEFAULT_INFERENCE[type(selection)]()
        if isinstance(selection, IVM) and parameters.get("multiclass") == "joint":
            default = ADF(calibrate=False)  # the multi-way IVM has probabilities of its own
        return selection, default if is_auto(inference) else inference
    if not is_auto(inference):
        return DEFAULT_SELECTION[type(inference)](), inference
    learning, multiclass = parameters["learn_hyperparameters"], parameters.get("multiclass", "auto")
    if getattr(parameters["likelihood"], "takes_unlabelled", False):
        return IVM(), ADF()  # the only method that can
    if multiclass in ("per_class", "shared") or learning in ("constant", "hybrid", "exact"):
        return IVM(), ADF()
    over_all_rows = multiclass == "joint" or isinstance(parameters["likelihood"], JointLikelihood)
    if over_all_rows or learning in ("evidence", "passes"):
        return Kmeans(), FITC()
    return None
