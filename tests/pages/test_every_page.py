"""What must hold on every page there is: it can be read by everybody, asks nothing of others, and keeps its policy.

A page that no path here leads to fails the last test.
"""

import re
from collections import Counter
from html import unescape

import pytest

from support import visitors
from support.browsing import DESKTOP, PHONE, SIZES, Visit, axe, readable, sign_in
from support.live_arenas import made_arena
from support.page_layout import WIDE, check_layout, resize
from support.page_routes import ASKED, page_routes
from support.phones import ZOOMED_PHONE
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from support.sizes import sized
from support.voted_arenas import close_window, rate, voted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

#: Pages for everybody.
PUBLIC = (
    "/",
    "/arenas/arena",
    "/arenas/arena?source=llm-judge",
    "/arenas/arena?source=both",
    "/arenas/arena?excluded=counted",
    "/arenas/arena?chart=win-rates",
    "/arenas/arena?chart=battle-counts",
    "/arenas/arena?chart=history",
    "/arenas/arena/categories",
    "/arenas/arena/usage",
    "/arenas/arena/style",
    "/arenas/arena/embed",
    "/arenas/bare",
    "/arenas/arena/boards/{snapshot}",
    "/arenas/arena/models/model-0",
    "/arenas/arena/mine",
    "/arenas/arena/mine/data",
    "/arenas/arena/mine/delete",
    "/arenas/arena/mine/deleted",
    "/arenas/arena/vote",
    "/arenas/arena/vote/names",
    "/operator/sign-in",
    "/nowhere",
)


#: A phone at 200 %, on which pages for everybody are in Arabic; those of operators are in English only.
ALL_SIZES = [*SIZES, pytest.param(ZOOMED_PHONE, id="zoomed")]
#: Of the operator's pages, axe reads one of so many in every run.
AXE_EVERY = sized(8, 1)
#: Buttons of a row that lie on what stands before them.
COVERED = """() => [...document.querySelectorAll('.operator-acts')].filter(
  one => one.getBoundingClientRect().left < one.previousElementSibling.getBoundingClientRect().right - 1
    && one.previousElementSibling.offsetWidth
).map(one => one.innerText)"""


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        voted(database, votes=60)
        with connect(database) as connection:
            connection.execute(
                "UPDATE prompts SET category = CASE WHEN prompt < 3 THEN 'maths' ELSE 'law' END"
            )
            connection.execute(
                "UPDATE response_details SET cost_usd = 0.001 * response, latency_seconds = response, "
                "input_tokens = 10, output_tokens = 20 * response"
            )
        made_arena(database, models=1, name="bare")
        made_arena(database, name="shut", settings=ArenaSettings(visibility="closed"))
        close_window(database)
        rate(database)
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def snapshot_of(site):
    return site.client().get("/api/v1/arenas/arena/snapshots").json()["snapshots"][0]["snapshot"]


@pytest.fixture(scope="module")
def tours(browser, site):
    """A browser for each size and theme, in which the operator is signed in."""
    made = {}
    for size in (DESKTOP, PHONE, ZOOMED_PHONE):
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme=theme,
                bypass_csp=True,
                locale="ar" if size == ZOOMED_PHONE else "en",
            )
            context.set_default_timeout(60_000)
            made[size, theme] = Visit(context.new_page(), site.url)
    yield made
    for opened in made.values():
        opened.page.context.close()


@pytest.mark.slow(but_every=23)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ALL_SIZES)
@pytest.mark.parametrize("path", PUBLIC)
def test_everybody_can_read_it(tours, site, path, size, theme):
    page = tours[size, theme].page
    page.goto(site.url + path.format(snapshot=snapshot_of(site)))
    readable(page)


@pytest.mark.slow(but_every=13)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", [pytest.param(True, id="script"), pytest.param(False, id="plain")])
@pytest.mark.parametrize("path", PUBLIC)
def test_it_asks_nobody_else_and_keeps_its_policy(visit, site, path, js, size):
    opened = visit(path.format(snapshot=snapshot_of(site)), js=js, size=size)
    opened.page.wait_for_load_state("networkidle" if js else "load")
    opened.check()


@pytest.fixture(scope="module")
def operators(site):
    """Every kind of page that the operator's pages lead to, followed from the first; a few of each kind."""
    client = site.client()
    visitors.sign_in(client)
    client.follow_redirects = True
    found, left, seen = [], ["/operator"], Counter()
    routes = getting()
    while left:
        path = left.pop(0)
        route = next((one for one in routes if leads(one, path)), path)
        if path in found or seen[route] >= 2:
            continue
        seen[route] += 1
        found.append(path)
        answer = client.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 200, path
        if "text/html" not in answer.headers["content-type"]:
            continue
        hrefs = re.findall(r'<a\b[^>]*\shref="(/operator[^"#]*)', answer.text)
        left += map(unescape, hrefs)
    return found


@pytest.mark.slow(but="phone-dark")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ALL_SIZES)
def test_the_operator_can_read_everything(tours, site, operators, size, theme):
    assert len(operators) > 10
    opened = tours[size, theme]
    sign_in(opened)
    first = [next((one for one in operators if leads(route, one)), None) for route in getting()]
    for number, path in enumerate(filter(None, first)):
        opened.page.goto(site.url + path)
        assert number % AXE_EVERY or axe(opened.page) == [], path
        assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        assert size != PHONE or opened.page.evaluate(COVERED) == [], path


@pytest.mark.slow
def test_wide_screens_are_filled_and_cut_nothing_off(tours, site, operators):
    page = tours[DESKTOP, "light"].page
    first = [next((one for one in operators if leads(route, one)), None) for route in getting()]
    asked = [f"/operator/arenas/arena{path}" for path in ASKED]
    for path in (*PUBLIC, *filter(None, first), *asked):
        resize(page, WIDE[0])
        page.goto(site.url + path.format(snapshot=snapshot_of(site)))
        for size in WIDE:
            resize(page, size)
            check_layout(page, path)
    resize(page, DESKTOP)


def test_no_page_is_forgotten(operators):
    """Every route that shows a page is among those above."""
    shown = [path.replace("{snapshot}", "0" * 64) for path in (*PUBLIC, *operators)]
    forgotten = {path for path in getting() if not any(leads(path, one) for one in shown)}
    assert forgotten == ELSEWHERE


def getting():
    return [path for method, path in page_routes() if method == "GET"]


def leads(route, path):
    """Whether a path is of this route."""
    pattern = re.sub(r"{\w+}", r"[^/]+", re.sub(r"{\w+:path}", r".+", route))
    return re.fullmatch(pattern, path.partition("?")[0]) is not None


#: Routes that show no page, or one that only a form leads to and whose own tests look at it.
ELSEWHERE = {
    "/arenas/{arena}/enter",
    "/arenas/{arena}/badge.svg",
    "/arenas/{arena}/board.{format}",
    "/arenas/{arena}/boards/{sha256}/card.{form}",
    "/arenas/{arena}/charts/{name}.{form}",
    "/arenas/{arena}/mine/data.json",
    "/arenas/{arena}/model-charts/{chart}.{form}",
    "/arenas/{arena}/panel",
    "/arenas/{arena}/responses",
    "/arenas/{arena}/responses/file",
    "/assets/{name}",
    "/claim/{token}",
    "/favicon.ico",
    "/join/{code}",
    "/live/{matchup}/a",
    "/live/{matchup}/b",
    "/live/{matchup}/stream",
    "/matchups/{matchup}",
    "/matchups/{matchup}/counted",
    "/operator/arenas/{arena}/complaints/{complaint}",
    "/operator/arenas/{arena}/conversations.parquet",
    "/operator/arenas/{arena}/exclude",
    "/operator/arenas/{arena}/exclusions/{exclusion}/restore",
    "/operator/arenas/{arena}/invitations/{invitation}/revoke",
    "/operator/arenas/{arena}/live",
    "/operator/arenas/{arena}/live/model",
    "/operator/arenas/{arena}/models/retire",
    "/operator/arenas/{arena}/panels/{panel}",
    "/operator/arenas/{arena}/panels/{panel}/table.{form}",
    "/operator/arenas/{arena}/phase/confirm",
    "/operator/arenas/{arena}/policy/review",
    "/operator/arenas/{arena}/prompts.jsonl",
    "/operator/arenas/{arena}/settings/review",
    "/operator/arenas/{arena}/stage/confirm",
    "/operator/arenas/{arena}/uploads/{upload}",
    "/operator/sign-in/code",
    "/operator/tokens/{api_token}/revoke",
    "/sign-in/{shard}",
    "/sign-in/{shard}/account",
    "/sign-in/{shard}/callback",
}
