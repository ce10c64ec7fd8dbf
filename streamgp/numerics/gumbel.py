"""Distribution function of a normal plus a Gumbel variable: what softmax makes of an uncertain latent value.

Softmax is a contest: the class whose f_c + e_c is largest wins, with independent Gumbel noise e_c. If f is
normal too, f + e has the distribution function

    F(x, a) = ∫ N(t; 0, 1) exp(−s(t)) dt,  s(t) = exp(−x + √a t);  x distance from the mean, a variance of f

Under the density of t that this integrand defines, E[s] = d log F/dx, E[s] − Var[s] = −d² log F/dx², and
1 − Var[t] = a times the latter. The density of f + e is F′(x, a) = exp(a/2 − x) F(x − a, a).
"""

from __future__ import annotations

import math

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double
from streamgp.numerics.logarithm import fast_log

LOG_ZERO = -600.0
"""Stands for the logarithm of a variance that is zero."""

# Nats below the peak at which nodes end, and at which they are densest; so many standard deviations from
# there they begin to spread (as in streamgp.numerics.mass).
_FAR, _NEAR, _STRETCH = 28.0, 8.0, 6.0
# Nodes for variances up to a few, and above, where exp(−s) is an edge inside of a wide normal.
_FEW_NODES, _MANY_NODES, _WIDE = 24, 32, 3.0
# Below this a variance changes nothing: exp(−s) is flat over the width of f.
_NO_VARIANCE = 1e-20
# Exponents are held below this, so that what is made of them stays finite.
_HIGHEST = 300.0
_START = 1.0 - math.exp(-1.0)
_INVERSE_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


@compiled(inline=True)
def _peak(x: float, log_variance: float) -> tuple[float, float]:
    """W and log s at the peak of N(t) e^{−s}: √a t = −W, W e^W = a e^{−x}, log s = −x − W; W to some 1e-5."""
    xi = log_variance - x
    xi = xi if xi > LOG_ZERO else LOG_ZERO
    small = exp_double(xi if xi < 1.0 else 1.0)
    # Both starts are 1 at ξ = 1 and within a tenth elsewhere; Newton steps on W + log W = ξ.
    w = small / (1.0 + _START * small) if xi < 1.0 else xi - fast_log(xi if xi > 1.0 else 1.0)
    w = w * (1.0 + xi - fast_log(w)) / (1.0 + w)
    w = w * (1.0 + xi - fast_log(w)) / (1.0 + w)
    log_s = -x - w
    return w, log_s if log_s < _HIGHEST else _HIGHEST


@compiled(inline=True)
def gumbel_profile(x: float, log_variance: float) -> tuple[float, float, float]:
    """The peak of N(t) e^{−s} as a function of x: log F without the width of that peak, and derivatives.

    p(x) = max_t −t²/2 − s(t) = −s (1 + W/2),  p′ = s,  p″ = −s/(1 + W);  W, s of the peak (W = a s)
    Returns p, p′, −p″; x distance, log_variance log a, or LOG_ZERO.
    Cost: about 100 instructions for each vector of numbers.  Hazard: s is held below e³⁰⁰.
    Source: [Asmussen2016]: F is the Laplace transform of a lognormal variable.
    """
    w, log_s = _peak(x, log_variance)
    s = exp_double(log_s)
    return -s * (1.0 + 0.5 * w), s, s / (1.0 + w)


@compiled(inline=True)
def _right_reach(drop: float, w: float, log_s: float, root: float) -> float:
    """At least the distance to the right of the peak at which the exponent has fallen by so much.

    It falls by τ²/2 + s ε(√a τ), ε(x) = eˣ − 1 − x ≥ x²/2, and ε(x) = q has x ≤ log(1 + q + √(2q)).
    """
    held = log_s if log_s > -_HIGHEST else -_HIGHEST
    q = drop * exp_double(-held)
    steep = (fast_log(1.0 + q + math.sqrt(2.0 * q)) + (held - log_s)) / root
    flat = math.sqrt(2.0 * drop / (1.0 + w))
    return steep if steep < flat else flat


@compiled
def _place(x: FloatArray, variance: float, count: int, plan: FloatArray) -> None:
    """Where the nodes of each x stand: fill plan (10, n), see the names in :func:`_sum`."""
    root, log_variance = math.sqrt(variance), math.log(variance)
    widest = math.sqrt(2.0 * _FAR * variance)
    for j in range(x.size):
        w, log_s = _peak(x[j], log_variance)
        # To the left it falls by τ²/2 + s ε(−√a |τ|), and ε(−x) ≥ x²/(2 + x).
        left = math.sqrt(2.0 * _FAR / (1.0 + 2.0 * w / (2.0 + widest)))
        right = _right_reach(_FAR, w, log_s, root)
        corner = _right_reach(_NEAR, w, log_s, root)
        width = _STRETCH / math.sqrt(1.0 + variance * exp_double(log_s + root * corner))
        low, high = (left + corner) / width, (right - corner) / width
        # e^{−u} at the first node and e^{u} at the last, where sinh u = −low, high.
        first, last = low + math.sqrt(1.0 + low * low), high + math.sqrt(1.0 + high * high)
        step = fast_log(first * last) / (count - 1)
        plan[0, j], plan[1, j], plan[2, j] = corner, 0.5 * width, step
        plan[3, j], plan[4, j] = 1.0 / first, first
        plan[5, j] = exp_double(step)
        plan[6, j] = 1.0 / plan[5, j]
        plan[7, j], plan[8, j], plan[9, j] = w / root, log_s, exp_double(log_s)


@compiled
def _sum(variance: float, count: int, plan: FloatArray, sums: FloatArray) -> None:
    """Sums (5, n) over the nodes τ of weight × (1, τ, τ², s, s²), weights relative to the peak's."""
    root = math.sqrt(variance)
    corner, half, up, down = plan[0], plan[1], plan[5], plan[6]
    rise, fall, slope, log_peak, peak = plan[3], plan[4], plan[7], plan[8], plan[9]
    total, first, second, mean, square = sums[0], sums[1], sums[2], sums[3], sums[4]
    sums[:] = 0.0
    for _ in range(count):
        for j in range(total.size):
            tau = corner[j] + half[j] * (rise[j] - fall[j])
            s = exp_double(log_peak[j] + root * tau)
            weight = (rise[j] + fall[j]) * exp_double(tau * (slope[j] - 0.5 * tau) - (s - peak[j]))
            total[j] += weight
            first[j] += weight * tau
            second[j] += weight * tau * tau
            mean[j] += weight * s
            square[j] += weight * s * s
            rise[j] *= up[j]
            fall[j] *= down[j]


@compiled
def gumbel_terms(
    x: FloatArray, variance: float, plan: FloatArray, sums: FloatArray, terms: FloatArray
) -> None:
    """Log F, its derivative E[s], minus its second one, and Var[t], at many x: fill terms (4, n).

    √a t = −W + √a τ:  −t²/2 − s = W τ/√a − τ²/2 − (s − s₀) − (W²/2a + s₀),  s = s₀ e^{√a τ};  s₀, W: peak
    large a:  E[s] = −E[t]/√a,  −(log F)″ = (1 − Var[t])/a;    small a:  E[s],  E[s] − Var[s]
    Nodes τ = corner + width sinh(u), u equidistant: dense at the edge that e^{−s} cuts, wide in the tail.
    Shapes: x (n,); plan (10, n) and sums (5, n) are scratch.  Cost: 24 or 32 nodes, two exponentials each.
    Hazard: nothing cancels; both pairs are exact, and the one with the smaller terms is taken.
    Source: [Trefethen2014].  Oracle: tests/reference/joint_dense.py
    """
    if variance <= _NO_VARIANCE:
        for j in range(x.size):
            exponent = -x[j] if -x[j] < _HIGHEST else _HIGHEST
            s = exp_double(exponent)
            terms[0, j], terms[1, j], terms[2, j], terms[3, j] = -s, s, s, 1.0
        return
    count, root = _FEW_NODES if variance <= _WIDE else _MANY_NODES, math.sqrt(variance)
    _place(x, variance, count, plan)
    _sum(variance, count, plan, sums)
    for j in range(x.size):
        norm = 1.0 / sums[0, j]
        shift, mean = sums[1, j] * norm, sums[3, j] * norm
        spread, variation = sums[2, j] * norm - shift * shift, sums[4, j] * norm - mean * mean
        slope = plan[7, j]
        integral = _INVERSE_SQRT_2PI * plan[1, j] * plan[2, j] * sums[0, j]
        terms[0, j] = fast_log(integral) - (0.5 * slope * slope + plan[9, j])
        local = variance * (mean + variation) < 1.0
        bend = mean - variation
        terms[1, j] = mean if local else (slope - shift) / root
        terms[2, j] = bend if local else (1.0 - spread) / variance
        terms[3, j] = 1.0 - variance * bend if local else spread
