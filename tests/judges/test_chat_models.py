"""Models of a live arena, opened from their settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.faulty_upstream import faulty_upstream
from tiltyard.errors import BadConfig, EmptyAnswer, ProviderFault, StreamBroken
from tiltyard.judges.chat_models import EntrantHealth, describe_problem, is_of_prompt, open_chat_model
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamTimeouts
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveModels

TEXT = """\
models:
- {name: a, provider: openai, base_url: "http://127.0.0.1:9/v1", model: m, temperature: 0.5, %s}
- {name: b, provider: anthropic, model: m}
"""


def entrants(folder, more="maker: x"):
    path = folder / "models.yaml"
    path.write_text(TEXT % more)
    return LiveModels.load(path).entrants()


async def test_a_model_is_opened_with_its_parameters(tmp_path):
    timeouts = StreamTimeouts(first_token_seconds=3)
    model = open_chat_model(
        entrants(tmp_path, "headers: {x-team: red}")[0], Environment(tmp_path, None, {}), timeouts
    )
    body = model.body(ChatRequest((ChatTurn("user", "Hello?"),), None, 50))
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.5, 50)
    assert model.timeouts == timeouts
    assert "x-team" in model.provider.address
    await model.aclose()


def test_thinking_that_the_template_opens(tmp_path):
    async def go(upstream):
        entrant = entrants(tmp_path, "thinking_open: true")[0]
        entrant = replace(entrant, base_url=upstream.base_url)
        model = open_chat_model(entrant, Environment(tmp_path, None, {}))
        request = ChatRequest((ChatTurn("user", "Hello?"),), None, 50)
        *pieces, end = [piece async for piece in model.stream(request)]
        await model.aclose()
        assert end.stop == "end"
        return "".join(piece.text for piece in pieces), "".join(piece.thinking for piece in pieces)

    with faulty_upstream() as upstream:
        upstream.script("m", text="Hm.</think>Yes")
        assert asyncio.run(go(upstream)) == ("Yes", "Hm.")


def test_a_key_that_is_not_set_is_told_before_anything_is_sent(tmp_path):
    with pytest.raises(BadConfig, match="ANTHROPIC_API_KEY"):
        open_chat_model(entrants(tmp_path)[1], Environment(tmp_path, None, {}))


@pytest.mark.parametrize("option", ["stream: false", "n: 2", "messages: []", "max_tokens_field: limit"])
def test_an_option_that_is_ours_is_told_before_anything_is_sent(tmp_path, option):
    with pytest.raises(BadConfig, match=f"model a: options: {option.split(':')[0]}"):
        open_chat_model(entrants(tmp_path, f"options: {{{option}}}")[0], Environment(tmp_path, None, {}))


def test_without_the_extra_the_models_are_read_and_the_extra_is_named(tmp_path):
    entrants(tmp_path)
    code = """
import sys
from pathlib import Path
sys.modules["aiohttp"] = None
from tiltyard.errors import MissingExtra
from tiltyard.judges.chat_models import open_chat_model
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveModels
entrant = LiveModels.load(Path("models.yaml")).entrants()[0]
try:
    open_chat_model(entrant, Environment(Path(), None, {}))
except MissingExtra as error:
    print(error.extra)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("judges\n", "")


# Models that fail are rested, tried again, and come back.


START = datetime(2026, 1, 1, tzinfo=UTC)
DOWN = ProviderFault("openai at http://10.0.0.7: connection failed", retryable=True)


def at(seconds):
    return START + timedelta(seconds=seconds)


def failed(times, health=None, now=0, fault=DOWN, confirmed=True):
    health = health or EntrantHealth()
    for _ in range(times):
        health = health.started(at(now)).failed(fault, at(now), confirmed=confirmed)
    return health


def test_a_new_model_is_well():
    assert EntrantHealth().available(START)
    assert EntrantHealth().started(START) == EntrantHealth()


def test_consecutive_failures_rest_it_until_a_time():
    health = failed(2)
    assert health.available(at(0))
    assert (health.state, health.problem) == ("well", "its server could not be reached")
    health = failed(1, health, now=1)
    assert (health.state, health.since, health.failures, health.until) == ("rested", at(1), 3, at(31))
    assert not health.available(at(30.9))
    assert health.available(at(31))


def test_one_call_tries_it_again():
    health = failed(3).started(at(30))
    assert health.state == "trial"
    assert not health.available(at(30)), "one call at a time"


def test_rests_grow_up_to_the_longest():
    health, now, rests = failed(3), 0, []
    for _ in range(9):
        until = (health.until - START).total_seconds()
        rests.append(until - now)
        now = until
        health = failed(1, health, now)
    assert rests == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_calls_that_were_under_way_do_not_prolong_the_rest():
    health = EntrantHealth()
    for second in range(10):
        health = health.failed(DOWN, at(second), confirmed=False)
    assert (health.until, health.failures) == (at(2 + 30), 10)


def test_a_failure_that_all_calls_share_rests_it_at_once():
    assert failed(1, fault=ProviderFault("no key", status=401, fatal=True)).state == "rested"


def test_what_a_prompt_may_have_caused_is_believed_of_several_voters_only():
    for fault in (
        ProviderFault("", status=500, retryable=True),
        ProviderFault("", status=429, throttled=True, retryable=True),
        ProviderFault("", retryable=True, billed=True),
        ProviderFault("", status=403, fatal=True),
        StreamBroken(""),
    ):
        assert not is_of_prompt(fault)
        alone = failed(9, fault=fault, confirmed=False)
        assert (alone.state, alone.rests) == ("well", 0)
        rested = failed(1, alone, fault=fault)
        assert rested.state == "rested"
        again = failed(1, rested, now=40, fault=fault, confirmed=False)
        assert (again.rests, again.until, again.available(at(40))) == (1, rested.until, True)
    assert is_of_prompt(EmptyAnswer(""))
    assert is_of_prompt(ProviderFault("", status=400))
    assert not is_of_prompt(ProviderFault("", status=400, fatal=True))


def test_it_rests_as_long_as_its_provider_asks_within_the_longest():
    assert failed(3, fault=ProviderFault("", status=429, retry_after=45)).until == at(45)
    assert failed(3, fault=ProviderFault("", status=429, retry_after=4500)).until == at(3600)


def test_a_trial_that_was_stopped_allows_another():
    health = failed(3).started(at(40)).stopped(at(41))
    assert health.state == "rested"
    assert health.available(at(41))


def test_a_call_that_is_stopped_otherwise_says_nothing():
    assert failed(2).stopped(at(1)) == failed(2)
    assert failed(3).stopped(at(1)) == failed(3)


def test_a_trial_of_which_nothing_is_heard_is_forgotten():
    health = failed(3).started(at(30))
    assert not health.available(at(929))
    assert health.available(at(930))
    assert health.started(at(930)).since == at(930)


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
    """Whatever happens, and in whatever order. A success makes it well."""

    def __init__(self):
        super().__init__()
        self.now, self.health, self.calls = 0, EntrantHealth(), 0

    @rule(seconds=st.integers(0, 4000))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def ask(self):
        if self.health.available(at(self.now)):
            before = self.health.state
            self.health = self.health.started(at(self.now))
            assert (before == "well") == self.health.available(at(self.now)), "one trial at a time"
            self.calls += 1

    @rule()
    def succeed(self):
        if self.calls:
            self.calls -= 1
            self.health = EntrantHealth()

    @rule(fatal=st.booleans(), confirmed=st.booleans(), wait=st.one_of(st.none(), st.floats(0, 1000)))
    def fail(self, fatal, confirmed, wait):
        if self.calls:
            self.calls -= 1
            fault = ProviderFault("", fatal=fatal, retry_after=wait)
            before, self.health = self.health, self.health.failed(fault, at(self.now), confirmed=confirmed)
            assert confirmed or self.health.rests == before.rests, "no prompt makes it rest"

    @rule()
    def stop(self):
        if self.calls:
            self.calls -= 1
            self.health = self.health.stopped(at(self.now))

    @invariant()
    def coherent(self):
        health = self.health
        assert (health.state == "well") == (health.until is None)
        assert (health.problem is None) == (health.failures == 0)
        longest = 3600 + 900
        assert health.available(at(self.now + longest)), "it is always tried again"


TestHealth = Health.TestCase
