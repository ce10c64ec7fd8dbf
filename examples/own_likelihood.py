"""A likelihood of your own: all it takes is the log density of a target given the latent value."""

import tempfile

import numpy as np
from scipy.special import gammaln

import streamgp
from streamgp.likelihoods import Custom, register_likelihood


def log_density(counts, latent):
    """Log probability of a count whose mean is exp(latent)."""
    return counts * latent - np.exp(latent) - gammaln(counts + 1)


likelihood = Custom(log_density, "visits", target_mean=np.exp, target_variance=np.exp)
register_likelihood("visits", likelihood)  # so that a saved model finds it again

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (500, 1))
y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0]))).astype(float)

model = streamgp.StreamGPRegressor(60, selection="ivm", likelihood=likelihood, random_state=0).fit(X, y)
path = tempfile.mkdtemp() + "/model.zip"
model.save(path)
for place in (-0.8, 0.8):
    expected = streamgp.load(path).predict([[place]])[0]
    print(f"at {place}: {expected:.2f} visits expected, truly {np.exp(1 + np.sin(2 * place)):.2f}")
