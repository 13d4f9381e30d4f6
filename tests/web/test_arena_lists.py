"""Lists of arenas: a page at a time, by words, of each what its newest board says, and nothing that is private."""

import re

from psycopg.types.json import Jsonb

from support.invited import come_in, make_link, set_entry
from support.served import make_token
from support.voted_arenas import lay_votes, rate
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

TITLES = {
    "law-2026": "Contract law",
    "maths": "Maths, Physics",
    "droit": "Questions de droit",
    "ja": "日本語の質問",
}


def add_arenas(url, names, **settings):
    """Arenas without contents, as rows."""
    with connect(url) as connection:
        connection.cursor().executemany(
            "INSERT INTO arenas (arena, name, title, settings, bucket) OVERRIDING SYSTEM VALUE "
            "SELECT n, %s, %s, %s, n %% 64 FROM nextval(pg_get_serial_sequence('arenas', 'arena')) AS n",
            [
                (name, TITLES.get(name, f"Title of {name}"), Jsonb(ArenaSettings(**settings).to_dict()))
                for name in names
            ],
        )


def listed(client, **query):
    return [one["arena"] for one in client.get("/api/v1/arenas", params=query).json()["arenas"]]


def cards(page):
    return re.findall(r'<h2><a href="/arenas/([^"]+)"', page)


def test_a_list_has_pages_and_leads_through_all_of_them(site):
    names = sorted(["arena", *(f"a{n:02}" for n in range(45))])
    add_arenas(site.database, set(names) - {"arena"})
    client = site.client()
    assert listed(client) == names
    first = listed(client, limit=20)
    assert first + listed(client, limit=100, after=first[-1]) == names
    seen, path = [], "/"
    while path:
        page = client.get(path).text
        seen += cards(page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        path = found and found[1].replace("&amp;", "&")
    assert seen == names
    assert len(client.get("/").content) < 40_000


def test_words_of_names_and_titles_are_searched_for(site):
    add_arenas(site.database, TITLES)
    client = site.client()
    wanted = {
        "LAW": ["law-2026"],
        "contr law": ["law-2026"],
        "2026": ["law-2026"],
        "physics": ["maths"],
        "droit": ["droit"],
        "日本": ["ja"],
        "ontract": [],
        "'); -- & | ! :*": sorted([*TITLES, "arena"]),
    }
    for words, found in wanted.items():
        assert listed(client, q=words) == found, words
        assert cards(client.get("/", params={"q": words}).text) == found, words
    assert client.get("/", params={"q": "a\0b"}).status_code == 422


def test_nobody_is_told_of_what_they_may_not_read(site):
    """Private arenas are listed for those whom they let in, and drafts for operators."""
    hidden = {
        "closed": {"visibility": "closed"},
        "draft": {"stage": "draft"},
        "passcode": {"entry": "passcode"},
        "signed": {"entry": "sign-in"},
        "deleting": {"stage": "deleting"},
        "deleted": {"stage": "deleted"},
    }
    for name, settings in hidden.items():
        add_arenas(site.database, [name], **settings)
    add_arenas(site.database, ["old"], stage="archived")
    add_arenas(site.database, ["paused"], stage="paused")
    stranger = site.client()
    assert listed(stranger) == ["arena", "old", "paused"]
    assert cards(stranger.get("/").text) == ["arena", "paused"]
    assert listed(stranger, limit=2) == ["arena", "old"]
    operator = site.client(make_token(site.database, "admin"))
    assert listed(operator) == sorted({"arena", "old", "paused", *hidden} - {"deleted"})
    assert listed(site.client(make_token(site.database, "read", arena="closed"))) == [
        "arena", "closed", "old", "paused",
    ]  # fmt: skip
    set_entry(site.database, "invitation")
    assert listed(stranger) == ["old", "paused"]
    come_in(stranger, make_link(site.database)[0])
    assert listed(stranger) == ["arena", "old", "paused"]
    assert cards(stranger.get("/").text) == ["arena", "paused"]


def test_a_card_says_the_same_of_a_board_that_was_stored_without_a_summary(site):
    lay_votes(site.database, 1, 40, 4, 6)
    rate(site.database)
    client = site.client()
    page = client.get("/").text
    assert "40 votes" in page
    with connect(site.database) as connection:
        ((summary,),) = connection.execute("SELECT summary FROM snapshots WHERE source = 0").fetchall()[-1:]
        assert summary["votes"] == 40
        connection.execute("UPDATE snapshots SET summary = NULL")
    assert client.get("/").text == page


def test_reading_the_list_follows_no_board(site):
    lay_votes(site.database, 1, 10, 4, 6)
    rate(site.database)
    site.client().get("/")
    assert site.registry.boards.newest(1) == []
