"""An operator's account by HTTP: the second factor at sign-in, sessions, and other operators' pages about it."""

import asyncio
import base64
import re
import time
from html import unescape

import pytest

from support.postgres_servers import fresh_database
from support.role_operators import sign_in_with_role
from support.served import PASSWORD, make_operator, served
from tiltyard.arena.operators.second_factor import STEP_SECONDS, code_at
from tiltyard.postgres.connections import connect
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.pages.operator.account import draw_qr_code

ADA = {"name": "Ada", "password": PASSWORD}


@pytest.fixture
def site(database):
    make_operator(database)
    with served(database) as running:
        running.context.access.actors.sign_in_throttle._seconds = 0
        yield running


def signed(site):
    client = site.client()
    assert client.post("/operator/sign-in", data=ADA).headers["location"] == "/operator"
    return client


def key_on(page):
    text = re.search(r"<code data-key>([A-Z2-7 ]+)</code>", page.text)[1].replace(" ", "")
    return base64.b32decode(text)


def set_up(client, site):
    """Set up the second factor; returns its key and the recovery codes."""
    page = client.post("/operator/account/second-factor")
    key = key_on(page)
    assert f"otpauth://totp/Tiltyard%20127.0.0.1%3AAda?secret={re.search('secret=([A-Z2-7]+)', page.text)[1]}" in unescape(page.text)  # fmt: skip
    link = unescape(re.search(r'href="(otpauth:[^"]+)"', page.text)[1])
    assert str(draw_qr_code(link)) in page.text
    done = client.post("/operator/account/second-factor/confirm", data={"code": now(key)})
    assert done.status_code == 200, done.text
    codes = re.search(r"<code data-recovery>([^<]+)</code>", done.text)[1].split()
    forget_step(site)
    return key, codes


def now(key):
    return code_at(key, int(time.time()) // STEP_SECONDS)


def forget_step(site):
    """As if the last code had been of a step long ago, so that no test waits for the next one."""
    with connect(site.database) as connection:
        connection.execute("UPDATE operators SET totp_step = 0")


def test_a_qr_code_is_a_picture_without_a_script_or_a_style():
    drawn = str(draw_qr_code("otpauth://totp/<script>&\"'"))
    assert re.fullmatch(r'<svg viewBox="0 0 \d+ \d+" class="qr-code">(<path [a-z]+="[^"<>]+" d="[Mmhvz\d. -]+"/>){2}</svg>', drawn.strip())  # fmt: skip
    assert draw_qr_code("a") != draw_qr_code("b")


def test_signing_in_with_a_second_factor_takes_two_pages(site):
    key, codes = set_up(signed(site), site)
    assert len(codes) == 10
    client = site.client()
    asked = client.post("/operator/sign-in", data={**ADA, "next": "/operator/tokens"})
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/operator/sign-in/code?next=%2Foperator%2Ftokens",
    )
    waiting = client.cookies[OPERATOR_COOKIE]
    for path in ("/operator", "/operator/tokens", "/api/v1/me"):
        assert client.get(path).status_code in (303, 401), "the password alone is no sign-in"
    assert 'autocomplete="one-time-code"' in client.get(asked.headers["location"]).text
    wrong = client.post("/operator/sign-in/code", data={"code": "000000", "next": "/operator/tokens"})
    assert wrong.status_code == 401
    assert "was used before" in wrong.text
    done = client.post("/operator/sign-in/code", data={"code": now(key), "next": "/operator/tokens"})
    assert (done.status_code, done.headers["location"]) == (303, "/operator/tokens")
    assert client.cookies[OPERATOR_COOKIE] != waiting
    assert client.get("/operator").status_code == 200
    stolen = site.client(cookies={OPERATOR_COOKIE: waiting})
    assert stolen.get("/api/v1/me").status_code == 401
    elsewhere = client.post("/operator/sign-in/code", data={"code": "1", "next": "https://evil.example"})
    assert "evil" not in elsewhere.text
    nobody = site.client().post("/operator/sign-in/code", data={"code": "1"})
    assert nobody.headers["location"].startswith("/operator/sign-in?")


def test_a_recovery_code_signs_in_once_and_a_code_turns_the_factor_off(site):
    key, codes = set_up(signed(site), site)
    client, again = site.client(), site.client()
    for one, status in ((client, 303), (again, 401)):
        one.post("/operator/sign-in", data=ADA)
        assert one.post("/operator/sign-in/code", data={"code": codes[0]}).status_code == status
    assert client.get("/api/v1/me").json()["name"] == "operator:Ada"
    off = client.post("/operator/account/second-factor/off", data={"code": "000000"})
    assert off.status_code == 422
    off = client.post("/operator/account/second-factor/off", data={"code": now(key)})
    assert off.headers["location"] == "/operator/account?said=factor-off"
    assert site.client().post("/operator/sign-in", data=ADA).headers["location"] == "/operator"


def test_a_link_for_a_password_does_not_pass_by_the_second_factor(site):
    set_up(signed(site), site)

    async def making():
        return await site.context.access.accounts.make_operator_link()

    client = site.client()
    done = client.post(f"/claim/{site.run(making())}", data={"name": "Ada", "password": "another password"})
    assert (done.status_code, done.headers["location"]) == (303, "/operator/sign-in/code")
    assert client.get("/api/v1/me").status_code == 401


def test_a_wrong_code_while_setting_up_shows_the_same_key_again(site):
    client = signed(site)
    key = key_on(client.post("/operator/account/second-factor"))
    again = client.post("/operator/account/second-factor/confirm", data={"code": "12345"})
    assert again.status_code == 422
    assert key_on(again) == key
    assert site.client().post("/operator/sign-in", data=ADA).headers["location"] == "/operator"


def test_one_sees_where_one_is_signed_in_and_signs_out_there(site):
    here, there, third = signed(site), site.client(), signed(site)
    there.headers["user-agent"] = "<b>Lynx</b>"
    there.post("/operator/sign-in", data=ADA)
    page = here.get("/operator/account")
    assert "127.0.0.1" in page.text
    assert "&lt;b&gt;Lynx" in page.text
    ends = re.findall(r'action="(/operator/account/sessions/\d+/end)"', page.text)
    assert len(ends) == 2
    with connect(site.database) as connection:
        (lynx,) = connection.execute(
            "SELECT session FROM operator_sessions WHERE browser LIKE '%Lynx%'"
        ).fetchone()
    done = here.post(f"/operator/account/sessions/{lynx}/end")
    assert done.headers["location"] == "/operator/account?said=signed-out"
    assert there.get("/api/v1/me").status_code == 401
    assert here.post(f"/operator/account/sessions/{lynx}/end").status_code == 404
    assert here.post("/operator/account/sessions/end-others").status_code == 303
    assert third.get("/api/v1/me").status_code == 401
    assert here.get("/operator/account").status_code == 200


def test_nobody_ends_the_session_of_another_but_an_owner(site):
    ada = signed(site)
    grace = sign_in_with_role(site, "Grace", "operator")
    with connect(site.database) as connection:
        (session,) = connection.execute(
            "SELECT session FROM operator_sessions JOIN operators USING (operator) WHERE name = 'Ada'"
            " ORDER BY session DESC LIMIT 1"
        ).fetchone()
        (number,) = connection.execute("SELECT operator FROM operators WHERE name = 'Grace'").fetchone()
    assert grace.post(f"/operator/account/sessions/{session}/end").status_code == 404
    assert ada.get("/operator/account").status_code == 200
    assert "A test" in ada.get(f"/operator/operators/{number}").text
    assert ada.post(f"/operator/operators/{number}/sign-out").status_code == 303
    assert grace.get("/api/v1/me").status_code == 401


def test_a_session_is_seen_at_most_once_a_minute(site):
    client = signed(site)

    def seen():
        with connect(site.database) as connection:
            return connection.execute(
                "SELECT last_seen_at FROM operator_sessions ORDER BY session DESC LIMIT 1"
            ).fetchone()

    before = seen()
    client.get("/operator")
    assert seen() == before
    with connect(site.database) as connection:
        connection.execute("UPDATE operator_sessions SET last_seen_at = now() - interval '61 seconds'")
    client.get("/operator")
    assert seen() > before


def test_a_role_that_needs_a_second_factor_sees_its_account_only_until_it_has_one(server, template):
    settings = ServingSettings(port=0, second_factor=("owner",))
    with fresh_database(server, template) as database:
        make_operator(database)
        with served(database, settings=settings) as site:
            site.context.access.actors.sign_in_throttle._seconds = 0
            client = signed(site)
            for path in ("/operator", "/operator/tokens", "/operator/operators"):
                led = client.get(path)
                assert led.headers["location"] == "/operator/account?said=factor-needed"
            api = client.get("/api/v1/arenas/arena/models")
            assert api.status_code == 403
            assert "second factor" in api.json()["detail"]
            assert "needs a second" in client.get("/operator/account?said=factor-needed").text
            set_up(client, site)
            assert client.get("/operator").status_code == 200
            moderator = sign_in_with_role(site, "Grace", "moderator")
            assert moderator.get("/operator").status_code == 200


def test_a_removed_operator_is_refused_at_its_next_request_and_so_are_its_tokens(site):
    ada, grace = signed(site), sign_in_with_role(site, "Grace", "owner")
    made = grace.post("/operator/tokens", data={"name": "ci", "scopes": ["admin"]})
    program = site.client(re.search(r"tyt_[\w-]+", made.text)[0])
    assert program.get("/api/v1/me").status_code == grace.get("/operator").status_code == 200
    number = re.search(r'href="/operator/operators/(\d+)">Grace', re.sub("</?bdi>", "", ada.get("/operator/operators").text))[1]  # fmt: skip
    assert ada.post(f"/operator/operators/{number}/remove").status_code == 303
    assert program.get("/api/v1/me").status_code == 401
    assert grace.get("/operator").headers["location"].startswith("/operator/sign-in")
    assert ada.get(f"/operator/operators/{number}").status_code == 404


def test_operators_have_their_own_tokens_and_owners_all(site):
    ada, grace, eve = signed(site), *(sign_in_with_role(site, name, "analyst") for name in ("Grace", "Eve"))
    assert grace.post("/operator/tokens", data={"name": "made-by-ci", "scopes": ["read"]}).status_code == 200
    with connect(site.database) as connection:
        (number,) = connection.execute("SELECT max(api_token) FROM api_tokens").fetchone()
    seen = ["made-by-ci" in client.get("/operator/tokens").text for client in (ada, grace, eve)]
    assert seen == [True, True, False]
    assert eve.post(f"/operator/tokens/{number}/revoke").status_code == 404
    assert ada.post(f"/operator/tokens/{number}/revoke").status_code == 303


def test_the_last_owner_is_told_why_it_stays(site):
    client = signed(site)
    with connect(site.database) as connection:
        (ada,) = connection.execute("SELECT operator FROM operators").fetchone()
    for path, data in (
        ("role", {"role": "analyst"}),
        ("role", {"role": ""}),
        ("remove", {}),
    ):
        refused = client.post(f"/operator/operators/{ada}/{path}", data=data)
        assert refused.status_code == 409
        assert "last owner" in refused.text
    assert client.post(f"/operator/operators/{ada}/role", data={"role": "king"}).status_code == 422


@pytest.mark.parametrize(
    "wrong", [{"role": "king"}, {"days": "0"}, {"days": "x"}, {"invitee": ""}, {"arena": "nowhere"}]
)
def test_an_invitation_that_makes_no_sense_is_shown_again(site, wrong):
    given = {"invitee": "<b>Grace", "role": "analyst", "arena": "", "days": "3"} | wrong
    answer = signed(site).post("/operator/operators", data=given)
    assert answer.status_code == (404 if "arena" in wrong else 422)
    assert "<b>Grace" not in answer.text


def test_pages_of_operators_show_hostile_names_as_text(site):
    async def making():
        accounts = site.context.access.accounts
        return await accounts.claim(await accounts.make_operator_link(), "<script>x</script>", PASSWORD)

    asyncio.run_coroutine_threadsafe(making(), site.loop).result(30)
    page = signed(site).get("/operator/operators")
    assert "<script>x" not in page.text
    assert "&lt;script&gt;x" in page.text
