"""Live battles over HTTP: a real server, a real database, and an upstream that follows a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.faulty_upstream import FaultyUpstream, faulty_upstream
from support.live_pace import quick_pace
from support.live_sites import add_live_arena, parse_events, read_stream, served_models, shown_texts
from support.postgres_servers import fresh_database
from support.served import Served
from tiltyard.client import Client
from tiltyard.errors import Conflict, OpenBattle
from tiltyard.postgres.connections import connect

QUICK = [f"bird-{number}@tokens=30" for number in range(3)]


@dataclass(frozen=True)
class LiveSite:
    """One server for all tests here, and the upstream of its models."""

    served: Served
    upstream: FaultyUpstream

    def add(self, name: str, models: list[str], **settings: Any) -> LiveArena:
        """Make a live arena."""
        made = add_live_arena(self.served.database, self.upstream, models, name=name, **settings)
        return LiveArena(self.served, made.arena, f"/api/v1/arenas/{name}/live")


@dataclass(frozen=True)
class LiveArena:
    """A live arena, and where one asks in it."""

    served: Served
    number: int
    ask: str

    def client(self) -> Any:
        return self.served.client()

    def rows(self, query: str) -> list[Any]:
        """What a query finds for this arena."""
        with connect(self.served.database) as connection:
            return connection.execute(query, (self.number,)).fetchall()


@pytest.fixture(scope="module")
def site(server: str, template: str) -> Iterator[LiveSite]:
    with (
        quick_pace(),
        faulty_upstream() as upstream,
        fresh_database(server, template) as database,
        served_models(database) as running,
    ):
        yield LiveSite(running, upstream)


def test_a_whole_battle(site: LiveSite) -> None:
    arena = site.add("whole", QUICK, live_pace="as-it-comes")
    client = arena.client()
    answer = client.post(arena.ask, json={"prompt": "Which birds live here?"})
    assert answer.status_code == 201, answer.text
    battle = answer.json()
    assert battle["turns"][0]["state"] in {"waiting", "streaming"}
    events = parse_events(read_stream(client, battle))
    a, b = shown_texts(events)
    assert len(a.split()) == len(b.split()) == 30
    assert events[-1].data["state"] == "done"
    assert events[-1].id == f"1.{len(a)}.{len(b)}"
    refused = client.post(arena.ask, json={"prompt": "Another?"})
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
    second = site.upstream.bodies()[-1]["messages"]
    assert [one["role"] for one in second] == ["user", "assistant", "user"]


def test_requests_that_are_wrong(site: LiveSite) -> None:
    arena = site.add("wrong", QUICK, live_prompt_characters=50)
    client = arena.client()
    for body, status in (
        ({}, 422),
        ({"prompt": ""}, 422),
        ({"prompt": "x" * 51}, 422),
        ({"prompt": "x", "category": "none"}, 422),
        ({"prompt": "x", "model": "mine"}, 422),
        ({"prompt": 5}, 422),
    ):
        assert client.post(arena.ask, json=body).status_code == status, body
    assert client.post("/api/v1/arenas/nowhere/live", json={"prompt": "x"}).status_code == 404
    battle = client.post(arena.ask, json={"prompt": "x"}).json()
    for after in ("1", "a.b.c", "1.2.3.4", "1.-2.3", "1.2." + "9" * 30):
        assert client.get(battle["frames"], params={"after": after}).status_code == 422, after
    assert (
        client.post(
            f"/api/v1/live/{battle['matchup']}/turn-vote", json={"turn": 1, "winner": "tie"}
        ).status_code
        == 409
    )
    stranger = arena.client()
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


def test_the_client_speaks_to_it(site: LiveSite) -> None:
    site.add("client", QUICK, live_votes="turn")
    with Client(site.served.url) as client:
        battle = client.ask("client", "Why?")
        frames = list(client.live_frames(battle.matchup))
        assert frames[-1].state == "done"
        with pytest.raises(OpenBattle, match="vote on it") as refusal:
            client.ask("client", "Another?")
        assert refusal.value.matchup == battle.matchup
        with pytest.raises(Conflict, match="this turn"):
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
def test_faults_of_a_provider_void_the_battle_and_say_nothing(site: LiveSite, pace: str) -> None:
    models = [f"{fault}-{side}@fault={fault},tokens=60,rate=0" for fault in VOID for side in "ab"]
    arena = site.add(
        f"faults-{pace}", models, live_pace=pace, live_first_token_seconds=1.0, live_gap_seconds=1.0
    )
    asked = [(client, client.post(arena.ask, json={"prompt": "Anything?"})) for client in _clients(arena, 8)]
    seen = set()
    for client, answer in asked:
        if answer.status_code == 409:
            # All are rested by now.
            continue
        battle = answer.json()
        events = parse_events(read_stream(client, battle))
        assert events[-1].data["state"] == "void"
        seen.add(json.dumps({**events[-1].data, "a": "", "b": ""}))
        shown = client.get(f"/api/v1/live/{battle['matchup']}").json()
        assert (shown["state"], shown["can_continue"]) == ("void", False)
        refused = client.post(f"/api/v1/matchups/{battle['matchup']}/vote", json={"winner": "tie"})
        assert refused.status_code in {409, 410}
    assert len(seen) == 1, "the same for all causes"
    assert arena.rows("SELECT count(*) FROM live_calls WHERE arena = %s AND state = 'running'") == [(0,)]
    assert arena.rows("SELECT count(*) FROM events WHERE arena = %s AND kind = 1") == [(0,)]


def _clients(arena: LiveArena, count: int) -> list[Any]:
    return [arena.client() for _ in range(count)]


def test_readers_of_one_battle_are_limited(site: LiveSite) -> None:
    arena = site.add("readers", [f"long-{number}@tokens=300,rate=30" for number in range(2)])
    client = arena.client()
    battle = client.post(arena.ask, json={"prompt": "Go on."}).json()
    site.served.context.live_readers[site.served.context.matchup_ids.parse(battle["matchup"])] = 12
    assert client.get(battle["frames"]).status_code == 429
    client.post(f"/api/v1/live/{battle['matchup']}/stop")
