"""Matches of one model under test."""

from tiltyard.core.judging.matches import Prompt, all_pairs

PROMPTS = [Prompt("p", ""), Prompt("q", ""), Prompt("r", "")]


def test_only_its_own_pairs_are_made():
    has = {("new", "p"), ("a", "p"), ("b", "p"), ("new", "q"), ("a", "q"), ("a", "r"), ("b", "r")}
    found = all_pairs(PROMPTS, ["new", "b", "a"], ["d"], has, around="new")
    assert [(one.prompt_id, one.model_a, one.model_b) for one in found.matches] == [
        ("p", "a", "new"),
        ("p", "b", "new"),
        ("q", "a", "new"),
    ]


def test_only_what_it_has_not_answered_is_missing():
    has = {("new", "p"), ("a", "p"), ("b", "q")}
    found = all_pairs(PROMPTS, ["new", "b", "a"], ["d"], has, around="new")
    assert found.dropped == 2
    assert found.missing == {"new": 2}
