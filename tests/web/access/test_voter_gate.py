"""The gate of open arenas: who needs a proof, what it brings, and what is stored."""

import asyncio
import re

import pytest

from support.live_arenas import made_arena
from support.served import make_token, served
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.invitations import InvitationTerms, invite
from tiltyard.arena.processes import shared_limits
from tiltyard.client import AsyncClient, Client
from tiltyard.errors import Busy, ProofNeeded
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access import voters
from tiltyard.wire.voting import GateChallenge, solve_challenge

ASK = "/api/v1/arenas/arena/matchups"
GATE = "/api/v1/arenas/arena/gate"
PAGE = {"accept": "text/html"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(voters, "_EASY_NUMBER_LIMIT", 50)


@pytest.fixture
def gated(database):
    made_arena(database, settings=ArenaSettings(gate="proof"))
    with served(database, settings=ServingSettings(easy_sessions_per_minute=0)) as site:
        yield site


def proof_for(client):
    return solve_challenge(GateChallenge(**client.get(GATE).json()["challenge"]))


def gates(database):
    with connect(database) as connection:
        return sorted(gate for (gate,) in connection.execute("SELECT gate FROM sessions").fetchall())


def set_gate(site, gate):
    async def setting():
        async with open_pool(site.database, most=1) as pool:
            await change_settings(pool, "arena", {"gate": gate}, actor="cli")
        await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(site.registry.settings_changed(), site.loop)
        )

    asyncio.run(setting())


@pytest.mark.parametrize(
    ("settings", "public", "gated"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"gate": "proof"}, False, True),
        ({"gate": "none"}, True, False),
        ({"entry": "invitation"}, True, False),
        ({"entry": "sign-in", "gate": "proof"}, True, False),
        ({"visibility": "closed"}, True, False),
        ({"stage": "draft"}, True, False),
    ],
)
def test_open_arenas_on_public_addresses_have_a_gate(settings, public, gated):
    assert ArenaSettings(**settings, public_address=public).is_gated is gated


def test_a_new_voter_needs_a_proof_once(gated):
    client = gated.client()
    refused = client.post(ASK)
    problem = refused.json()
    assert (refused.status_code, problem["type"], problem["gate"]) == (
        403,
        "urn:tiltyard:problem:proof-needed",
        "arena",
    )
    assert "set-cookie" not in refused.headers
    assert GATE in problem["detail"]
    served_one = client.post(ASK, headers={"tiltyard-proof": proof_for(client)})
    assert served_one.status_code == 201
    assert client.get(GATE).json() == {"gate": "none", "challenge": None}
    matchup = served_one.json()["matchup"]
    assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
    assert client.post(ASK).status_code == 201
    assert gates(gated.database) == [1]


def test_a_session_at_the_gate_keeps_its_language_and_a_little_of_a_hash_of_its_network(gated):
    for accepted in ("de-CH,en;q=0.5", "*", "fr"):
        client = gated.client()
        headers = {"tiltyard-proof": proof_for(client), "accept-language": accepted}
        assert client.post(ASK, headers=headers).status_code == 201
    with connect(gated.database) as connection:
        kept = connection.execute("SELECT network, language FROM sessions ORDER BY language").fetchall()
    assert [language for _, language in kept] == ["de", "fr", None]
    (network,) = {network for network, _ in kept}
    assert 0 <= network < 2**16


def test_a_proof_sent_again_anywhere_is_the_same_session(gated):
    proof = {"tiltyard-proof": proof_for(gated.client())}
    with served(gated.database) as another:
        clients = [site.client() for site in (gated, another, gated)]
        shown = [client.post(ASK, headers=proof) for client in clients]
    assert [answer.status_code for answer in shown] == [201, 200, 200]
    assert len({answer.json()["matchup"] for answer in shown}) == 1
    assert gates(gated.database) == [1]


@pytest.mark.parametrize("proof", ["x", "é", "{}", "A" * 3000])
def test_a_wrong_proof_is_refused_and_nobody_is_marked(gated, proof):
    answer = gated.client().post(ASK, headers={"tiltyard-proof": proof.encode()})
    assert (answer.status_code, "wrong" in answer.json()["detail"]) == (403, True)
    assert gates(gated.database) == []


def test_a_session_from_before_the_gate_goes_on_with_a_proof_of_its_own(gated):
    set_gate(gated, "none")
    client, other = gated.client(), gated.client()
    matchup = client.post(ASK).json()["matchup"]
    other.post(ASK)
    set_gate(gated, "proof")
    assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
    assert client.post(ASK).status_code == 403
    proof = proof_for(client)
    assert other.post(ASK, headers={"tiltyard-proof": proof}).status_code == 403, (
        "it belongs to another session"
    )
    assert other.post(ASK, headers={"tiltyard-proof": "wrong"}).status_code == 403
    assert gates(gated.database) == [2]
    assert client.post(ASK, headers={"tiltyard-proof": proof}).status_code == 201
    assert other.post(ASK, headers={"tiltyard-proof": proof_for(other)}).status_code == 200
    assert gates(gated.database) == [1, 1]


def test_a_browser_that_cannot_compute_waits_in_line_and_is_no_failure(gated):
    answers = []
    for _ in range(3):
        answers.append(gated.client().post(ASK, headers={"tiltyard-proof": "unavailable"}))
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert gates(gated.database) == [3, 3]


def test_a_network_with_many_new_voters_gets_harder_challenges(database):
    made_arena(database, settings=ArenaSettings(gate="proof"))
    with served(database, settings=ServingSettings(easy_sessions_per_minute=3)) as site:
        client = site.client()
        assert [client.get(GATE).json()["challenge"]["maxnumber"] for _ in range(5)] == [50] * 3 + [10**6] * 2


def test_whoever_was_invited_or_has_a_token_needs_no_proof(gated):
    async def inviting():
        async with open_pool(gated.database, most=1) as pool:
            code, _ = await invite(pool, "arena", InvitationTerms("hall"), shard=0, actor="cli")
        return code

    code = asyncio.run(inviting())
    guest = gated.client()
    assert guest.post(f"/join/{code}").status_code == 303
    assert guest.get(GATE).json()["gate"] == "none"
    assert guest.post(ASK).status_code == 201
    assert gated.client().post(f"/join/{code}").status_code == 403, "the link is used up"
    assert gated.client(make_token(gated.database, "judge")).post(ASK).status_code == 201
    assert gates(gated.database) == [0, 0], "of the judge and of the guest"


def test_our_client_solves_the_challenge_by_itself(gated, monkeypatch):
    with Client(gated.url) as client:
        assert client.next_matchup("arena").arena == "arena"
        assert client.gate("arena").gate == "none"

    async def scene():
        async with AsyncClient(gated.url) as client:
            assert (await client.next_matchup("arena")).arena == "arena"
            assert (await client.gate("arena")).challenge is None

    asyncio.run(scene())
    assert gates(gated.database) == [1, 1]
    monkeypatch.setattr("tiltyard.client.api_call.solve_challenge", lambda _: None)
    with Client(gated.url) as client, pytest.raises(ProofNeeded, match="proof of work"):
        client.next_matchup("arena")


def test_the_pages_compute_while_they_are_read_and_say_what_to_do_without_scripts(gated):
    client = gated.client()
    page = client.get("/arenas/arena/vote")
    assert re.search(r'data-island="gate" data-gate="/api/v1/arenas/arena/gate"', page.text)
    assert "<noscript>" in page.text
    assert "set-cookie" not in page.headers
    sent = client.post("/arenas/arena/vote", headers=PAGE)
    assert (sent.status_code, sent.headers["location"]) == (303, "/arenas/arena/vote?choose=proof")
    told = client.get(sent.headers["location"])
    assert "invitation link" in told.text
    assert "<noscript>" not in told.text
    client.cookies.set("tiltyard_proof", proof_for(client))
    begun = client.post("/arenas/arena/vote", headers=PAGE)
    assert (begun.status_code, begun.headers["location"]) == (303, "/arenas/arena/vote")
    shown = client.get("/arenas/arena/vote")
    assert 'data-island="vote"' in shown.text
    assert 'data-island="gate"' not in shown.text
    assert client.post("/arenas/arena/vote/ahead").status_code == 200


def test_pages_of_a_session_from_before_the_gate_lead_to_it(gated):
    set_gate(gated, "none")
    client = gated.client()
    matchup = client.post(ASK).json()["matchup"]
    set_gate(gated, "proof")
    voted = client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"}, headers=PAGE)
    assert voted.status_code == 303
    ahead = client.post("/arenas/arena/vote/ahead", headers=PAGE)
    assert (ahead.status_code, ahead.headers["location"]) == (303, "/arenas/arena/vote?choose=proof")


def test_sessions_beyond_the_limit_are_refused_even_with_proofs(database, monkeypatch):
    # A busy machine is no reason to let voters pass uncounted.
    monkeypatch.setattr(shared_limits, "_LEASE_SECONDS", 60.0)
    made_arena(database, settings=ArenaSettings(gate="proof"))
    settings = ServingSettings(easy_sessions_per_minute=0, new_sessions_per_minute=3)
    with served(database, settings=settings) as site:
        answers = [
            client.post(ASK, headers={"tiltyard-proof": proof_for(client)})
            for client in (site.client() for _ in range(5))
        ]
        assert [answer.status_code for answer in answers] == [201, 201, 201, 429, 429]
        with Client(site.url, patience=0.0) as client, pytest.raises(Busy):
            client.next_matchup("arena")
