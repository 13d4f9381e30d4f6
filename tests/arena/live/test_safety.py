"""Moderation of live battles: both answers alike, the whole conversation, and checks that do not answer."""

import asyncio
import logging

import pytest

from support.servers.scripted import http, scripted
from tiltyard.arena.live.live_records import LiveTurn
from tiltyard.arena.live.safety import RuleMatcher, Safety, SafetyVerdict, open_configured_safety, open_safety
from tiltyard.errors import BadConfig, ProviderFault
from tiltyard.settings.environment import read_environment
from tiltyard.settings.live_models import (
    GuardSection,
    ModerationEndpointSection,
    ModerationRule,
    ModerationRules,
    ModerationSection,
)

RULES = ModerationRules(
    rules=(
        ModerationRule(name="bombs", phrases=("bomb*",)),
        ModerationRule(name="exam", phrases=("homework",), action="flag"),
    )
)
REFUSED = SafetyVerdict(False)
HISTORY = (LiveTurn(0, "first prompt", "first left", "first right", "done"),)


class Guard:
    """Refuses conversations with certain words, and remembers all that it was asked."""

    def __init__(self, *words, fault=None, seconds=0.0):
        self.words, self.fault, self.seconds = words, fault, seconds
        self.asked = []
        self.closed = False

    async def harm(self, conversation):
        self.asked.append([(message.role, message.text) for message in conversation])
        await asyncio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        found = tuple(word for word in self.words if any(word in message.text for message in conversation))
        return found or None

    async def close(self):
        self.closed = True


def by_rules(**fields):
    return Safety(ModerationSection(**fields), RuleMatcher(RULES))


def prompted(safety, text, history=()):
    return asyncio.run(safety.check_prompt(history, text))


def answered(safety, a, b, history=HISTORY):
    return asyncio.run(safety.check_answers(history, a, b))


@pytest.mark.parametrize(("a", "b"), [("a bomb", "fine"), ("fine", "a bomb"), ("bombs", "bombs")])
def test_both_answers_are_checked_alike(a, b):
    assert answered(by_rules(), a, b) == REFUSED
    guard = Guard("bomb")
    assert answered(Safety(ModerationSection(), guards=[("guard", guard)]), a, b) == REFUSED
    assert len(guard.asked) == 2


def test_a_rule_may_only_flag():
    assert prompted(by_rules(), "my homework") == SafetyVerdict(True, flags=("exam",))
    assert answered(by_rules(), "homework", "homework") == SafetyVerdict(True, flags=("exam",))
    assert prompted(by_rules(), "homework on bombs") == SafetyVerdict(False, flags=("exam",))


def test_guards_see_both_conversations_whole():
    guard = Guard()
    safety = Safety(ModerationSection(), guards=[("guard", guard)])
    prompted(safety, "second prompt", HISTORY)
    running = (*HISTORY, LiveTurn(1, "second prompt", "half", "hal", "streaming"))
    answered(safety, "second left", "second right", running)
    left = [("user", "first prompt"), ("assistant", "first left"), ("user", "second prompt")]
    right = [("user", "first prompt"), ("assistant", "first right"), ("user", "second prompt")]
    assert guard.asked == [
        left,
        right,
        [*left, ("assistant", "second left")],
        [*right, ("assistant", "second right")],
    ]


def test_a_first_prompt_is_asked_about_once():
    guard = Guard()
    prompted(Safety(ModerationSection(), guards=[("guard", guard)]), "hello")
    assert guard.asked == [[("user", "hello")]]


def test_a_refusal_by_rules_asks_nobody():
    guard = Guard()
    safety = Safety(ModerationSection(), RuleMatcher(RULES), [("guard", guard)])
    assert prompted(safety, "bomb") == REFUSED
    assert guard.asked == []
    assert prompted(safety, "homework") == SafetyVerdict(True, flags=("exam",))
    assert len(guard.asked) == 1


@pytest.mark.parametrize("guard", [Guard(fault=ProviderFault("broken")), Guard(seconds=60)])
@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_check_that_does_not_answer_fails_as_the_setting_says(guard, fail, caplog):
    section = ModerationSection(fail=fail, timeout_seconds=0.05)
    with caplog.at_level(logging.WARNING):
        verdict = prompted(Safety(section, guards=[("endpoint", guard)]), "hello")
    flags = ("unchecked",) if fail == "open" else ()
    assert verdict == SafetyVerdict(fail == "open", flags)
    assert f"moderation.fail is {fail}" in caplog.text
    assert "hello" not in caplog.text


def test_a_refusal_counts_even_if_another_check_is_silent():
    section = ModerationSection(fail="open")
    guards = [("endpoint", Guard(fault=ProviderFault("broken"))), ("guard", Guard("hello"))]
    assert prompted(Safety(section, guards=guards), "hello") == REFUSED


def test_a_guard_that_names_no_category_refuses_by_its_own_name():
    class Silent(Guard):
        async def harm(self, _conversation):
            return ()

    assert prompted(Safety(ModerationSection(), guards=[("guard", Silent())]), "x") == REFUSED


def test_everything_is_closed():
    guard = Guard()
    asyncio.run(Safety(ModerationSection(), guards=[("guard", guard)]).close())
    assert guard.closed


def test_a_models_file_opens_all_of_it(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules:\n  - {name: bombs, phrases: [bomb]}\n")
    reply = b'{"results": [{"flagged": false}], "choices": [{"message": {"content": "unsafe\\nS1"}}]}'

    async def go():
        async with scripted(http(200, reply)) as url:
            section = ModerationSection(
                rules="rules.yaml",
                hold_answers=True,
                endpoint=ModerationEndpointSection(base_url=url),
                guard=GuardSection(base_url=url, model="guard"),
            )
            safety = open_safety(section, tmp_path, read_environment(variables={}))
            assert safety.holds_answers
            try:
                return await safety.check_prompt((), "a bomb"), await safety.check_prompt((), "hello")
            finally:
                await safety.close()

    assert asyncio.run(go()) == (REFUSED, REFUSED)


def test_the_environment_names_the_models_file(tmp_path):
    assert open_configured_safety(read_environment(variables={})) is None
    models = "models:\n" + "".join(
        f"  - {{name: {name}, provider: openai, base_url: 'http://127.0.0.1:1/v1', model: m}}\n"
        for name in "ab"
    )
    path = tmp_path / "models.yaml"
    environment = read_environment(variables={"TILTYARD_MODERATION": str(path)})
    with pytest.raises(BadConfig, match="no such file"):
        open_configured_safety(environment)
    path.write_text(models)
    assert open_configured_safety(environment) is None
    (tmp_path / "rules.yaml").write_text("rules:\n  - {name: bombs, phrases: [bomb]}\n")
    path.write_text(f"{models}moderation:\n  rules: rules.yaml\n")
    assert prompted(open_configured_safety(environment), "a bomb") == REFUSED
