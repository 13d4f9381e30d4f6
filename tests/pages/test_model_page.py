"""The page of a model: its numbers are the log's, it needs no script, and no name can harm it."""

import asyncio
import json
from dataclasses import replace

import pytest

from support.browsing import SIZES, follow
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


def test_judges_have_a_page_of_their_own(visit):
    opened = visit(path_of(), js=False)
    follow(opened.page.get_by_role("link", name="Judges' votes"))
    assert "source=llm-judge" in opened.page.url
    assert "No votes yet." in opened.page.locator("main").inner_text()
    assert all(row[2] == "0" for row in table(opened.page, "opponents"))
    opened.check()
