"""What other sites are shown of a board: the tags and the picture of a link preview, and a board in a frame."""

import re
from html import escape, unescape

import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.shown_boards import NAMES, PAGE, board, served_board
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.settings.arena_settings import ArenaSettings

#: The largest card of long names in three scripts has 230 kB.
CARD_BYTES = 300_000
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def place(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def tags(html):
    return {
        name: unescape(content)
        for name, content in re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', html)
    }


@pytest.mark.parametrize("query", [{}, {"category": "maths"}])
def test_a_link_has_a_preview_with_a_picture_of_the_same_board(place, query):
    reader = place.client()
    html = board(reader, **query).text
    said, lead = tags(html), re.search(r'<p class="board-claim.*?<strong>(.*?)</strong>', html, re.DOTALL)
    headline = unescape(re.sub(r"<[^>]*>", "", lead[1]))
    assert headline in said["og:description"]
    assert said["og:description"].startswith("Among maths prompts:") == bool(query)
    assert said["og:title"] == "arena"
    assert said["twitter:card"] == "summary_large_image"
    address, picture = (re.sub(r"^https?://[^/]*", "", said[name]) for name in ("og:url", "og:image"))
    assert reader.get(address, headers=PAGE).status_code == 200
    drawn = reader.get(picture)
    assert drawn.status_code == 200
    assert drawn.headers["content-type"] == "image/png"
    assert drawn.headers["cross-origin-resource-policy"] == "cross-origin"
    assert drawn.content.startswith(PNG)
    assert (drawn.content[16:20], drawn.content[20:24]) == ((1200).to_bytes(4), (630).to_bytes(4))
    again = reader.get(picture, headers={"if-none-match": drawn.headers["etag"]})
    assert again.status_code == 304
    assert reader.head(picture).status_code == 200
    assert len(drawn.content) < CARD_BYTES
    vector = reader.get(picture.replace("card.png", "card.svg"))
    assert vector.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in vector.headers["content-security-policy"]
    assert all(
        part in html for part in (f'href="{escape(one)}"' for one in (picture, vector.url.raw_path.decode()))
    )


def test_an_unknown_board_has_no_picture(place):
    assert place.client().get(f"/arenas/arena/boards/{'0' * 64}/card.png").status_code == 404


@pytest.mark.slow(but="settings1")
@pytest.mark.parametrize("settings", [{"visibility": "closed"}, {"entry": "passcode"}])
def test_a_private_arena_has_neither_preview_nor_picture_nor_frame(server, template, tmp_path, settings):
    with fresh_database(server, template) as database:
        arena = made_arena(
            database, 3, 6, settings=ArenaSettings(embed_sites="https://example.org", **settings)
        )
        lay_votes(database, arena.arena, 200, 3, 6, sessions=20)
        close_window(database, arena.arena)
        rate(database)
        with served(database, folder=tmp_path) as running:
            reader = running.client(make_token(database, "read"))
            html = board(reader).text
            sha256 = re.search(r"/boards/([0-9a-f]{64})", html)[1]
            assert "og:" not in html
            assert "twitter:" not in html
            for path in (f"/arenas/arena/boards/{sha256}/card.png", "/arenas/arena/embed"):
                assert reader.get(path).status_code == 404
                assert running.client().get(path).status_code in {403, 404}


def test_a_board_can_be_embedded_by_the_sites_that_are_named_and_no_others(place):
    reader, admin = place.client(), place.client(make_token(place.database, "admin"))
    policy = reader.get("/arenas/arena/embed").headers["content-security-policy"]
    assert policy.endswith("frame-ancestors 'none'")
    sites = "https://example.org https://news.example.org:8443"
    changed = admin.patch("/api/v1/arenas/arena", json={"settings": {"embed_sites": sites}})
    assert changed.status_code == 200, changed.text
    shown = reader.get("/arenas/arena/embed?rows=3")
    assert shown.headers["content-security-policy"].endswith(f"frame-ancestors {sites}")
    assert "<script" not in shown.text
    assert sum(name in shown.text for name in NAMES) == 3
    assert 'target="_blank" rel="noopener"' in shown.text
    assert board(reader).headers["content-security-policy"].endswith("frame-ancestors 'none'")
    admin.patch("/api/v1/arenas/arena", json={"settings": {"embed_sites": None}})


@pytest.mark.parametrize(
    "sites",
    ["*", "'self'", "https://example.org; script-src *", "javascript:alert(1)", "https://", "https://a b,c",
     "example.org", "https://example.org/path", "https://user@example.org", "https://example.org:port",
     "https://example..org", "https://exämple.org", " ".join(f"https://s{k}.example" for k in range(21)), 7],
)  # fmt: skip
def test_only_plain_origins_are_accepted(place, sites):
    admin = place.client(make_token(place.database, "admin"))
    answer = admin.patch("/api/v1/arenas/arena", json={"settings": {"embed_sites": sites}})
    assert answer.status_code == 422, answer.text
    assert "embed_sites" in answer.text


@pytest.mark.parametrize("query", ["rows=0", "rows=51", "rows=x", "theme=blue", "category=" + "a" * 5000])
def test_an_embedded_board_refuses_what_it_does_not_know(place, query):
    assert place.client().get(f"/arenas/arena/embed?{query}").status_code in {404, 422}
