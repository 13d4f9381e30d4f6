"""Codes of a second factor, against the vectors of RFC 4226 and RFC 6238."""

import pytest

from tiltyard.arena.operators.second_factor import code_at, key_text, matching_step, otpauth_link

KEY = b"12345678901234567890"


def test_codes_are_those_of_rfc_4226():
    codes = "755224 287082 359152 969429 338314 254676 287922 162583 399871 520489"
    assert " ".join(code_at(KEY, step) for step in range(10)) == codes


@pytest.mark.parametrize(
    ("seconds", "digits"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_codes_are_the_last_six_digits_of_those_of_rfc_6238(seconds, digits):
    assert code_at(KEY, seconds // 30) == digits[2:]
    assert matching_step(KEY, digits[2:], seconds, 0) == seconds // 30


def test_a_code_is_right_one_step_around_its_own_and_no_longer():
    code = code_at(KEY, 100)
    right = [now for now in range(2900, 3100) if matching_step(KEY, code, now, 0) == 100]
    assert right == list(range(2970, 3060))


def test_a_step_that_was_used_is_over_with_all_before_it():
    assert matching_step(KEY, code_at(KEY, 100), 3000.0, 99) == 100
    assert matching_step(KEY, code_at(KEY, 100), 3000.0, 100) is None
    assert matching_step(KEY, code_at(KEY, 99), 3000.0, 100) is None
    assert matching_step(KEY, code_at(KEY, 101), 3000.0, 100) == 101


@pytest.mark.parametrize("code", ["", "0", "１２３４５６", "abcdef", "7552240", "x" * 1000])
def test_what_is_no_code_is_wrong(code):
    assert matching_step(KEY, code, 0.0, -2) is None


def test_apps_get_the_key_as_base32_and_a_link():
    assert key_text(KEY) == "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    link = otpauth_link(KEY, "Ada & Co/é", "Tiltyard arena.example.org")
    assert link == (
        "otpauth://totp/Tiltyard%20arena.example.org%3AAda%20%26%20Co%2F%C3%A9"
        "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Tiltyard%20arena.example.org"
    )
