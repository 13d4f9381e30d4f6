"""Live battles over HTTP: a real server, a real database, and an upstream that follows a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from faulty_upstream import FaultyUpstream, faulty_upstream
from invited import come_in, make_link
from live_sites import ASK, live_site, parse_events, shown_texts
from served import make_token
from tiltyard.client import Client
from tiltyard.errors import Conflict, OpenBattle
from tiltyard.instruments import recording
from tiltyard.postgres.connections import connect
from tiltyard.web.process_monitor import record_gauges

QUICK = [f"bird-{number}@tokens=30" for number in range(3)]


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyUpstream]:
    with faulty_upstream() as made:
        yield made


def read_stream(
    client: Any, battle: dict[str, Any], after: str | None = None, *, most: int | None = None
) -> bytes:
    """The bytes of a battle's stream until its end, or until there are so many."""
    headers = {} if after is None else {"last-event-id": after}
    body = b""
    with client.stream("GET", battle["frames"], headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["x-accel-buffering"] == "no"
        for piece in answer.iter_raw():
            body += piece
            if most is not None and len(body) >= most:
                break
    return body


def test_a_whole_battle(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, QUICK, live_pace="as-it-comes") as site:
        client = site.client()
        answer = client.post(ASK, json={"prompt": "Which birds live here?"})
        assert answer.status_code == 201, answer.text
        battle = answer.json()
        assert battle["turns"][0]["state"] in {"waiting", "streaming"}
        events = parse_events(read_stream(client, battle))
        a, b = shown_texts(events)
        assert len(a.split()) == len(b.split()) == 30
        assert events[-1].data["state"] == "done"
        assert events[-1].id == f"1.{len(a)}.{len(b)}"
        refused = client.post(ASK, json={"prompt": "Another?"})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:tiltyard:problem:open-battle")
        assert refused.json()["matchup"] == battle["matchup"]
        address = f"/api/v1/live/{battle['matchup']}"
        assert client.post(f"{address}/turns", json={"prompt": "And in winter?"}).status_code == 201
        events = parse_events(read_stream(client, battle, after=events[-1].id))
        assert {event.id.split(".")[0] for event in events} == {"2"}
        shown = client.get(address).json()
        assert [turn["state"] for turn in shown["turns"]] == ["done", "done"]
        assert shown["can_continue"]
        voted = client.post(
            f"/api/v1/matchups/{battle['matchup']}/vote", json={"winner": "model_a", "reveal": True}
        )
        assert voted.status_code == 200, voted.text
        names = client.post(f"/api/v1/matchups/{battle['matchup']}/reveal").json()
        assert {names["model_a"], names["model_b"]} < {"model-0", "model-1", "model-2"}
        assert client.get(address).json()["state"] == "voted"
        assert client.post(f"{address}/turns", json={"prompt": "More?"}).status_code == 409
    second = upstream.bodies()[-1]["messages"]
    assert [one["role"] for one in second] == ["user", "assistant", "user"]


def test_a_reader_that_comes_back_gets_the_rest(database: str, upstream: FaultyUpstream) -> None:
    models = [f"slow-{number}@tokens=120,rate=60" for number in range(2)]
    with live_site(database, upstream, models) as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Tell me more."}).json()
        first = read_stream(client, battle, most=600)
        events = parse_events(first[: first.rindex(b"\n\n") + 2])
        assert events[-1].data["state"] == "streaming"
        reloaded = client.get(f"/api/v1/live/{battle['matchup']}").json()["turns"][-1]
        assert reloaded["a"].startswith(shown_texts(events)[0])
        rest = parse_events(read_stream(client, battle, after=events[-1].id))
        whole = shown_texts([*events, *rest])
        stored = client.get(f"/api/v1/live/{battle['matchup']}").json()["turns"][-1]
        assert whole == (stored["a"], stored["b"])
        assert len(whole[0].split()) == 120
        # By the address too, for a page that was loaded with some of it.
        tail = client.get(battle["frames"], params={"after": f"1.{len(whole[0]) - 5}.{len(whole[1])}"})
        assert shown_texts(parse_events(tail.content)) == (whole[0][-5:], "")


def test_stop_again_and_a_second_tab(database: str, upstream: FaultyUpstream) -> None:
    models = [f"drip-{number}@tokens=400,rate=40" for number in range(2)]
    with live_site(database, upstream, models) as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Go on."}).json()
        read_stream(client, battle, most=400)
        stopped = client.post(f"/api/v1/live/{battle['matchup']}/stop").json()
        assert stopped["turns"][0]["state"] == "stopped"
        assert len(stopped["turns"][0]["a"]) == len(stopped["turns"][0]["b"]) > 0
        for _ in range(2):
            (event,) = parse_events(read_stream(client, battle))
            assert (event.data["state"], event.data["a"]) == ("stopped", stopped["turns"][0]["a"])
        second = client.post(f"/api/v1/live/{battle['matchup']}/again")
        assert second.status_code == 201
        assert second.json()["matchup"] != battle["matchup"]
        assert client.get(f"/api/v1/live/{battle['matchup']}").json()["state"] == "skipped"
        client.post(f"/api/v1/live/{second.json()['matchup']}/stop")


def test_requests_that_are_wrong(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, QUICK, live_prompt_characters=50) as site:
        client = site.client()
        for body, status in (
            ({}, 422),
            ({"prompt": ""}, 422),
            ({"prompt": "x" * 51}, 422),
            ({"prompt": "x", "category": "none"}, 422),
            ({"prompt": "x", "model": "mine"}, 422),
            ({"prompt": 5}, 422),
        ):
            assert client.post(ASK, json=body).status_code == status, body
        assert client.post("/api/v1/arenas/nowhere/live", json={"prompt": "x"}).status_code == 404
        battle = client.post(ASK, json={"prompt": "x"}).json()
        for after in ("1", "a.b.c", "1.2.3.4", "1.-2.3", "1.2." + "9" * 30):
            assert client.get(battle["frames"], params={"after": after}).status_code == 422, after
        assert (
            client.post(
                f"/api/v1/live/{battle['matchup']}/turn-vote", json={"turn": 1, "winner": "tie"}
            ).status_code
            == 409
        )
        stranger = site.client()
        for method, act, body in (
            ("GET", "", None),
            ("GET", "/frames", None),
            ("POST", "/stop", None),
            ("POST", "/again", None),
            ("POST", "/turns", {"prompt": "x"}),
            ("POST", "/turn-vote", {"turn": 1, "winner": "tie"}),
        ):
            path = f"/api/v1/live/{battle['matchup']}{act}"
            assert stranger.request(method, path, json=body).status_code == 404, path


def test_the_client_speaks_to_it(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, QUICK, live_votes="turn") as site, Client(site.url) as client:
        battle = client.ask("arena", "Why?")
        frames = list(client.live_frames(battle.matchup))
        assert frames[-1].state == "done"
        with pytest.raises(OpenBattle, match="vote on it") as refusal:
            client.ask("arena", "Another?")
        assert refusal.value.matchup == battle.matchup
        with pytest.raises(Conflict, match="vote on this turn"):
            client.follow_up(battle.matchup, "More?")
        assert client.turn_vote(battle.matchup, 1, "both_bad").turns[0].winner == "both_bad"
        client.follow_up(battle.matchup, "More?")
        assert client.stop(battle.matchup).turns[1].state in {"stopped", "done"}
        assert client.live_battle(battle.matchup).can_continue
        client.vote(battle.matchup, "tie")


#: Faults that void a battle, whenever they come.
VOID = [
    "429",
    "500",
    "401",
    "html",
    "stall-first",
    "stall-middle",
    "garbage",
    "half",
    "reset",
    "no-end",
    "error-event",
]


@pytest.mark.parametrize("pace", ["equal", "as-it-comes"])
def test_faults_of_a_provider_void_the_battle_and_say_nothing(
    database: str, upstream: FaultyUpstream, pace: str
) -> None:
    models = [f"{fault}-{side}@fault={fault},tokens=60,rate=0" for fault in VOID for side in "ab"]
    with live_site(
        database, upstream, models, live_pace=pace, live_first_token_seconds=1.0, live_gap_seconds=1.0
    ) as site:
        seen = set()
        for _ in range(6):
            client = site.client()
            answer = client.post(ASK, json={"prompt": "Anything?"})
            if answer.status_code == 409:
                break
            battle = answer.json()
            events = parse_events(read_stream(client, battle))
            assert events[-1].data["state"] == "void"
            seen.add(json.dumps({**events[-1].data, "a": "", "b": ""}))
            shown = client.get(f"/api/v1/live/{battle['matchup']}").json()
            assert (shown["state"], shown["can_continue"]) == ("void", False)
            refused = client.post(f"/api/v1/matchups/{battle['matchup']}/vote", json={"winner": "tie"})
            assert refused.status_code in {409, 410}
        assert len(seen) == 1, "the same for all causes"
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM live_calls WHERE state = 'running'").fetchone() == (
            0,
        )
        assert connection.execute("SELECT count(*) FROM events WHERE kind = 1").fetchone() == (0,)


def test_one_failure_before_anything_is_shown_is_not_noticed(database: str, upstream: FaultyUpstream) -> None:
    models = ["once-0", "once-1"]
    for model in models:
        upstream.script(model, fault="500", times=1, tokens=20)
    with live_site(database, upstream, models) as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Anything?"}).json()
        events = parse_events(read_stream(client, battle))
        assert events[-1].data["state"] == "done"
    with connect(database) as connection:
        calls = connection.execute("SELECT state, cost FROM live_calls ORDER BY call").fetchall()
    assert sorted(state for state, _ in calls) == ["done", "done", "failed", "failed"]
    assert all(cost == 0 for state, cost in calls if state == "failed")


def test_readers_of_one_battle_are_limited(database: str, upstream: FaultyUpstream) -> None:
    models = [f"long-{number}@tokens=300,rate=30" for number in range(2)]
    with live_site(database, upstream, models) as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Go on."}).json()
        site.context.live_readers[site.context.matchup_ids.parse(battle["matchup"])] = 12
        assert client.get(battle["frames"]).status_code == 429
        client.post(f"/api/v1/live/{battle['matchup']}/stop")


SLOW = [f"drip-{number}@tokens=400,rate=40" for number in range(2)]


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
        refused = forgetful.post(ASK, json={"prompt": "Go on."})
        assert refused.json()["type"] == "urn:tiltyard:problem:out-of-budget"


def test_a_skip_in_mid_stream_lets_the_voter_ask_at_once(database: str, upstream: FaultyUpstream) -> None:
    measured: dict[str, float] = {}
    with live_site(database, upstream, SLOW) as site:
        client = site.client()
        battle = client.post(ASK, json={"prompt": "Go on."}).json()
        read_stream(client, battle, most=300)
        with recording(lambda instrument, amount, _: measured.update({instrument.name: amount})):
            record_gauges(site.registry)
        assert (measured["tiltyard_live_running_turns"], measured["tiltyard_live_waiting_voters"]) == (1, 0)
        assert client.post(f"/api/v1/matchups/{battle['matchup']}/skip", json={}).status_code == 200
        second = client.post(ASK, json={"prompt": "And now?"})
        assert second.status_code == 201, second.text
        client.post(f"/api/v1/live/{second.json()['matchup']}/stop")


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
