"""What someone with ten seconds learns: the first sentence and the first row say who is first, and whether that is settled.

docs/explanation/ten-seconds.md has the same sentences.
"""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, axe
from support.live_arenas import made_arena
from support.page_layout import check_layout
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_boards import PAGE, table_of
from support.ten_second_arenas import NAMES, ten_second_arenas
from tiltyard.settings.arena_settings import ArenaSettings

DOCS = Path(__file__).parents[2] / "docs/explanation/ten-seconds.md"
PLUM, NORTH, TERN, QUARTZ, SABLE = NAMES
SURE = "95\u202f% sure"
TIED = f"Their order is not settled yet. Each of the other 3 trails at least one of them ({SURE})."
#: By address: the headline, how sure it is, and the first row's rank with the word beneath it.
BOARDS = {
    "settled": (f"{PLUM} is first.", f"Settled ({SURE}).", "1 settled"),
    "noise": ("Too close to call.", "No order is settled yet.", "1–5 not placed yet"),
    "tied": (f"{PLUM} and {NORTH} tie for first.", TIED, "1–2 shared"),
    "newcomer": (
        f"{PLUM} is first of the 4 models that can be placed.",
        f"Settled ({SURE}). {SABLE} cannot be placed yet: it has 12 votes.",
        "1–2 shared",
    ),
    "tied?category=coding": (f"{NORTH} and {PLUM} tie for first.", TIED, "1–2 shared"),
}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database, pytest.MonkeyPatch.context() as patched:
        # What draws charts takes most of the time that these pages take.
        patched.setattr("tiltyard.web.pages.charts._charts_available", lambda: False)
        ten_second_arenas(database, "settled", "noise", "newcomer", votes=2000)
        ten_second_arenas(database, "tied")
        made_arena(database, name="empty")
        made_arena(database, name="secret", settings=ArenaSettings(entry="passcode"))
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def words(text):
    return " ".join(text.split())


@pytest.mark.slow(but_every=8)
@pytest.mark.parametrize("size", [DESKTOP, PHONE, (2560, 1300)], ids=["desktop", "phone", "wide"])
@pytest.mark.parametrize("address", BOARDS)
def test_the_first_sentence_and_the_first_row_answer(visit, address, size):
    headline, sure, rank = BOARDS[address]
    opened = visit(f"/arenas/{address}", js=False, size=size)
    page = opened.page
    lead = page.locator("main p").first
    expect(lead.locator("strong")).to_have_text(headline)
    expect(lead.locator(".board-claim-sure")).to_have_text(
        re.compile(re.escape(sure).replace("\u202f", r"\s"))
    )
    if "category" in address:
        assert lead.inner_text().startswith("Among coding prompts:")
    row = page.locator("#board tbody tr").first
    assert words(row.locator("td").first.inner_text()).startswith(rank)
    below = row.bounding_box()
    assert below["y"] + below["height"] <= size[1], "the first row is not seen without scrolling"
    check_layout(page, address)
    opened.check()


def test_the_documentation_has_the_same_sentences():
    text = words(DOCS.read_text())
    for headline, sure, rank in BOARDS.values():
        assert headline in text
        assert sure.replace("\u202f", " ") in text
        assert rank.replace(" ", ", ", 1) in text


def test_a_rank_of_one_alone_is_written_only_where_it_is_settled(site):
    for address, (headline, _, _) in BOARDS.items():
        _, rows = table_of(site.client().get(f"/arenas/{address}", headers=PAGE).text)
        assert any(row[0][0] == "1" for row in rows) == (headline == f"{PLUM} is first.")


def test_the_home_page_says_what_is_settled_and_invites_the_first_vote(visit):
    opened = visit("/", js=False)
    page = opened.page
    cards = {
        card.locator("h2").inner_text(): words(card.inner_text()) for card in page.locator(".card").all()
    }
    assert "secret" not in page.content()
    assert f"{PLUM} is first." in cards["Everyday questions"]
    assert "Too close" in cards["Coin flips"]
    assert not any(name in cards["Coin flips"] for name in NAMES)
    assert f"{PLUM} and {NORTH} tie for first." in cards["Letters to the council"]
    assert f"{PLUM} is first of the 4" in cards["Summaries"]
    assert "No votes yet" in cards["empty"]
    assert "the first" in cards["empty"]
    opened.check()


def test_where_every_arena_is_private_the_home_page_says_so_without_naming_one(server, template, tmp_path):
    with fresh_database(server, template) as database:
        with served(database, folder=tmp_path) as running:
            none = running.client().get("/", headers={"accept": "text/html"}).text
        made_arena(database, name="secret", settings=ArenaSettings(entry="passcode"))
        with served(database, folder=tmp_path) as running:
            hidden = running.client().get("/", headers={"accept": "text/html"}).text
    assert "No public arenas" in none
    assert hidden == none, "a stranger learns that there is a private arena"


def test_only_filters_with_a_choice_are_offered(visit):
    page = visit("/arenas/settled", js=False).page
    assert page.locator("form.filters select").count() == 0
    tabs = page.get_by_role("navigation", name="Categories").get_by_role("link")
    assert tabs.all_inner_texts() == ["All prompts", "coding", "law"]
    assert tabs.first.get_attribute("aria-current") == "true"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_board_has_no_grave_fault_at_double_size(visit, theme):
    """At 200 % a screen of 1,280 px has room for 640."""
    page = visit("/arenas/newcomer", size=(640, 400), theme=theme, bypass_csp=True).page
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
