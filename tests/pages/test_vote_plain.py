"""Voting by pages and forms alone: everything works without a script, and with one it looks the same."""

import re

import pytest
from playwright.sync_api import expect

from support.ballots import (
    PATIENT,
    SCRIPTS,
    VOTE,
    bar,
    endings,
    matchup_of,
    named,
    needs_bundle,
    stage,
    start,
    voted,
)
from support.browsing import PHONE, SIZES
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena, and one of two models that need two votes."""
    with fresh_database(server, template) as database:
        made_arena(database, settings=PATIENT)
        made_arena(database, 2, name="pair", policy=Policy(adjacent_votes=2))
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def count(site, what):
    with connect(site.database) as connection:
        return connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]


def remarks(site):
    with connect(site.database) as connection:
        return connection.execute("SELECT tags, comment FROM remarks ORDER BY made_at").fetchall()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", SCRIPTS)
def test_vote_say_why_see_the_names_and_go_on(site, visit, size, js):
    opened = visit(VOTE, js=js, size=size)
    page = opened.page
    start(page)
    first = matchup_of(page)
    for button in ("A is better", "B is better", "Tie", "Both bad", "Skip"):
        box = bar(page, button).bounding_box()
        assert box["height"] >= 44
        assert box["width"] >= 44
        assert box["y"] + box["height"] <= size[1], "the bar is out of view"
    bar(page, "B is better").click()
    voted(page, "B is better")
    expect(page.get_by_role("heading", level=1)).to_have_text("Your vote")
    expect(page.get_by_text("model-")).to_have_count(0)
    stage(page).get_by_text("creative").click()
    bar(page, "Show the names").click()
    names = named(page)
    assert len(set(names)) == 2
    assert all(name.startswith("model-") for name in names)
    expect(page.get_by_role("heading", level=1)).to_have_text("The names")
    if size == PHONE and js:
        tabs = stage(page).locator(".tabs label")
        assert [text.split() for text in tabs.all_inner_texts()] == [["A", names[0]], ["B", names[1]]]
        for name in names:
            expect(tabs.get_by_text(name)).to_be_in_viewport()
    expect(stage(page).get_by_text(re.compile("This pair needs about [0-9]+ more votes"))).to_be_visible()
    expect(page.get_by_role("link", name="1 vote cast")).to_be_visible()
    expect(bar(page, "Undo")).to_be_hidden()
    bar(page, "Next").click()
    expect(bar(page, "Tie")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Which response is better?")
    assert matchup_of(page) != first
    assert endings(site.database, first) == [(1, 1, False, True)]
    assert remarks(site)[-1][0] == ["creative"]
    opened.check()


@pytest.mark.slow
def test_the_line_about_the_vote_before_is_for_its_own_voter_and_a_final_vote(site):
    """Looking at an address reveals nothing, and changes nothing."""
    owner, guest = site.client(), site.client()
    first = owner.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    guest.post("/api/v1/arenas/arena/matchups")
    owner.post(f"/matchups/{first}/vote", data={"winner": "tie"})
    owner.post("/api/v1/arenas/arena/matchups")
    for client, after in (
        (owner, first),
        (guest, first),
        (owner, "0-" + "A" * 32),
        (owner, "<b>you won</b>"),
    ):
        told = client.get(VOTE, params={"after": after}).text
        assert "model-" not in told
        assert "you won" not in told
    assert endings(site.database, first) == [(1, 2, False, False)]
    answer = owner.post(VOTE, data={"last": first})
    assert answer.headers["location"] == f"{VOTE}?after={first}"
    assert "called it a" in owner.get(answer.headers["location"]).text
    assert "model-" not in guest.get(answer.headers["location"]).text
    assert "model-" not in owner.get(f"/arenas/pair/vote?after={first}").text
    assert owner.post(VOTE, data={"last": "0-" + "A" * 32}).headers["location"] == VOTE


def test_what_a_vote_has_brought_is_said_in_one_true_sentence(site):
    """What the policy still wants of the pair; with enough votes, what the board claims, which is nothing here."""
    first, second, told = site.client(), site.client(), []
    for client in (*[first] * 6, second):
        matchup = client.post("/api/v1/arenas/pair/matchups").json()["matchup"]
        client.post(f"/matchups/{matchup}/vote", data={"winner": "model_a"})
        shown = client.post(f"/matchups/{matchup}/reveal", data={"part": "names"}).text
        told.append(" ".join(re.sub(r"<[^>]*>", "", shown).split()))
    wanted = [re.search(r"This pair needs about (\d+) more votes?[.]", one) for one in told]
    assert [int(one[1]) for one in wanted[:5]] == [6, 5, 4, 3, 2]
    assert "are enough" not in " ".join(told)
    assert "not settled yet" in told[6]
    assert "3 votes cast" in told[2]
    assert "goal: 20" in told[2]


@needs_bundle
def test_a_phone_shows_one_response_at_a_time(visit):
    page = visit(VOTE, size=PHONE).page
    start(page, look=False)
    expect(stage(page).locator(".tabs")).to_be_visible()
    sides = [stage(page).locator(f".side-{letter}") for letter in "ab"]
    expect(sides[1]).to_be_hidden()
    expect(sides[0]).to_be_visible()
    stage(page).locator(".tabs").get_by_text("Response B").click()
    expect(sides[0]).to_be_hidden()
    expect(sides[1]).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(sides[0]).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE[0], "the page is wider than the phone"


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
def test_the_back_button_brings_no_second_vote(site, visit, js):
    page = visit(VOTE, js=js).page
    start(page)
    matchup = matchup_of(page)
    bar(page, "A is better").click()
    voted(page, "A is better")
    page.goto(page.url.partition("/matchups")[0] + "/")
    page.go_back()
    expect(page.locator("main")).to_be_visible()
    if matchup in page.content() and bar(page, "B is better").is_visible():
        bar(page, "B is better").click()
        voted(page, "A is better")
    page.go_back()
    expect(page.locator("main")).to_be_visible()
    assert endings(site.database, matchup)[0][:3] == (1, 0, False)


@pytest.mark.slow
def test_a_matchup_is_reported(site, visit):
    page = visit(VOTE, js=False).page
    start(page)
    matchup = matchup_of(page)
    page.get_by_text("Report this matchup").click()
    page.get_by_label("What is wrong?").select_option("harmful")
    page.get_by_label("Anything else").fill("look at it")
    page.get_by_role("button", name="Send the report").click()
    expect(page.get_by_text("Thank you.")).to_be_visible()
    assert matchup_of(page) == matchup
    with connect(site.database) as connection:
        assert connection.execute(
            "SELECT reason, note FROM complaints ORDER BY complaint DESC LIMIT 1"
        ).fetchone() == ("harmful", "look at it")


def test_somebody_elses_matchup_is_like_none(site):
    owner, guest = site.client(), site.client()
    html = {"accept": "text/html"}
    matchup = owner.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    guest.post("/api/v1/arenas/arena/matchups")
    for client in (guest, site.client()):
        for one in (matchup, "0-" + "A" * 32):
            told = [client.get(f"/matchups/{one}", headers=html)]
            told += [
                client.post(f"/matchups/{one}/{act}", data=data, headers=html)
                for act, data in (
                    ("vote", {"winner": "tie"}),
                    ("skip", {}),
                    ("undo", {}),
                    ("reveal", {"part": "names"}),
                    ("remark", {"comment": "x"}),
                    ("report", {"reason": "broken"}),
                )
            ]
            assert {answer.status_code for answer in told} == {404}
    assert endings(site.database, matchup) == []


@pytest.mark.parametrize(
    ("act", "data"),
    [
        ("vote", {}),
        ("vote", {"winner": "model_c"}),
        ("vote", {"winner": "A\x00"}),
        ("remark", {"tags": ["nice"]}),
        ("remark", {"comment": "x" * 1001}),
        ("remark", {"comment": "a\x00b"}),
        ("report", {"reason": "no reason"}),
        ("report", {"reason": "other", "note": "\x00"}),
    ],
)
def test_what_no_page_of_ours_sends_is_refused(site, act, data):
    client = site.client()
    matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    if act != "vote":
        client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"})
    answer = client.post(f"/matchups/{matchup}/{act}", data=data)
    assert answer.status_code == 422, answer.text


def test_a_page_says_nothing_that_its_address_puts_into_its_mouth(site):
    client = site.client()
    matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    plain = client.get(f"/matchups/{matchup}").text
    assert "notice" not in plain
    assert client.get(f"/matchups/{matchup}", params={"note": "<b>you won</b>"}).status_code == 200
    assert "you won" not in client.get(f"/matchups/{matchup}", params={"note": "<b>you won</b>"}).text


def test_an_arena_with_nothing_to_vote_on_says_so(database):
    made_arena(database, models=1)
    with served(database) as site:
        answer = site.client().post("/arenas/arena/vote", headers={"accept": "text/html"})
        assert answer.status_code == 409
        assert answer.headers["content-type"].startswith("text/html")
