"""The lab at the door of a running server: what it votes is what the arena knows, to the last bit."""

import asyncio

import pytest

from lab.api_voters import ApiVoting, answers_of, cast_votes
from support.driven import compared, driven, world_of
from tiltyard.errors import BadOption
from tiltyard.simulation.worlds import WorldSettings

SMALL = WorldSettings(models=6, prompts=12)


def test_answers_tell_a_world_apart_and_nobody_else_anything():
    world = world_of(SMALL, 1)
    rows = list(answers_of(world, SMALL.prompts))
    assert len(rows) == 6 * 12
    assert len({row["response"] for row in rows}) == len(rows)
    assert {row["model"] for row in rows} == set(world.models)
    assert not [row for row in rows if row["model"] in row["response"]]


@pytest.mark.parametrize("wrong", [{"votes": 0}, {"voters": 0}])
def test_a_drive_of_nothing_is_refused(wrong):
    voting = ApiVoting(**{"votes": 1, "seed": 1, **wrong})
    with pytest.raises(BadOption):
        asyncio.run(cast_votes("http://127.0.0.1:1", "lab", world_of(SMALL, 1), voting))


@pytest.mark.slow
def test_the_service_comes_to_what_the_pure_functions_make_of_its_log(database, tmp_path):
    found = driven(database, tmp_path, SMALL, votes=300, seed=1, voters=8)
    same = compared(database, found)
    assert same.votes == len(found.drive.votes) == 300
    assert found.lags
