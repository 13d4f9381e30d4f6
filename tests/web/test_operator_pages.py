"""The operator's pages by HTTP: nobody else sees anything, and nobody is led astray."""

import base64
import html
import re

import pytest

from support.invited import make_link
from support.operating import HOSTILE, audited, complain, lines, row, sent, signed, voted_database
from support.page_routes import ASKED, LINKED, page_routes
from support.panelled import make_panel
from support.served import PASSWORD, make_token
from support.shown_kinds import png
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import Busy
from tiltyard.foundation.field_definitions import definitions
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.pages.operator import sign_in

APP = b"<!doctype html><script>alert(1)</script>"
PNG = png(9, 9, 9, size=2)
PAGES = (
    "",
    "/tokens",
    "/tokens/1/revoke",
    "/audit",
    "/account",
    "/operators",
    "/operators/1",
    "/operators/1/remove",
    *(
        f"/arenas/arena{one}"
        for one in (*LINKED, *ASKED, "/voters/1", "/complaints/1", "/invitations/1/revoke", "/panels/1")
    ),
)


@pytest.fixture(scope="module")
def prepared(server, template):
    def said(database):
        make_token(database, "judge", name="a judge")
        complain(database, "identifies-model")
        make_link(database)
        make_panel(database)

    with voted_database(server, template, said) as name:
        yield name


# Who sees anything


def test_every_page_of_the_operator_is_in_this_table():
    shapes = [
        *(f"/operator{one}" for one in PAGES),
        "/operator/arenas/a/panels/1/table.csv",
        "/operator/arenas/a/conversations.parquet",
        "/operator/arenas/a/live/model",
        "/operator/arenas/a/prompts.jsonl",
        "/operator/arenas/a/uploads/u",
        "/operator/arenas/a/exclusions/1/restore",
    ]
    for method, path in page_routes():
        if method == "GET" and path.startswith("/operator") and not path.startswith("/operator/sign-"):
            pattern = re.sub(r"{[^}]+}", "[^/]+", path)
            assert any(re.fullmatch(pattern, one.partition("?")[0]) for one in shapes), path


def test_the_operator_sees_every_page(seen):
    client = signed(seen)
    for path in PAGES:
        answer = client.get(f"/operator{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["cache-control"] == "no-store"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"\sstyle=|<script(?! type=\"module\")|\son\w+=", answer.text), path


# Signing in and out


def test_a_wrong_password_is_told_on_the_same_page(seen):
    client = seen.client()
    for form in (
        {"name": "Ada", "password": "wrong"},
        {"name": HOSTILE, "password": "wrong"},
        {"name": "Ada\0", "password": PASSWORD},
        {"name": "x" * 5000, "password": PASSWORD},
        {},
    ):
        answer = client.post("/operator/sign-in", data=form)
        assert answer.status_code == 401
        assert "password is wrong" in answer.text
        assert "<script>alert" not in answer.text
        assert "set-cookie" not in answer.headers
        assert 'name="password"' in answer.text, "it can be tried again"
    failed = [entry for entry in audited(seen, arena=False) if entry[1] == "sign in failed"]
    assert failed == [
        ("nobody", "sign in failed", {"name": name, "address": "127.0.0.1"}) for name in ("Ada", HOSTILE, "")
    ]
    assert client.get("/operator").status_code == 303


def test_who_tries_too_often_is_told_on_the_same_page(seen, monkeypatch):
    async def busy(*_):
        raise Busy("too many attempts")

    monkeypatch.setattr(sign_in, "_sign_in", busy)
    answer = seen.client().post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    assert answer.status_code == 429
    assert "too many attempts" in answer.text
    assert 'name="password"' in answer.text


def test_the_sign_in_page_says_that_a_session_has_expired(running):
    lapsed = "Your session has expired"
    stranger = running.client()
    assert lapsed not in stranger.get("/operator/sign-in").text
    client = signed(running)
    shown = client.get("/operator/sign-in").text
    assert "signed in as" in shown
    assert lapsed not in shown
    cookie = client.cookies[OPERATOR_COOKIE]
    client.post("/operator/sign-out")
    client.cookies.set(OPERATOR_COOKIE, cookie)
    assert lapsed in client.get("/operator/sign-in").text


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/operator/arenas/arena/voters?page=1", "/operator/arenas/arena/voters?page=1"),
        ("https://elsewhere.example/", "/operator"),
        ("//elsewhere.example", "/operator"),
        ("/\\elsewhere.example", "/operator"),
        ("/%5celsewhere\\x", "/operator"),
        ("javascript:alert(1)", "/operator"),
        ("operator", "/operator"),
        ("/a\r\nSet-Cookie: x=1", "/operator"),
        ("\t//elsewhere.example", "/operator"),
        ("", "/operator"),
    ],
)
def test_next_stays_on_this_site(seen, asked, led):
    client = seen.client()
    form = client.get("/operator/sign-in", params={"next": asked})
    assert f'name="next" value="{html.escape(led)}"' in form.text
    done = client.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD, "next": asked})
    assert (done.status_code, done.headers["location"]) == (303, led)
    again = client.get("/operator/sign-in", params={"next": asked})
    assert f'href="{html.escape(led)}">Continue' in again.text


def test_without_an_operator_account_the_sign_in_page_says_how_to_create_it(site):
    answer = site.client().get("/operator/sign-in")
    assert "tiltyard arena token operator" in answer.text
    assert "<input" not in answer.text.partition("<main")[2].partition("</main")[0]


# What an operator decides about


def data_url(kind, data):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def matchup_of(running):
    with connect(running.database) as connection:
        return connection.execute(
            "SELECT a.name, b.name, p.prompt FROM matchups m JOIN models a ON a.model = m.a "
            "JOIN models b ON b.model = m.b JOIN prompts p ON p.prompt = m.prompt WHERE m.serial = 0"
        ).fetchone()


def test_a_complaint_shows_the_prompt_and_both_responses(seen):
    client = signed(seen)
    a, b, prompt = matchup_of(seen)
    listed = client.get("/operator/arenas/arena/complaints").text
    assert 'href="/operator/arenas/arena/complaints/1"' in listed
    page = client.get("/operator/arenas/arena/complaints/1").text
    assert f"What about {prompt}?" in page
    for model in (a, b):
        assert f"Answer {prompt} of somebody: {int(model[-1]) * 7919 % 1000}" in page
        assert f"/prompts/withdraw?prompt=prompt-{prompt}&amp;model={model}" in page
    assert client.get("/operator/arenas/arena/complaints/2").status_code == 404


def test_what_will_be_withdrawn_is_seen_first_and_gone_after(running):
    client = signed(running)
    where, form = "/operator/arenas/arena/prompts/withdraw", {"prompt": "prompt-1", "model": "model-1"}
    assert "Answer 1 of somebody: 919" in client.get(where, params=form).text
    whole = client.get(where, params={"prompt": "prompt-1"}).text
    assert ("What about 1?" in whole, "Answer 1 of" in whole) == (True, False)
    client.post(where, data={"prompt": "prompt-1", "reason": "r"})
    gone = client.get(where, params=form).text
    assert "Answer 1 of" not in gone
    assert "What about 1?" not in gone


def test_hostile_bytes_are_shown_and_never_run(running):
    client = signed(running)
    rows = (
        row(prompt=f"# {HOSTILE}", response=HOSTILE),
        row(prompt=f"# {HOSTILE}", model="app", kind="app", response=data_url("text/html", APP)),
        row(prompt=f"# {HOSTILE}", model="image", kind="image", response=data_url("image/png", PNG)),
    )
    upload = sent(client, lines(*rows)).headers["location"]
    assert client.post(f"{upload}/let-in", data={"expected": "3"}).status_code == 303
    pages = {
        model: client.get(
            "/operator/arenas/arena/prompts/withdraw", params={"prompt": "p", "model": model}
        ).text
        for model in ("m", "app", "image")
    }
    for page in pages.values():
        assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in pages["m"].partition("exhibit-1")[2]
    link = "/api/v1/arenas/arena/responses?model=app&prompt=p"
    assert f'href="{html.escape(link)}" download' in pages["app"]
    assert "<iframe" not in pages["app"]
    assert client.get(link).headers["content-disposition"] == "attachment"
    assert 'src="/api/v1/arenas/arena/responses?model=image' in pages["image"]


def test_a_preview_warns_of_responses_that_name_a_model(running):
    client = signed(running)
    named = [row(prompt_id=f"p{k}", response=f"I am <b>Model-1</b>, {k}") for k in range(22)]
    own = row(model="Ada <i>", response="Written by ada <i> herself")
    page = client.get(sent(client, lines(own, *named)).headers["location"]).text
    told = page.partition('id="names"')[2].partition("</table>")[0]
    assert "The first 20 of 23" in told
    rows = told.partition("<table")[2]
    assert rows.count("another model") == 19
    assert rows.count("its own model") == 1
    assert "Ada &lt;i&gt;" in told
    assert 'name="expected" value="23"' in page, "nothing is refused for it"
    plain = client.get(sent(client, lines(row(response="r"))).headers["location"]).text
    assert 'id="names"' not in plain


def test_a_judge_is_called_by_the_name_of_its_token(running):
    judge = running.client(make_token(running.database, "judge", name="Portia <b>"))
    matchup = judge.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    assert judge.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "model_a"}).status_code == 200
    with connect(running.database) as connection:
        (session,) = connection.execute("SELECT session FROM sessions WHERE source = 1").fetchone()
    client = signed(running)
    listed = client.get("/operator/arenas/arena/voters").text
    assert re.search(rf'voters/{session}"><bdi[^>]*>Portia &lt;b&gt;</bdi></a>', listed), listed
    page = client.get(f"/operator/arenas/arena/voters/{session}").text
    assert re.search(r"<h1>Judge <bdi[^>]*>Portia &lt;b&gt;", page)
    assert re.search(r'href="/operator/arenas/arena/prompts/view\?prompt=prompt-\d+">', page)
    assert 'href="/arenas/arena/models/model-' in page


def test_voters_are_listed_by_their_votes_with_what_they_did(seen):
    page = signed(seen).get("/operator/arenas/arena/voters").text
    with connect(seen.database) as connection:
        cast = connection.execute(
            "SELECT session, count(*) FROM battles WHERE source = 0 GROUP BY session ORDER BY 2 DESC, 1"
        ).fetchall()
    rows = re.findall(r"<tr><td class=\"operator-pick\">.*?</tr>", page, re.DOTALL)
    assert len(rows) == len(cast)
    listed = []
    for one in rows:
        session = int(re.search(r'name="session" value="(\d+)"', one)[1])
        assert f'aria-label="Select voter {session}"' in one
        assert f'href="/operator/arenas/arena/voters/{session}"' in one
        votes, *shares, _seconds, days = re.findall(r'<td class="n[^"]*">([^<]*)', one)
        assert abs(sum(int(share.removesuffix("%")) for share in shares) - 100) <= 2
        assert int(days) >= 1
        # On a phone the source stands below the session, where there is no column for it.
        assert one.count(">human<") == 2
        listed.append((session, int(votes)))
    assert sorted(listed) == sorted(cast)
    assert [votes for _, votes in listed] == sorted((votes for _, votes in listed), reverse=True)


def test_every_constant_and_setting_is_called_by_words_first(seen):
    known = [one for owner in (Policy, ArenaSettings) for one in definitions(owner).values()]
    assert len({one.label for one in known}) == len(known)
    client = signed(seen)
    pages = "".join(client.get(f"/operator/arenas/arena/{one}").text for one in ("policy", "settings"))
    for one in known:
        # Visibility is asked for with the entry; what cannot change is no field.
        there = one.name not in {"phase", "visibility"} and one.group != "live" and not one.fixed
        assert (f'{one.label} <code class="micro">{one.name}</code>' in pages) is there
    first = client.get("/operator/arenas/arena/settings").text.partition("<summary>Advanced")[0]
    chosen = re.findall(r'id="field-(\w+)"', first)
    assert chosen == ["title", *(one.name for one in known if one.basic)]
    assert len(chosen) == 7
    reviewed = client.get("/operator/arenas/arena/policy/review?contenders=5").text
    assert '<code class="micro">contenders</code>' in reviewed
