"""Models that fail are rested, tried again, and come back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tiltyard.errors import ProviderFault, StreamBroken
from tiltyard.judges.chat_models import EntrantHealth, HealthPolicy, HealthReport, describe_problem

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = HealthPolicy(failures=3, first_rest_seconds=30, longest_rest_seconds=100, trial_seconds=60)
DOWN = ProviderFault("openai at http://10.0.0.7: connection failed", retryable=True)


def at(seconds):
    return START + timedelta(seconds=seconds)


def failed(times, health=None, now=0, fault=DOWN):
    health = health or EntrantHealth(START, POLICY)
    for _ in range(times):
        health.started(at(now))
        health.record_failure(fault, at(now))
    return health


def test_a_new_model_is_well():
    health = EntrantHealth(START, POLICY)
    assert health.available(START)
    assert health.report() == HealthReport("well", START, 0, None, None)


def test_consecutive_failures_rest_it_until_a_time():
    health = failed(2)
    assert health.available(at(0))
    assert health.report().problem == "its server could not be reached"
    failed(1, health, now=1)
    assert health.report() == HealthReport("rested", at(1), 3, "its server could not be reached", at(31))
    assert not health.available(at(30.9))
    assert health.available(at(31))


def test_a_success_between_failures_starts_the_count_again():
    health = failed(2)
    health.record_success(at(1))
    failed(2, health, now=2)
    assert health.report().state == "well"


def test_one_call_tries_it_again_and_a_success_brings_it_back():
    health = failed(3)
    health.started(at(30))
    assert health.report().state == "trial"
    assert not health.available(at(30)), "one call at a time"
    health.record_success(at(33))
    assert health.report() == HealthReport("well", at(33), 0, None, None)
    assert health.available(at(33))


def test_rests_grow_up_to_the_longest_and_begin_small_again_after_a_success():
    health, now, rests = failed(3), 0, []
    for _ in range(4):
        until = (health.report().tries_again_at - START).total_seconds()
        rests.append(until - now)
        now = until
        failed(1, health, now)
    assert rests == [30, 60, 100, 100]
    health.record_success(at(now + 1))
    failed(3, health, now + 1)
    assert health.report().tries_again_at == at(now + 31)


def test_calls_that_were_under_way_do_not_prolong_the_rest():
    health = EntrantHealth(START, POLICY)
    for _ in range(10):
        health.started(START)
    for second in range(10):
        health.record_failure(DOWN, at(second))
    assert health.report().tries_again_at == at(2 + 30)
    assert health.report().failures == 10


def test_a_late_success_of_such_a_call_brings_it_back():
    health = failed(3)
    health.record_success(at(5))
    assert health.available(at(5))


def test_a_failure_that_all_calls_share_rests_it_at_once():
    assert failed(1, fault=ProviderFault("no key", status=401, fatal=True)).report().state == "rested"


def test_it_rests_as_long_as_its_provider_asks_within_the_longest():
    assert failed(3, fault=ProviderFault("", status=429, retry_after=45)).report().tries_again_at == at(45)
    assert failed(3, fault=ProviderFault("", status=429, retry_after=4500)).report().tries_again_at == at(100)


def test_a_trial_that_was_stopped_allows_another():
    health = failed(3)
    health.started(at(40))
    health.record_stopped(at(41))
    assert health.report().state == "rested"
    assert health.available(at(41))


def test_a_call_that_is_stopped_otherwise_says_nothing():
    health = failed(2)
    health.record_stopped(at(1))
    assert health.report().failures == 2
    failed(1, health, 2)
    health.record_stopped(at(3))
    assert not health.available(at(3))


def test_a_trial_of_which_nothing_is_heard_is_forgotten():
    health = failed(3)
    health.started(at(30))
    assert not health.available(at(89))
    assert health.available(at(90))
    health.started(at(90))
    assert health.report() == HealthReport("trial", at(90), 3, "its server could not be reached", at(30))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (DOWN, "its server could not be reached"),
        (
            ProviderFault("", retryable=True, billed=True),
            "it did not answer in time, or the connection was lost",
        ),
        (ProviderFault(""), "it could not be asked"),
        (ProviderFault("", status=429, throttled=True), "its provider asks for fewer calls"),
        (ProviderFault("", status=500, retryable=True), "its server failed with status 500"),
        (ProviderFault("", status=400), "its server rejected the request with status 400"),
        (ProviderFault("", status=401), "its key was refused"),
        (ProviderFault("", status=402), "its account has no credit"),
        (ProviderFault("", status=404), "its address or its model does not exist"),
        (ProviderFault("", status=200), "its answer could not be read"),
        (StreamBroken("", status=529, throttled=True), "an answer broke off"),
    ],
)
def test_problems_are_told_in_our_own_words(fault, words):
    fault.said = "<script>gpt-9 says no"
    assert describe_problem(fault) == words


class Health(RuleBasedStateMachine):
    """Whatever happens, and in whatever order."""

    def __init__(self):
        super().__init__()
        self.now, self.health, self.calls = 0, EntrantHealth(START, POLICY), 0

    @rule(seconds=st.integers(0, 130))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def ask(self):
        if self.health.available(at(self.now)):
            before = self.health.report().state
            self.health.started(at(self.now))
            assert (before == "well") == self.health.available(at(self.now)), "one trial at a time"
            self.calls += 1

    @rule()
    def succeed(self):
        if self.calls:
            self.calls -= 1
            self.health.record_success(at(self.now))
            assert self.health.available(at(self.now))

    @rule(fatal=st.booleans(), wait=st.one_of(st.none(), st.floats(0, 1000)))
    def fail(self, fatal, wait):
        if self.calls:
            self.calls -= 1
            self.health.record_failure(ProviderFault("", fatal=fatal, retry_after=wait), at(self.now))

    @rule()
    def stop(self):
        if self.calls:
            self.calls -= 1
            self.health.record_stopped(at(self.now))

    @invariant()
    def coherent(self):
        report = self.health.report()
        assert (report.state == "well") == (report.tries_again_at is None)
        assert (report.problem is None) == (report.failures == 0)
        longest = POLICY.longest_rest_seconds + POLICY.trial_seconds
        assert self.health.available(at(self.now + longest)), "it is always tried again"
        if report.state == "well":
            assert report.failures < POLICY.failures


TestHealth = Health.TestCase
