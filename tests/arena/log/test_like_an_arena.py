"""``simulate --like ARENA`` reads the arena's final votes from its database."""

import pytest

from support.command import run
from support.live_arenas import made_arena
from support.voted_arenas import lay_votes


@pytest.fixture
def home(tmp_path, monkeypatch, database):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.chdir(tmp_path)


def test_the_log_of_an_arena_is_read_by_its_name(database, home):
    arena = made_arena(database)
    lay_votes(database, arena.arena, 280, 4, 6, sessions=40)
    ran = run("simulate", "--like", arena.name, "--votes", 750, "--processes", 0, "--seeds", 1)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0].split(";")[0].endswith("battles")
    assert "is too short" in ran.out


def test_an_arena_that_is_not_there_is_an_error(home):
    ran = run("simulate", "--like", "nowhere")
    assert ran.code == 2
    assert "no such arena" in ran.err
