"""What voters of live battles may spend, skip and read, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.faulty_upstream import FaultyUpstream, faulty_upstream
from support.invited import come_in, make_link
from support.live_sites import ASK, live_site, read_stream
from support.served import make_token
from tiltyard.postgres.connections import connect

QUICK = [f"bird-{number}@tokens=30" for number in range(3)]
SLOW = [f"drip-{number}@tokens=400,rate=40" for number in range(2)]


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyUpstream]:
    with faulty_upstream() as made:
        yield made


def test_who_deletes_cookies_has_no_new_budget(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, SLOW, live_voter_day_dollars=0.006) as site:
        first, second = site.client(), site.client()
        battle = first.post(ASK, json={"prompt": "Go on."}).json()
        refused = second.post(ASK, json={"prompt": "Go on."})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:tiltyard:problem:out-of-budget")
        assert "your share" in refused.json()["detail"]
        assert first.post(f"/api/v1/live/{battle['matchup']}/again").status_code == 409
        with connect(database) as connection:
            (payers,) = connection.execute("SELECT payers FROM live_battles LIMIT 1").fetchone()
            assert len(payers) == 1
            text = connection.execute("SELECT string_agg(b::text, '') FROM live_battles b").fetchone()[0]
        assert "127.0.0.1" not in text


def test_each_use_of_an_invitation_has_a_budget_of_its_own(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, SLOW, live_voter_day_dollars=0.006, entry="invitation") as site:
        link, _ = make_link(database, uses=2)
        ann, bob = site.client(), site.client()
        for person in (ann, bob):
            come_in(person, link)
            battle = person.post(ASK, json={"prompt": "Go on."})
            assert battle.status_code == 201, battle.text
        grant = next(cookie for cookie in ann.cookies.jar if cookie.name.startswith("tiltyard_entry"))
        forgetful = site.client()
        forgetful.cookies.set(grant.name, grant.value)
        refused = forgetful.post(ASK, json={"prompt": "Go on."}).json()
        assert refused["type"] == "urn:tiltyard:problem:open-battle", "it is the same voter"
        skipped = forgetful.post(f"/api/v1/matchups/{refused['matchup']}/skip", json={})
        assert skipped.status_code == 200
        refused = forgetful.post(ASK, json={"prompt": "Go on."})
        assert refused.json()["type"] == "urn:tiltyard:problem:out-of-budget"


def test_voters_are_told_no_budget_and_operators_are(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, QUICK, live_day_dollars=4.0) as site:
        for token, told in ((None, False), (make_token(database, "admin"), True)):
            client = site.client(token)
            (listed,) = client.get("/api/v1/arenas").json()["arenas"]
            shown = client.get("/api/v1/arenas/arena").json()
            for settings in (listed["settings"], shown["settings"]):
                assert settings["live_pace"] == "equal"
                assert ("live_day_dollars" in settings) == ("live_budget_dollars" in settings) == told


def test_routes_of_matchups_say_the_prompt_of_a_battle(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, QUICK, live_pace="complete") as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Which birds live here?"}).json()
        (opened,) = client.get("/api/v1/arenas/arena/matchups").json()["matchups"]
        assert (opened["matchup"], opened["prompt"]) == (
            battle["matchup"],
            {"text": "Which birds live here?"},
        )
        refused = client.get(f"/m/{battle['matchup']}/a")
        assert refused.status_code == 404
        assert f"/api/v1/live/{battle['matchup']}" in refused.json()["detail"]
        read_stream(client, battle)
        address = f"/api/v1/matchups/{battle['matchup']}"
        assert client.post(f"{address}/vote", json={"winner": "tie", "reveal": True}).status_code == 200
        assert client.post(f"{address}/reveal").json()["prompt"] == "Which birds live here?"
