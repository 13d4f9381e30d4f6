"""Boards of arenas that everybody on the internet may enter: they look at the days on which voters came."""

import json
import time

import numpy as np
import pytest

from support.live_arenas import made_arena
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import lay_votes
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.log.votes import read_ballots_sync
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot, open_matchups_at
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.arena.rating.rater_progress import RatedArena, event_time
from tiltyard.core.board.cross_check import MIN_DAYS
from tiltyard.core.board.document import BoardDocument
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings


def lay_days(url, days, votes=1500):
    """Voters of five votes each, day by day; on every second day they want the opposite."""
    made_arena(url, 4, 20)
    lay_votes(url, 1, votes, 4, 20)
    came = f"interval '1 day' * (serial * {days} / {votes} - 10)"
    swapped = f"CASE WHEN serial * {days} / {votes} % 2 = 1 AND outcome < 2 THEN 1 - outcome ELSE outcome END"
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute(
            f"UPDATE events SET session = 1 + serial / 5, at = at + {came}, outcome = {swapped} WHERE kind IN (0, 1)"
        )
        connection.execute(f"UPDATE matchups SET session = 1 + serial / 5, served_at = served_at + {came}")
        connection.execute(f"UPDATE endings SET at = at + {came}, outcome = {swapped}")


def rated_board(url, *, public_address):
    """The last board of people that a rater publishes, and the one that a replay makes: their bytes."""
    with connect(url) as connection:
        public = f'{{"public_address": {json.dumps(public_address)}}}'
        connection.execute("UPDATE arenas SET settings = settings || %s::jsonb", [public])
    rater = RaterProcess(url, clock=lambda: time.monotonic() / 1000)
    try:
        while rater.turn():
            pass
    finally:
        rater.close()
    with connect(url) as connection:
        position, generation, document = connection.execute(
            "SELECT position, generation, document FROM snapshots WHERE source = 0 ORDER BY position DESC LIMIT 1"
        ).fetchone()
        fold = replay_log(connection, 1, position, generation)[HUMAN]
        arena = RatedArena(1, "arena", ArenaSettings(public_address=public_address))
        moment = BoardMoment(HUMAN, position, event_time(connection, 1, position), generation)
        again = make_snapshot(fold, arena, moment, open_matchups_at(connection, 1, HUMAN, fold, position))
    return document, again.document


@pytest.mark.slow(but="2-True-names0")
@pytest.mark.parametrize(
    ("days", "public_address", "names"),
    [(2, True, {"few-days"}), (2, False, set()), (6, True, {"days-differ"}), (6, False, {"days-differ"})],
)
def test_a_board_looks_at_the_days_of_its_voters_and_equals_its_replay(database, days, public_address, names):
    lay_days(database, days)
    published, replayed = rated_board(database, public_address=public_address)
    assert published == replayed
    board = BoardDocument.from_json(published)
    assert board.method.least_days == (MIN_DAYS if public_address else 0)
    with connect(database) as connection:
        ballots = read_ballots_sync(connection, 1, HUMAN, upto=board.position)
    # Boards of some votes look at them too.
    assert len(np.unique(ballots.at // 86_400)) in (days, days + 1)
    assert {one["name"] for one in json.loads(published)["findings"]} & {"few-days", "days-differ"} == names


@pytest.mark.parametrize(
    "settings", [{"entry": "invitation"}, {"entry": "passcode"}, {"visibility": "closed"}]
)
def test_among_invited_people_days_do_not_matter(settings):
    arena = RatedArena(1, "arena", ArenaSettings(**settings, public_address=True))
    assert arena.least_days is None
