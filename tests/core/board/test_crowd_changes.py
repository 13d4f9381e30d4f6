from __future__ import annotations

from dataclasses import replace

import pytest

from support.boarded_arenas import A, arena
from tiltyard.core.board.arena_board import CrowdChange, hold_for_crowd, make_arena_board
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.policy.validity.evaluation import EvaluationHistory, evaluate


@pytest.fixture
def official():
    votes = [(a, b, p, A) for _ in range(7) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    standing = arena([1700, 1600, 1500], votes)
    history = EvaluationHistory((replace(evaluate(standing), holds=True),) * 3)
    board = make_arena_board(standing, history)
    assert board.status == "official"
    return board


def test_a_board_is_not_official_until_a_change_is_explained(official):
    held = hold_for_crowd(official, [CrowdChange("m2", "new-voters"), CrowdChange("m0", "all")])
    assert (held.status, held.official_since) == ("calibrating", None)
    assert not any(row.official for row in held.rows)
    assert [finding.name for finding in held.findings[:2]] == ["official-held", "crowd-changed"]
    assert all(name in held.findings[1].text for name in ("m2 (", "m0 ("))
    assert hold_for_crowd(official, []) is official


def test_a_board_that_was_not_official_only_says_what_changed(official):
    calibrating = replace(official, status="calibrating", official_since=None)
    held = hold_for_crowd(calibrating, [CrowdChange("m1", "all")])
    assert [finding.name for finding in held.findings if "held" in finding.name] == []
    assert held.findings[0].name == "crowd-changed"


def test_a_board_without_a_policy_to_show_says_nothing(official):
    unseen = replace(official, status=None)
    assert hold_for_crowd(unseen, [CrowdChange("m1", "all")]) is unseen


def test_every_group_has_words(official):
    for group in VOTE_GROUPS:
        assert "m1 (" in hold_for_crowd(official, [CrowdChange("m1", group)]).findings[1].text
