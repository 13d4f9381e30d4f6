"""How calls are sent: what is repeated and what never is, and refusals as errors."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from support.answering import ENDED, MATCHUP, Answer, answering, problem
from tiltyard import errors
from tiltyard.client import AsyncClient, Client
from tiltyard.client.api_call import api_path
from tiltyard.wire.arenas import Imported
from tiltyard.wire.records import json_bytes

VOTED = Answer(200, ENDED)
CUT = Answer(None)
IMPORTED = Imported(1, 1, 1, 0, 9, 0, (), 0, ())
BROUGHT = Answer(200, json_bytes(IMPORTED))
BUSY = problem(503, "unavailable", retry_after="0")


def client(url: str, **options: float) -> Client:
    return Client(url, **{"timeout": 5.0, "patience": 3.0, **options})


@pytest.mark.parametrize("failures", [[BUSY], [CUT], [BUSY, CUT, problem(502, "other"), BUSY]])
def test_a_vote_is_sent_again_until_it_is_answered(failures):
    with answering(*failures, VOTED) as server, client(server.url) as voter:
        ended = voter.vote("m", "tie")
    assert ended.winner == "tie"
    assert ended.position == 7
    sent = {(method, path, body) for method, path, _, body in server.requests}
    assert len(server.requests) == len(failures) + 1
    assert sent == {
        ("POST", "/api/v1/matchups/m/vote", b'{"winner":"tie","ballot":0,"reveal":false,"recognized":false}')
    }


@pytest.mark.parametrize("failure", [BUSY, CUT])
def test_what_would_happen_twice_is_never_sent_twice(failure):
    with answering(failure) as server, client(server.url) as admin:
        with pytest.raises(errors.StoreFault):
            admin.create_arena("demo")
        with pytest.raises(errors.StoreFault):
            admin.report("m", "broken")
    assert len(server.requests) == 2


def test_seconds_on_screen_are_those_of_both_sides():
    with client("http://127.0.0.1:1") as voter, pytest.raises(errors.BadOption, match="a and b"):
        voter.vote("m", "tie", shown={"a": 2.0})


def test_patience_ends():
    with answering(BUSY) as server, client(server.url, patience=0.5) as voter:
        began = time.monotonic()
        with pytest.raises(errors.StoreFault, match="why not"):
            voter.skip("m")
        assert time.monotonic() - began < 30
    assert len(server.requests) > 1


def test_a_server_that_asks_for_more_patience_than_there_is_is_not_bothered():
    with (
        answering(problem(503, "unavailable", retry_after="60")) as server,
        client(server.url) as voter,
        pytest.raises(errors.StoreFault),
    ):
        voter.skip("m")
    assert len(server.requests) == 1


def test_nobody_there_is_told_with_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with client(url, patience=0.3) as voter, pytest.raises(errors.StoreFault, match=url):
            voter.next_matchup("demo")


def test_a_server_that_comes_up_late_is_reached():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def late() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            writer.close()

        async with AsyncClient(f"http://127.0.0.1:{port}", patience=10) as voter:
            asking = asyncio.create_task(voter.remark("m"))
            await asyncio.sleep(0.5)
            server = await asyncio.start_server(answer, "127.0.0.1", port)
            async with server:
                await asking

    asyncio.run(late())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(404, "not-found"), errors.NotFound),
        (problem(401, "not-allowed"), errors.NotAllowed),
        (problem(403, "forbidden"), errors.NotAllowed),
        (problem(409, "closed"), errors.Closed),
        (problem(409, "conflict"), errors.Conflict),
        (problem(409, "no-matchup"), errors.NoMatchup),
        (problem(410, "expired"), errors.Expired),
        (problem(422, "invalid"), errors.InputError),
        (problem(413, "too-large"), errors.InputError),
        (problem(500, "internal"), errors.TiltyardError),
        (Answer(404, b"<html>", media_type="text/html"), errors.NotFound),
        (Answer(302, b"", {"location": "https://elsewhere.example"}), errors.TiltyardError),
    ],
)
def test_a_refusal_is_the_error_that_the_server_raised(answer, error):
    with answering(answer) as server, client(server.url) as voter, pytest.raises(error) as raised:
        voter.undo("m")
    assert type(raised.value) is error
    assert "POST /api/v1/matchups/m/undo" in str(raised.value)
    assert "<html>" not in str(raised.value)
    assert len(server.requests) == 1


def test_who_is_signed_in_without_the_right_is_told_apart():
    for status, known in ((401, False), (403, True)):
        with (
            answering(problem(status, "x")) as server,
            client(server.url) as voter,
            pytest.raises(errors.NotAllowed) as raised,
        ):
            voter.me()
        assert raised.value.known is known


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>hello</html>", media_type="text/html"),
        Answer(200, {}),
        Answer(200, []),
        Answer(200, {**ENDED, "at": "yesterday"}),
        Answer(200, {**ENDED, "position": "many"}),
        Answer(200, b"\xff\xfe"),
    ],
)
def test_an_answer_of_another_kind_of_server_is_told_as_such(answer):
    with (
        answering(answer) as server,
        client(server.url) as voter,
        pytest.raises(errors.TiltyardError, match="Tiltyard server"),
    ):
        voter.vote("m", "tie")


def test_a_newer_servers_fields_are_passed_over():
    with answering(Answer(200, {**MATCHUP, "mood": "sunny"})) as server, client(server.url) as voter:
        matchup = voter.next_matchup("demo")
    assert matchup.responses.a.kind == "text"
    assert matchup.expires_at.tzinfo is not None


def test_cookies_are_kept_and_tokens_sent():
    cookie = {"set-cookie": "tiltyard_session=abc; Path=/; HttpOnly"}
    with answering(Answer(201, MATCHUP, cookie), VOTED) as server, client(server.url) as voter:
        voter.next_matchup("demo")
        voter.vote("m", "tie")
    assert server.requests[1][2]["cookie"] == "tiltyard_session=abc"
    with answering(VOTED) as server, Client(server.url, token="tyd_1") as judge:
        judge.vote("m", "tie", label="tie", both_bad=True, pref=0.5, judge_model="judge-1")
    assert server.requests[0][2]["authorization"] == "Bearer tyd_1"
    assert b'"both_bad":true' in server.requests[0][3]
    assert b'"judge_model":"judge-1"' in server.requests[0][3]


def test_a_token_goes_to_its_own_server_only():
    with (
        answering(VOTED) as other,
        answering(Answer(307, b"", {"location": other.url})) as server,
        Client(server.url, token="tyd_1") as judge,
        pytest.raises(errors.TiltyardError),
    ):
        judge.vote("m", "tie")
    assert other.requests == []


@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@settings(deadline=None)
@example("a/../../b")
@example("a?b#c")
@example("%2e%2e")
def test_no_name_leads_to_another_path(name):
    assume(name.strip("."))
    parts = httpx2.URL("http://host" + api_path("arenas", name, "matchups")).raw_path.decode().split("/")
    assert parts[:4] == ["", "api", "v1", "arenas"]
    assert parts[5:] == ["matchups"]
    assert unquote(parts[4]) == name


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_are_no_names_are_not_found(name):
    with client("http://127.0.0.1:1") as voter, pytest.raises(errors.NotFound):
        voter.next_matchup(name)


@pytest.mark.parametrize(
    "url", ["", "localhost:8420", "ftp://host", "http://", "http://user:secret@host", "http://a b", "x" * 50]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(errors.BadOption, match="expected an address") as raised:
        Client(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("token", ["", " ", "a\nb", "ключ", "a\x00"])
def test_a_token_that_is_none_is_refused_and_not_repeated(token):
    with pytest.raises(errors.BadOption, match="token") as raised:
        Client("http://127.0.0.1:1", token=token)
    assert not token.strip() or token not in str(raised.value)


def test_an_answer_that_breaks_off_is_no_answer():
    with (
        answering(Answer(200, b"half", claimed=100)) as server,
        client(server.url, patience=0.0) as voter,
        pytest.raises(errors.StoreFault),
    ):
        voter.response("m", "a")


def test_a_board_whose_bytes_were_changed_on_the_way_is_refused():
    with (
        answering(Answer(200, {"rows": []})) as server,
        client(server.url) as reader,
        pytest.raises(errors.TiltyardError, match="changed it"),
    ):
        reader.snapshot("demo", "0" * 64)


def test_a_file_that_breaks_off_is_no_file(tmp_path: Path):
    with (
        answering(Answer(200, b'{"a": 1}\n', claimed=100)) as server,
        client(server.url) as reader,
        pytest.raises(errors.StoreFault),
    ):
        reader.save_battles("demo", tmp_path / "battles.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_lines_are_lines_however_they_are_cut():
    rows = [{"model_a": "a" * 70_000, "n": number} for number in range(5)]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    for ending in (b"", b"\n"):
        with answering(Answer(200, lines + ending)) as server, client(server.url) as reader:
            assert list(reader.battles("demo")) == rows


def test_the_asynchronous_client_sends_again_streams_saves_and_uploads(tmp_path: Path):
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(b'{"model": "a"}\n' * 40_000)
    rows = [{"model_a": "a" * 70_000, "n": number} for number in range(5)]
    lines = "\n".join(json.dumps(row) for row in rows).encode()

    async def scene() -> None:
        with answering(BUSY, CUT, BROUGHT) as server:
            async with AsyncClient(server.url, patience=5) as admin:
                assert (await admin.import_answers("demo", answers)).position == 9
            assert [body for *_, body in server.requests] == [answers.read_bytes()] * 3
        with answering(Answer(200, lines)) as server:
            async with AsyncClient(server.url) as reader:
                assert [row async for row in reader.battles("demo")] == rows
                saved = await reader.save_battles("demo", tmp_path / "battles.jsonl")
                assert saved.read_bytes() == lines
        for answer, error in ((problem(404, "not-found"), errors.NotFound), (CUT, errors.StoreFault)):
            with answering(answer) as server:
                async with AsyncClient(server.url, patience=0) as reader:
                    with pytest.raises(error):
                        await reader.me()
                    with pytest.raises(error):
                        [row async for row in reader.battles("demo")]

    asyncio.run(scene())


def test_an_upload_is_sent_whole_each_time(tmp_path: Path):
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(bytes(range(256)) * 4_000)
    with answering(BUSY, BROUGHT) as server, client(server.url) as admin:
        admin.import_answers("demo", answers)
    assert [body for *_, body in server.requests] == [answers.read_bytes()] * 2
