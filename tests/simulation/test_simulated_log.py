"""Logs of simulated arenas."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.policy.state.events import Event
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.report import validity_report
from tiltyard.simulation.simulated_arena import SimulationSettings, arena_log, simulate
from tiltyard.simulation.worlds import WorldSettings

SETTINGS = SimulationSettings(
    world=WorldSettings(models=6, prompts=5, newcomers=1, newcomers_after=200, retired=1, retired_after=300),
    policy=Policy(window=200),
    votes=450,
    skips=0.05,
    expiries=0.05,
    sessions=9,
)


@pytest.fixture(scope="module")
def log():
    return arena_log(SETTINGS, 3, votes_per_day=100)


@pytest.mark.slow
def test_the_log_is_that_of_the_simulated_arena(log):
    standing = Standing(SETTINGS.policy, log.models, log.prompts)
    standing.fold(log.events)
    result = simulate(SETTINGS, 3)
    assert standing.votes == 450
    assert sorted(np.flatnonzero(standing.enabled)) == sorted(result.order)
    assert len(log.given_up) == result.given_up
    assert standing.skipped > 0
    assert standing.expired > 0


def test_a_log_is_in_order_names_its_matchups_and_can_be_reported(log):
    events = log.events
    served = {row["serial"]: row for row in events[events.event == Event.SERVED].rows()}
    for vote in events[events.event == Event.VOTE].rows():
        matchup = served[vote["serial"]]
        assert all(vote[name] == matchup[name] for name in ("a", "b", "prompt"))
    assert (np.diff(log.events.time) >= 0).all()
    assert log.events.time[-1] == 1_704_067_200 + 450 * 86_400 // 100
    events = log.events
    joined = np.flatnonzero(events.event == Event.ENABLE)[-1]
    assert (events.event[:joined] == Event.VOTE).sum() == 200
    report = validity_report(log.events, log.models, log.prompts, SETTINGS.policy, given_up=log.given_up)
    assert report.matchups.votes == 450


@pytest.mark.slow
def test_an_official_arena_ends_where_its_simulation_does():
    settings = replace(SETTINGS, votes=2_000, until_official=True, world=WorldSettings(models=4, prompts=4))
    log = arena_log(settings, 0, votes_per_day=500)
    assert (log.events.event == Event.VOTE).sum() == simulate(settings, 0).official_at
