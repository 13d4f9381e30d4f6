"""Waits between attempts, and what is logged of failures."""

import logging
from itertools import pairwise

from tiltyard.errors import StoreFault
from tiltyard.foundation.retries import Backoff, Retries

LOG = logging.getLogger("tiltyard.test")


def test_waits_double_up_to_the_longest_and_never_overflow():
    backoff = Backoff(0.5, 10.0, draw=lambda: 0.0)
    assert [backoff.next() for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.reset()
    assert backoff.next() == 0.5
    assert backoff.next(at_least=30.0) == 30.0
    backoff = Backoff(1.0, 10.0)
    assert max(backoff.next() for _ in range(2_000)) <= 10.0


def test_a_hundred_loops_that_fail_together_do_not_try_again_together():
    waits = sorted(Backoff(4.0).next() for _ in range(100))
    assert 2.0 <= waits[0] < 2.5
    assert 3.5 < waits[-1] <= 4.0
    assert max(later - sooner for sooner, later in pairwise(waits)) < 0.3


def test_failures_are_logged_once_a_minute_with_their_number(caplog):
    caplog.set_level(logging.INFO)
    now = 0.0
    retries = Retries(LOG, "the work", Backoff(1.0), facts={"arena": "poems"}, clock=lambda: now)
    for _ in range(31):
        retries.failed(StoreFault("the database is away\nand more"))
        now += 2.0
    retries.succeeded()
    retries.succeeded()
    retries.failed(StoreFault("gone again"))
    retries.succeeded()
    first, later, again = (record.getMessage() for record in caplog.records)
    assert first.endswith("the database is away")
    assert "29 more" in later
    assert "again" in again
    assert {record.facts["arena"] for record in caplog.records} == {"poems"}


def test_an_error_that_nobody_foresaw_is_logged_with_its_place(caplog):
    Retries(LOG, "the work", Backoff(1.0)).failed(KeyError())
    assert "KeyError" in caplog.records[0].getMessage()
    assert caplog.records[0].exc_info is not None
