"""Rivals that are Gaussian processes: GPyTorch's variational one, scikit-learn's exact one on few rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.datasets import Array
from benchmarks.peers.data import scaling
from benchmarks.peers.scoring import Normal

INDUCING = 500
BATCH = 1024
STEP = 0.01
SUBSET_ROWS, SUBSET_ROWS_OF_MANY_CLASSES = 2000, 1000
MOST_LENGTHSCALES = 40
"""Features up to which each has a lengthscale of its own."""


def variational(
    request: Any, points: int = INDUCING, clock: Callable[[], float] = time.monotonic
) -> Callable[[Array], Array | Normal]:
    """GPyTorch's SVGP: 500 inducing inputs from k-means (or more), Adam on batches, as long as it may."""
    import gpytorch
    import torch
    from sklearn.cluster import MiniBatchKMeans

    begun = clock()
    torch.manual_seed(request.seed)
    task, generator = request.task, np.random.default_rng(request.seed)
    scale = scaling(task.split.X_train)
    X, y = task.split.train
    some = np.sort(generator.permutation(len(y))[:20_000])
    centres = MiniBatchKMeans(min(points, len(some) // 2), random_state=request.seed, n_init=1)
    inducing = torch.tensor(centres.fit(scale.apply(X[some])).cluster_centers_, dtype=torch.float32)
    functions = len(task.classes) if not task.is_real and len(task.classes) > 2 else 1
    model = _model(inducing, functions)
    likelihood: Any
    if task.is_real:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
    elif functions == 1:
        likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    else:
        likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=functions, mixing_weights=False)
    parameters = [*model.parameters(), *likelihood.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=STEP)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    kind = torch.long if functions > 1 else torch.float32
    while clock() - begun < request.seconds:
        rows = generator.integers(len(y), size=BATCH)
        optimiser.zero_grad()
        inputs = torch.tensor(scale.apply(X[rows]))
        loss = -bound(model(inputs), torch.tensor(y[rows], dtype=kind))
        loss.sum().backward()
        optimiser.step()
    model.eval(), likelihood.eval()

    def predict(rows: Array) -> Array | Normal:
        found = []
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(64):
            for begin in range(0, len(rows), BATCH):
                marginal = likelihood(model(torch.tensor(scale.apply(rows[begin : begin + BATCH]))))
                if task.is_real:
                    found.append(torch.stack([marginal.mean, marginal.stddev], dim=1))
                elif functions == 1:
                    found.append(torch.stack([1 - marginal.probs, marginal.probs], dim=1))
                else:
                    found.append(marginal.probs.mean(dim=0))
        values = torch.cat(found).numpy()
        return Normal(*values.T) if task.is_real else values

    return predict


def _model(inducing: Any, functions: int) -> Any:
    import gpytorch
    import torch

    class Model(gpytorch.models.ApproximateGP):
        """Independent latent functions, Matern 5/2 with a lengthscale for each feature."""

        def __init__(self) -> None:
            batch = torch.Size([functions] if functions > 1 else [])
            spread = gpytorch.variational.CholeskyVariationalDistribution(len(inducing), batch_shape=batch)
            strategy = gpytorch.variational.VariationalStrategy(
                self, inducing.expand(*batch, *inducing.shape).clone(), spread
            )
            if functions > 1:
                strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, functions)
            super().__init__(strategy)
            width = inducing.shape[1]
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
            kernel = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=width, batch_shape=batch)
            kernel.lengthscale = 0.5 * np.sqrt(width)
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)

        def forward(self, inputs: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(inputs), self.covar_module(inputs)
            )

    return Model()


def exact_subset(request: Any) -> Callable[[Array], Array | Normal]:
    """scikit-learn's Gaussian process on random rows: the rival that is easily forgotten."""
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    task = request.task
    many = not task.is_real and len(task.classes) > 2
    size = SUBSET_ROWS_OF_MANY_CLASSES if many else SUBSET_ROWS
    rows = np.random.default_rng(request.seed).permutation(len(task.split.y_train))[:size]
    X, y = task.split.X_train[rows], task.split.y_train[rows]
    scale = scaling(task.split.X_train)
    width = X.shape[1]
    start = 0.5 * np.sqrt(width)
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(
        np.full(width, start) if task.is_real and width <= MOST_LENGTHSCALES else start, (1e-2, 1e4)
    )
    if task.is_real:
        model = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-5, 10)), normalize_y=True)
        model.fit(scale.apply(X), y)
        return lambda rows: Normal(*model.predict(scale.apply(rows), return_std=True))
    model = GaussianProcessClassifier(kernel, random_state=request.seed).fit(scale.apply(X), y)
    return lambda rows: model.predict_proba(scale.apply(rows))  # type: ignore[no-any-return]
