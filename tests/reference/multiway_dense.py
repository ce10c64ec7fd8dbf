"""The multi-way IVM by the book: every class dense and from scratch, every (row, class) scored one by one."""

from __future__ import annotations

import numpy as np

from tests.reference import joint_dense
from tests.reference.ivm_printed_dense import marginals


def select(grams, codes, noise, until, first, weights=None):
    """Active rows of each class, in order, and (mean, variance) (n, C). ``first``: the first (row, class).

    ``grams`` has the prior covariance of each class's function; the site of a row is raised to the power of
    its weight.
    """
    n_classes, n = len(grams), len(grams[0])
    weights = np.ones(n) if weights is None else weights
    active = [[] for _ in range(n_classes)]
    sites = [{} for _ in range(n_classes)]
    for step in range(until + 1):
        found = []
        for c in range(n_classes):
            precision = [sites[c][j][0] for j in active[c]]
            precision_mean = [sites[c][j][1] for j in active[c]]
            found.append(marginals(grams[c], active[c], precision, precision_mean))
        mean, variance = (np.column_stack(part) for part in zip(*found, strict=True))
        if step == until:
            return active, (mean, variance)
        best = (-np.inf, None)
        for j in range(n):
            cavity = [
                _cavity(mean[j, c], variance[j, c], *sites[c].get(j, (0.0, 0.0))) for c in range(n_classes)
            ]
            h, a = (np.array(part) for part in zip(*cavity, strict=True))
            _, slope, curvature = joint_dense.tilted_by_value(noise, codes[j], h, a)
            for c in range(n_classes):
                if j in sites[c]:
                    continue
                precision = weights[j] * curvature[c] / (1 - a[c] * curvature[c])
                precision_mean = weights[j] * (slope[c] + curvature[c] * h[c]) / (1 - a[c] * curvature[c])
                new = 1 / (1 / a[c] + precision)
                shift = new * (h[c] / a[c] + precision_mean) - h[c]
                gain = 0.5 * (np.log(a[c] / new) + new / a[c] + shift**2 / a[c] - 1)
                if (step == 0 and (j, c) == first) or (step > 0 and gain > best[0]):
                    best = (gain, (j, c, precision, precision_mean))
        j, c, precision, precision_mean = best[1]
        active[c].append(j)
        sites[c][j] = (precision, precision_mean)
    raise AssertionError("unreachable")


def _cavity(mean, variance, precision, precision_mean):
    v = 1 / (1 / variance - precision)
    return v * (mean / variance - precision_mean), v
