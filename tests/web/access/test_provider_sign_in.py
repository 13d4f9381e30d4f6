"""Signing in at an identity provider over HTTP: the way in, and what a hostile provider or browser tries."""

import re
import time
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from support.live_arenas import made_arena
from support.operating import signed
from support.postgres_servers import fresh_database
from support.scripted_provider import CLIENT, SECRET_OF_CLIENT, new_key, scripted_provider, unsigned
from support.served import SECRET, make_operator, make_token, served
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.client import Client
from tiltyard.errors import NotAdmitted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings, SignInSettings
from tiltyard.web.access.cookies import Cookies

HTML = {"accept": "text/html"}
VOTE = "/arenas/arena/vote"
PERSON, ATTEMPT = "tiltyard_person_0", "tiltyard_signing_in_0"


@pytest.fixture(scope="module")
def one_provider():
    with scripted_provider() as running:
        yield running


@pytest.fixture
def provider(one_provider):
    one_provider.reset()
    return one_provider


def settings_for(provider, **more):
    return SignInSettings(
        issuer=provider.url, client_id=CLIENT, client_secret=SECRET_OF_CLIENT, **({"hours": 12} | more)
    )


@pytest.fixture(scope="module")
def one_site(server, template, one_provider, tmp_path_factory):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(entry="sign-in"))
        made_arena(database, name="public")
        folder = tmp_path_factory.mktemp("blobs")
        with served(database, folder=folder, sign_in=settings_for(one_provider)) as running:
            yield running


@pytest.fixture
def site(one_site, provider):
    """One server for all tests: nobody has signed in yet, and it knows nothing of its provider."""
    with connect(one_site.database) as connection:
        connection.execute("TRUNCATE people, person_sign_ins")
        connection.execute("DELETE FROM sessions")
    set_groups(one_site, "")
    access = one_site.context.access
    access.forget()
    access.identities.provider._documents.clear()
    access.identities.provider._keys.clear()
    return one_site


def set_groups(site, groups):
    with connect(site.database) as connection:
        connection.execute(
            "UPDATE arenas SET settings = settings || jsonb_build_object('entry_groups', %s::text)"
            " WHERE name = 'arena'",
            [groups],
        )
    site.registry.boards.forget("arena")
    site.run(site.registry.settings_changed())


def begin(client, wanted=VOTE):
    """Ask to sign in; return the address at the provider."""
    answer = client.get("/sign-in/0", params={"next": wanted})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def at_provider(url):
    """Sign in there; return the path and query that the browser comes back to."""
    answer = httpx2.get(url)
    assert answer.status_code == 302, answer.text
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


def sign_in(client, wanted=VOTE):
    return client.get(at_provider(begin(client, wanted)), headers=HTML)


def people(site):
    with connect(site.database) as connection:
        return connection.execute("SELECT name, groups, session FROM people ORDER BY person").fetchall()


def voters(site):
    """Who has been served or voted in the private arena."""
    with connect(site.database) as connection:
        found = connection.execute(
            "SELECT DISTINCT e.session FROM events e JOIN arenas a USING (arena)"
            " WHERE a.name = 'arena' AND e.session IS NOT NULL"
        ).fetchall()
    return {row[0] for row in found}


def vote(client):
    matchup = client.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    assert answer.status_code == 200, answer.text
    return matchup


def test_a_colleague_signs_in_votes_and_signs_out(site, provider):
    client = site.client()
    asked = client.get("/arenas/arena?source=llm-judge", headers=HTML)
    assert asked.status_code == 403
    link = re.search(r'href="(/sign-in/0[^"]*)"', asked.text)[1].replace("&amp;", "&")
    location = client.get(link).headers["location"]
    query = dict(parse_qsl(urlsplit(location).query))
    assert query["client_id"] == CLIENT
    assert query["scope"] == "openid profile"
    assert query["redirect_uri"] == f"{site.url}/sign-in/0/callback"
    answer = client.get(at_provider(location))
    assert answer.status_code == 303, answer.text
    assert (answer.status_code, answer.headers["location"]) == (303, "/arenas/arena?source=llm-judge")
    cookies = answer.headers.get_list("set-cookie")
    assert [one.partition("=")[0] for one in cookies] == [PERSON, ATTEMPT]
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"} <= set(cookies[0].split("; "))
    assert "Max-Age=0" in cookies[1]
    assert client.get("/arenas/arena", headers=HTML).status_code == 200
    assert client.get("/arenas/arena/mine", headers=HTML).status_code == 200
    vote(client)
    assert people(site)[0][2] in voters(site)
    account = client.get("/sign-in/0/account", headers=HTML)
    assert "Ada Lovelace" in account.text
    kept = client.cookies[PERSON]
    out = client.post("/sign-in/0/out")
    assert out.headers["location"] == "/sign-in/0/account?out=yes"
    after = client.get(out.headers["location"], headers=HTML).text
    assert "signed out" in after
    assert f"{provider.url}/out?client_id={CLIENT}" in after
    assert client.get(VOTE, headers=HTML).status_code == 403
    assert site.client(cookies={PERSON: kept}).get(VOTE).status_code == 403


def test_a_voting_page_works_without_javascript(site):
    client = site.client()
    sign_in(client)
    assert client.post(VOTE).status_code == 303
    page = client.get(VOTE, headers=HTML).text
    assert 'href="/sign-in/0/account"' in page
    matchup = re.search(r"/matchups/([\w-]+)/vote", page)[1]
    assert client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"}).status_code == 303
    assert client.get(f"/matchups/{matchup}", headers=HTML).status_code == 200
    assert "tiltyard_session" not in client.cookies


def test_one_person_is_one_voter_on_all_devices_and_two_are_two(site, provider):
    laptop, phone, other = site.client(), site.client(), site.client()
    sign_in(laptop)
    sign_in(phone)
    matchup = laptop.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    assert phone.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"] == matchup
    assert phone.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
    again = laptop.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "model_a"})
    assert again.status_code == 409
    provider.claims["sub"] = "grace"
    sign_in(other)
    assert other.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 404
    vote(other)
    assert len(people(site)) == 2
    assert {session for _, _, session in people(site)} <= voters(site)


def test_a_second_browser_session_makes_no_second_voter(site, provider):
    """Without its voter's cookie, or with another one, a person stays the same voter."""
    provider.claims["sub"] = "a person of this test"
    before = voters(site)
    client = site.client()
    client.post("/api/v1/arenas/public/matchups", json={})
    assert "tiltyard_session" in client.cookies
    sign_in(client)
    vote(client)
    client.cookies.delete("tiltyard_session")
    vote(client)
    assert voters(site) - before == {people(site)[0][2]}


def test_nobody_is_stored_as_who_they_are(site, provider):
    provider.claims |= {"email": "ada@example.org", "sub": "subject-of-ada"}
    client = site.client()
    sign_in(client)
    vote(client)
    with connect(site.database) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        stored = "".join(
            str(connection.execute(f'SELECT to_jsonb(t)::text FROM "{name}" t').fetchall())
            for (name,) in tables
        )
        events = str(connection.execute("SELECT to_jsonb(e)::text FROM events e").fetchall())
    assert "ada@example.org" not in stored
    assert "subject-of-ada" not in stored
    assert "Ada Lovelace" in stored
    assert "Ada" not in events


def test_the_voter_stays_the_same_when_the_secret_key_is_rotated(database, tmp_path, provider):
    made_arena(database, settings=ArenaSettings(entry="sign-in"))
    settings, newer = settings_for(provider), "another secret that is long enough as well"
    for keys in (SecretKeys([SECRET]), SecretKeys([newer, SECRET]), SecretKeys([newer])):
        with served(database, folder=tmp_path, sign_in=settings, keys=keys) as site:
            sign_in(site.client())
            found = people(site)
            assert len(found) == 1
            first = found if keys._keys[0] == SECRET.encode() else first  # noqa: F821
            assert found == first


def test_groups_decide_and_are_those_of_the_last_sign_in(site, provider):
    set_groups(site, "judges, /staff/raters")
    client = site.client()
    sign_in(client)
    refused = client.get(VOTE, headers=HTML)
    assert refused.status_code == 403
    assert "your groups" in refused.text
    assert "judges" not in refused.text
    asked = client.get("/api/v1/arenas/arena").json()
    assert asked["type"] == "urn:tiltyard:problem:group-required"
    assert client.get("/arenas/public", headers=HTML).status_code == 200
    provider.claims["groups"] = ["everyone", "/staff/raters"]
    sign_in(client)
    assert client.get(VOTE, headers=HTML).status_code == 200
    provider.claims["groups"] = ["judge", "staff/raters", "JUDGES"]
    other = site.client()
    sign_in(other)
    site.context.access.forget()
    for one in (client, other):
        assert one.get(VOTE, headers=HTML).status_code == 403


def test_userinfo_is_asked_only_if_groups_are_missing(site, provider):
    set_groups(site, "judges")
    provider.userinfo = {"sub": "ada", "groups": "judges", "name": "Someone Else"}
    client = site.client()
    sign_in(client)
    assert client.get(VOTE).status_code == 200
    assert people(site)[0][:2] == ("Ada Lovelace", ["judges"])
    provider.asked.clear()
    provider.claims["groups"] = []
    sign_in(client)
    assert "/userinfo" not in provider.asked
    assert people(site)[0][1] == []


@pytest.mark.parametrize(
    ("userinfo", "said"),
    [
        ({"sub": "grace", "groups": ["judges"]}, "about another person"),
        ({"groups": ["judges"]}, "about another person"),
        ({"sub": "ada", "groups": {"judges": True}}, "no names"),
        ({"sub": "ada", "groups": ["judges", 7]}, "no names"),
        ({"sub": "ada", "groups": [f"group {n}" for n in range(1001)]}, "1,001 groups"),
    ],
)
def test_userinfo_that_is_no_answer(site, provider, userinfo, said):
    provider.userinfo = userinfo
    answer = sign_in(site.client())
    assert answer.status_code == 403
    assert said in answer.text
    assert people(site) == []


def wrong(**claims):
    return lambda provider: provider.claims.update(claims)


def forged(provider):
    provider.shown_keys = [new_key("first").as_dict(private=False)]
    provider.key = new_key("second")


def same_name(provider):
    """Signed by another key that claims the known key's name."""
    provider.shown_keys = [new_key("first").as_dict(private=False)]
    provider.sign = _resigned


def _resigned(claims):
    from joserfc import jwt

    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, new_key("second"))


def none(provider):
    provider.sign = unsigned


def confused(provider):
    provider.sign = provider.signed_with_public_key


def secret_as_key(provider):
    """The provider shows a symmetric key, and signs with it."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    key = OctKey.import_key("k" * 32, {"kid": "shared"})
    provider.shown_keys = [key.as_dict(private=True)]
    provider.sign = lambda claims: jwt.encode({"alg": "HS256", "kid": "shared"}, claims, key)


def for_encryption(provider):
    provider.shown_keys = [{**provider.key.as_dict(private=False), "use": "enc"}]


def other_algorithm(provider):
    from joserfc import jwt

    header = {"alg": "PS256", "kid": "first"}
    provider.sign = lambda claims: jwt.encode(header, claims, provider.key, algorithms=["PS256"])


NOW = int(time.time())
HOSTILE_TOKENS = {
    "nonce of another sign-in": wrong(nonce="another"),
    "no nonce": wrong(nonce=None),
    "another audience": wrong(aud="somebody-else"),
    "an audience among others": wrong(aud=[CLIENT, "somebody-else"]),
    "for another party": wrong(azp="somebody-else"),
    "another issuer": wrong(iss="http://127.0.0.1:1/"),
    "expired": wrong(exp=NOW - 3600),
    "without an end": wrong(exp=None),
    "an end that is no time": wrong(exp="tomorrow"),
    "not yet valid": wrong(nbf=NOW + 86400),
    "issued tomorrow": wrong(iat=NOW + 86400),
    "without a subject": wrong(sub=None),
    "an empty subject": wrong(sub=""),
    "a subject that is a number": wrong(sub=7),
    "a long subject": wrong(sub="x" * 256),
    "a subject with a line": wrong(sub="ada\nroot"),
    "an access token of others": wrong(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "signed by others": forged,
    "signed by others in the name of a key": same_name,
    "unsigned": none,
    "signed with the public key": confused,
    "signed with a shared key": secret_as_key,
    "signed with a key for encryption": for_encryption,
    "signed otherwise than discovery says": other_algorithm,
    "no token": lambda provider: setattr(provider, "sign", lambda _: "x.y.z"),
    "a long token": lambda provider: setattr(provider, "sign", lambda _: "x" * 100_000),
}


@pytest.mark.parametrize("name", HOSTILE_TOKENS)
def test_tokens_that_are_refused(site, provider, name):
    HOSTILE_TOKENS[name](provider)
    client = site.client()
    answer = sign_in(client)
    assert answer.status_code == 403, answer.text
    assert "invalid answer" in answer.text
    assert "Traceback" not in answer.text
    assert PERSON not in client.cookies
    assert client.get(VOTE).status_code == 403
    assert people(site) == []


def test_a_known_party_and_a_small_difference_of_clocks_are_accepted(site, provider):
    provider.claims |= {"aud": [CLIENT, "other"], "azp": CLIENT, "nbf": int(time.time()) + 20}
    assert sign_in(site.client()).status_code == 303


def test_new_keys_are_read_once_they_are_needed(site, provider):
    sign_in(site.client())
    sign_in(site.client())
    assert provider.asked.count("/keys") == 1
    provider.key = new_key("second")
    assert sign_in(site.client()).status_code == 303
    assert provider.asked.count("/keys") == 2
    provider.shown_keys = [new_key("third").as_dict(private=False), {"kty": "of the future"}]
    provider.key = new_key("third")
    assert sign_in(site.client()).status_code == 303


def test_a_state_is_for_one_browser(site):
    """Whoever sends a link with their own code signs nobody in."""
    attacker, victim = site.client(), site.client()
    back = at_provider(begin(attacker))
    begin(victim)
    for client in (site.client(), victim):
        answer = client.get(back, headers=HTML)
        assert answer.status_code == 400
        assert "another browser" in answer.text
        assert client.get(VOTE).status_code == 403
    assert people(site) == []


def test_a_state_works_once(site, provider):
    client = site.client()
    location = begin(client)
    attempt = client.cookies[ATTEMPT]
    assert client.get(at_provider(location)).status_code == 303
    assert ATTEMPT not in client.cookies
    replayed = at_provider(location)
    assert client.get(replayed).status_code == 400
    thief = site.client(cookies={ATTEMPT: attempt})
    answer = thief.get(replayed, headers=HTML)
    assert answer.status_code == 403
    assert "used before" in answer.text
    assert thief.get(VOTE).status_code == 403


def test_a_code_of_another_sign_in_is_refused(site):
    """The verifier and the nonce belong to the state."""
    attacker, victim = site.client(), site.client()
    stolen = parse_qs(urlsplit(at_provider(begin(attacker))).query)["code"][0]
    own = dict(parse_qsl(urlsplit(at_provider(begin(victim))).query))
    answer = victim.get(f"/sign-in/0/callback?{urlencode(own | {'code': stolen})}", headers=HTML)
    assert answer.status_code == 403
    assert "invalid_grant" in answer.text


def test_an_old_or_forged_attempt_is_refused(site, monkeypatch):
    client = site.client()
    back = at_provider(begin(client))
    state = parse_qs(urlsplit(back).query)["state"][0]
    cookies = Cookies(SecretKeys([SECRET]), secure=False)
    others = Cookies(SecretKeys(["another secret that is long enough too"]), secure=False)
    now = int(time.time())
    for value in (
        cookies.seal(ATTEMPT, f"{state}:{now - 601}:"),
        cookies.seal(ATTEMPT, f"{state}:{now + 3600}:"),
        cookies.seal(PERSON, f"{state}:{now}:"),
        others.seal(ATTEMPT, f"{state}:{now}:"),
        f"{state}:{now}:",
        "",
        "x" * 5000,
    ):
        assert site.client(cookies={ATTEMPT: value}).get(back).status_code == 400, value
    assert client.get(back).status_code == 303


def test_an_answer_of_another_provider_is_refused(site, provider):
    client = site.client()
    query = dict(parse_qsl(urlsplit(at_provider(begin(client))).query))
    mixed = query | {"iss": "https://evil.example"}
    assert "another provider" in client.get(f"/sign-in/0/callback?{urlencode(mixed)}", headers=HTML).text
    provider.document["authorization_response_iss_parameter_supported"] = True
    site.context.access.identities.provider._documents.clear()
    client = site.client()
    query = dict(parse_qsl(urlsplit(at_provider(begin(client))).query))
    del query["iss"]
    assert client.get(f"/sign-in/0/callback?{urlencode(query)}").status_code == 403


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "",
        "javascript:x",
        "/%0d%0aset-cookie:x",
        "/" * 3,
    ],
)
def test_signing_in_leads_to_own_pages_only(site, wanted):
    location = sign_in(site.client(), wanted).headers["location"]
    assert location in {"/", "/%0d%0aset-cookie:x"}


def test_a_long_path_is_not_returned_to(site):
    assert sign_in(site.client(), "/" + "x" * 2000).headers["location"] == "/"
    path = "/arenas/arena?" + "x" * 900
    assert sign_in(site.client(), path).headers["location"] == path


def test_a_provider_that_is_down_stops_nothing_else(site, provider):
    provider.answers["/.well-known/openid-configuration"] = (502, {}, b"<html>bad gateway")
    client = site.client()
    answer = client.get("/sign-in/0", headers=HTML)
    assert answer.status_code == 503
    assert "not answering" in answer.text
    assert client.get(VOTE, headers=HTML).status_code == 403
    assert client.get("/arenas/public/vote", headers=HTML).status_code == 200
    assert client.post("/api/v1/arenas/public/matchups", json={}).status_code == 201
    del provider.answers["/.well-known/openid-configuration"]
    back = at_provider(begin(client))
    provider.answers["/token"] = (500, {}, b"")
    assert client.get(back, headers=HTML).status_code == 503
    del provider.answers["/token"]
    assert sign_in(client).status_code == 303


def test_those_who_are_in_stay_in_while_the_provider_is_down(database, tmp_path):
    made_arena(database, settings=ArenaSettings(entry="sign-in"))
    with scripted_provider() as provider:
        running = served(database, folder=tmp_path, sign_in=settings_for(provider))
        site = running.__enter__()
        client = site.client()
        sign_in(client)
    try:
        site.context.access.forget()
        assert client.get(VOTE).status_code == 200
        site.context.access.identities.provider._documents.clear()
        answer = site.client().get("/sign-in/0", headers=HTML)
        assert answer.status_code == 503
    finally:
        running.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"issuer": "https://evil.example"}, "TILTYARD_OIDC_ISSUER"),
        ({"token_endpoint": None}, "no usable token_endpoint"),
        ({"token_endpoint": "ftp://127.0.0.1/"}, "no usable token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no usable authorization_endpoint"),
        ({"jwks_uri": 7}, "no usable jwks_uri"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"id_token_signing_alg_values_supported": "RS256"}, "list of a wrong type"),
    ],
)
def test_discovery_documents_that_are_refused(site, provider, change, said):
    provider.document = change
    answer = site.client().get("/sign-in/0", headers=HTML)
    assert answer.status_code == 403
    assert said in answer.text


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"location": "http://127.0.0.1:1/"}, b""),
        (200, {}, b"[" * 100_000),
        (200, {}, b"x" * 2_000_000),
        (200, {}, b"[]"),
        (404, {}, b"{}"),
    ],
)
def test_answers_that_are_no_documents(site, provider, answer):
    provider.answers["/.well-known/openid-configuration"] = answer
    shown = site.client().get("/sign-in/0", headers=HTML)
    assert shown.status_code in {403, 503}
    assert "Reason" in shown.text


def test_without_hmac_and_none_no_algorithm_may_be_left(site, provider):
    provider.document["id_token_signing_alg_values_supported"] = ["HS256", "none"]
    provider.sign = provider.signed_with_public_key
    assert sign_in(site.client()).status_code == 403


def test_a_wrong_client_secret_is_said(site, provider):
    provider.answers["/token"] = (401, {}, b'{"error": "invalid_client"}')
    assert "invalid_client" in sign_in(site.client()).text


def test_somebody_who_does_not_sign_in_is_told_so(site):
    client = site.client()
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    query = urlencode(
        {"state": state, "error": "access_denied", "error_description": "<script>alert(1)</script>"}
    )
    answer = client.get(f"/sign-in/0/callback?{query}", headers=HTML)
    assert answer.status_code == 403
    assert "did not let" in answer.text
    assert "script>alert" not in answer.text
    assert ATTEMPT not in client.cookies


def test_a_revoked_person_is_out_on_all_devices_and_stays_out(site):
    client = site.client()
    sign_in(client)
    session = people(site)[0][2]
    site.run(site.context.access.accounts.revoke_session("cli", session))
    with connect(site.database) as connection:
        connection.execute("UPDATE sessions SET revoked_at = now() - interval '500 days'")
    site.context.access.forget()
    assert client.get(VOTE).status_code == 403
    sign_in(client)
    assert client.get(VOTE).status_code == 403


def test_a_sign_in_ends_after_its_hours(site):
    client = site.client()
    sign_in(client)
    with connect(site.database) as connection:
        connection.execute("UPDATE person_sign_ins SET expires_at = now()")
    site.context.access.forget()
    assert client.get(VOTE).status_code == 403
    sign_in(client)
    with connect(site.database) as connection:
        assert connection.execute("SELECT count(*) FROM person_sign_ins").fetchone() == (2,)
        connection.execute("UPDATE person_sign_ins SET expires_at = now() - interval '2 hours'")
    sign_in(client)
    with connect(site.database) as connection:
        assert connection.execute("SELECT count(*) FROM person_sign_ins").fetchone() == (1,)


def test_other_cookies_are_no_sign_in(site):
    client = site.client()
    sign_in(client)
    value = client.cookies[PERSON]
    token, _, signature = value.partition(".")
    for one in (value[:-1], token, f"{token}.", f".{signature}", "", value.swapcase(), "x" * 5000):
        assert site.client(cookies={PERSON: one}).get(VOTE).status_code == 403, one
    forged = Cookies(SecretKeys([SECRET]), secure=False).seal(PERSON, "a token that was never given out")
    assert site.client(cookies={PERSON: forged}).get(VOTE).status_code == 403
    assert site.client(cookies={"tiltyard_person_1": value}).get(VOTE).status_code == 403


def test_links_and_passcodes_do_not_lead_in(site):
    from support.invited import make_link

    link, _ = make_link(site.database)
    assert site.client().post(link).status_code == 403
    answer = site.client().post("/arenas/arena/enter", data={"passcode": "x"})
    assert answer.headers["location"] == VOTE


def test_operators_and_tokens_need_no_sign_in(site):
    make_operator(site.database)
    assert signed(site).get("/arenas/arena", headers=HTML).status_code == 200
    reader = site.client(make_token(site.database, "read"))
    assert reader.get("/api/v1/arenas/arena").status_code == 200


def test_programs_are_told_what_is_missing(site):
    with Client(site.url) as client, pytest.raises(NotAdmitted, match="sign in") as refused:
        client.board("arena")
    assert (refused.value.entry, refused.value.arena) == ("sign-in", "arena")


def test_lists_show_the_arena_to_those_who_are_in(site):
    client = site.client()
    assert "/arenas/arena" not in client.get("/", headers=HTML).text.replace("/arenas/arena-", "")
    sign_in(client)
    assert "/arenas/arena" in client.get("/", headers=HTML).text


@pytest.mark.parametrize(
    "path", ["/sign-in/1", "/sign-in/00", "/sign-in/x", "/sign-in/1/callback", "/sign-in/1/account"]
)
def test_paths_of_other_shards_are_not_found(site, path):
    assert site.client().get(path, headers=HTML).status_code == 404


def test_without_a_provider_nobody_signs_in_and_pages_say_so(database, tmp_path):
    made_arena(database, settings=ArenaSettings(entry="sign-in"))
    with served(database, folder=tmp_path) as site:
        client = site.client()
        page = client.get(VOTE, headers=HTML)
        assert page.status_code == 403
        assert "through your organisation" in page.text
        for path in ("/sign-in/0", "/sign-in/0/callback", "/sign-in/0/account"):
            assert client.get(path).status_code == 404
        assert client.post("/sign-in/0/out").status_code == 404


def test_behind_https_cookies_are_secure_and_the_address_is_the_public_one(database, tmp_path, provider):
    made_arena(database, settings=ArenaSettings(entry="sign-in"))
    settings = ServingSettings(port=0, base_url="https://arena.example.org", shard=7)
    with served(database, folder=tmp_path, settings=settings, sign_in=settings_for(provider)) as site:
        answer = site.client().get("/sign-in/7", headers={"host": "evil.example"})
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert query["redirect_uri"] == ["https://arena.example.org/sign-in/7/callback"]
        assert answer.headers["set-cookie"].startswith("__Host-tiltyard_signing_in_7=")
        assert answer.headers["set-cookie"].endswith("; Secure")
