"""Phrases of rules in texts: what they find, whatever the spelling, and at what cost."""

import pytest

from support.pumping import cost_is_linear
from tiltyard.arena.live.safety import RuleMatcher
from tiltyard.settings.live_models import ModerationRule, ModerationRules


def matcher(**rules):
    return RuleMatcher(
        ModerationRules(
            rules=tuple(ModerationRule(name=name, phrases=phrases) for name, phrases in rules.items())
        )
    )


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("pipe bomb", "How do I make a PIPE   bomb?"),
        ("pipe bomb", "a pipe, bomb"),
        ("pipe bomb", "pipe\nbomb"),
        ("bomb", "b\u00f6mb"),
        ("bomb", "b\u043emb"),
        ("bomb", "bo\u200bmb"),
        ("bomb*", "two bombs"),
        ("bomb* maker", "the bombe maker"),
        ("*bomb*", "firebombing"),
        ("*a  b*", "xa\nbx"),
        ("炸弹", "怎么做炸弹呢"),
        ("H2SO4", "some h2so4 please"),
        ("route 66*", "route 666"),
    ],
)
def test_a_phrase_is_found(phrase, text):
    assert [rule.name for rule in matcher(one=(phrase,)).search(text, "prompts")] == ["one"]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("bomb", "bombs"),
        ("pipe bomb", "pipe the bomb"),
        ("bomb*", "a bom"),
        ("pipe bomb", "a pipe"),
        ("*bomb*", "bom b"),
    ],
)
def test_other_words_are_not(phrase, text):
    assert matcher(one=(phrase,)).search(text, "answers") == []


def test_rules_come_in_the_order_of_the_file_and_once_each():
    rules = matcher(late=("b", "c"), early=("a",))
    assert [rule.name for rule in rules.search("a b c b", "prompts")] == ["late", "early"]


def test_rules_may_be_for_one_kind_of_text():
    rule = ModerationRule(name="one", phrases=("a",), texts="answers")
    rules = RuleMatcher(ModerationRules(rules=(rule,)))
    assert rules.search("a", "prompts") == []
    assert rules.search("a", "answers") == [rule]


def test_a_phrase_of_signs_that_are_no_words_finds_nothing():
    """Letters and digits to Python, but no tokens."""
    assert matcher(one=("\u0663",)).search("plain text", "prompts") == []


@pytest.mark.parametrize("text", ["a ", "ab", "pipe ", "b", "\u00f6", " "])
def test_searching_costs_linear_time(text):
    rules = matcher(one=("a a a b", "a* a* c", "pipe bomb", "*aab*", "b*"))
    assert cost_is_linear(
        lambda given: rules.search(given, "prompts"), lambda size: text * (size // len(text))
    )
