"""Voting by pages and forms alone: everything works without a script, and with one it looks the same."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from support.ballots import (
    PATIENT,
    SCRIPTS,
    VOTE,
    bar,
    endings,
    gone_on,
    matchup_of,
    named,
    needs_bundle,
    stage,
    start,
    voted,
)
from support.browsing import PHONE, SIZES
from support.live_arenas import made_arena
from support.matchup_texts import stored_id
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


def run_out(site, matchup):
    """As if this matchup had waited too long."""
    one = stored_id(matchup)

    async def aged():
        waiting = (await site.registry.voting_queue("arena")).state.open
        waiting[one] = replace(waiting[one], expires_at=waiting[one].served_at)

    site.run(aged())
    with connect(site.database) as connection:
        connection.execute("UPDATE matchups SET expires_at = now() WHERE matchup = %s", (one,))


def test_looking_makes_no_session_and_serves_nothing(site, visit):
    before = count(site, "sessions"), count(site, "matchups")
    opened = visit(VOTE, js=False)
    expect(opened.page.get_by_role("button", name="Start voting")).to_be_visible()
    assert opened.page.context.cookies() == []
    assert (count(site, "sessions"), count(site, "matchups")) == before
    opened.check()


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
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", SCRIPTS)
def test_the_next_matchup_comes_with_a_line_about_the_vote_before(visit, size, js):
    page = visit(VOTE, js=js, size=size).page
    start(page)
    line = page.locator("[data-slot=last]")
    expect(line).to_be_empty()
    for button, said in (
        ("A is better", r"You voted for A: model-\d against model-\d"),
        ("B is better", r"You voted for B: model-\d against model-\d"),
        ("Tie", r"You called it a tie: A model-\d and B model-\d"),
        ("Both bad", r"You called both bad: A model-\d and B model-\d"),
    ):
        matchup = matchup_of(page)
        bar(page, button).click()
        voted(page, button)
        bar(page, "Next").click()
        gone_on(page, matchup)
        expect(line).to_be_visible()
        expect(line).to_have_text(re.compile(rf"^{said}(\s+· this pair needs about \d+ more votes)?$"))
        names = [one.inner_text() for one in line.get_by_role("link").all()]
        shown = page.request.get(f"{page.url.partition('/arenas')[0]}/matchups/{matchup}").text()
        stood = re.findall(r'class="named-model"[^>]*><bdi[^>]*>(model-\d)', shown)
        assert names == (stood[::-1] if button == "B is better" else stood)


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


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
def test_what_is_wrong_is_asked_only_where_both_are_bad(visit, js):
    page = visit(VOTE, js=js).page
    start(page)
    for button, question, tag in (
        ("A is better", "What made it better?", "accurate"),
        ("Tie", "What is good about both?", "accurate"),
        ("Both bad", "What is wrong with both?", "off topic"),
    ):
        matchup = matchup_of(page)
        bar(page, button).click()
        voted(page, button)
        asked = stage(page).locator(".chips:visible")
        expect(asked).to_have_count(1)
        expect(asked.locator("legend span:visible, legend:not(:has(span))")).to_have_text(question)
        expect(asked.get_by_label(tag, exact=True)).to_be_enabled()
        bar(page, "Next").click()
        gone_on(page, matchup)


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
def test_a_vote_is_undone_and_cast_again(site, visit):
    page = visit(VOTE, js=False).page
    start(page)
    matchup, before = matchup_of(page), page.url
    texts = stage(page).locator(".response").all_inner_texts()
    bar(page, "Both bad").click()
    bar(page, "Undo").click()
    expect(page.get_by_text("Your vote is undone. Vote again.")).to_be_visible()
    assert endings(site.database, matchup) == [(1, 3, True, False)]
    assert matchup_of(page) == matchup
    assert stage(page).locator(".response").all_inner_texts() == texts
    page.goto(before)
    assert matchup_of(page) == matchup
    bar(page, "A is better").click()
    expect(page.get_by_text("You voted: A is better")).to_be_visible()
    assert endings(site.database, matchup) == [(1, 0, False, False)]
    bar(page, "Undo").click()
    bar(page, "Skip").click()
    assert matchup_of(page) != matchup
    assert endings(site.database, matchup) == [(2, None, False, False)]


def test_a_form_from_before_an_undo_counts_for_nothing(site, visit):
    opened = visit(VOTE, js=False)
    page = opened.page
    start(page)
    matchup = matchup_of(page)
    old = page.context.new_page()
    old.goto(page.url)
    bar(page, "A is better").click()
    bar(page, "Undo").click()
    expect(page.get_by_text("Your vote is undone")).to_be_visible()
    bar(old, "B is better").click()
    expect(old.get_by_text("Vote not counted")).to_be_visible()
    assert endings(site.database, matchup) == [(1, 0, True, False)]
    bar(old, "B is better").click()
    expect(old.get_by_text("You voted: B is better")).to_be_visible()
    assert endings(site.database, matchup) == [(1, 1, False, False)]


@pytest.mark.parametrize("ballot", ["x", "-1", "2147483648", "1.5"])
def test_a_ballot_that_no_page_sends_is_refused(site, ballot):
    client = site.client()
    matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    for act, form in (("vote", {"winner": "tie"}), ("undo", {})):
        refused = client.post(
            f"/matchups/{matchup}/{act}", data={**form, "ballot": ballot}, headers={"accept": "text/html"}
        )
        assert refused.status_code == 422
        assert "text/html" in refused.headers["content-type"]
    assert endings(site.database, matchup) == []


@pytest.mark.slow
def test_what_is_said_beside_the_vote_is_kept_and_goes_on_with_it(site, visit):
    page = visit(VOTE, js=False).page
    start(page)
    bar(page, "Tie").click()
    stage(page).get_by_text("concise").click()
    page.get_by_text("Add a comment").click()
    page.get_by_label("Comment", exact=True).fill("line one\n<script>tripwire()</script>")
    bar(page, "Save feedback").click()
    expect(page.get_by_text("Saved. Only the operator")).to_be_visible()
    assert remarks(site)[-1] == (["concise"], "line one\n<script>tripwire()</script>")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("line one\n<script>tripwire()</script>")
    page.get_by_label("Comment", exact=True).fill("better")
    matchup = matchup_of(page)
    bar(page, "Next").click()
    expect(bar(page, "Tie")).to_be_visible()
    assert remarks(site)[-1] == (["concise"], "better")
    assert endings(site.database, matchup) == [(1, 2, False, True)]


def test_another_vote_by_an_old_page_changes_nothing_and_is_told_which_stands(site, visit):
    page = visit(VOTE, js=False).page
    start(page)
    matchup = matchup_of(page)
    old = page.context.new_page()
    old.goto(page.url)
    bar(page, "A is better").click()
    bar(old, "B is better").click()
    expect(old.get_by_text("Your first vote counts")).to_be_visible()
    voted(old, "A is better")
    assert endings(site.database, matchup) == [(1, 0, False, False)]


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
def test_a_matchup_that_ran_out_says_so_and_leads_on(site, visit):
    page = visit(VOTE, js=False).page
    start(page)
    matchup = matchup_of(page)
    run_out(site, matchup)
    bar(page, "A is better").click()
    expect(page.get_by_role("heading", name="Expired")).to_be_visible()
    page.get_by_role("button", name="Next matchup").click()
    assert matchup_of(page) != matchup
    assert endings(site.database, matchup) == [(3, None, False, False)]


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
