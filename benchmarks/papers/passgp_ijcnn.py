"""Figure 6 of [PASS2012]: ijcnn1, error against the size of the active set and against time.

    python -m benchmarks.papers.passgp_ijcnn --active 100 300 1000 --seeds 0 1 2

Fixed hyperparameters of the paper: an RBF of variance 1 and squared lengthscale 1/8 plus White(1/16) on
features as they are, for the IVM a linear kernel beside it; ``--learn paper`` starts from them and learns.
``--gamma 0.125`` reads the paper's 1/8, which it has from work on support vector machines, as their γ in
exp(−γ d²), not as a squared lengthscale (γ = 4). ``--bias`` gives the likelihood of both a fixed bias, that
of the class shares, which the paper does not mention.
``--learn`` is the library's default instead: one lengthscale for each feature, learned; ``--learn evidence``:
by the evidence of a sample. ``fpass+fitc`` takes the active rows as inducing inputs of all rows. ``--peers``
adds SVC (C = 16, the same RBF) and Nystroem + logistic regression with so many points. ``--validate`` tests
on a fifth of the training rows, left out, instead of the test set; ``--follow 0.2`` on the last fifth: rows
of ijcnn1 are in the order of time, and the test set follows. ``fpass-paper`` and ``ivm-paper`` are the
papers' algorithms as printed (``FPASS.paper()``, ``IVM.paper2006()``).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from benchmarks.datasets import load_split
from benchmarks.harness import (
    DATA,
    Options,
    Row,
    Rows,
    Script,
    defaults,
    deviation,
    means,
    measured,
    measured_peer,
    option,
)
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF, Kernel, Linear, White
from streamgp.likelihoods import Probit
from streamgp.selection import FPASS, IVM
from streamgp.settings import ADF, EP, FITC

METHODS: dict[str, tuple[str, type]] = {  # selection, inference
    "fpass": ("fpass", EP),
    "fpass+fitc": ("fpass", FITC),
    "pass": ("pass", EP),
    "fpass-paper": ("fpass-paper", EP),
    "ivm": ("ivm", ADF),
    "ivm-paper": ("ivm-paper", ADF),
    "ivm+ep": ("ivm", EP),
    "random": ("random", EP),
}
LEARNING = ("default", "evidence", "paper")
MEASURED = ("error_percent", "log_loss", "calibration_error", "seconds")
SETTINGS = ("p_exc", "p_del", "p_min", "passes", "gamma", "bias")


def paper_kernel(selection: str, gamma: float) -> Kernel:
    kernel = RBF(1.0, (2.0 * gamma) ** -0.5) + White(1 / 16)
    return kernel + Linear(1.0) if selection.startswith("ivm") else kernel


def hyperparameters(options: Options, selection: str, inference: type, share: float) -> dict[str, Any]:
    """Settings of the model that say what is fixed and what is learned; ``share`` of the second class."""
    likelihood = Probit(float(ndtri(share)) if options.bias else 0.0)
    paper = {"kernel": paper_kernel(selection, options.gamma), "standardize": False, "inference": inference()}
    fixed = inference() if inference is FITC else inference(calibrate=False)
    return {
        "default": {"inference": inference()},
        "evidence": {"inference": inference(), "learn_hyperparameters": "evidence"},
        "paper": paper,
        None: {**paper, "inference": fixed, "likelihood": likelihood, "learn_hyperparameters": False},
    }[options.learn]


def our_model(method: str, n_active: int, options: Options, seed: int, share: float) -> StreamGPClassifier:
    name, inference = METHODS[method]
    shares = {"p_exc": options.p_exc, "p_del": options.p_del, "p_min": options.p_min}
    selections = {
        "fpass": FPASS(n_pass=options.passes, **shares),
        "fpass-paper": FPASS.paper(n_pass=options.passes),
        "ivm-paper": IVM.paper2006(),
    }
    return StreamGPClassifier(
        n_active,
        selection=selections.get(name, name),
        validation=None if inference is FITC else False,
        memory_budget=options.memory_budget,
        random_state=seed,
        **hyperparameters(options, name, inference, share),
    )


def nystroem(n_active: int, seed: int, gamma: float) -> Any:
    features = Nystroem(gamma=gamma, n_components=n_active, random_state=seed)
    return make_pipeline(features, LogisticRegression(C=1000.0, max_iter=2000))


def rows(options: Options) -> Rows:
    split = load_split("ijcnn1", options).drawn(options.rows).fold(0 if options.validate else None, 5)
    split = split.following(options.follow)
    share = float(np.mean(split.y_train == split.y_train.max()))
    common = {"learned": options.learn or False, "validated": options.validate, "follow": options.follow}
    common |= {name: getattr(options, name) for name in SETTINGS}

    def averaged(method: str, n_active: int | None, found: list[Row]) -> Row:
        told = {"method": method, "active": n_active, "seeds": len(found), **means(found, *MEASURED)}
        peak = max(row["peak_bytes"] for row in found)
        return {**told, "deviation": deviation(found, "error_percent"), "peak_bytes": peak, **common}

    for n_active in options.active:
        for method in options.methods:
            models = [our_model(method, n_active, options, seed, share) for seed in options.seeds]
            yield averaged(method, n_active, [measured(model, split) for model in models])
        if options.peers:
            models = [nystroem(n_active, seed, options.gamma) for seed in options.seeds]
            yield averaged("nystroem+logistic", n_active, [measured_peer(model, split) for model in models])
    if options.peers:
        yield averaged("svc", None, [measured_peer(SVC(C=16.0, gamma=options.gamma), split)])


OPTIONS = (
    *DATA,
    option("--methods", ["fpass", "ivm", "random"], choices=list(METHODS), nargs="*"),
    option("--learn", None, nargs="?", const="default", choices=LEARNING),
    option("--follow", None, "share of the training rows, the last ones, to test on", type=float),
    *defaults(active=[100, 300, 1000], seeds=[0], passes=4, memory_budget="1GiB"),
    option("--gamma", 4.0, "of the RBF that is fixed, and of the peers'"),
    *defaults(
        p_exc=FPASS.p_exc, p_del=FPASS.p_del, p_min=FPASS.p_min, peers=False, validate=False, bias=False
    ),
)
SCRIPT = Script("passgp_ijcnn", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
