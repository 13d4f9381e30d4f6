"""What operators are told of the crowd and of single voters, by HTTP."""

import html
import json
import re

import pytest
from operating import copied, signed, voted_database

from tiltyard.arena.operators.voter_records import SessionFlag
from tiltyard.core.integrity.voter_tests import VoterTest
from tiltyard.postgres.connections import connect
from tiltyard.web.pages.operator import voters

PAGE = "/operator/arenas/arena/crowd"
VOTERS = "/operator/arenas/arena/voters"
DETAIL = {
    "since": 10,
    "until": 9000,
    "votes": 75,
    "shift": 212.4,
    "log_evidence": 31.9,
    "bar": 13.3,
    "sessions": [1, 2],
}


def changed(database):
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail) "
            "VALUES (1, 12, now(), 1, 1, %s)",
            (json.dumps(DETAIL),),
        )


@pytest.fixture(scope="module")
def prepared(server, template):
    with voted_database(server, template, changed) as name:
        yield name


@pytest.fixture
def running(server, prepared):
    with copied(server, prepared) as found:
        yield found


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_change_is_shown_previewed_and_explained(running):
    client = signed(running)
    page = client.get(PAGE).text
    text = text_of(page)
    assert "model-1 : +212 points" in text
    assert "in the first ten votes of a voter, among the last 75 votes" in text
    assert "2 sessions have votes in this direction." in text
    assert "Evidence 31.9; the bar is 13.3" in text
    assert page.count('name="session" value="') == 2
    preview = client.get("/operator/arenas/arena/exclude?session=1&session=2&reason=crowd")
    assert preview.status_code == 200
    refused = client.post(f"{PAGE}/12/explain", data={"reason": " "})
    assert refused.status_code == 422
    assert "a reason of 1 to 1000 characters is required" in text_of(refused.text)
    done = client.post(f"{PAGE}/12/explain", data={"reason": "a class came"})
    assert (done.status_code, done.headers["location"]) == (303, f"{PAGE}?said=explained")
    after = text_of(client.get(PAGE).text)
    assert "explained a class came" in after
    assert "Show the board without" not in after
    assert client.post(f"{PAGE}/12/explain", data={"reason": "again"}).status_code == 404


def test_an_arena_without_a_change_says_so(running):
    with connect(running.database) as connection:
        connection.execute("DELETE FROM crowd_changes")
    assert "No change has been found." in signed(running).get(PAGE).text


def test_sessions_unlike_the_others_are_listed_with_what_is_unusual(running, monkeypatch):
    async def flagged(_pool, _arena):
        return [
            SessionFlag(1, VoterTest.MODEL, 60, 9.42, "model-2"),
            SessionFlag(2, VoterTest.MODEL, 60, -9.0, "model-2"),
            SessionFlag(3, VoterTest.SIDE, 40, 6.0, None),
            SessionFlag(4, VoterTest.SIDE, 40, -6.0, None),
            SessionFlag(5, VoterTest.UNLIKELY, 1, -5.0, None),
        ]

    client = signed(running)
    assert "no session votes unlike the others" in text_of(client.get(VOTERS).text)
    monkeypatch.setattr(voters, "list_flagged_sessions", flagged)
    text = text_of(client.get(VOTERS).text)
    for said in (
        "1 : model-2 wins too often 9.4 standard deviations in 60 votes",
        "2 : model-2 loses too often 9.0",
        "3 : the response on the left wins too often",
        "4 : the response on the right wins too often",
        "5 : the votes follow no pattern that other voters have 5.0 standard deviations in 1 vote",
    ):
        assert said in text
