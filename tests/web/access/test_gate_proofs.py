"""Proofs for the gate: what is accepted, for whom and for how long."""

import base64
import dataclasses
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.web.access import voters
from tiltyard.web.access.voters import GateProofs
from tiltyard.wire.voting import GateChallenge, solve_challenge

KEYS = SecretKeys(["a secret for tests that is long enough"])
NOW = 1_795_000_000.5


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(voters, "_EASY_NUMBER_LIMIT", 50)


def opened(proof):
    return json.loads(base64.b64decode(proof))


def closed(**values):
    return base64.b64encode(json.dumps(values).encode()).decode()


def test_a_proof_begins_one_session_however_often_and_wherever_it_is_sent():
    proof = solve_challenge(GateProofs(KEYS).challenge(NOW))
    found = {GateProofs(KEYS).check(proof, NOW + k) for k in range(5)}
    assert [one.result for one in found] == ["passed"]
    other = GateProofs(KEYS).check(solve_challenge(GateProofs(KEYS).challenge(NOW)), NOW)
    assert other.result == "passed"
    assert other.session not in {one.session for one in found}
    assert 2**32 <= other.session < 2**63


def test_a_proof_for_a_session_is_worth_nothing_for_another():
    proofs = GateProofs(KEYS)
    proof = solve_challenge(proofs.challenge(NOW, 7))
    assert proofs.check(proof, NOW, 7).result == "passed"
    assert proofs.check(proof, NOW, 8).result == "old"
    assert proofs.check(proof, NOW).result == "old"
    assert proofs.check(solve_challenge(proofs.challenge(NOW)), NOW, 7).result == "old"


def test_a_proof_expires_after_twenty_minutes():
    proofs = GateProofs(KEYS)
    proof = solve_challenge(proofs.challenge(NOW))
    assert proofs.check(proof, NOW + 1199).result == "passed"
    assert proofs.check(proof, NOW + 1200).result == "old"


def test_a_hard_challenge_is_ten_times_as_hard():
    assert GateProofs(KEYS).challenge(NOW, hard=True).maxnumber == 1_000_000


@pytest.mark.parametrize(
    "change",
    [
        {"number": -1},
        {"number": 10**7},
        {"number": "1"},
        {"number": None},
        {"salt": "0?expires=9999999999&"},
        {"salt": 1},
        {"signature": "00" * 32},
        {"signature": "00"},
        {"signature": "zz"},
        {"challenge": "0" * 64},
        {"algorithm": "MD5"},
    ],
)
def test_what_was_changed_fails(change):
    proof = opened(solve_challenge(GateProofs(KEYS).challenge(NOW)))
    assert GateProofs(KEYS).check(closed(**proof), NOW).result == "passed"
    assert GateProofs(KEYS).check(closed(**(proof | change)), NOW).result == "failed"


def test_digits_cannot_move_from_the_number_to_the_time():
    proofs = GateProofs(KEYS)
    proof = opened(solve_challenge(proofs.challenge(NOW)))
    digits = str(proof["number"])
    moved = proof | {"salt": proof["salt"] + digits[:-1], "number": int(digits[-1])}
    checked = proofs.check(closed(**moved), NOW + 1300)
    assert checked.result in ("old", "failed")


def test_keys_that_are_rotated_keep_proofs_and_others_do_not():
    old = "an old secret for tests that is long enough"
    proof = solve_challenge(GateProofs(SecretKeys([old])).challenge(NOW))
    both = SecretKeys(["a new secret for tests that is long enough", old])
    assert GateProofs(both).check(proof, NOW).result == "passed"
    assert GateProofs(KEYS).check(proof, NOW).result == "failed"


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: base64.b64encode(data).decode()))
def test_nothing_else_is_a_proof(text):
    assert GateProofs(KEYS).check(text, NOW).result == "failed"


def test_a_deep_or_long_proof_fails():
    deep = base64.b64encode(b"[" * 700).decode()
    assert GateProofs(KEYS).check(deep, NOW).result == "failed"
    assert GateProofs(KEYS).check("A" * 5000, NOW).result == "failed"


def test_a_challenge_that_cannot_be_solved_is_given_up():
    challenge = GateProofs(KEYS).challenge(NOW)
    assert solve_challenge(dataclasses.replace(challenge, challenge="0" * 64)) is None
    assert solve_challenge(dataclasses.replace(challenge, algorithm="SHA-512")) is None
    assert solve_challenge(dataclasses.replace(challenge, maxnumber=10**12)) is None


def test_a_challenge_made_by_hand_is_solved():
    wanted = hashlib.sha256(b"salt?expires=1&12").hexdigest()
    challenge = GateChallenge("SHA-256", wanted, 20, "salt?expires=1&", "")
    assert opened(solve_challenge(challenge))["number"] == 12
