"""What arenas of twelve people promise and settle, and how often their status changes."""

from dataclasses import replace

from lab.small_arenas import (
    collected_votes,
    small_settings,
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
