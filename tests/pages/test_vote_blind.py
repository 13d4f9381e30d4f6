"""Before the vote no byte of the pages tells which model is which: markup, headers, addresses, order, pieces."""

import re
from dataclasses import replace

import pytest

from support.ballots import PATIENT, matchup_of, needs_bundle, ready, settled, start, voted
from support.matchup_texts import stored_id
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from support.shown_kinds import fill_arena
from support.voted_arenas import rate
from tiltyard.postgres.connections import connect
from tiltyard.web.access.access import put_context
from tiltyard.web.assets import load_assets
from tiltyard.web.pages import matchup_view
from tiltyard.web.texts import render_text

MODELS = ("Zephyr/9-Ultra", "quokka:mini", "Ω-model <b>", "plain-name")
#: Far from any number that a page would have by itself.
FAR = {"sessions": ("session", 7_100_001), "responses": ("response", 8_200_001)}
VOTE = "/arenas/arena/vote"
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")
    answers = [
        {
            "prompt_id": f"secret-prompt-{p}",
            "prompt": f"What about {p}?",
            "model": model,
            "response": f"Text {p} {k}",
        }
        for p in range(4)
        for k, model in enumerate(MODELS)
    ]
    with fresh_database(server, template) as database:
        with connect(database) as connection:
            for table, (column, first) in FAR.items():
                connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {first}")
        fill_arena(database, store, "arena", answers, settings=PATIENT)
        make_operator(database)
        rate(database)
        with served(database, folder=store) as running:
            yield running


def secrets(site, matchup):
    """Everything that would tell, of one matchup."""
    with connect(site.database) as connection:
        row = connection.execute(
            "SELECT m.session, m.response_a, m.response_b, p.name, m.reason FROM matchups m "
            "JOIN prompts p USING (arena, prompt) WHERE m.matchup = %s",
            (stored_id(matchup),),
        ).fetchone()
        hashes = connection.execute(
            "SELECT encode(sha256, 'hex') FROM responses WHERE response IN (%s, %s)", row[1:3]
        ).fetchall()
    told = [*map(str, row), *(f"{number:x}" for number in row[:3]), *(one for (one,) in hashes)]
    names = [*MODELS, *(name.replace("<", "&lt;").replace(">", "&gt;") for name in MODELS)]
    return {one.lower() for one in (*told, *names, "Zephyr%2F9", "quokka%3Amini")}


def wire(answer):
    head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
    return (head + "\n\n" + answer.text).lower()


def served_to(client, html=True):
    answer = client.post(VOTE, headers=HTML if html else {})
    assert (answer.status_code, answer.headers["location"]) == (303, VOTE)
    page = client.get(VOTE, headers=HTML)
    return answer, page, re.search(r'data-matchup="([\w-]+)"', page.text).group(1)


def test_no_page_before_the_vote_tells_who_stands_in_it(site):
    for _ in range(6):
        client = site.client()
        answer, page, matchup = served_to(client)
        ahead = client.post(f"{VOTE}/ahead", data={"shown": matchup}, headers=HTML)
        following = re.search(r'data-matchup="([\w-]+)"', ahead.text).group(1)
        assert following != matchup
        answers = [
            answer,
            page,
            ahead,
            client.get(f"/matchups/{matchup}", headers=HTML),
            client.post(f"/matchups/{matchup}/reveal", data={"part": "names"}, headers=HTML),
            client.post(f"/matchups/{matchup}/undo", headers=HTML),
            client.post(f"/matchups/{matchup}/remark", data={"comment": "x"}, headers=HTML),
            client.post(f"/matchups/{matchup}/vote", data={"winner": "x"}, headers=HTML),
        ]
        answers += [client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"}, headers=HTML)]
        answers += [client.get(f"/matchups/{matchup}", headers=HTML)]
        for one in answers:
            text = wire(one)
            told = [word for word in secrets(site, matchup) | secrets(site, following) if word in text]
            assert not told, (one.request.url, told)
            assert one.headers["cache-control"] == "no-store"
            assert "etag" not in one.headers
        shown = client.post(f"/matchups/{matchup}/reveal", data={"part": "names"}, headers=HTML)
        assert shown.status_code == 200
        assert any(name.lower() in wire(shown) for name in MODELS), "the sweep would find a name"


def test_both_sides_have_the_same_form(site):
    """Without the letters and the texts the two columns are one and the same markup."""
    _, page, matchup = served_to(site.client())
    columns = re.findall(r'<section class="side side-[ab]".*?</section>', page.text, re.DOTALL)
    assert len(columns) == 2
    plain = [
        re.sub(
            r"Text \d \d|side-[ab]|name-[ab]|(?<=data-side=\")[ab]|[Rr]esponse [AB]|/[ab](?=\")", "…", one
        ).replace(matchup, "…")
        for one in columns
    ]
    assert plain[0] == plain[1]


def test_neither_side_is_quicker_because_it_was_rendered_before(site, monkeypatch):
    """Both texts come from memory, or both are rendered."""
    rendered = []

    def counted(text, **options):
        rendered.append(text)
        return render_text(text, **options)

    monkeypatch.setattr(matchup_view, "render_text", counted)
    put_context(site.app, replace(site.context, _shared={}))
    made = []
    for _ in range(25):
        before = len(rendered)
        client = site.client()
        served_to(client)
        made.append(sum(text.startswith("Text") for text in rendered[before:]))
    assert set(made) == {0, 2}


def test_everything_a_browser_asks_for_is_named_alike_for_every_matchup(site, visit):
    """No address that is asked for before the vote depends on what is shown."""
    seen = set()
    for _ in range(3):
        opened = visit(VOTE)
        page = opened.page
        start(page)
        if load_assets().script() is not None:
            settled(page)
        asked = {url.replace(matchup_of(page), "…").replace(site.url, "") for url in opened.requests}
        seen.add(tuple(sorted(url for url in asked if not url.startswith("/assets/favicon-"))))
        opened.check()
    assert len(seen) == 1


@needs_bundle
def test_the_page_in_the_browser_knows_no_name_until_it_is_shown(visit):
    page = ready(visit).page
    page.keyboard.press("1")
    voted(page, "A is better")
    found = page.evaluate(
        "() => document.documentElement.outerHTML + JSON.stringify(Object.entries(localStorage))"
        " + JSON.stringify(history.state)"
    )
    assert not [name for name in MODELS if name in found or name.replace("<", "&lt;") in found]


def test_an_undoable_vote_is_not_yet_in_what_the_voter_is_told_of_its_votes(site):
    """Which pairs one helped to settle would tell who stood in the vote."""
    client = site.client()
    for round_ in range(3):
        _, page, matchup = served_to(client)
        told = re.search(r"(\d+) votes? cast", page.text)
        assert (int(told.group(1)) if told else 0) == round_
        client.post(f"/matchups/{matchup}/vote", data={"winner": "model_a"}, headers=HTML)
        after = client.get(f"/matchups/{matchup}", headers=HTML)
        told = re.search(r"(\d+) votes? cast", after.text)
        assert (int(told.group(1)) if told else 0) == round_
        client.post(VOTE, data={"last": matchup}, headers=HTML)
