"""What voters do by HTTP: once, blind, and each in its own session."""

import re
import time

from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.served import make_token, served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

ASK = "/api/v1/arenas/arena/matchups"


def ask(client, **body):
    answer = client.post(ASK, json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


def vote(client, matchup, winner="model_a", **more):
    return client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": winner, **more})


def act(client, matchup, what, **options):
    return client.post(f"/api/v1/matchups/{matchup}/{what}", **options)


def problem_of(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == answer.status_code
    return document["type"].rsplit(":", 1)[-1]


def votes_on(database, *matchups):
    """How many of these matchups ended in a vote that stands."""
    ids = [stored_id(one) for one in matchups]
    with connect(database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM battles JOIN matchups USING (arena, source, serial) WHERE matchup = ANY(%s)",
            (ids,),
        )
        return found.fetchone()[0]


def test_asking_again_gives_the_same_matchup_and_ahead_one_more(shared):
    client = shared.client()
    first = client.post(ASK, json={})
    assert first.status_code == 201
    again = client.post(ASK)
    assert again.status_code == 200
    assert again.json() == first.json()
    assert "set-cookie" not in again.headers
    second = client.post(ASK, json={"ahead": True})
    assert second.status_code == 201
    third = client.post(ASK, json={"ahead": True})
    assert third.json()["matchup"] not in {first.json()["matchup"], second.json()["matchup"]}
    assert client.get(ASK).json() == {"matchups": [first.json(), second.json(), third.json()]}
    fourth = client.post(ASK, json={"ahead": True})
    assert client.get(ASK).json() == {"matchups": [first.json(), third.json(), fourth.json()]}
    assert shared.client().get(ASK).json() == {"matchups": []}


def test_a_prefetched_matchup_has_its_full_time_once_it_is_shown(shared):
    client = shared.client()
    first = client.post(ASK).json()
    second = client.post(ASK, json={"ahead": True}).json()
    assert second["expires_at"] < first["expires_at"]
    path = f"/api/v1/matchups/{second['matchup']}/show"
    shown = client.post(path)
    assert shown.status_code == 200
    assert shown.json()["expires_at"] > first["expires_at"]
    assert shown.json() == second | {"expires_at": shown.json()["expires_at"]}
    assert client.post(path).json() == shown.json(), "a second time it changes nothing"
    client.post(f"/api/v1/matchups/{second['matchup']}/vote", json={"winner": "tie"})
    assert client.post(path).status_code == 409
    assert shared.client().post(path).status_code == 404


def test_a_matchup_says_what_a_voter_needs_and_nothing_else(shared):
    shown = ask(shared.client())
    assert set(shown) == {"matchup", "arena", "prompt", "responses", "served_at", "expires_at", "ballot"}
    assert set(shown["prompt"]) == {"text"}
    assert set(shown["responses"]) == {"a", "b"}
    for side in "ab":
        assert shown["responses"][side] == {"url": f"/m/{shown['matchup']}/{side}", "kind": "text"}
    assert re.fullmatch(r"0-[\w-]{32}", shown["matchup"])


def test_a_vote_can_be_undone_until_names_are_shown(shared):
    client = shared.client()
    matchup = ask(client)["matchup"]
    assert problem_of(act(client, matchup, "undo")) == "closed"
    assert problem_of(act(client, matchup, "reveal")) == "closed"
    vote(client, matchup)
    undone = act(client, matchup, "undo")
    assert (undone.status_code, undone.json()["kind"], undone.json()["ballot"]) == (200, "undo", 1)
    assert act(client, matchup, "undo").json()["position"] == undone.json()["position"]
    assert problem_of(vote(client, matchup)) == "closed"
    assert problem_of(act(client, matchup, "reveal")) == "closed"
    assert (ask(client)["matchup"], ask(client)["ballot"]) == (matchup, 1)
    for wrong in (-1, 2**31, 1.5, "1", True):
        assert problem_of(vote(client, matchup, ballot=wrong)) == "invalid"
        assert problem_of(act(client, matchup, "undo", json={"ballot": wrong})) == "invalid"
    recast = vote(client, matchup, "model_b", ballot=1).json()
    assert (recast["winner"], recast["ballot"]) == ("model_b", 1)
    assert problem_of(act(client, matchup, "undo")) == "closed"
    assert act(client, matchup, "undo", json={"ballot": 1}).json()["ballot"] == 2
    assert act(client, matchup, "skip").status_code == 200
    other = ask(client)["matchup"]
    vote(client, other)
    names = act(client, other, "reveal").json()
    assert {names["model_a"], names["model_b"]} < {f"model-{k}" for k in range(4)}
    assert act(client, other, "reveal").json() == names
    assert problem_of(act(client, other, "undo")) == "closed"
    assert votes_on(shared.database, matchup, other) == 1


def test_a_matchup_of_somebody_else_is_like_one_that_never_was(shared):
    owner, guest, nobody = shared.client(), shared.client(), shared.client()
    shown = ask(owner)
    ask(guest)
    judge = shared.client(make_token(shared.database, "judge"))
    guessed = "0-" + "A" * 32
    for client in (guest, nobody, judge):
        for what, body in (
            ("vote", {"winner": "tie"}),
            ("undo", None),
            ("skip", None),
            ("reveal", None),
            ("report", {"reason": "broken"}),
        ):
            told = [act(client, one, what, json=body) for one in (shown["matchup"], guessed, "x", "%00")]
            assert {problem_of(each) for each in told} == {"not-found"}
            assert len({each.json()["detail"] for each in told}) == 1
        told = [client.get(f"/m/{one}/b") for one in (shown["matchup"], guessed)]
        assert {problem_of(each) for each in told} == {"not-found"}
    assert vote(owner, shown["matchup"]).status_code == 200


def test_a_matchup_that_ran_out_is_gone(database):
    made_arena(database, settings=ArenaSettings(expiry_seconds=1.0))
    with served(database) as site:
        client = site.client()
        matchup = ask(client)["matchup"]
        for _ in range(60):
            gone = client.get(f"/m/{matchup}/a")
            if gone.status_code != 200:
                break
            time.sleep(0.1)
        assert problem_of(gone) == "expired"
        assert gone.status_code == 410
        assert problem_of(vote(client, matchup)) == "expired"
        assert ask(client)["matchup"] != matchup


def test_judges_vote_apart_and_say_how_firmly(shared):
    token = make_token(shared.database, "judge")
    judge, person = shared.client(token), shared.client()
    matchup = ask(judge)["matchup"]
    assert "set-cookie" not in judge.post(ASK).headers
    assert ask(shared.client(token))["matchup"] == matchup
    assert judge.get(f"/m/{matchup}/b").status_code == 200
    told = vote(judge, matchup, "tie", label="inconsistent", pref=0.5, judge_model="a judge")
    assert (told.json()["winner"], told.json()["label"]) == ("tie", "inconsistent")
    with connect(shared.database) as connection:
        row = connection.execute(
            "SELECT source, outcome, detail FROM events WHERE kind = 1 AND arena = 1 AND source = 1"
        ).fetchone()
    assert row == (1, 6, {"pref": 0.5, "judge_model": "a judge"})
    for more in ({"label": "lean"}, {"pref": 0.2}, {"judge_model": "me"}):
        refused = vote(person, ask(person)["matchup"], "model_a", **more)
        assert (refused.status_code, problem_of(refused)) == (422, "invalid")
    other = ask(judge)["matchup"]
    assert problem_of(vote(judge, other, "model_a", label="tie")) == "invalid"
    assert vote(judge, other, "model_a", label="lean").json()["label"] == "lean"


def test_the_log_keeps_when_a_person_saw_both_responses(shared):
    person, judge = shared.client(), shared.client(make_token(shared.database, "judge"))
    matchup, shown = ask(person)["matchup"], {"a": 12.5, "b": 4}
    told = vote(person, matchup, "model_a", shown=shown).json()
    with connect(shared.database) as connection:
        row = connection.execute(
            "SELECT detail FROM events WHERE arena = 1 AND position = %s", (told["position"],)
        ).fetchone()
    assert row == ({"shown": {"a": 12.5, "b": 4.0}},)
    refused = vote(judge, ask(judge)["matchup"], "model_a", shown=shown)
    assert (refused.status_code, problem_of(refused)) == (422, "invalid")


def test_a_report_reaches_the_operator_once(site):
    client = site.client()
    matchup = ask(client)["matchup"]
    for note in ("It shouts.", "It shouts!"):
        assert act(client, matchup, "report", json={"reason": "harmful", "note": note}).status_code == 204
    vote(client, matchup)
    assert act(client, matchup, "report", json={"reason": "other"}).status_code == 204
    with connect(site.database) as connection:
        rows = connection.execute("SELECT reason, note FROM complaints ORDER BY complaint").fetchall()
    assert rows == [("harmful", "It shouts."), ("other", None)]


def test_a_vote_that_makes_no_sense_changes_nothing(shared):
    client = shared.client()
    matchup = ask(client)["matchup"]
    where = f"/api/v1/matchups/{matchup}/vote"
    for body, status in (
        (b'{"winner": "model_c"}', 422),
        (b'{"winner": "model_a", "colour": 1}', 422),
        (b'{"winner": 1}', 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"", 422),
        (b"null", 422),
        (b'{"winner": "tie", "pref": NaN}', 422),
        (b'{"winner": "tie", "judge_model": "\\u0000"}', 422),
        (b'{"winner": "tie", "shown": {"a": 1}}', 422),
        (b'{"winner": "tie", "shown": {"a": 1, "b": -1}}', 422),
        (b'{"winner": "tie", "shown": {"a": 1, "b": 1e999}}', 422),
    ):
        answer = client.post(where, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status, answer.text
        problem_of(answer)
    assert problem_of(client.post(where, content=b'{"winner": "tie"}')) == "unsupported-media-type"
    assert votes_on(shared.database, matchup) == 0
