"""What operators are told of the crowd and of single voters, by HTTP."""

import html
import json
import re

import pytest

from support.operating import signed, voted_database
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.operators import voters as flagged_voters
from tiltyard.arena.operators.voters import FlaggedGroup
from tiltyard.arena.rating.crowd_watch import WATCH_VERSION, CrowdWatch
from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.core.integrity.voter_tests import VoterTest
from tiltyard.postgres.connections import connect
from tiltyard.web.pages.operator import crowd, voters

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


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_change_is_shown_previewed_and_explained(running):
    client = signed(running)
    page = client.get(PAGE).text
    text = text_of(page)
    assert "model-1 : +212 points" in text
    assert "last 75 votes" in text
    assert "2 voters caused" in text
    assert "evidence 31.9" in text
    given = {"act": "preview", "sessions": "1 2", "reason": "crowd"}
    preview = client.post("/operator/arenas/arena/exclude", data=given)
    assert preview.status_code == 200
    refused = client.post(f"{PAGE}/12/explain", data={"reason": " "})
    assert refused.status_code == 422
    done = client.post(f"{PAGE}/12/explain", data={"reason": "a class came"})
    assert (done.status_code, done.headers["location"]) == (303, f"{PAGE}?said=explained")
    after = text_of(client.get(PAGE).text)
    assert "a class came" in after
    assert "the board without" not in after
    assert client.post(f"{PAGE}/12/explain", data={"reason": "again"}).status_code == 404


def test_the_board_without_each_group_is_computed_when_asked_for(running):
    client = signed(running)
    assert "Compute it" in client.get(PAGE).text
    with connect(running.database) as connection:
        connection.execute("DELETE FROM crowd_watches")
        columns = read_columns(connection, 1, 0)
        watch = CrowdWatch(0)
        watch.follow(columns, (), {1: VoterOrigin(language="de")})
        connection.execute(
            "INSERT INTO crowd_watches (arena, generation, position, version, state) VALUES (1, 0, %s, %s, %s)",
            (watch.position, WATCH_VERSION, watch.save()),
        )
    crowd._PREVIEWS._tasks.clear()
    text = text_of(client.get(f"{PAGE}?without=1").text)
    assert "in German" in text
    assert "place now: model-" in text
    with connect(running.database) as connection:
        connection.execute("UPDATE crowd_watches SET version = 'older'")
    crowd._PREVIEWS._tasks.clear()
    assert "not grouped yet" in text_of(client.get(f"{PAGE}?without=1").text)


def single(test, *flags):
    return FlaggedGroup(test.value, test, tuple(flag.session for flag in flags), flags)


def test_a_group_of_any_size_is_excluded_in_two_clicks_and_restored(running, monkeypatch):
    """The first click shows the board without it, the second excludes it; one exclusion, one undo."""
    thousands = FlaggedGroup("in-step-1", VoterTest.IN_STEP, (1, 2, *range(10**18, 10**18 + 5000)))

    async def found(_pool, _arena):
        return [thousands]

    monkeypatch.setattr(voters, "list_flagged_groups", found)
    monkeypatch.setattr(flagged_voters, "list_flagged_groups", found)
    client = signed(running)
    page = client.get(VOTERS).text
    form = re.search(
        r'<form method="get" action="([^"]*/exclude)" class="button-row">(.*?)</form>', page, re.DOTALL
    )
    chosen = {
        name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form[2])
    }
    assert (chosen["group"], "same intervals" in chosen["reason"]) == ("in-step-1", True)
    preview = client.get(form[1], params=chosen)
    assert preview.status_code == 200
    assert "5,002 voters" in text_of(preview.text)
    assert "and 4,952 more" in text_of(preview.text)
    last = re.search(
        r'<form method="post" action="([^"]*/exclude)" class="button-row">(.*?)</form>',
        preview.text,
        re.DOTALL,
    )
    given = {
        name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', last[2])
    }
    assert len(given["sessions"].split()) == 5002
    done = client.post(last[1], data=given)
    assert (done.status_code, done.headers["location"].partition("?")[2]) == (303, "said=excluded")
    with connect(running.database) as connection:
        left = connection.execute(
            "SELECT count(*) FROM endings d JOIN matchups m USING (arena, source, serial) "
            "WHERE d.kind = 1 AND d.undone IS NULL AND m.session IN (1, 2) AND NOT EXISTS "
            "(SELECT FROM excluded_votes v WHERE (v.source, v.serial) = (d.source, d.serial))"
        ).fetchone()
        made = connection.execute("SELECT exclusion, reason FROM exclusions").fetchall()
    assert left == (0,)
    assert [reason for _, reason in made] == [chosen["reason"]]
    undone = client.post(f"/operator/arenas/arena/exclusions/{made[0][0]}/restore")
    assert undone.headers["location"].partition("?")[2] == "said=restored"
