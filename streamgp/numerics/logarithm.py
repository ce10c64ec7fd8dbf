"""A logarithm that vectorises, the counterpart of :mod:`streamgp.numerics.exponential`."""

from __future__ import annotations

import math

import numpy as np

from streamgp.numerics.compilation import compiled

_MANTISSA, _EXPONENT = np.int64(0x000F_FFFF_FFFF_FFFF), np.int64(0x7FF)
_SHIFT = np.int64(52)
_ONE_BITS = np.int64(0x3FF0_0000_0000_0000)
# An integer below 2⁵² in the mantissa of 2⁵² is that number plus 2⁵²: vector units rarely convert 64 bits.
_TWO_52_BITS, _TWO_52_AND_BIAS = np.int64(0x4330_0000_0000_0000), float(2**52 + 1023)
_SQRT_2 = math.sqrt(2.0)
# ln 2 in two parts: an exponent times the first is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10

_A1, _A2, _A3, _A4 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, (
    2.222219843214978396e-01
)  # fmt: skip
_A5, _A6, _A7 = 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01


@compiled(inline=True)
def fast_log(x: float) -> float:
    """Logarithm of one float64 that is normal and above zero (2e-308 to 1e308).

    x = 2ᵏ (1 + f),  √½ < 1 + f ≤ √2,  s = f/(2 + f),  log x = k ln 2 + f − (f²/2 − s (f²/2 + R(s²)))
    Cost: about 30 instructions, one division among them, for each vector of numbers.
    Hazard: zero, negative numbers, infinity and NaN give numbers without meaning. Relative error 3e-16.
    Source: fdlibm e_log.c (Sun Microsystems, 1993), coefficients of R included.
    """
    bits = np.float64(x).view(np.int64)
    exponent = np.int64(((bits >> _SHIFT) & _EXPONENT) | _TWO_52_BITS).view(np.float64) - _TWO_52_AND_BIAS
    mantissa = np.int64((bits & _MANTISSA) | _ONE_BITS).view(np.float64)
    large = mantissa > _SQRT_2
    f = (0.5 * mantissa if large else mantissa) - 1.0
    exponent = exponent + 1.0 if large else exponent
    s = f / (2.0 + f)
    square = s * s
    fourth = square * square
    odd = square * (_A1 + fourth * (_A3 + fourth * (_A5 + fourth * _A7)))
    rest = odd + fourth * (_A2 + fourth * (_A4 + fourth * _A6))
    half = 0.5 * f * f
    result: float = exponent * _LN2_HIGH - ((half - (s * (half + rest) + exponent * _LN2_LOW)) - f)
    return result
