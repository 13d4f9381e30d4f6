"""What operators are told of the crowd and of single voters, by HTTP."""

import html
import json
import re

import pytest

from support.operating import signed, voted_database
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.operators import voters as flagged_voters
from tiltyard.arena.operators.voters import FlaggedGroup, SessionFlag
from tiltyard.arena.rating.crowd_watch import WATCH_VERSION, CrowdWatch
from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.core.integrity.voter_tests import CountedOf, VoterTest
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


def test_an_arena_without_a_change_says_so(running):
    with connect(running.database) as connection:
        connection.execute("DELETE FROM crowd_changes")
    assert "No changes found" in signed(running).get(PAGE).text


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


GROUPS = [
    FlaggedGroup("in-step-1", VoterTest.IN_STEP, tuple(range(1, 61))),
    FlaggedGroup(
        "together-2-for",
        VoterTest.TOGETHER,
        (1, 2),
        deviations=7.1,
        model="model-2",
        wins=True,
        expected=12.6,
    ),
    FlaggedGroup("together-0-against", VoterTest.TOGETHER, (3,), model="model-0", wins=False),
    single(
        VoterTest.MODEL,
        SessionFlag(1, 60, 9.42, "model-2", CountedOf()),
        SessionFlag(2, 60, -9.0, "model-2", CountedOf()),
    ),
    single(
        VoterTest.SIDE,
        SessionFlag(3, 40, 6.0, None, CountedOf()),
        SessionFlag(4, 40, -6.0, None, CountedOf()),
    ),
    single(VoterTest.UNLIKELY, SessionFlag(5, 1, -5.0, None, CountedOf())),
    single(VoterTest.SKIPS, SessionFlag(1, 45, 5.2, "model-1", CountedOf(14, 15, 2, 30))),
    single(VoterTest.HASTY, SessionFlag(2, 20, 8.0, None, CountedOf(18, 20))),
    single(VoterTest.REGULAR, SessionFlag(3, 20, 8.0, None, CountedOf(spread=0.04, seconds=2.03))),
]


async def found_groups(_pool, _arena):
    return GROUPS


def test_sessions_unlike_the_others_are_listed_with_what_is_unusual(running, monkeypatch):
    client = signed(running)
    assert "votes are unusual" in text_of(client.get(VOTERS).text)
    monkeypatch.setattr(voters, "list_flagged_groups", found_groups)
    text = text_of(client.get(VOTERS).text)
    for said in (
        "60 voters vote at the same intervals",
        "and 10 more",
        "2 voters vote for model-2",
        "About 13 honest voters would",
        "1 voter votes against model-0",
        "1 : model-2 wins too often 9.4 standard deviations in 60 votes",
        "2 : model-2 loses too often 9.0",
        "3 : the response on the left wins too often",
        "4 : the response on the right wins too often",
        "5 : the votes look random 5.0 standard deviations in 1 vote",
        "and 2 of 30 without it",
        "2 : 18 of 20 came too early",
        "3 : 2.0 seconds for each vote, ± 4 %",
        "without these 60 voters…",
    ):
        assert said in text
    assert "Unusual voters" not in text_of(client.get(f"{VOTERS}?page=1").text)


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


def test_a_posted_list_is_previewed_and_checked(running):
    client = signed(running)
    where = "/operator/arenas/arena/exclude"
    shown = client.post(where, data={"sessions": " 1  2\n", "act": "preview", "reason": "a bot"})
    assert "2 voters?" in text_of(shown.text)
    asked = client.post(where, data={"sessions": "1 2", "act": "preview"})
    assert asked.status_code == 422
    assert 'name="sessions" value="1 2"' in asked.text
    for wrong in ("1 x", "-1", str(2**63), "1.5", "1 " * 40_001):
        assert client.post(where, data={"sessions": wrong, "reason": "a bot"}).status_code == 422
    assert client.get(where, params={"group": "in-step-77", "reason": "r"}).status_code == 404
    with connect(running.database) as connection:
        assert connection.execute("SELECT count(*) FROM exclusions").fetchone() == (0,)
