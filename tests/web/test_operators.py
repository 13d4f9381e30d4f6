"""The operator by HTTP: one link, one account, tokens that do what they say."""

import asyncio
from datetime import timedelta

from support.bare_arenas import make_arena
from support.served import PASSWORD, make_operator
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.operators.operators import invitation_terms, invite_operator
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.web.access.cookies import OPERATOR_COOKIE

HIM = {"name": "Ada", "password": PASSWORD}


def link_of(database):
    async def making():
        async with open_pool(database, most=1) as pool:
            return await Accounts(pool).make_operator_link()

    return asyncio.run(making())


def test_a_link_makes_the_operator_once(site):
    client, link = site.client(), link_of(site.database)
    assert client.get("/api/v1/me").status_code == 401
    claimed = client.post(f"/claim/{link}", data=HIM)
    assert claimed.status_code == 200
    assert client.get("/api/v1/me").json() == {
        "name": "operator:Ada",
        "scopes": ["admin", "import", "metrics", "read"],
        "arena": None,
    }
    stated = claimed.headers["set-cookie"]
    assert stated.startswith(f"{OPERATOR_COOKIE}=")
    assert "HttpOnly" in stated
    again = site.client().post(f"/claim/{link}", data={**HIM, "name": "Eve"})
    assert again.status_code == 401
    assert client.get("/api/v1/me").json()["name"] == "operator:Ada"


def test_the_link_leads_to_a_page_with_a_form(site):
    client, link = site.client(), link_of(site.database)
    page = client.get(f"/claim/{link}")
    assert page.status_code == 200
    assert "<form" in page.text
    assert link not in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    short = client.post(f"/claim/{link}", data={"name": "<b>", "password": "short"})
    assert short.status_code == 422
    assert "12 or more" in short.text
    assert client.post(f"/claim/{link}", data={"name": "Ada"}).status_code == 422
    for zero in ({"name": "A\0da"}, {"password": f"{PASSWORD}\0"}):
        refused = client.post(f"/claim/{link}", data=HIM | zero)
        assert refused.status_code == 422
        assert "null character" in refused.text
    done = client.post(f"/claim/{link}", data={"name": "<b>Ada", "password": PASSWORD})
    assert done.status_code == 200
    assert "<b>" not in done.text
    assert client.get("/api/v1/me").json()["name"] == "operator:<b>Ada"
    assert client.get(f"/claim/{link}").status_code == 401
    assert client.post(f"/claim/{link}", data=HIM).status_code == 401
    assert client.get("/claim/nothing").status_code == 401


def test_signing_in_and_out(site):
    make_operator(site.database)
    client = site.client()
    for wrong in ({**HIM, "password": "wrong"}, {**HIM, "name": "Eve"}):
        refused = client.post("/operator/sign-in", data=wrong)
        assert refused.status_code == 401
        assert "password is wrong" in refused.text
    assert client.post("/operator/sign-in", data=HIM).status_code == 303
    assert client.get("/api/v1/me").status_code == 200
    cookie = client.cookies[OPERATOR_COOKIE]
    assert client.post("/operator/sign-out").status_code == 303
    assert OPERATOR_COOKIE not in client.cookies
    stolen = site.client(cookies={OPERATOR_COOKIE: cookie})
    assert stolen.get("/api/v1/me").status_code == 401
    assert stolen.post("/operator/sign-out").status_code == 303


def test_a_sign_in_lapses(site):
    make_operator(site.database)
    client = site.client()
    client.post("/operator/sign-in", data=HIM)
    with connect(site.database) as connection:
        connection.execute("UPDATE operator_sessions SET expires_at = now()")
    site.context.access.forget()
    assert client.get("/api/v1/me").status_code == 401


def test_an_operators_token_is_no_bearer_token(site):
    make_operator(site.database)
    client = site.client()
    client.post("/operator/sign-in", data=HIM)
    assert client.get("/api/v1/me").status_code == 200
    value = client.cookies[OPERATOR_COOKIE]
    for token in (value, value.partition(".")[0]):
        assert site.client(token).get("/api/v1/me").status_code == 401
    assert site.client().get("/api/v1/me", headers={"authorization": "Basic QTpC"}).status_code == 401


def test_the_page_of_an_invitation_says_to_what(site):
    async def inviting(role, arena):
        async with open_pool(site.database, most=1) as pool:
            terms = invitation_terms("Grace", timedelta(days=1))
            return (await invite_operator(pool, terms, role, arena=arena, actor="cli"))[0]

    make_arena(site.database, "poems")
    page = site.client().get(f"/claim/{asyncio.run(inviting('moderator', 'poems'))}").text
    assert "operator account" not in page
    assert "You are invited" in page
    assert "role moderator" in " ".join(page.split())
    page = site.client().get(f"/claim/{asyncio.run(inviting('owner', None))}").text
    assert "the role owner" in page
    assert "your operator account" in page
    assert "You are invited" not in site.client().get(f"/claim/{link_of(site.database)}").text
