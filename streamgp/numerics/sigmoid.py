"""Tilted moments of logit likelihoods, and of probit raised to a power: a trapezoidal rule for each row.

    Z = ∫ e^{g(t)} dt/√2π,  g(t) = −t²/2 + power log F(x + √a t);  x margin y (h + bias), a latent variance

F changes within a few units of x + √a t around zero, which may be a narrow edge of a wide normal: there the
stretched rule has its corner.
"""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double
from streamgp.numerics.fast_normal import fast_normal_terms
from streamgp.numerics.moments import bounded_curvature
from streamgp.numerics.noise import NORMAL, logistic_terms
from streamgp.numerics.stretched_rule import Stretch, fill_nodes

WIDEST = 1e4
"""Largest latent variance that these functions serve."""

LOWEST = (-math.inf, -100.0)
"""Smallest margin that they serve, by noise: log Φ falls as x², and its rounding with it."""

_MOST_NODES = 128
# Rows whose mass is found together, so that loops over them vectorise.
_ROWS = 64

# Nats below the peak at which nodes end; as g″ ≤ −1, that is at most 8 from it.
_FAR, _FARTHEST = 32.0, 8.0
# The corner, and the distance from there at which nodes begin to spread, as values of x + √a t.
_CORNER, _WIDTH = -0.5, 8.0
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TINY = 1e-300


@compiled
def _terms(noise: int, margin: FloatArray, terms: FloatArray) -> None:
    """Fill terms (3, n) with log F, its derivative, and minus its second derivative, at the margins."""
    log_share, hazard, drop = terms[0], terms[1], terms[2]
    # A branch inside the loop would keep it from being vectorised.
    if noise == NORMAL:
        for k in range(margin.size):
            log_share[k], hazard[k], drop[k] = fast_normal_terms(margin[k])
    else:
        for k in range(margin.size):
            log_share[k], hazard[k], drop[k] = logistic_terms(margin[k])


@compiled
def _evaluate(
    noise: int, power: float, rows: FloatArray, t: FloatArray, place: FloatArray, g: FloatArray
) -> None:
    """Fill g (3, c) with g, g′ and −g″ of c rows, at one t each; rows (2, c): x and √a; place is scratch."""
    margin, root = rows[0], rows[1]
    for i in range(t.size):
        place[i] = margin[i] + root[i] * t[i]
    _terms(noise, place, g)
    for i in range(t.size):
        g[0, i] = power * g[0, i] - 0.5 * t[i] * t[i]
        g[1, i] = power * root[i] * g[1, i] - t[i]
        g[2, i] = 1.0 + power * root[i] * root[i] * g[2, i]


@compiled
def _climb(noise: int, power: float, rows: FloatArray, t: FloatArray, work: FloatArray) -> None:
    """Replace t by a point near the mode of each row, by eight Newton steps in a bracket; work (6, c)."""
    low, high, place, g = work[0], work[1], work[2], work[3:]
    low[:], t[:] = 0.0, 0.0
    _evaluate(noise, power, rows, t, place, g)
    high[:] = g[1]
    for i in range(t.size):
        # The mode if the tail of log F went on for ever: −x²/2 (NORMAL), or x, which ends at x = 0.
        x, root, share = rows[0, i], rows[1, i], power * rows[1, i]
        edge = -x / (root + _TINY)
        tail = -share * x / (1.0 + share * root) if noise == NORMAL else (edge if edge < share else share)
        t[i] = tail if tail > 0.0 else 0.0
    for _ in range(8):
        _evaluate(noise, power, rows, t, place, g)
        for i in range(t.size):
            rising = g[1, i] > 0.0
            low[i] = t[i] if rising else low[i]
            high[i] = high[i] if rising else t[i]
            target = t[i] + g[1, i] / g[2, i]
            middle = 0.5 * (low[i] + high[i])
            t[i] = target if (target >= low[i]) & (target <= high[i]) else middle


@compiled
def _descend(
    noise: int,
    power: float,
    rows: FloatArray,
    mode: FloatArray,
    side: float,
    end: FloatArray,
    work: FloatArray,
) -> None:
    """Fill end (c,) with points to one side (−1, +1) of the mode, 32 nats below it; work (6, c).

    The drop is convex: a Newton step from inside jumps out, one from outside does not pass the goal.
    """
    distance, top, place, g = work[0], work[1], work[2], work[3:]
    _evaluate(noise, power, rows, mode, place, g)
    top[:] = g[0]
    for i in range(mode.size):
        distance[i] = _FARTHEST / math.sqrt(g[2, i])
    for _ in range(4):
        for i in range(mode.size):
            end[i] = mode[i] + side * distance[i]
        _evaluate(noise, power, rows, end, place, g)
        for i in range(mode.size):
            moved = distance[i] + (_FAR - (top[i] - g[0, i])) / (math.fabs(g[1, i]) + _TINY)
            distance[i] = moved if moved < _FARTHEST else _FARTHEST
    for i in range(mode.size):
        end[i] = mode[i] + side * distance[i]


@compiled
def _count(variance: float) -> int:
    """Nodes for errors of 1e-11: the wider the normal, the more scales lie between corner and ends."""
    if variance <= 1.0:
        return 32
    if variance <= 16.0:
        return 48
    if variance <= 64.0:
        return 64
    return 80 if variance <= 256.0 else _MOST_NODES


@compiled
def _tabulate(
    noise: int, power: float, margin: float, root: float, ends: tuple[float, float], table: FloatArray
) -> None:
    """Fill table (6, n) with nodes t, weights, and g, s, −s′ there; s = power (log F)′; and x + √a t."""
    low, high = ends
    corner, width = (_CORNER - margin) / (root + _TINY), _WIDTH / math.sqrt(1.0 + root * root)
    if not low < corner < high:
        corner, width = 0.5 * (low + high), high - low
    nodes, log_density, score, bend, place = table[0], table[2], table[3], table[4], table[5]
    fill_nodes(Stretch(low, high, corner, width), nodes, table[1])
    for k in range(nodes.size):
        place[k] = margin + root * nodes[k]
    _terms(noise, place, table[2:5])
    for k in range(nodes.size):
        log_density[k] = power * log_density[k] - 0.5 * nodes[k] * nodes[k]
        score[k] *= power
        bend[k] *= power


@compiled
def _moments(root: float, table: FloatArray) -> tuple[float, float, float, float]:
    """Log Z, slope, curvature and 1 − aν, for a target of +1.

    large a:  α = E[t]/√a,  ν = (1 − Var[t])/a;    small a:  α = E[s],  ν = −E[s′] − Var[s];  1 − aν = Var[t]
    """
    nodes, weights, log_density, score, bend = table[0], table[1], table[2], table[3], table[4]
    peak = np.argmax(log_density)
    top, centre, middle = log_density[peak], nodes[peak], score[peak]
    total, first, second, change, square, bends = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(nodes.size):
        weight = weights[k] * exp_double(log_density[k] - top)
        # Differences from the peak: both variances would cancel otherwise.
        t, difference = nodes[k] - centre, score[k] - middle
        total += weight
        first += weight * t
        second += weight * t * t
        change += weight * difference
        square += weight * difference * difference
        bends += weight * bend[k]
    first, change, bends = first / total, change / total, bends / total
    shrinkage, spread = min(second / total - first * first, 1.0), square / total - change * change
    log_z, variance = min(top + math.log(total) - _LOG_SQRT_2PI, 0.0), root * root
    # Both pairs are exact; the smaller terms carry the smaller rounding.
    if variance * (bends + spread) < 1.0:
        return log_z, middle + change, bounded_curvature(bends - spread, variance), shrinkage
    curvature = bounded_curvature((1.0 - shrinkage) / variance, variance)
    return log_z, (centre + first) / root, curvature, shrinkage


@compiled
def sigmoid_sweep(
    noise: int,
    bias: float,
    power: float,
    targets: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    moments: FloatArray,
) -> None:
    """Fill moments (4, c) with log Z, slope, curvature and 1 − aν of the likelihood F(y (f + bias))^power.

    Equations in the module's head and in :func:`_moments`.  noise LOGISTIC or NORMAL; latent_mean h,
    latent_variance a.  Rows of variance above 1e4, or of a margin below the noise's lowest, are not served:
    their 1 − aν is −1.
    Cost: 19 evaluations of F to find the mass, then 32 nodes for a ≤ 1, 128 for a = 1e4; 0.9 to 2 µs a row.
    Hazard: nothing cancels. Errors are below 1e-11, relative in log Z.
    Source: [IVM2006] B.1, B.2; [Trefethen2014] for the rule.
    """
    size = min(_ROWS, 4 * ((targets.size + 3) // 4))
    rows, ends, work = np.empty((2, size)), np.empty((3, size)), np.empty((6, size))
    buffer = np.empty(6 * _MOST_NODES)
    for start in range(0, targets.size, _ROWS):
        count = min(size, targets.size - start)
        for i in range(size):
            rows[0, i], rows[1, i] = 0.0, 0.0
            if i < count:
                x, variance = targets[start + i] * (latent_mean[start + i] + bias), latent_variance[start + i]
                served = (variance <= WIDEST) & (x >= LOWEST[noise])
                moments[3, start + i] = 0.0 if served else -1.0
                if served:
                    rows[0, i], rows[1, i] = min(max(x, -1e150), 1e150), math.sqrt(max(variance, 0.0))
        _climb(noise, power, rows, ends[1], work)
        _descend(noise, power, rows, ends[1], -1.0, ends[0], work)
        _descend(noise, power, rows, ends[1], 1.0, ends[2], work)
        for i in range(count):
            place = start + i
            if moments[3, place] < 0.0:
                continue
            n_nodes = _count(rows[1, i] * rows[1, i])
            # Contiguous, so that loops over nodes vectorise.
            table = buffer[: 6 * n_nodes].reshape(6, n_nodes)
            _tabulate(noise, power, rows[0, i], rows[1, i], (ends[0, i], ends[2, i]), table)
            log_z, slope, curvature, shrinkage = _moments(rows[1, i], table)
            moments[0, place], moments[1, place] = log_z, targets[place] * slope
            moments[2, place], moments[3, place] = curvature, shrinkage


@compiled
def logistic_points(bias: float, targets: FloatArray, latent: FloatArray, terms: FloatArray) -> None:
    """Fill terms (3, c) with log σ(y (f + bias)) at given f, its slope and minus its second derivative by f.

    Moments of a normal without variance, of which nothing is left to integrate.  Cost: 0.02 µs a row.
    """
    log_share, slope, curvature = terms[0], terms[1], terms[2]
    for i in range(targets.size):
        log_share[i], slope[i], curvature[i] = logistic_terms(targets[i] * (latent[i] + bias))
    for i in range(targets.size):
        slope[i] *= targets[i]
