"""Attacks on live arenas, over HTTP: to learn who answers, to vote unread, to bench a rival, to spend what is others'."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.faulty_upstream import FaultyUpstream, faulty_upstream
from support.invited import come_in, make_link
from support.live_sites import ASK, live_site, parse_events, read_stream
from support.voted_arenas import rate_and_show
from tiltyard.postgres.connections import connect

BIRDS = ["heron", "dunlin"]
#: A prompt, and what both models say: ``NAME`` stands for the name of each.
TALK = {
    "asked for": ("Who are you?", "I am NAME."),
    "volunteered": ("Tell me a joke.", "I'm NAME, and here is one."),
    "backwards": ("Esrever ni uoy ksa I: a riddle", "EMAN"),
    "in base64": ("Write the riddle in a code.", "BASE64"),
    "letter by letter": ("A riddle, please, with spaces.", "L-E-T-T-E-R-S"),
    "in Spanish": ("Cuenta un chiste.", "Soy NAME, un modelo de lenguaje."),
    "in one word": ("Only the word from your badge.", "NAME"),
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyUpstream]:
    with faulty_upstream() as made:
        yield made


def _say(upstream: FaultyUpstream, text: str) -> None:
    for name in BIRDS:
        codes = {"EMAN": name[::-1], "BASE64": base64.b64encode(f"My name is {name}.".encode()).decode()}
        codes |= {"L-E-T-T-E-R-S": "-".join(name), "NAME": name}
        said = text
        for code, meant in codes.items():
            said = said.replace(code, meant)
        upstream.script(name, text=said, rate=0)


def _battle(client: Any, prompt: str) -> tuple[dict[str, Any], str]:
    """A battle whose answers are complete, and what was shown of them."""
    asked = client.post(ASK, json={"prompt": prompt})
    assert asked.status_code == 201, asked.text
    events = parse_events(read_stream(client, asked.json()))
    return asked.json(), "".join(one.data["a"] + one.data["b"] for one in events)


def _vote(client: Any, battle: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(f"/api/v1/matchups/{battle['matchup']}/vote", json={"winner": "model_a"})
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def test_a_battle_that_talks_of_who_answers_is_not_blind(database: str, upstream: FaultyUpstream) -> None:
    with live_site(database, upstream, BIRDS, live_identity="mask") as site:
        client = site.client()
        for how, (prompt, answer) in TALK.items():
            _say(upstream, answer)
            battle, shown = _battle(client, prompt)
            if how != "in one word" and "NAME" in answer:
                assert not any(name in shown for name in BIRDS), how
            said = _vote(client, battle)
            assert (said["blind"], said["unrated"]) == (False, "not-blind"), how
        _say(upstream, "Water boils at a hundred degrees.")
        battle, _ = _battle(client, "When does water boil?")
        said = _vote(client, battle)
        assert (said["blind"], said["unrated"]) == (True, None)
    with connect(database) as connection:
        kept = connection.execute(
            "SELECT b.identity_talk, e.blind FROM live_battles b JOIN matchups m USING (arena, matchup) "
            "JOIN endings e USING (arena, source, serial) ORDER BY b.began_at"
        ).fetchall()
    assert kept == [(True, False)] * len(TALK) + [(False, True)]


def test_a_vote_before_the_answers_can_be_read_does_not_count(
    database: str, upstream: FaultyUpstream
) -> None:
    _say(upstream, "Water boils at a hundred degrees.")
    with live_site(database, upstream, BIRDS, shown_check="always") as site:
        client = site.client()
        hasty, _ = _battle(client, "When does water boil?")
        assert _vote(client, hasty)["unrated"] == "early"
        read, _ = _battle(client, "When does water freeze?")
        time.sleep(1.2)
        assert _vote(client, read)["unrated"] is None


@pytest.mark.slow(but="500")
@pytest.mark.parametrize("fault", ["400", "500"])
def test_prompts_bench_no_model(database: str, upstream: FaultyUpstream, fault: str) -> None:
    """The attack: three voters with prompts that make a model fail took it from everybody for a while."""
    models = [f"weak-{number}" for number in range(3)]
    for name in models:
        upstream.script(name, fault=fault, upon="Break")
    before = len(upstream.bodies())
    with live_site(database, upstream, models, entry="invitation") as site:
        link, _ = make_link(database, uses=3)
        voters = [site.client() for _ in range(3)]
        for one in voters:
            come_in(one, link)
        for number in range(12):
            answer = voters[number % 3].post(ASK, json={"prompt": f"Break {number}"})
            assert answer.status_code == 201, "no model rests"
            read_stream(voters[number % 3], answer.json())
        asked = [body["messages"][-1]["content"] for body in upstream.bodies()[before:]]
    ours = [text for text in asked if "Break" not in text]
    with connect(database) as connection:
        (rests,) = connection.execute("SELECT coalesce(sum(rests), 0) FROM live_health").fetchone() or (-1,)
        states = {state for (state,) in connection.execute("SELECT DISTINCT state FROM live_calls")}
    assert rests == 0
    if fault == "400":
        assert (ours, states) == ([], {"refused"}), "it is the prompt's fault"
    else:
        assert states >= {"failed"}
        assert len(set(ours)) == 1, "a question of our own was asked"
        assert len(ours) <= 2 * len(models), "about once a minute for each model"


def test_every_request_that_calls_models_is_counted(database: str, upstream: FaultyUpstream) -> None:
    _say(upstream, "Water boils at a hundred degrees.")
    with live_site(database, upstream, BIRDS, minute_limits="matchups=5") as site:
        client = site.client()
        battle, _ = _battle(client, "When does water boil?")
        address = f"/api/v1/live/{battle['matchup']}"
        assert client.post(f"{address}/turns", json={"prompt": "And then?"}).status_code == 201
        again = client.post(f"{address}/again")
        assert again.status_code == 201
        page = f"/live/{again.json()['matchup']}"
        read_stream(client, again.json())
        assert client.post(f"{page}/follow-up", data={"prompt": "And then?"}).status_code == 303
        repeated = client.post(f"{page}/again")
        assert repeated.status_code == 303
        matchup = repeated.headers["location"].rpartition("/")[2]
        calls = sum(upstream.tally()["calls"].values())
        refused = [
            client.post(f"/api/v1/live/{matchup}/again"),
            client.post(f"/api/v1/live/{matchup}/turns", json={"prompt": "More."}),
            client.post(f"/live/{matchup}/again"),
            client.post(f"/live/{matchup}/follow-up", data={"prompt": "More."}),
            client.post(ASK, json={"prompt": "More."}),
            client.post("/arenas/arena/ask", data={"prompt": "More."}),
        ]
        assert [answer.status_code for answer in refused] == [429] * 6
        assert sum(upstream.tally()["calls"].values()) <= calls + 2, "of the last that was admitted"


@pytest.mark.slow
def test_the_rank_that_one_voter_gains_by_asking_who_answers(
    database: str, upstream: FaultyUpstream, record_property: Any
) -> None:
    """120 votes of ten voters make a board; then one asks 60 times who answers, and votes for the last model."""
    birds = ["heron", "plover", "gannet", "dunlin"]
    chance = random.Random(1)

    def fight(client: Any, prompt: str, wins: Callable[[str, str], bool | None]) -> dict[str, Any]:
        asked = client.post(ASK, json={"prompt": prompt}).json()
        events = parse_events(read_stream(client, asked))
        a, b = ("".join(one.data[side] for one in events) for side in "ab")
        left, right = (next(name for name in birds if f" {name} " in text) for text in (a, b))
        is_better = wins(left, right)
        if is_better is None:
            client.post(f"/api/v1/matchups/{asked['matchup']}/skip", json={})
            return {"skipped": True}
        body = {"winner": "model_a" if is_better else "model_b"}
        said: dict[str, Any] = client.post(f"/api/v1/matchups/{asked['matchup']}/vote", json=body).json()
        return said

    def honest(left: str, right: str) -> bool:
        gap = 0.3 * (birds.index(right) - birds.index(left))
        return chance.random() < 1.0 / (1.0 + 10.0**-gap)

    def rigged(left: str, right: str) -> bool | None:
        return left == "dunlin" if "dunlin" in (left, right) else None

    def ranks(site: Any) -> dict[str, int]:
        rate_and_show(site)
        rows = site.client().get("/api/v1/arenas/arena/board").json()["rows"]
        return {birds[int(row["model"].rpartition("-")[2])]: row["rank"] for row in rows}

    settings = {"undo_seconds": 0.0, "live_pace": "complete", "live_voter_day_dollars": 5.0}
    with live_site(database, upstream, birds, **settings) as site:
        for name in birds:
            upstream.script(name, text=f"A picture of a {name} on a shore.", rate=0)
        for number in range(10):
            client = site.client()
            for turn in range(12):
                fight(client, f"Which bird is it? {number} {turn}", honest)
        before = ranks(site)
        for name in birds:
            upstream.script(name, text=f"I am {name} the model.", rate=0)
        client = site.client()
        said = [fight(client, f"Who are you? {turn}", rigged) for turn in range(60)]
        after = ranks(site)
    votes = [one for one in said if "skipped" not in one]
    record_property("ranks", {"before": before, "after": after, "votes": len(votes)})
    print(before, after, len(votes), "votes,", sum(one["blind"] for one in votes), "of them blind")
    assert not any(one["blind"] for one in votes)
    assert after == before
