import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.numerics.normal import log_normal_cdf, normal_hazard, normal_terms, normal_terms_array

# z, log Φ(z), λ = N(z)/Φ(z), w = λ (λ + z), κ = 1 − w.  Made with mpmath 1.4 at 100 digits:
# P = erfc(−z/√2)/2, log Φ = log P (z < 0) or log1p(−erfc(z/√2)/2), λ = npdf(z)/P, printed by nstr(·, 20).
REFERENCE = [
    (-100000000.0, -5000000000000019.3396, 100000000.00000001, 0.9999999999999999, 9.999999999999994e-17),
    (-100000.0, -5000000012.4318639983, 100000.00001, 0.99999999990000000006, 9.999999994000000005e-11),
    (-1000.0, -500007.82669481218431, 1000.00099999800001, 0.99999900000599995, 9.9999400004999948201e-7),
    (
        -300.0,
        -45006.62273211866336,
        300.00333325926337415,
        0.99998888962956105042,
        0.000011110370438949581932,
    ),
    (
        -100.0,
        -5005.5242086942050886,
        100.00999800099926071,
        0.99990005995005173655,
        0.000099940049948263450361,
    ),
    (-38.5, -745.69527029041108133, 38.525939096854493696, 0.99932806564363411868, 0.00067193435636588131568),
    (-30.0, -454.32124395634319711, 30.033259667433677037, 0.998896228488109909, 0.0011037715118900910011),
    (-10.0, -53.231285150512470578, 10.098093233962511963, 0.99055462217434373884, 0.0094453778256562611641),
    (-5.0, -15.064998393988725736, 5.1865039671258421156, 0.96730356538288777465, 0.032696434617112225345),
    (-3.0, -6.6077262215103495433, 3.2830986549304365069, 0.92944081321473188314, 0.070559186785268116862),
    (-2.5, -5.0816482772786904984, 2.8227447976639072505, 0.91102619857888455719, 0.088973801421115442811),
    (-2.25, -4.4043153811532715612, 2.596402538686962147, 0.89940043085443713765, 0.10059956914556286235),
    (-2.0, -3.7831843336820319488, 2.3732155328228408673, 0.88572089958591874336, 0.11427910041408125664),
    (-1.0, -1.8410216450092635058, 1.5251352761609812091, 0.80090233442965120845, 0.19909766557034879155),
    (-0.5, -1.1759117615936186089, 1.1410777703680644809, 0.73151959284412105382, 0.26848040715587894618),
    (-1e-08, -0.69314718853879094928, 0.79788456716906309046, 0.63661977454771747879, 0.36338022545228252121),
    (0.0, -0.69314718055994530942, 0.79788456080286535588, 0.63661977236758134308, 0.36338022763241865692),
    (1e-08, -0.69314717258109973322, 0.7978845544366676431, 0.63661977018744519589, 0.36338022981255480411),
    (0.5, -0.36894641528865639307, 0.50916043383703348583, 0.51382456430363289677, 0.48617543569636710323),
    (1.0, -0.17275377902344988953, 0.28759997093917836123, 0.37031371422339459914, 0.62968628577660540086),
    (2.0, -0.023012909328963488465, 0.055247862678989959102, 0.11354805168857644979, 0.88645194831142355021),
    (2.5, -0.006229025485860002381, 0.017637825486916734788, 0.044405656605198766523, 0.95559434339480123348),
    (
        3.0,
        -0.0013508099647481937988,
        0.0044378390421256637933,
        0.013333211541740806209,
        0.98666678845825919379,
    ),
    (
        5.0,
        -2.8665161296376359338e-7,
        1.4867199409049057124e-6,
        7.4336019148607112465e-6,
        0.99999256639808513929,
    ),
    (
        8.0,
        -6.2209605742717860585e-16,
        5.0522710835368954309e-15,
        4.0418168668295188973e-14,
        0.99999999999995958183,
    ),
    (12.0, -1.7764821120776789977e-33, 2.146383735663060345e-32, 2.575660482795672414e-31, 1.0),
    (20.0, -2.7536241186062336951e-89, 5.5209483621597631896e-88, 1.1041896724319526379e-86, 1.0),
    (30.0, -4.9067139271481870595e-198, 1.473646134878547519e-196, 4.4209384046356425571e-195, 1.0),
    (37.0, -5.7255712225245768227e-300, 2.1200065515246056269e-298, 7.8440242406410408194e-297, 1.0),
]


@pytest.mark.parametrize(("z", "log_cdf", "hazard", "drop", "complement"), REFERENCE)
def test_terms_equal_high_precision_values(z, log_cdf, hazard, drop, complement):
    found = normal_terms(z)
    np.testing.assert_allclose(found[:2], (log_cdf, hazard), rtol=4e-15)
    np.testing.assert_allclose(found[2:], (drop, complement), rtol=1e-13)
    assert log_normal_cdf(z) == found[0]
    assert normal_hazard(z) == found[1]


@given(st.floats(-1e8, 1e8))
def test_terms_stay_in_their_ranges(z):
    log_cdf, hazard, drop, complement = normal_terms(z)
    assert log_cdf <= 0.0
    assert hazard >= max(0.0, -z)
    assert 0.0 <= drop <= 1.0
    assert 0.0 <= complement <= 1.0
    assert math.isclose(drop + complement, 1.0, rel_tol=1e-15)


@given(st.floats(-50.0, 36.0), st.floats(1e-3, 1.0))
def test_log_cdf_increases_and_hazard_falls(z, step):
    low, high = normal_terms(z), normal_terms(z + step)
    assert low[0] < high[0]
    assert low[1] > high[1]


@pytest.mark.parametrize("edge", [-2.5, 2.5])
def test_branches_meet_without_a_step(edge):
    inside, outside = normal_terms(np.nextafter(edge, 0.0)), normal_terms(edge)
    np.testing.assert_allclose(inside, outside, rtol=2e-13)


@pytest.mark.parametrize("z", [1e10, 1e200, math.inf])
def test_far_tails_are_finite(z):
    left, right = normal_terms(-z), normal_terms(z)
    assert np.all(np.isfinite(left))
    assert left[0] < -1e19
    assert left[2] == 1.0
    assert left[3] == pytest.approx(1.0 / min(z, 1e150) ** 2, rel=1e-14)
    assert right == (0.0, 0.0, 0.0, 1.0)


def test_nan_gives_nan():
    assert np.all(np.isnan(normal_terms(math.nan)))


def test_array_form_keeps_the_shape():
    z = np.linspace(-5.0, 5.0, 6).reshape(2, 3)
    terms = normal_terms_array(z.T)
    assert all(term.shape == (3, 2) for term in terms)
    assert terms[0][2, 1] == normal_terms(z[1, 2])[0]
    assert normal_terms_array(0.0)[0].shape == ()
    assert normal_terms_array([])[0].size == 0


def test_works_without_the_jit():
    code = (
        "from streamgp.numerics.normal import normal_terms\n"
        "from streamgp.numerics.moments import probit_site, gaussian_moments\n"
        "print(normal_terms(-1000.0)[0], probit_site(1.0, -3.0, 1e4, 0.1)[1])\n"
        "print(gaussian_moments(1.0, 0.0, 0.0, 1.0)[1])\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    log_cdf, precision, slope = map(float, shown.stdout.split())
    assert log_cdf == pytest.approx(-500007.82669481221517, rel=1e-15)
    assert 0.0 < precision < 1.0
    assert slope == 1.0
