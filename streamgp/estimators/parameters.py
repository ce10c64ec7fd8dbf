"""The parameters of the estimators: what each means, and how they are read, set and copied."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator

from streamgp.data.standardize import Standardize
from streamgp.errors import ParameterError
from streamgp.estimators.nested import nested, replaced
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.progress import Progress
from streamgp.posterior import Precision
from streamgp.settings import Inference, Selection


class StreamGPParameters(BaseEstimator):  # type: ignore[misc]
    """What a fit is asked for: the parameters of classifier and regressor.

    Parameters
    ----------
    n_active : int or "auto"
        Size of the active set: rows that the model keeps, or inducing inputs. Time grows with its square.
        "auto": from the number of rows, the budget and what a pass costs.
    selection : {"auto", "ivm", "pass", "fpass", "random", "kmeans", "gain"} or settings of one of them
        How active rows are chosen.

        - "auto": if ``inference`` is "auto" too, a trial decides: a constant, a linear model, inducing inputs
          and local blocks are fitted to a sample, and rows that none of them saw judge. ``recipe_`` says what
          the trial found. If ``inference`` is given: "kmeans" for "fitc" and "local", else "ivm".
        - "ivm": greedily, the row that would teach most.
        - "pass": rows that are predicted badly enter, and rows that are predicted well leave, up to
          ``n_active`` rows. "fpass": the same, always with ``n_active`` rows.
        - "random": at random.
        - "kmeans": centres of clusters, each class with its own.
        - "gain": rows that raise the evidence most.

        Settings objects are in :mod:`streamgp.settings`.
    inference : {"auto", "adf", "ep", "fitc", "local"} or settings of one of them
        What the model learns through the active set.

        - "auto": by the trial (see ``selection``). If ``selection`` is given: "ep" for "pass" and "fpass",
          "fitc" for "kmeans" and "gain", else "adf".
        - "adf": assumed density filtering, which visits each active row once.
        - "ep": expectation propagation on the active rows, until nothing changes.
        - "fitc": expectation propagation over *all* rows. The active set are inducing inputs, shared by all
          classes; each sweep is one pass over the rows.
        - "local": the same, and blocks of near rows explain what the inducing inputs leave unexplained. It is
          the most accurate where a few hundred inducing inputs cannot resolve the function. The model then
          holds all training rows.

        Settings: :class:`~streamgp.settings.ADF`, :class:`~streamgp.settings.EP`,
        :class:`~streamgp.settings.FITC`, :class:`~streamgp.settings.Local`.
    kernel : Kernel, or a list of them, optional
        Covariance of the latent function, on standardised features; learning starts from it. Default: "local"
        and "joint" classes choose among several families by rows that are held or left out. The others take
        an RBF plus a linear kernel (no linear kernel where classes are learned by the evidence), with one
        lengthscale for each feature if there are at most 100. A list has one for each class, in the order of
        ``classes_``; it is for the multi-way IVM (``selection="ivm"``, ``multiclass="joint"``), where each is
        learned by its class against the rest.
    likelihood : Likelihood, optional
        Default :class:`~streamgp.likelihoods.Probit` with a bias from the class's share, or
        :class:`~streamgp.likelihoods.Gaussian`.
    multiclass : {"auto", "joint", "per_class", "shared"}
        How more than two classes are learned.

        - "per_class": each class against the rest, with an active set of ``n_active`` rows for each class.
          The default of "adf" and "ep".
        - "shared": each class against the rest, with one active set for all. The default of "fitc" and
          "local".
        - "joint": by one likelihood of all classes, :class:`~streamgp.likelihoods.Softmax` (of two classes,
          one function and :class:`~streamgp.likelihoods.Logit`). It gives the best probabilities of many
          classes, and is fast. It goes with "fitc" and "kmeans", "random" or "gain": the mode is found over
          all rows, without variances; with ``FITC(residual=...)`` expectation propagation follows, and there
          are variances. With "ivm" and "adf" it is the multi-way IVM: an active set for each class, chosen
          together.
    class_weight : "balanced" or dict, optional
        How often the rows of each class count. "balanced" gives all classes the same total. It acts as
        ``sample_weight`` of :meth:`fit_stream` does.
    learn_hyperparameters : bool or {"constant", "hybrid", "exact", "evidence", "passes"}
        How the parameters of kernel and likelihood are learned. False: they stay as given.

        - "constant": by the IVM's criterion on a sample, with sites held fixed in the inner loop. "hybrid":
          the same, with sites set anew before every search direction; "exact": at every evaluation.
        - "evidence": by the evidence of a sample, seen through inducing inputs; of joint classes that have
          variances, by the evidence of all of them together.
        - "passes": the same, and in the end by the evidence of all rows, in passes over them; only for
          "fitc".
        - True chooses: the evidence for "fitc", "pass" and "fpass" if there are at most 100 features (for
          "fitc" also if targets are real or inducing inputs are learned), else "constant". For "pass" and
          "fpass" on real targets it follows the evidence of the active set every 8 blocks.
    standardize : {"auto", "common"} or bool
        Shift and scale of the features; see :func:`streamgp.data.standardize.choose_standardizer`. With
        "auto", and a method that is "auto" too, columns of long tails are bent where that predicts better.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the passes; factors are always float64.
    memory_budget : int or str
        Bytes, or a size such as ``"1GiB"``, that the fit may use beside Python, its libraries and their
        compiled code: what it adds to a process that has run a small one.
    validation : None, False, "last", float or array of row numbers
        Rows held out to choose a method, to stop early, or to choose the approximation. None: min(5 %, 10000)
        of them, stratified; none for "pass" and "fpass" with "ep", and for "local". False: none. "last": the
        last twentieth of the rows, for rows in order of time and a model that is to predict later ones.
    max_seconds : float, optional
        Where methods are left open, those that would take longer by a rough estimate are not tried, and
        ``recipe_`` names them. Every stage ends with its current step once the time has passed.
    random_state : int, RandomState or None
        Source of all random draws.
    client : distributed.Client, optional
        Where passes run; default the current client, else threads.
    checkpoint : path, optional
        Folder where the state is kept after every step; a fit that finds one continues there.
    scratch : path, optional
        Folder where "fitc" keeps two numbers for each row and class meanwhile, and "local" its rows; every
        worker must see it. Default: beside the checkpoint, else the system's folder for temporary files.
    progress : bool or Progress, optional
        Progress bars: one for the whole fit, and one for each pass; default only on a terminal or in a
        notebook. A :class:`~streamgp.passes.progress.Progress` counts too.
    n_jobs : int, optional
        Threads of this process that fits and passes use; the model does not depend on it. Default and -1: all
        cores that it may use. Where a ``client`` reads the rows, its workers have threads of their own.
    verbose : bool or int
        Whether a fit tells its plan, its recipe and its steps on the error stream.
    warm_start : bool
        Whether a fit that follows another one starts learning from the kernel that was learned there, instead
        of from several starts: fewer steps where data have changed little.
    """

    def __init__(
        self,
        n_active: int | Literal["auto"] = "auto",
        *,
        selection: str | Selection = "auto",
        inference: str | Inference = "auto",
        kernel: Kernel | Sequence[Kernel] | None = None,
        likelihood: Likelihood | None = None,
        multiclass: Literal["auto", "joint", "per_class", "shared"] = "auto",
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        learn_hyperparameters: bool | Literal["constant", "hybrid", "exact", "evidence", "passes"] = True,
        standardize: Standardize = "auto",
        precision: Precision = "auto",
        memory_budget: int | str = "1GiB",
        validation: Any = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: Any = None,
        scratch: Any = None,
        progress: bool | Progress | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        warm_start: bool = False,
    ) -> None:
        self.n_active = n_active
        self.selection = selection
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.learn_hyperparameters = learn_hyperparameters
        self.standardize = standardize
        self.precision = precision
        self.memory_budget = memory_budget
        self.validation = validation
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.client = client
        self.checkpoint = checkpoint
        self.scratch = scratch
        self.progress = progress
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_clone__(self) -> Self:
        """A copy that uses the same client: a connection cannot be copied."""
        bare = copy(self)
        bare.client = None
        cloned: Self = super(StreamGPParameters, bare).__sklearn_clone__()
        cloned.client = self.client
        return cloned

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` adds the fields of kernel, likelihood and settings objects."""
        parameters: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in list(parameters):
                parameters |= {f"{name}__{path}": value for path, value in nested(parameters[name]).items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; a field of a frozen value replaces the value by a changed copy."""
        super().set_params(**{name: value for name, value in parameters.items() if "__" not in name})
        for name, value in parameters.items():
            owner, _, path = name.partition("__")
            if path and owner not in self.get_params(deep=False):
                raise ParameterError(f"{owner!r} is no parameter of {type(self).__name__}")
            if path:
                setattr(self, owner, replaced(getattr(self, owner), path, value, name))
        return self
