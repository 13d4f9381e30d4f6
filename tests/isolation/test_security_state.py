"""Security state is in the database: no process weakens an arena by the environment that it was started with."""

import asyncio
from dataclasses import replace

import pytest

from support.live_arenas import made_arena
from support.served import make_operator, served
from support.visitors import sign_in
from tiltyard.arena.operators import arena_changes
from tiltyard.core.policy.state.events import VoteMark, unrated_reason
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access import voters
from tiltyard.wire.voting import GateChallenge, solve_challenge

ASK = "/api/v1/arenas/{}/matchups"
PUBLIC = ServingSettings(port=0, base_url="https://arena.example.org", second_factor=("owner",))
LOCAL = ServingSettings(port=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(voters, "_EASY_NUMBER_LIMIT", 50)


def stranger_votes(site, arena="arena"):
    """Ask and vote at once, without a look: the status of the question, and why the vote is not rated."""
    client = site.client()
    asked = client.post(ASK.format(arena), json={})
    if asked.status_code != 201:
        return asked.status_code
    vote = client.post(f"/api/v1/matchups/{asked.json()['matchup']}/vote", json={"winner": "model_a"})
    return vote.json()["unrated"]


def change(site, **settings):
    site.run(arena_changes.change_settings(site.registry.pool, "arena", settings, actor="cli"))
    site.run(site.registry.settings_changed())


def test_a_process_that_was_told_of_no_public_address_opens_no_arena(database, tmp_path):
    """The attack: votes by a second process of a public installation, with another environment."""
    made_arena(database)
    with served(database, folder=tmp_path) as other:
        assert stranger_votes(other) is None
        with served(database, folder=tmp_path, settings=PUBLIC):
            change(other)
            assert stranger_votes(other) == 403
            made_arena(database, name="later")
            assert stranger_votes(other, "later") == 403
            change(other, gate="none")
            assert stranger_votes(other) == "unseen"
            with pytest.raises(BadOption):
                change(other, public_address=False)


def test_a_process_with_less_is_refused_until_an_operator_says_so(database):
    from tiltyard.arena.operators.installation import forget_defences, keep_defences

    def start(settings, *, anew=False):
        async def starting():
            if anew:
                await forget_defences(database)
            async with open_pool(database, most=1) as pool:
                await keep_defences(pool, settings)

        asyncio.run(starting())

    start(LOCAL)
    start(PUBLIC)
    for weaker in (
        LOCAL,
        replace(PUBLIC, base_url="https://arena.internal"),
        replace(PUBLIC, base_url="http://arena.example.org"),
        replace(PUBLIC, session_limits="votes=61"),
        replace(PUBLIC, network_limits="none"),
        replace(PUBLIC, new_sessions_per_minute=0),
        replace(PUBLIC, easy_sessions_per_minute=21),
        replace(PUBLIC, second_factor=()),
    ):
        with pytest.raises(BadOption, match="--change-defences") as caught:
            start(weaker)
        assert PUBLIC.base_url in str(caught.value)
    start(replace(PUBLIC, session_limits="votes=10"))
    with pytest.raises(BadOption):
        start(PUBLIC)
    start(LOCAL, anew=True)
    start(LOCAL)


def test_no_page_elsewhere_acts_with_our_cookies_by_an_authorization_of_its_own(database, tmp_path):
    made_arena(database)
    make_operator(database)
    with served(database, folder=tmp_path) as site:
        client = site.client()
        sign_in(client)
        matchup = client.post(ASK.format("arena"), json={}).json()["matchup"]
        for header in ("Basic eDp5", "Bearer x", ""):
            headers = {
                "authorization": header,
                "origin": "https://evil.example",
                "sec-fetch-site": "cross-site",
            }
            for path in ("/operator/sign-out", f"/matchups/{matchup}/vote", "/arenas/arena/vote", "/theme"):
                assert client.post(path, data={"winner": "model_a"}, headers=headers).status_code == 403, path
        assert client.get("/operator").status_code == 200


def test_under_https_no_other_site_of_the_domain_plants_a_proof(database, tmp_path):
    """Whose proof a browser sends, their session it becomes."""
    made_arena(database)
    with served(database, folder=tmp_path, settings=PUBLIC) as site:
        challenge = site.client().get("/api/v1/arenas/arena/gate").json()["challenge"]
        proof = solve_challenge(GateChallenge(**challenge))
        for name, status in (("tiltyard_proof", 403), ("__Host-tiltyard_proof", 201)):
            headers = {"host": "arena.example.org", "cookie": f"{name}={proof}"}
            assert site.client().post(ASK.format("arena"), json={}, headers=headers).status_code == status


def test_a_mark_that_is_not_known_counts_as_unseen():
    assert [unrated_reason(blind=True, mark=mark) for mark in (0, VoteMark.IMPORTED)] == [None, None]
    assert {unrated_reason(blind=True, mark=mark) for mark in (VoteMark.UNSEEN, 5, 99)} == {"unseen"}


def test_plain_http_is_for_addresses_that_are_not_public():
    behind = {"host": "0.0.0.0", "trusted_proxies": ("10.0.0.7",)}
    ServingSettings(base_url="http://arena.internal", **behind)
    ServingSettings(base_url="https://arena.example.org", **behind)
    with pytest.raises(BadOption):
        ServingSettings(base_url="http://arena.example.org", **behind)
