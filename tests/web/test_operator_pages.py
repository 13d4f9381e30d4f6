"""The operator's pages by HTTP: nobody else sees anything, and nobody is led astray."""

import html
import re

import pytest
from operating import HOSTILE, audited, copied, signed, voted_database

from served import PASSWORD, make_token
from signed_in import clients
from tiltyard.web.cookies import OPERATOR_COOKIE
from tiltyard.web.pages import page_routers

PAGES = (
    "",
    "/tokens",
    "/audit",
    "/arenas/arena",
    "/arenas/arena/models",
    "/arenas/arena/models/retire?model=model-1",
    "/arenas/arena/answers",
    "/arenas/arena/prompts",
    "/arenas/arena/prompts/withdraw?prompt=prompt-1",
    "/arenas/arena/policy",
    "/arenas/arena/policy/review?contenders=5",
    "/arenas/arena/phase",
    "/arenas/arena/phase/confirm?phase=2",
    "/arenas/arena/settings",
    "/arenas/arena/settings/review?undo_seconds=5",
    "/arenas/arena/voters",
    "/arenas/arena/voters/1",
    "/arenas/arena/voters/1/exclude?reason=r",
    "/arenas/arena/exclusions",
    "/arenas/arena/complaints",
    "/arenas/arena/remarks",
    "/arenas/arena/audit",
    "/arenas/arena/exports",
)
FORMS = {
    "/arenas": {"name": "new"},
    "/tokens": {"name": "t", "scopes": "read"},
    "/tokens/1/revoke": {},
    "/arenas/arena/models/retire": {"model": "model-1"},
    "/arenas/arena/models/enable": {"model": "model-1"},
    "/arenas/arena/uploads": {},
    "/arenas/arena/uploads/00000000-0000-0000-0000-000000000000/let-in": {"expected": "1"},
    "/arenas/arena/uploads/00000000-0000-0000-0000-000000000000/discard": {},
    "/arenas/arena/prompts/withdraw": {"prompt": "prompt-1", "reason": "r"},
    "/arenas/arena/policy": {"contenders": "5"},
    "/arenas/arena/phase": {"phase": "2"},
    "/arenas/arena/settings": {"undo_seconds": "5"},
    "/arenas/arena/voters/1/exclude": {"reason": "r"},
    "/arenas/arena/exclusions/1/restore": {},
    "/arenas/arena/complaints/1/settle": {},
}


@pytest.fixture(scope="module")
def prepared(server, template):
    with voted_database(server, template) as name:
        yield name


@pytest.fixture
def running(server, prepared):
    """A server of the test's own."""
    with copied(server, prepared) as found:
        yield found


@pytest.fixture(scope="module")
def seen(server, prepared):
    """A server for tests that change nothing."""
    with copied(server, prepared) as found:
        yield found


# Who sees anything


def test_every_page_of_the_operator_is_in_these_tables():
    listed = {
        (method, route.path)
        for router in page_routers()
        for route in router.routes
        if route.path.startswith("/operator") and not route.path.startswith("/operator/sign-")
        for method in route.methods
    }
    shapes = {"GET": [f"/operator{one}" for one in PAGES], "POST": [f"/operator{one}" for one in FORMS]}
    shapes["GET"] += ["/operator/arenas/a/uploads/u", "/operator/arenas/a/exclusions/1/restore"]
    for method, path in listed:
        pattern = re.sub(r"{[^}]+}", "[^/]+", path)
        assert any(re.fullmatch(pattern, one.partition("?")[0]) for one in shapes[method]), (method, path)


def test_the_operator_sees_every_page(seen):
    client = signed(seen)
    for path in PAGES:
        answer = client.get(f"/operator{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["cache-control"] == "no-store"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"\sstyle=|<script(?! type=\"module\")|\son\w+=", answer.text), path


def test_nobody_else_sees_or_does_anything(seen):
    before = audited(seen)
    others = clients(seen)
    others["admin everywhere"] = seen.client(make_token(seen.database, "admin", name="all"))
    voter = seen.client()
    voter.post("/api/v1/arenas/arena/matchups")
    others["voter"] = voter
    garbage = seen.client()
    garbage.cookies.set(OPERATOR_COOKIE, "garbage")
    others["garbage"] = garbage
    for role, client in others.items():
        for path in PAGES:
            answer = client.get(f"/operator{path}")
            if "authorization" in client.headers:
                assert answer.status_code == 403, (role, path)
            else:
                assert answer.status_code == 303, (role, path)
                assert answer.headers["location"].startswith("/operator/sign-in?next=%2Foperator"), (
                    role,
                    path,
                )
            assert "model-1" not in answer.text
        for path, form in FORMS.items():
            answer = client.post(f"/operator{path}", data=form)
            known = "authorization" in client.headers
            assert answer.status_code == (403 if known else 303), (role, path)
            assert known or answer.headers["location"] == "/operator/sign-in"
    assert audited(seen) == before


def test_a_page_of_another_site_cannot_send_our_forms(seen):
    client = signed(seen)
    for headers in ({"origin": "https://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
        for path, form in FORMS.items():
            assert client.post(f"/operator{path}", data=form, headers=headers).status_code == 403


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
        assert "name or password is wrong" in answer.text
        assert "<script>alert" not in answer.text
        assert "set-cookie" not in answer.headers
    assert client.get("/operator").status_code == 303


def test_signing_out_ends_it(running):
    client = signed(running)
    cookie = client.cookies[OPERATOR_COOKIE]
    answer = client.post("/operator/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert client.get("/operator").status_code == 303
    client.cookies.set(OPERATOR_COOKIE, cookie)
    assert client.get("/operator").status_code == 303


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
    assert f'href="{html.escape(led)}">Go on' in again.text


def test_a_house_that_nobody_claimed_says_how(house):
    answer = house.client().get("/operator/sign-in")
    assert "tiltyard token operator" in answer.text
    assert "<input" not in answer.text.partition("<main")[2].partition("</main")[0]
