"""Receipts for texts that were sent: valid for one voter, matchup and length, and under every key of a rotation."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.sent_responses import NOTHING_SENT, Receipts, SentResponse

OLD, NEW = "o" * 40, "n" * 40
RECEIPTS = Receipts(SecretKeys([NEW]))
AT = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(milliseconds=250)
ONE = uuid4()


@pytest.mark.parametrize(("a", "b"), [(1200, 0), (None, 7), (7, None), (None, None)])
def test_a_receipt_says_when_what_was_sent(a, b):
    written = RECEIPTS.write(5, ONE, AT, a, b)
    expected = tuple(None if count is None else SentResponse(AT, count) for count in (a, b))
    assert RECEIPTS.read(5, ONE, written) == expected
    assert len(written) <= 100


def test_it_is_of_one_voter_one_matchup_and_these_lengths():
    written = RECEIPTS.write(5, ONE, AT, 1200, 900)
    for session, matchup, text in (
        (6, ONE, written),
        (5, uuid4(), written),
        (5, ONE, written.replace(".1200.", ".120.")),
        (5, ONE, written.replace(".1200.900.", ".1200..")),
        (5, ONE, f"1{written}"),
    ):
        assert RECEIPTS.read(session, matchup, text) == NOTHING_SENT


def test_during_a_rotation_receipts_of_both_keys_are_valid():
    before, during, after = (Receipts(SecretKeys(keys)) for keys in ([OLD], [NEW, OLD], [NEW]))
    old, new = before.write(5, ONE, AT, 1, 1), during.write(5, ONE, AT, 1, 1)
    assert during.read(5, ONE, old) == during.read(5, ONE, new) == after.read(5, ONE, new)
    assert after.read(5, ONE, old) == before.read(5, ONE, new) == NOTHING_SENT


@given(st.one_of(st.text(max_size=60), st.from_regex(r"[0-9]{1,20}\.[0-9]{0,12}\.[0-9]{0,9}\.[\w-]{20,26}")))
def test_whatever_is_sent_as_a_receipt_proves_nothing(text):
    assert RECEIPTS.read(5, ONE, text) == NOTHING_SENT
