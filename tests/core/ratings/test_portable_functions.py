"""Our own exp, log and normal distribution against exact arithmetic, and their bits in every form."""

import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from tiltyard.core.ratings.portable_functions import LN_10, exp, log, logistic, logistic_each, normal_cdf
from tiltyard.foundation.compiled_kernels import compile_kernel

#: Bits of a few values, which every machine must find.
KNOWN = {-30.5: "0x1.ff3864232b407p-45", -1.0: "0x1.78b56362cef38p-2", 0.1: "0x1.1aec7b35a00d4p+0"}


def ulps_off(found, exact):
    return abs((Decimal(found) - exact) / Decimal(math.ulp(found)))


def test_exp_is_within_0_55_units_in_the_last_place():
    rng = random.Random(1)
    numbers = [rng.uniform(-708.0, 709.7) for _ in range(500)] + [rng.uniform(-2.0, 2.0) for _ in range(1000)]
    with localcontext() as context:
        context.prec = 60
        assert max(ulps_off(exp(x), Decimal(x).exp()) for x in numbers) < Decimal("0.55")
        assert max(ulps_off(exp(x), Decimal(x).exp()) for x in (-745.1, -744.0, -730.5, -708.9)) < Decimal(
            "1.1"
        )


def test_exp_at_its_ends_and_bits_that_every_machine_finds():
    assert exp(0.0) == exp(-0.0) == 1.0
    assert math.isinf(exp(709.8))
    assert math.isinf(exp(math.inf))
    assert exp(709.782712893384) == pytest.approx(1.797693134862e308, rel=1e-12)
    assert exp(-746.0) == exp(-math.inf) == 0.0
    assert math.isnan(exp(math.nan))
    assert {x: exp(x).hex() for x in KNOWN} == KNOWN
    assert [log(3.0).hex(), normal_cdf(-1.5).hex()] == ["0x1.193ea7aad030bp+0", "0x1.11a46d89647edp-4"]


def test_log_is_within_two_units_in_the_last_place():
    rng = random.Random(2)
    numbers = [rng.uniform(0.4, 2.5) for _ in range(1000)] + [
        10.0 ** rng.uniform(-300, 300) for _ in range(500)
    ]
    with localcontext() as context:
        context.prec = 60
        assert max(ulps_off(log(x), Decimal(x).ln()) for x in numbers) < 2
        assert Decimal(10).ln() - Decimal(LN_10) < Decimal(math.ulp(LN_10)) / 2
    assert log(1.0) == 0.0
    assert log(5e-324) == pytest.approx(math.log(5e-324))


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=50))
def test_the_logistic_function_of_arrays_has_the_bits_of_single_ones(numbers):
    expected = [logistic(x) for x in numbers]
    assert logistic_each(np.array(numbers)).tolist() == expected
    assert expected == pytest.approx([0.5 * (1.0 + math.tanh(x / 2.0)) for x in numbers], abs=1e-15)


def test_the_normal_distribution_is_that_of_scipy():
    z = np.linspace(-38.0, 38.0, 4001)
    found = np.array([normal_cdf(x) for x in z.tolist()])
    np.testing.assert_allclose(found, ndtr(z), rtol=2e-12, atol=1e-300)
    near = np.abs(z) < 6.0
    np.testing.assert_allclose(found[near], ndtr(z)[near], rtol=5e-15)
    assert normal_cdf(0.0) == 0.5


@pytest.mark.slow
def test_the_compiled_exponential_has_the_same_bits():
    def each(x, out):
        for k in range(len(x)):
            out[k] = exp(x[k])

    x = np.random.default_rng(1).uniform(-760.0, 720.0, 20_000)
    out = np.empty_like(x)
    compile_kernel(each, exp)(x, out)
    assert out.tolist() == [exp(value) for value in x.tolist()]
