"""The IVM's selection index J as the papers print it: sets, sorted lists, everything from scratch."""

from __future__ import annotations

import numpy as np


def marginals(gram, active, precision, precision_mean):
    """Means and variances of all rows given the active rows' sites: A = (K⁻¹ + Π)⁻¹ by Woodbury, dense."""
    if not active:
        return np.zeros(len(gram)), np.diag(gram).copy()
    cross = gram[:, active]
    solved = np.linalg.inv(gram[np.ix_(active, active)] + np.diag(1 / np.array(precision)))
    mean = cross @ solved @ (np.array(precision_mean) / np.array(precision))
    return mean, np.diag(gram) - np.einsum("ij,jk,ik->i", cross, solved, cross)


def select(gram, targets, moments, score, n_active, rule, generator):
    """Active rows in the order of inclusion. ``rule`` is a dict of the paper's numbers.

    2003: {"random": 2, "full": 198, "m": 500, "tau": 0.5};  2006: {"B": entries, "k": block, "rho": share}.
    """
    n = len(gram)
    active, precision, precision_mean = [], [], []
    if "random" in rule:
        J = set(range(n))
        forced = [int(i) for i in generator.choice(np.arange(n), rule["random"], replace=False)]
    else:
        J, forced = set(_shrunk(list(range(n)), None, rule["B"] // rule["k"], rule["rho"], generator)), None
    while len(active) < n_active:
        scores, new_precision, new_precision_mean = _scored(
            gram, targets, moments, score, active, precision, precision_mean
        )
        if forced:
            best = forced.pop(0)
        elif active:
            best = max(sorted(J), key=lambda j: (scores[j], -j))
        else:
            tied = [j for j in sorted(J) if scores[j] >= max(scores[i] for i in J) * (1 - 1e-9)]
            best = tied[int(generator.choice(np.arange(len(tied))))]
        active.append(best)
        precision.append(new_precision[best])
        precision_mean.append(new_precision_mean[best])
        J.discard(best)
        scores, _, _ = _scored(gram, targets, moments, score, active, precision, precision_mean)
        if "random" in rule and len(active) >= rule["random"] + rule["full"]:
            J = set(sorted(J, key=lambda j: (-scores[j], j))[: round(rule["tau"] * rule["m"])])
            others = np.array(sorted(set(range(n)) - J - set(active)))
            J |= set(generator.choice(others, min(rule["m"] - len(J), len(others)), replace=False).tolist())
        elif "B" in rule and len(active) % rule["k"] == 0:
            J = set(
                _shrunk(sorted(J), scores, rule["B"] // (len(active) + rule["k"]), rule["rho"], generator)
            )
    return active, J


def _scored(gram, targets, moments, score, active, precision, precision_mean):
    mean, variance = marginals(gram, active, precision, precision_mean)
    slope, curvature = moments(targets, mean, variance)
    new_precision = curvature / (1 - variance * curvature)
    new_precision_mean = (slope + curvature * mean) / (1 - variance * curvature)
    return score(mean, variance, new_precision, new_precision_mean), new_precision, new_precision_mean


def _shrunk(J, scores, most, rho, generator):
    if len(J) <= most:
        return J
    order = J if scores is None else sorted(J, key=lambda j: (-scores[j], j))
    best = [] if scores is None else order[: round(rho * most)]
    rest = np.array([place for place, j in enumerate(J) if j not in best])
    return best + [J[place] for place in generator.choice(rest, most - len(best), replace=False)]
