"""Algorithm 1 of [PASS2012] as it is printed: sets, loops over rows, textbook EP."""

from __future__ import annotations

import numpy as np

from tests.reference import ep_dense, gp_dense, kernels_dense


def predictive_active_set(kernel, likelihood, X, signs, first, subsets, n_pass, removes, adds, weights=None):
    """The active set, in the order of entry, with hyperparameters held fixed.

    ``removes(cavity probabilities)`` and ``adds(predictive probabilities)`` are the rules: which of the rows
    leave, and which enter. Both see the posterior at the beginning of an iteration.
    A row of weight 2 is there twice: both copies are left out of its cavity, and its probability is that of
    two such rows, one squared.
    """
    active = list(first)
    weights = np.ones(len(X), int) if weights is None else weights
    for _ in range(n_pass):
        for subset in subsets:
            gram = kernels_dense.gram(kernel, X[active])
            copies = np.repeat(np.arange(len(active)), weights[active])
            found = ep_dense.propagate(
                gram[np.ix_(copies, copies)], signs[np.array(active)[copies]], likelihood
            )
            cavity, precision, precision_mean = [], [], []
            for i in range(len(active)):
                mine = np.flatnonzero(copies == i)
                precision.append(found.precision[mine].sum())
                precision_mean.append(found.precision_mean[mine].sum())
                v = 1 / (1 / found.variance[mine[0]] - precision[i])
                m = v * (found.mean[mine[0]] / found.variance[mine[0]] - precision_mean[i])
                p = np.exp(likelihood.log_predictive_density(signs[active[i]], m, v)[0])
                cavity.append(p ** weights[active[i]])
            others = [n for n in subset if n not in active]
            mean, variance = gp_dense.posterior_marginals(
                gram,
                kernels_dense.block(kernel, X[others], X[active]),
                np.diag(kernels_dense.gram(kernel, X[others])),
                np.array(precision),
                np.array(precision_mean),
            )
            probability = np.exp(likelihood.log_predictive_density(signs[others], mean, variance))
            probability = probability ** weights[others]
            gone, come = removes(np.array(cavity)), adds(probability)
            active = [n for i, n in enumerate(active) if i not in gone] + [others[i] for i in come]
    return active
