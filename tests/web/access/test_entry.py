"""Coming in to a private arena over HTTP: by a link, with a passcode, and out again."""

import base64
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.invited import come_in, expire, make_link, make_passcode, revoke, set_entry
from support.live_arenas import made_arena
from support.operating import HOSTILE, audited, signed
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.arena.operators.invitations import EntryGrant
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.client import Client
from tiltyard.errors import NotAdmitted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import (
    ENTRY_COOKIE_LIFETIME,
    Cookies,
    entry_cookie,
    make_entry_token,
    read_entry_token,
)
from tiltyard.web.access.rate_limits import SignInThrottle

HTML = {"accept": "text/html"}
VOTE = "/arenas/arena/vote"
COOKIE = entry_cookie(0, 1)


@pytest.fixture(scope="module")
def invited(server, template):
    """The name of a database with an arena for invited people and an operator, to be copied."""
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(entry="invitation"))
        make_operator(database)
        yield database.rpartition("/")[2]


@pytest.fixture
def site(server, invited, tmp_path):
    with fresh_database(server, invited) as database, served(database, folder=tmp_path) as running:
        running.context.access.actors.sign_in_throttle._seconds = 0.0
        running.context.access.entry_throttle._seconds = 0.0
        yield running


def change_entry(site, entry):
    set_entry(site.database, entry)
    site.registry.boards.forget("arena")
    site.run(site.registry.settings_changed())


def uses(site):
    with connect(site.database) as connection:
        return [row[0] for row in connection.execute("SELECT uses FROM invitations ORDER BY invitation")]


def test_a_colleague_opens_the_link_comes_in_and_votes(site):
    link, _ = make_link(site.database)
    client = site.client()
    assert client.get(VOTE, headers=HTML).status_code == 403
    shown = client.get(link, headers=HTML)
    assert shown.status_code == 200
    assert "works once" in shown.text
    assert "pilot team" not in shown.text
    assert shown.headers["cache-control"] == "no-store"
    assert "set-cookie" not in shown.headers
    choices = shown.text.count('name="theme"') + shown.text.count('name="language"')
    assert shown.text.count("<button") - choices == 1
    answer = come_in(client, link)
    assert answer.headers["location"] == VOTE
    assert client.get(VOTE, headers=HTML).status_code == 200
    assert client.post(VOTE).status_code == 303
    page = client.get(VOTE, headers=HTML).text
    matchup = re.search(r"/matchups/([\w-]+)/vote", page)[1]
    assert client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"}).status_code == 303
    assert client.get("/arenas/arena/mine", headers=HTML).status_code == 200


def test_a_button_that_is_pressed_twice_lets_in_though_the_first_answer_is_lost(site):
    link, _ = make_link(site.database)
    page = site.client().get(link, headers=HTML).text
    visit = re.search(r'name="visit" value="(\w{32})"', page)[1]
    assert visit not in site.client().get(link, headers=HTML).text
    client = site.client()
    assert site.client().post(link, data={"visit": visit}).status_code == 303
    assert client.post(link, data={"visit": visit}).status_code == 303
    assert client.get(VOTE).status_code == 200
    for other in ("", "x", visit[::-1], visit * 2):
        assert site.client().post(link, data={"visit": other}).status_code == 403
    assert uses(site) == [1]


def test_a_forwarded_link_is_worth_nothing_after_its_uses_but_its_own_browser_goes_on(site):
    link, _ = make_link(site.database)
    owner, friend = site.client(), site.client()
    come_in(owner, link)
    for answer in (friend.get(link, headers=HTML), friend.post(link, headers=HTML)):
        assert answer.status_code == 403
        assert "used up" in answer.text
    again = owner.get(link, headers=HTML)
    assert again.status_code == 200
    assert "You have joined" in again.text
    assert owner.post(link).headers["location"] == VOTE
    assert uses(site) == [1]


def test_a_browser_that_is_in_does_not_use_a_link_for_many_again(site):
    link, _ = make_link(site.database, uses=5)
    client = site.client()
    for _ in range(3):
        come_in(client, link)
    assert uses(site) == [1]


def test_expired_and_revoked_links_say_so(site):
    for make, why in ((expire, "has expired"), (revoke, "was revoked")):
        link, number = make_link(site.database)
        make(site.database, number)
        for answer in (site.client().get(link, headers=HTML), site.client().post(link, headers=HTML)):
            assert answer.status_code == 403
            assert why in answer.text
    assert uses(site) == [0, 0]


def test_those_who_came_in_stay_when_the_link_expires_and_are_out_when_it_is_revoked(site):
    link, number = make_link(site.database)
    client = site.client()
    come_in(client, link)
    matchup = client.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    expire(site.database, number)
    site.context.access.forget()
    assert client.get(f"/m/{matchup}/a").status_code == 200
    revoke(site.database, number)
    end = time.monotonic() + 30
    while client.get(VOTE).status_code == 200:
        assert time.monotonic() < end, "a revoked batch is still in"
        time.sleep(0.2)
    voted = client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    assert voted.status_code == 403
    assert voted.json()["type"] == "urn:tiltyard:problem:invitation-required"


def test_a_link_to_an_open_arena_uses_nothing(site):
    link, _ = make_link(site.database)
    change_entry(site, "open")
    answer = come_in(site.client(), link)
    assert answer.headers["location"] == VOTE
    assert "set-cookie" not in answer.headers
    assert uses(site) == [0]


def test_the_passcode_leads_back_to_the_page_that_was_asked_for(site):
    change_entry(site, "passcode")
    shown, _ = make_passcode(site.database)
    client = site.client()
    page = client.get("/arenas/arena?source=llm-judge", headers=HTML)
    assert page.status_code == 403
    assert "Passcode" in page.text
    assert 'value="/arenas/arena?source=llm-judge"' in page.text
    wrong = client.post(
        "/arenas/arena/enter", data={"passcode": "wrong", "next": "/arenas/arena"}, headers=HTML
    )
    assert wrong.status_code == 403
    assert "Wrong passcode" in wrong.text
    assert 'name="next" value="/arenas/arena"' in wrong.text
    assert "set-cookie" not in wrong.headers
    right = client.post(
        "/arenas/arena/enter", data={"passcode": shown, "next": "/arenas/arena?source=llm-judge"}
    )
    assert (right.status_code, right.headers["location"]) == (303, "/arenas/arena?source=llm-judge")
    assert client.get("/arenas/arena/enter").headers["location"] == VOTE
    assert client.get("/api/v1/arenas/arena").status_code == 200
    refused = site.client().get("/api/v1/arenas/arena").json()
    assert refused["type"] == "urn:tiltyard:problem:passcode-required"


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "javascript:x"]
)
def test_the_passcode_leads_nowhere_else(site, wanted):
    change_entry(site, "passcode")
    shown, _ = make_passcode(site.database)
    answer = site.client().post("/arenas/arena/enter", data={"passcode": shown, "next": wanted})
    assert answer.headers["location"] == VOTE


def test_guesses_of_one_address_are_made_one_after_the_other_and_few_wait(site):
    """The same limiter as for the operator's password: what it counts is tested there."""
    change_entry(site, "passcode")
    make_passcode(site.database)
    access = site.context.access
    access.entry_throttle = SignInThrottle("tries", 1_000, access.limits.shared, most=2, seconds=0.3)
    with ThreadPoolExecutor(8) as threads:
        guesses = list(
            threads.map(
                lambda n: site.client().post("/arenas/arena/enter", data={"passcode": f"guess {n}"}), range(8)
            )
        )
    assert {answer.status_code for answer in guesses} == {403, 429}
    assert sum(answer.status_code == 429 for answer in guesses) >= 4


def test_the_cookie_is_for_the_server_alone(site, tmp_path):
    link, _ = make_link(site.database, uses=2)
    cookie = come_in(site.client(), link).headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    settings = ServingSettings(port=0, base_url="https://arena.example.org", shard=7)
    with served(site.database, folder=tmp_path, settings=settings) as other:
        headers = {"host": "arena.example.org", "origin": "https://arena.example.org"}
        sent = other.client().post(link, headers=headers).headers["set-cookie"]
        assert sent.startswith(f"__Host-{entry_cookie(7, 1)}=")
        assert sent.endswith("; Secure")


def test_a_grant_has_one_spelling_and_ends(site):
    link, _ = make_link(site.database)
    client = site.client()
    come_in(client, link)
    value = client.cookies[COOKIE]
    token, _, signature = value.partition(".")
    wrong = [value[:-1], value + "A", token, f"{token}.", f".{signature}", "", "x" * 5000, value.swapcase()]
    for one in wrong:
        assert site.client(cookies={COOKIE: one}).get(VOTE).status_code == 403, one
    assert site.client(cookies={COOKIE: value}).get(VOTE).status_code == 200
    assert site.client(cookies={entry_cookie(1, 1): value}).get(VOTE).status_code == 403
    grant, life = EntryGrant(1, 1_000_000_000), ENTRY_COOKIE_LIFETIME.total_seconds()
    assert read_entry_token(make_entry_token(grant), grant.issued + life - 1) == grant
    assert read_entry_token(make_entry_token(grant), grant.issued + life) is None
    assert read_entry_token("x", 0) is None


@pytest.mark.parametrize("size", [15, 17, 18, 32])
def test_a_signature_of_another_length_is_another_spelling(size):
    """More of the same signature is valid for who compares as many bytes as there are."""
    keys = SecretKeys(["a secret that is long enough for keys"])
    cookies = Cookies(keys, secure=False)
    sealed = cookies.seal(COOKIE, "token")
    longer = base64.urlsafe_b64encode(keys.sign(f"cookie {COOKIE}", b"token")[:size]).decode().rstrip("=")
    assert cookies.unseal(COOKIE, sealed) == "token"
    assert cookies.unseal(COOKIE, f"token.{longer}") is None


def test_a_voters_cookie_is_no_entry(site):
    """Both are tokens of the same form; what is signed names the cookie."""
    link, _ = make_link(site.database)
    client = site.client()
    come_in(client, link)
    made_arena(site.database, name="open")
    client.post("/api/v1/arenas/open/matchups", json={})
    session = client.cookies["tiltyard_session"]
    assert site.client(cookies={COOKIE: session}).get(VOTE).status_code == 403
    other = SecretKeys(["another secret that is long enough too"])
    forged = Cookies(other, secure=False).seal(COOKIE, make_entry_token(EntryGrant(1, int(time.time()))))
    assert site.client(cookies={COOKIE: forged}).get(VOTE).status_code == 403


def test_programs_are_refused_by_type(site):
    with Client(site.url) as client, pytest.raises(NotAdmitted, match="private") as refused:
        client.board("arena")
    assert (refused.value.entry, refused.value.arena, refused.value.known) == ("invitation", "arena", True)


def test_a_vote_keeps_nothing_of_the_invitation(site):
    link, _ = make_link(site.database)
    client = site.client()
    come_in(client, link)
    matchup = client.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    with connect(site.database) as connection:
        kept = connection.execute(
            "SELECT to_jsonb(e)::text FROM events e WHERE session IS NOT NULL"
        ).fetchall()
        columns = connection.execute("SELECT * FROM invitations").description
    assert "invit" not in str(kept)
    assert "session" not in {column.name for column in columns}


def test_the_operator_invites_lists_and_revokes(site):
    operator, page = signed(site), "/operator/arenas/arena/invitations"
    made = operator.post(page, data={"batch": "pilot team", "uses": "2", "days": "3"})
    assert made.status_code == 200
    link = re.search(r"data-invitation>([^<]+)<", made.text)[1]
    base = site.registry.settings.address()
    assert link.startswith(f"{base}/join/0-")
    assert link not in operator.get(page).text
    client = site.client()
    come_in(client, link.removeprefix(base))
    listed = operator.get(page).text
    assert "pilot team" in listed
    assert "1 of 2" in listed
    confirm = operator.get(f"{page}/1/revoke")
    assert "1 person came in" in confirm.text
    answer = operator.post(f"{page}/1/revoke")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{page}?said=uninvited")
    assert client.get(VOTE).status_code == 403
    assert "revoked" in operator.get(page).text
    assert operator.get(f"{page}/1/revoke").status_code == 404
    assert operator.post(f"{page}/1/revoke").status_code == 404
    assert [action for _, action, _ in audited(site)] == ["invite", "revoke invitation"]


def test_people_are_invited_reminded_and_deleted_by_name(site):
    operator, page = signed(site), "/operator/arenas/arena/invitations"
    base = site.registry.settings.address()
    made = operator.post(page, data={"people": "Anna\n\n Ben \n"}).text
    links = re.findall(r"data-invitation>([^<]+)<", made)
    assert (len(links), made.count('class="qr-code"')) == (2, 2)
    client = site.client()
    come_in(client, links[0].removeprefix(base))
    matchup = client.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    rows = re.findall(
        r'(Anna|Ben)</bdi></th><td class="operator-tight">(\d) votes?<', operator.get(page).text
    )
    assert rows == [("Ben", "0"), ("Anna", "1")]
    reminded = [operator.post(f"{page}/{number}/remind").text for number in (1, 2)]
    assert re.search(r"data-invitation>([^<]+)<", reminded[0])[1] == f"{base}/arenas/arena/vote"
    again = re.search(r"data-invitation>([^<]+)<", reminded[1])[1]
    assert again not in links
    assert site.client().get(links[1].removeprefix(base)).status_code != 200
    assert "Anna" in client.get("/arenas/arena/mine/data").text
    assert "Anna" in operator.get("/operator/arenas/arena/voters").text
    erase = "/operator/arenas/arena/erase"
    assert operator.get(erase, params={"session": "Ben"}).status_code == 422
    session = re.search(
        r'name="session" value="(\d+)"', operator.get(erase, params={"session": "Anna"}).text
    )[1]
    assert operator.post(erase, data={"session": session, "reason": "asked"}).status_code == 200
    assert "Anna" not in operator.get(page).text + operator.get("/operator/arenas/arena/voters").text


def test_the_operator_sets_a_passcode(site):
    operator, page = signed(site), "/operator/arenas/arena/invitations"
    change_entry(site, "passcode")
    assert "none is set" in operator.get(page).text
    first = re.search(r"data-passcode>([^<]+)<", operator.post(f"{page}/passcode", data={}).text)[1]
    client = site.client()
    assert client.post("/arenas/arena/enter", data={"passcode": first}).status_code == 303
    assert operator.post(f"{page}/passcode", data={"passcode": "short"}).status_code == 422
    assert client.get(VOTE).status_code == 200
    operator.post(f"{page}/passcode", data={"passcode": "a longer one"})
    assert client.get(VOTE).status_code == 403
    assert client.post("/arenas/arena/enter", data={"passcode": "a longer one"}).status_code == 303
    assert client.get(VOTE).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        {"batch": ""},
        {"batch": "x", "uses": "0"},
        {"batch": "x", "uses": "many"},
        {"batch": "x", "days": "-1"},
        {"batch": "x", "days": "999999999"},
        {"batch": "x" * 300},
    ],
)
def test_invitations_that_are_none(site, given):
    operator, page = signed(site), "/operator/arenas/arena/invitations"
    answer = operator.post(page, data={"days": "3"} | given)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert uses(site) == []


def test_batches_are_shown_as_they_are(site):
    operator, page = signed(site), "/operator/arenas/arena/invitations"
    made = operator.post(page, data={"batch": HOSTILE, "days": "3"})
    assert made.status_code == 200
    for text in (made.text, operator.get(page).text, operator.get(f"{page}/1/revoke").text):
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text


def test_the_settings_page_closes_the_door(site):
    operator = signed(site)
    change_entry(site, "open")
    stranger = site.client()
    assert stranger.get(VOTE).status_code == 200
    assert "everybody can" in operator.get("/operator/arenas/arena/invitations").text
    answer = operator.post("/operator/arenas/arena/settings", data={"entry": "invitation"})
    assert answer.status_code == 303
    assert stranger.get(VOTE).status_code == 403
    assert operator.post("/operator/arenas/arena/settings", data={"entry": "friends"}).status_code == 422
    assert audited(site)[-1][2]["changed"] == {"entry": ["open", "invitation"]}
    assert operator.get("/operator").text.count("private") >= 1


def test_two_uses_of_one_invitation_in_one_second_are_told_apart(site):
    link, _ = make_link(site.database, uses=5)
    grants = []
    for visit in (None, None, "s" * 32, "s" * 32):
        client = site.client()
        client.post(link, data={} if visit is None else {"visit": visit})
        cookies = site.context.access.cookies
        grants.append(read_entry_token(cookies.unseal(COOKIE, client.cookies[COOKIE]), time.time()))
    assert len({grant.session for grant in grants}) == 3
    assert grants[2].session == grants[3].session
    assert all(grant.session > 0 for grant in grants)
