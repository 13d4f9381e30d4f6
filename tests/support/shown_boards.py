"""Arenas whose boards have something of everything that their pages show."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

from support.live_arenas import make_arena, voting_queue_of
from support.postgres_servers import fresh_database, kept_database
from support.served import Served, served
from support.voted_arenas import cast, close_window, lay_votes, rate
from tiltyard.arena.operators.arena_changes import set_enabled
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect, open_pool

#: What a browser says.
PAGE = {"accept": "text/html"}

NAMES = (
    "orchard/plum-3-large",
    "northlight-2",
    "tern-70b-instruct",
    "Heron 4 (thinking)",
    "quartz-mini",
    "bramble-8b",
    "vesper-1.5-pro",
    "lantern-small",
    "oxbow-34b-chat",
    "juniper-2024-11",
    "sable-nano",
    "wren-3b",
)


def shown_board(
    url: str, *, votes: int = 1500, prompts: int = 12, names: tuple[str, ...] = NAMES, phase: int = 4,
    judged: int = 40, excluded: bool = True, retired: bool = True, name: str = "arena",
) -> None:  # fmt: skip
    """Votes of people and judges, some of them excluded, on prompts of two kinds; one model is retired."""
    arena = asyncio.run(make_arena(url, len(names), prompts, name=name, policy=Policy(phase=phase)))
    with connect(url) as connection:
        for number, given in enumerate(names):
            connection.execute(
                "UPDATE models SET name = %s WHERE arena = %s AND model = %s", (given, arena.arena, number)
            )
        connection.execute(
            "UPDATE prompts SET category = CASE WHEN prompt %% 2 = 0 THEN 'maths' ELSE 'law' END, "
            "language = CASE WHEN prompt < 4 THEN 'de' ELSE 'en' END WHERE arena = %s",
            (arena.arena,),
        )
    if votes:
        lay_votes(url, arena.arena, votes, len(names), prompts, sessions=20)
    asyncio.run(_more(url, arena, judged, names[-1] if retired else None, excluded=excluded and votes > 0))
    close_window(url, arena.arena)
    rate(url)


async def _more(url, arena, judged, retired, *, excluded):
    async with voting_queue_of(url, arena) as queue:
        await cast(queue, judged, source=1)
    async with open_pool(url, most=2) as pool:
        if retired is not None:
            await set_enabled(pool, arena.name, retired, enabled=False, actor="cli")
        if excluded:
            await exclude(pool, arena.name, VoteSelection(sessions=[3]), "a bot", actor="cli")


class Rows(HTMLParser):
    """The cells of a page's board, row by row: main text, and the small text beneath it."""

    def __init__(self, html):
        super().__init__()
        self.headings, self.rows, self.links = [], [], []
        self._in, self._cell, self._micro, self._skip = False, None, 0, 0
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "a":
            self.links.append(given.get("href"))
        if tag == "table":
            self._in = given.get("id") == "board"
        if not self._in:
            return
        if tag == "tr":
            self._skip = "detail" in (given.get("class") or "")
            if not self._skip:
                self.rows.append([])
        elif tag in ("td", "th") and not self._skip:
            self._cell = ["", ""]
            self.rows[-1].append(self._cell)
        elif tag in ("span", "details"):
            self._micro += 1

    def handle_endtag(self, tag):
        if tag in ("span", "details"):
            self._micro = max(self._micro - 1, 0)
        elif tag in ("td", "th"):
            self._cell = None
        elif tag == "table":
            self._in = False

    def handle_data(self, data):
        if self._in and self._cell is not None:
            self._cell[1 if self._micro else 0] += data


def table_of(html):
    parsed = Rows(html)
    head, *rows = [[(one.strip(), small.strip()) for one, small in row] for row in parsed.rows]
    return [one for one, _ in head], rows


def board(reader, **query):
    answer = reader.get("/arenas/arena", params=query, headers=PAGE)
    assert answer.status_code == 200, answer.text
    return answer


@contextmanager
def served_board(server: str, template: str, folder: Path) -> Iterator[Served]:
    """The real app over an arena with 600 votes, which is made once."""
    kept = kept_database(server, template, "shown", lambda database: shown_board(database, votes=600))
    with fresh_database(server, kept) as database, served(database, folder=folder) as running:
        yield running
