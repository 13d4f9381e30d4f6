"""A stranger recomputes a board from the exported battles, without this package."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from support import TESTS
from support.live_arenas import made_arena
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import lay_votes
from tiltyard.arena.log.battle_release import ReleaseChoice, export_release
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot
from tiltyard.arena.rating.rater_progress import RatedArena
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

SCRIPT = TESTS / "support/recompute_board.py"


def board_of(url):
    """The board of people's votes up to the end of the log."""
    with connect(url) as connection:
        (head,) = connection.execute("SELECT max(position) FROM events").fetchone()
        fold = replay_log(connection, 1, head, 0)[0]
    moment = BoardMoment(0, head, datetime(2026, 1, 1, tzinfo=UTC), 0)
    return json.loads(make_snapshot(fold, RatedArena(1, "arena", ArenaSettings()), moment, []).document)


def test_the_script_imports_nothing_of_the_package_and_is_short():
    text = SCRIPT.read_text()
    assert "tiltyard" not in text
    rest = ("#", '"""', "import ", "from ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(rest)]
    assert len(lines) <= 60


@pytest.mark.slow(but="400")
@pytest.mark.parametrize("sessions", [25, 400])
def test_ratings_intervals_ranges_and_tiers_follow_from_the_exported_battles(database, tmp_path, sessions):
    made_arena(database, 6, 40)
    lay_votes(database, 1, 4000, 6, 40, sessions=sessions)
    with connect(database) as connection:  # one session casts a third of the votes
        allow_rewriting(connection)
        connection.execute("UPDATE events SET session = 1 WHERE kind IN (0, 1) AND serial % 3 = 0")
        connection.execute("UPDATE matchups SET session = 1 WHERE serial % 3 = 0")
    board = board_of(database)
    battles, document = tmp_path / "voters.jsonl", tmp_path / "board.json"
    choice = ReleaseChoice(1, "arena", 0, board["position"])
    battles.write_bytes(b"".join(export_release(database, SecretKeys(["k" * 40]), choice, "voters", "jsonl")))
    document.write_text(json.dumps(board))
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(battles), str(document)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    found = {model: rest for model, *rest in map(json.loads, done.stdout.splitlines())}
    assert "weight-limited" in {finding["name"] for finding in board["cross_check"]["findings"]}
    for row, check in zip(board["rows"], board["cross_check"]["rows"], strict=True):
        rating, half, *places = found[row["model"]]
        assert [rating, half] == pytest.approx(
            [check["rating"], (check["high"] - check["low"]) / 2.0], abs=1e-6
        )
        assert places == [row["rank_low"], row["rank_high"], row["tier"]]
    assert len({row["rank_low"] for row in board["rows"]}) > 1
