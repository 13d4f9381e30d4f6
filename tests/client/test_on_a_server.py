"""The client on a real server over a real database: everything once, and what it refuses."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from support.live_arenas import answers_file
from support.postgres_servers import fresh_database
from support.served import Served, make_operator, make_token, served
from tiltyard import read_battles
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.client import AsyncClient, Client
from tiltyard.errors import Closed, Conflict, InputError, NotAllowed, NotFound, UnreadableFile
from tiltyard.postgres.connections import connect


@pytest.fixture(scope="module")
def site(server: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database, served(database, folder=folder) as running:
        make_operator(database)
        yield running


@pytest.fixture
def admin(site: Served) -> Iterator[Client]:
    with Client(site.url, token=make_token(site.database, "admin")) as client:
        yield client


@pytest.fixture
def voter(site: Served) -> Iterator[Client]:
    with Client(site.url) as client:
        yield client


@pytest.fixture
def arena(admin: Client, tmp_path: Path) -> str:
    """A new arena with three models and four prompts."""
    name = f"a-{uuid4().hex[:12]}"
    admin.create_arena(name, title="A test", settings={"undo_seconds": 600.0, "reveal": "vote"})
    admin.import_answers(name, answers_file(tmp_path / "answers.jsonl", 3, 4))
    return name


def rate(site: Served) -> None:
    """Let a rater come to the end of every log."""
    with connect(site.database) as connection:
        connection.execute("UPDATE arenas SET settings = settings || '{\"undo_seconds\": 0.0}'")
    stop = threading.Event()
    rater = threading.Thread(target=RaterProcess(site.database).run, args=(stop,))
    rater.start()
    try:
        for _ in range(600):
            with connect(site.database) as connection:
                behind = connection.execute(
                    "SELECT count(*) FROM raters r WHERE position < "
                    "(SELECT max(position) FROM events e WHERE e.arena = r.arena) OR NOT EXISTS "
                    "(SELECT FROM snapshots s WHERE s.arena = r.arena AND s.position = r.position)"
                ).fetchone()
            if behind == (0,):
                break
            stop.wait(0.1)
    finally:
        stop.set()
        rater.join()


def test_a_voter_goes_the_whole_way(voter: Client, arena: str):
    first = voter.next_matchup(arena)
    assert voter.next_matchup(arena) == first
    second = voter.next_matchup(arena, ahead=True)
    assert [one.matchup for one in voter.open_matchups(arena)] == [first.matchup, second.matchup]
    texts = [voter.response(first.matchup, side) for side in ("a", "b")]
    assert all(text.startswith(b"Answer") for text in texts)
    ended = voter.vote(first.matchup, "model_a")
    assert (ended.kind, ended.winner, ended.label) == ("vote", "model_a", "win")
    assert ended.undo_until is not None
    assert voter.vote(first.matchup, "model_a") == ended
    with pytest.raises(Closed):
        voter.vote(first.matchup, "tie")
    names = voter.reveal(first.matchup)
    assert names.winner == "model_a"
    assert {names.model_a, names.model_b} < {"model-0", "model-1", "model-2"}
    with pytest.raises(Closed):
        voter.undo(first.matchup)
    assert voter.skip(second.matchup).kind == "skip"
    third = voter.next_matchup(arena)
    voter.vote(third.matchup, "both_bad")
    undone = voter.undo(third.matchup)
    assert (undone.kind, undone.ballot) == ("undo", 1)
    assert voter.open_matchups(arena)[0].ballot == 1
    with pytest.raises(Closed, match="ballot 1"):
        voter.vote(third.matchup, "tie")
    recast = voter.vote(third.matchup, "tie", ballot=undone.ballot)
    assert (recast.winner, recast.ballot) == ("tie", 1)
    assert voter.undo(third.matchup, ballot=1).ballot == 2
    voter.report(third.matchup, "broken", "nothing can be read")


def test_what_is_not_there_is_named(voter: Client, arena: str):
    with pytest.raises(NotFound, match="no such arena"):
        voter.next_matchup("nowhere")
    with pytest.raises(NotAllowed):
        voter.models(arena)
    with pytest.raises(NotFound):
        voter.arena("nowhere")
    with pytest.raises(NotFound):
        voter.snapshot(arena, "0" * 64)


def test_an_operator_runs_an_arena(admin: Client, voter: Client, arena: str, tmp_path: Path):
    assert admin.me().name == "token:test"
    assert arena in {one.arena for one in voter.arenas()}
    changed = admin.change_arena(arena, title="Another title")
    assert voter.arena(arena).title == changed.title == "Another title"
    again = admin.import_answers(arena, answers_file(tmp_path / "again.jsonl", 3, 4))
    assert (again.models, again.responses, again.unchanged) == (0, 0, 12)
    more = answers_file(tmp_path / "more.jsonl", 4, 4).read_bytes()
    assert admin.import_answers(arena, more, enable=False).models == 1
    assert {one.model: one.enabled for one in admin.models(arena)} == {
        "model-0": True,
        "model-1": True,
        "model-2": True,
        "model-3": False,
    }
    assert admin.enable(arena, "model-3").enabled
    assert not admin.retire(arena, "model-0").enabled
    first, second = admin.prompts(arena, limit=2)
    assert [one.prompt for one in admin.prompts(arena, after=second.number)] == ["prompt-2", "prompt-3"]
    assert admin.response_of(arena, "model-1", first.prompt).startswith(b"Answer")
    assert admin.withdraw(arena, first.prompt, reason="asked for", model="model-1").responses == 1
    with pytest.raises(NotFound):
        admin.response_of(arena, "model-1", first.prompt)
    assert admin.set_policy(arena, tolerance=0.2)["tolerance"] == 0.2
    assert admin.set_policy(arena, phase=3)["phase"] == 3
    assert voter.policy(arena)["phase"] == 3
    with pytest.raises(InputError):
        admin.set_policy(arena, window=3)
    actions = [one.action for one in admin.audit(arena)]
    assert len(actions) > 8
    assert admin.audit(arena, before=admin.audit(arena)[1].entry)[0] == admin.audit(arena)[2]


def test_complaints_reach_the_operator(admin: Client, voter: Client, arena: str):
    matchup = voter.next_matchup(arena).matchup
    voter.report(matchup, "harmful", "<script>alert(1)</script>")
    [complaint] = admin.complaints(arena)
    assert (complaint.reason, complaint.note) == ("harmful", "<script>alert(1)</script>")
    admin.settle_complaint(arena, complaint.complaint)
    assert admin.complaints(arena) == []
    assert len(admin.complaints(arena, settled=True)) == 1


def test_readers_see_what_was_voted(admin: Client, voter: Client, site: Served, arena: str, tmp_path: Path):
    for number in range(20):
        matchup = voter.next_matchup(arena).matchup
        voter.vote(matchup, ("model_a", "model_b", "tie")[number % 3])
    rate(site)
    board = voter.board(arena)
    assert board["votes"] == board.board().votes == 20
    assert hashlib.sha256(board.data).hexdigest() == board.sha256
    listed = voter.snapshots(arena)
    assert listed[0].snapshot == board.sha256
    assert voter.snapshots(arena, before=listed[-1]) == []
    assert voter.snapshot(arena, board.sha256) == board
    assert voter.model(arena, "model-1")["model"] == "model-1"
    assert len(voter.board(arena, retired=False)["rows"]) == 3
    assert voter.reports(arena) == []
    with pytest.raises(NotFound):
        voter.validity_report(arena, "0" * 64)
    rows = list(voter.battles(arena))
    assert len(rows) == 20
    assert {row["source"] for row in rows} == {"human"}
    for kind in ("jsonl", "csv", "parquet"):
        path = voter.save_battles(arena, tmp_path / f"battles.{kind}", format=kind)
        assert len(list(read_battles(path))) == 20
    made = admin.exclude(arena, "a test", since=datetime.now(UTC) - timedelta(hours=1), source="human")
    assert made.votes == 20
    assert [one.exclusion for one in admin.exclusions(arena)] == [made.exclusion]
    assert admin.restore(arena, made.exclusion).exclusion == made.exclusion
    with pytest.raises(Conflict):
        admin.restore(arena, made.exclusion)


def test_nothing_is_left_where_a_file_could_not_be_fetched(voter: Client, arena: str, tmp_path: Path):
    with pytest.raises(InputError):
        voter.save_battles(arena, tmp_path / "battles.xml", format="xml")
    with pytest.raises(InputError, match="cannot write"):
        voter.save_battles(arena, tmp_path / "nowhere" / "battles.csv", format="csv")
    assert [one for one in tmp_path.iterdir() if one.name.startswith((".battles", "battles"))] == []


def test_a_file_of_answers_that_is_not_there_is_named(admin: Client, arena: str, tmp_path: Path):
    with pytest.raises(UnreadableFile, match="no such file"):
        admin.import_answers(arena, tmp_path / "nothing.jsonl")
    with pytest.raises(InputError):
        admin.import_answers(arena, b"no json\n")


def test_a_token_is_that_of_a_judge(site: Served, arena: str):
    with Client(site.url, token=make_token(site.database, "judge", arena=arena)) as judge:
        assert judge.me().scopes == ("judge",)
        matchup = judge.next_matchup(arena).matchup
        with pytest.raises(InputError, match="two bad responses"):
            judge.vote(matchup, "both_bad")
        judged = {"label": "inconsistent", "both_bad": True, "pref": 0.5, "judge_model": "judge-1"}
        ended = judge.vote(matchup, "tie", **judged)
        assert (ended.winner, ended.label, ended.both_bad) == ("tie", "inconsistent", True)
        with pytest.raises(NotAllowed):
            judge.models(arena)
    with Client(site.url, token="tyt_none") as stranger, pytest.raises(NotAllowed):
        stranger.me()


def test_the_house_tells_how_it_is(site: Served):
    with Client(site.url, token=make_token(site.database, "metrics")) as client:
        client.health()
        client.ready()
        assert "tiltyard" in client.metrics()


def test_the_asynchronous_client_votes_too(site: Served, arena: str):
    async def voting() -> None:
        async with AsyncClient(site.url) as voter:
            matchup = await voter.next_matchup(arena)
            assert (await voter.open_matchups(arena))[0] == matchup
            assert (await voter.response(matchup.matchup, "b")).startswith(b"Answer")
            await voter.vote(matchup.matchup, "model_b")
            undone = await voter.undo(matchup.matchup)
            await voter.vote(matchup.matchup, "model_a", ballot=undone.ballot)
            other = await voter.next_matchup(arena)
            await voter.vote(other.matchup, "tie", reveal=True)
            assert (await voter.reveal(other.matchup)).winner == "tie"
            await voter.skip((await voter.next_matchup(arena)).matchup)

    asyncio.run(voting())


@pytest.mark.slow
def test_many_voters_at_once_are_each_their_own(site: Served, arena: str):
    async def one(number: int) -> str:
        async with AsyncClient(site.url) as voter:
            matchup = await voter.next_matchup(arena)
            await voter.vote(matchup.matchup, "tie")
            return matchup.matchup

    async def many() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(20)))

    assert len(set(asyncio.run(many()))) == 20
