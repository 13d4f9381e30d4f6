"""The page of a model: its numbers are the log's, it needs no script, and no name can harm it."""

import asyncio
import json
import re
from dataclasses import replace

import pytest

from support.browsing import PHONE, SIZES, follow
from support.live_arenas import answers_file
from support.postgres_servers import fresh_database
from support.served import served
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.operators.arena_changes import set_enabled
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.pages import paths

NAMES = [
    "plain",
    "<script>document.title='hit'</script>",
    "org/\"quoted' & co%2F<b>?#",
    "x" * 200,
    "אבג-دهو",
    "retired-one",
]
#: As `pages` writes numbers.
MINUS = "−"


async def fill(url, folder, models=NAMES, prompts=30, name="arena", **options):
    path = answers_file(folder / f"{name}.jsonl", len(models), prompts)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for k, row in enumerate(rows):
        row["model"] = models[int(row["model"].removeprefix("model-"))]
        row["category"] = ["<i>maths</i>", "law", None][k % prompts % 3]
    path.write_text(
        "".join(json.dumps({n: v for n, v in row.items() if v is not None}) + "\n" for row in rows)
    )
    async with open_pool(url, most=2) as pool:
        settings = replace(options.pop("settings", None) or ArenaSettings(), reveal="vote")
        made = await create_arena(pool, name, settings=settings, **options)
        await import_answers(pool, BlobStore(pool, FolderStorage(folder)), name, path)
    return made.arena


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """One arena with votes and a retired model, one in phase 1, two in another order, one closed."""
    folder = tmp_path_factory.mktemp("answers")
    with fresh_database(server, template) as url:
        for name, votes, options in (
            ("arena", 1300, {}),
            ("shadow", 60, {"policy": Policy(phase=1)}),
            ("lanes", 60, {"policy": Policy(phase=2)}),
            ("batch", 60, {"settings": ArenaSettings(order="bradley-terry")}),
            ("closed", 60, {"settings": ArenaSettings(visibility="closed")}),
        ):
            number = asyncio.run(fill(url, folder, name=name, **options))
            lay_votes(url, number, votes, len(NAMES), 30, sessions=20)
        asyncio.run(retire(url))
        close_window(url, 1)
        rate(url)
        with served(url, folder=folder) as running:
            yield running


async def retire(url):
    async with open_pool(url, most=1) as pool:
        await set_enabled(pool, "arena", "retired-one", enabled=False, actor="cli")


def path_of(name="plain", arena="arena", query=""):
    return paths.model(arena, name) + query


def table(page, place):
    """The cells of the table in a section, as text, row by row."""
    return page.evaluate(
        "id => [...document.getElementById(id).closest('section').querySelectorAll('tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))",
        place,
    )


def results(site, model):
    """Opponent, prompt and letter of each of a model's votes: the log, read plainly."""
    letters = {Kind.WIN_A: "WL", Kind.WIN_B: "LW", Kind.TIE: "TT", Kind.BOTH_BAD: "BB"}
    with connect(site.database) as connection:
        rows = connection.execute(
            "SELECT a, b, prompt, outcome FROM battles WHERE arena = 1 AND source = 0 ORDER BY position"
        ).fetchall()
    return [
        (b if a == model else a, prompt, letters[Kind(kind)][a != model])
        for a, b, prompt, kind in rows
        if model in (a, b)
    ]


def tallied(letters):
    wins, losses, ties = (letters.count(letter) for letter in "WLT")
    score = (wins + ties / 2) / (wins + losses + ties)
    return f"{wins} won –{losses} lost –{ties} ties", str(letters.count("B")), f"{score:.2f}"


@pytest.mark.parametrize("size", SIZES)
def test_the_numbers_are_those_of_the_log(visit, site, size):
    opened = visit(path_of(query="?rows=all"), js=False, size=size)
    found = results(site, 0)
    by_name = {row[0]: row for row in table(opened.page, "prompts")}
    assert len(by_name) == len({prompt for _, prompt, _ in found})
    for name, row in by_name.items():
        letters = [letter for _, prompt, letter in found if f"What about {prompt}?" == name]
        assert [row[2], *row[3:]] == [str(len(letters)), *tallied(letters)]
    rows = table(opened.page, "opponents")
    assert len(rows) == len(NAMES) - 1
    rating = {
        row["model"]: row["rating"] for row in site.client().get("/api/v1/arenas/arena/board").json()["rows"]
    }
    for other in range(1, len(NAMES)):
        letters = [letter for one, _, letter in found if one == other]
        votes, (record, bad, score) = str(len(letters)), tallied(letters)
        expected = 1 / (1 + 10 ** ((rating[NAMES[other]] - rating["plain"]) / 400))
        matching = [row for row in rows if row[2:6] == [votes, record, bad, score]]
        assert f"{expected:.2f}" in {row[6] for row in matching}
    form = opened.page.locator(".form-mark").all_inner_texts()
    assert form == [letter for _, _, letter in found][-20:]
    opened.check()


def test_the_summary_is_the_boards_row(visit, site):
    page = visit(path_of(), js=False).page
    board = site.client().get("/api/v1/arenas/arena/board").json()
    row = next(row for row in board["rows"] if row["model"] == "plain")
    cross = next(row for row in board["cross_check"]["rows"] if row["model"] == "plain")
    text = page.locator(".figures-row").first.inner_text()
    for shown in (
        f"{row['rank_low']}–{row['rank_high']}"
        if row["rank_low"] < row["rank_high"]
        else str(row["rank_low"]),
        f"{row['bradley_terry']:,.0f}",
        f"interval {cross['low']:,.0f}–{cross['high']:,.0f}",
        f"{100 * row['record']['win_rate']:.0f}\u202f%",
        f"{row['delta']:+.0f}".replace("-", MINUS),
        str(row["votes"]),
        f"{row['record']['both_bad']} both bad",
    ):
        assert shown in text
    for rule in row["waiting"]:
        assert rule["text"] in page.locator(".waiting").inner_text()
    evaluations = [row[0] for row in table_hidden(page, "confidence")]
    assert evaluations == ["1,250", "1,000", "750", "500", "250"]


def table_hidden(page, place):
    page.evaluate(
        "id => document.getElementById(id).closest('section').querySelector('details').open = true", place
    )
    return table(page, place)


def test_coverage_and_quality_have_tables_beside_their_charts(visit, site):
    page = visit(path_of(), js=False).page
    heat = table_hidden(page, "coverage")
    found = results(site, 0)
    heads = page.evaluate("[...document.querySelectorAll('.heat thead th')].map(th => th.innerText.trim())")
    assert heads[:2] == ["Prompt", "Missing"]
    assert len(heads) == 2 + len(NAMES) - 2, "a retired model is no opponent to be sought"
    votes = sum(int(re.search(r"\((\d+)\)", cell)[1]) for row in heat for cell in row[2:])
    assert votes == sum(other != 5 for other, _, _ in found)
    runs = table_hidden(page, "quality")
    last = [letter for _, _, letter in found][-200:]
    first = len(last) % 20
    shares = [last[k : k + 20].count("B") / 20 for k in range(first, len(last), 20)]
    assert [row[1] for row in runs] == [f"{100 * share:.0f} %" for share in shares]
    for name in ("confidence", "expected", "both-bad"):
        source = page.locator(f'img[src*="/model-charts/{name}.svg"]').get_attribute("src")
        assert site.client().get(source).text.startswith("<svg")


@pytest.mark.slow
def test_prompts_are_sorted_by_links_that_live_in_the_address(visit):
    opened = visit(path_of(), js=False)
    page = opened.page
    votes = [int(row[2]) for row in table(page, "prompts")]
    assert votes == sorted(votes, reverse=True)
    follow(page.get_by_role("link", name="Score", exact=True))
    assert "sort=score" in page.url
    scores = [row[5] for row in table(page, "prompts")]
    assert scores == sorted(scores, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Score")
    follow(page.get_by_role("link", name="Score", exact=True))
    scores = [row[5] for row in table(page, "prompts")]
    assert scores == sorted(scores)
    follow(page.get_by_role("link", name="Category", exact=True))
    categories = [row[1] for row in table(page, "prompts")]
    assert categories == sorted(categories)
    assert categories[0] == "<i>maths</i>"
    opened.check()


@pytest.mark.slow
def test_only_the_first_rows_come_until_all_are_asked_for(visit):
    page = visit(path_of(), js=False).page
    assert (len(table(page, "prompts")), len(table(page, "responses"))) == (25, 10)
    follow(page.locator("#prompts").locator("..").get_by_role("link", name="Show all 30"))
    assert (len(table(page, "prompts")), len(table(page, "responses"))) == (30, 30)
    assert page.get_by_role("link", name=re.compile("Show all")).count() == 0


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("name", NAMES)
def test_any_name_has_its_page(visit, name):
    opened = visit(path_of(name), size=PHONE)
    page = opened.page
    shown = page.get_by_role("heading", level=1).inner_text()
    assert shown == name if len(name) < 100 else "…" in shown
    assert page.title() != "hit"
    assert page.locator("b, i, script:not([src])").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    opened.check()


@pytest.mark.parametrize("size", SIZES)
def test_hostile_names_are_drawn_as_text(visit, site, size):
    opened = visit(path_of(NAMES[1]), size=size)
    for image in opened.page.locator(".chart img:visible").all():
        image.scroll_into_view_if_needed()
        image.evaluate("one => one.decode()")
        drawn = site.client().get(image.evaluate("one => one.currentSrc")).text
        assert drawn.startswith("<svg")
        assert "<script" not in drawn
        assert "<b>" not in drawn
    assert opened.page.title() != "hit"
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    opened.check()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_follow_the_theme(visit, site, theme):
    page = visit(path_of(), js=False, theme=theme).page
    page.locator(".chart img").first.scroll_into_view_if_needed()
    current = page.locator(".chart img").first.evaluate("one => one.currentSrc")
    assert f"theme={theme}" in current
    light, dark = (
        site.client().get(current.replace(f"theme={theme}", f"theme={which}")).content
        for which in ("light", "dark")
    )
    assert light != dark


@pytest.mark.slow
def test_a_chart_that_answers_the_mouse_takes_its_look_from_the_page(visit, site):
    page = visit(path_of()).page
    addresses = page.evaluate(
        "[...document.querySelectorAll('[data-island=chart]')].map(one => one.dataset.spec)"
    )
    assert len(addresses) >= 3
    for address in addresses:
        answer = site.client().get(address)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
        assert "config" not in answer.json()


def test_a_model_that_is_not_there_is_a_page_that_says_so(visit, site):
    opened = visit(path_of("nobody"), js=False)
    assert "no model" in opened.page.locator("main").inner_text()
    browser = {"accept": "text/html"}
    client = site.client()
    assert client.get(path_of("nobody"), headers=browser).status_code == 404
    assert client.get("/arenas/arena/models/a%00b", headers=browser).status_code == 404
    assert client.get(path_of(arena="nowhere"), headers=browser).status_code == 404
    assert client.get("/arenas/arena/model-charts/confidence.svg?model=nobody").status_code == 404
    assert client.get("/arenas/arena/model-charts/nothing.svg?model=plain").status_code == 404
    assert client.get("/arenas/arena/model-charts/nothing.json?model=plain").status_code == 404
    assert client.get(path_of(query="?sort=nothing"), headers=browser).status_code == 422


def test_a_page_that_one_has_is_not_sent_again(site):
    client = site.client()
    first = client.get(path_of())
    assert first.headers["cache-control"].startswith("public")
    assert client.get(path_of(), headers={"if-none-match": first.headers["etag"]}).status_code == 304
    assert client.get(path_of()).headers["etag"] == first.headers["etag"]
    other = client.get(path_of(query="?sort=score"))
    assert other.headers["etag"] != first.headers["etag"]
    dark = client.get(path_of(), headers={"cookie": "tiltyard_theme=dark"})
    assert 'data-theme="dark"' in dark.text
    assert dark.headers["etag"] != first.headers["etag"]
    chart = "/arenas/arena/model-charts/confidence.svg?model=plain"
    tag = client.get(chart).headers["etag"]
    assert client.get(chart, headers={"if-none-match": tag}).status_code == 304


def test_a_retired_model_has_a_page_and_no_place(visit):
    page = visit(path_of("retired-one"), js=False).page
    text = page.locator("main").inner_text()
    assert "Retired" in text
    assert "no longer served" in text
    assert "no neighbours" in text
    assert len(table(page, "opponents")) == len(NAMES) - 1


def test_judges_have_a_page_of_their_own(visit):
    opened = visit(path_of(), js=False)
    follow(opened.page.get_by_role("link", name="Judges' votes"))
    assert "source=llm-judge" in opened.page.url
    assert "No votes yet." in opened.page.locator("main").inner_text()
    assert all(row[2] == "0" for row in table(opened.page, "opponents"))
    opened.check()


def test_phase_one_shows_what_a_board_showed_before_the_policy(visit):
    page = visit(path_of(arena="shadow"), js=False).page
    text = page.locator("main").inner_text()
    assert "Elo" in text
    for hidden in ("RD", "Conservative", "Expected score", "Coverage", "Neighbour"):
        assert hidden not in text
    assert page.locator(".chart").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arena", "said"),
    [
        ("arena", "The board is ordered by it."),
        ("batch", "The board is ordered by batch Bradley–Terry."),
        ("lanes", "The board is still ordered by Elo."),
    ],
)
def test_the_conservative_score_says_whether_it_orders_the_board(site, arena, said):
    assert f" {said}</p>" in site.client().get(path_of(arena=arena)).text


def test_nothing_tells_what_responses_say(site):
    with connect(site.database) as connection:
        hashes = [
            bytes(sha).hex() for (sha,) in connection.execute("SELECT sha256 FROM responses WHERE arena = 1")
        ]
    for name in NAMES:
        body = site.client().get(path_of(name, query="?rows=all")).text
        assert not any(sha in body or sha[:12] in body for sha in hashes)
        assert "Answer " not in body


@pytest.mark.slow
def test_everything_is_reached_by_keyboard(visit):
    page = visit(path_of(), js=False).page
    seen = set()
    for _ in range(75):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.innerText?.trim().split('\\n')[0] ?? ''"))
    assert {"Board", "Judges' votes", "Coverage", "The same as a table", "Score", "Show all 30"} <= seen
    page.locator("summary:visible").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open] table").first.is_visible()
