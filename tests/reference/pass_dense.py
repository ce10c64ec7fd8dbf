"""Algorithm 1 of [PASS2012] as it is printed: sets, loops over rows, textbook EP."""

from __future__ import annotations

import numpy as np

from tests.reference import ep_dense, gp_dense, kernels_dense


def predictive_active_set(kernel, likelihood, X, signs, first, subsets, n_pass, removes, adds):
    """The active set, in the order of entry, with hyperparameters held fixed.

    ``removes(cavity probabilities)`` and ``adds(predictive probabilities)`` are the rules: which of the rows
    leave, and which enter. Both see the posterior at the beginning of an iteration.
    """
    active = list(first)
    for _ in range(n_pass):
        for subset in subsets:
            gram = kernels_dense.gram(kernel, X[active])
            found = ep_dense.propagate(gram, signs[active], likelihood)
            cavity = []
            for i in range(len(active)):
                v = 1 / (1 / found.variance[i] - found.precision[i])
                m = v * (found.mean[i] / found.variance[i] - found.precision_mean[i])
                cavity.append(np.exp(likelihood.log_predictive_density(signs[active[i]], m, v)[0]))
            others = [n for n in subset if n not in active]
            mean, variance = gp_dense.posterior_marginals(
                gram,
                kernels_dense.block(kernel, X[others], X[active]),
                np.diag(kernels_dense.gram(kernel, X[others])),
                found.precision,
                found.precision_mean,
            )
            probability = np.exp(likelihood.log_predictive_density(signs[others], mean, variance))
            gone, come = removes(np.array(cavity)), adds(probability)
            active = [n for i, n in enumerate(active) if i not in gone] + [others[i] for i in come]
    return active
