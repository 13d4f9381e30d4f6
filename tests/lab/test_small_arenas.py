"""What arenas of twelve people promise and settle, and how often their status changes."""

from dataclasses import replace

from lab.small_arenas import (
    SmallArenaResult,
    StatusResult,
    collected_votes,
    false_row,
    promise_row,
    small_settings,
    status_row,
    study_small_arena,
    study_status,
)
from tiltyard.core.policy.state.policy import Policy
from tiltyard.simulation.simulated_arena import SimulationSettings
from tiltyard.simulation.worlds import WorldSettings


def test_equal_models_of_a_small_arena_are_not_told_apart():
    assert [collected_votes(3, prompts) for prompts in (3, 6, 20)] == [108, 216, 240]
    found = study_small_arena(replace(small_settings(3, 6, "equal"), every=50), 0)
    assert (found.false_like_these, found.false_these) == (False, False)
    assert len(found.gaps) == len(found.settled) == 3


def test_a_status_is_watched_from_the_first_official_board_on():
    policy = Policy(published_rd=200.0, adjacent_votes=3, adjacent_prompts=2, established_votes=10)
    settings = SimulationSettings(WorldSettings(3, 6, newcomers=1, newcomers_after=150), policy, votes=240)
    found = study_status(settings, 0)
    assert 0 < found.votes < 240
    assert found.changes >= 0


def test_rows_of_the_page():
    results = [SmallArenaResult((10.0, 400.0), (False, True), False, True)]
    assert promise_row(3, 3, results).count("|") == 12
    assert "50% of 2" in promise_row(3, 3, results)
    assert false_row(3, 6, "equal", results).endswith("| 0 of 1 | 1 of 1 |")
    assert status_row("a", [StatusResult(2, 500), StatusResult(0, 0)]) == "| a | 1 of 2 | 4.00 |"
