"""A likelihood of one's own: targets with outliers, by the logarithm of a density."""

import numpy as np

from streamgp import StreamGPRegressor
from streamgp.kernels import RBF
from streamgp.likelihoods import Custom, Gaussian


def log_density(targets, latent, scale):
    """Hyperbolic secant: log-concave, with heavier tails than a Gaussian."""
    distance = np.pi * (targets - latent) / (2.0 * scale)
    return -np.logaddexp(distance, -distance) - np.log(scale)


secant = Custom(
    log_density,
    name="secant",
    parameters={"scale": 0.6},
    positive=["scale"],
    target_mean=lambda latent, scale: latent,
    target_variance=lambda latent, scale: np.full_like(latent, scale**2),
)

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (600, 1))
truth = np.sin(X[:, 0])
y = truth + 0.1 * rng.standard_normal(600) + np.where(rng.random(600) < 0.1, rng.normal(0, 5, 600), 0)

options = {"selection": "random", "inference": "ep", "kernel": RBF(), "learn_hyperparameters": False}
for name, likelihood in (("gaussian", Gaussian(noise=0.8)), ("secant", secant)):
    model = StreamGPRegressor(100, likelihood=likelihood, random_state=0, **options).fit(X, y)
    error = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    print(f"{name:<10} error of the curve {error:.3f}")
