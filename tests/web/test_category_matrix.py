"""The matrix of models and categories: what each category's own board claims, and nothing where votes are few."""

import re

import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_boards import PAGE, board, served_board
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.postgres.connections import connect

MATRIX = "/arenas/arena/categories"


@pytest.fixture(scope="module")
def place(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def cells(html):
    """The text of each cell by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html[html.index("<tbody>") : html.index("</tbody>")], re.DOTALL)
    return [
        [
            " ".join(re.sub(r"<[^>]*>", " ", one).split())
            for one in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_each_column_is_the_board_of_its_category(place):
    reader = place.client()
    answer = reader.get(MATRIX, headers=PAGE)
    assert answer.status_code == 200
    found = cells(answer.text)
    for column, category in enumerate((None, "law", "maths"), start=1):
        said = reader.get(
            "/api/v1/arenas/arena/board", params={} if category is None else {"category": category}
        )
        rows = {row["model"]: row for row in said.json()["rows"] if row["enabled"]}
        assert {row[0] for row in found} == set(rows)
        for row in found:
            stated = rows[row[0]]
            low, high = stated["rank_low"], stated["rank_high"]
            if stated["votes"] < 30:
                assert row[column] == f"{stated['votes']} of 30 votes"
            else:
                assert row[column].startswith(f"{low}" if low == high else f"{low}–{high}")


def test_the_board_leads_to_it_and_it_leads_to_boards(place):
    reader = place.client()
    assert f'href="{MATRIX}"' in board(reader).text
    html = reader.get(MATRIX, headers=PAGE).text
    assert 'href="/arenas/arena?category=law"' in html
    etag = reader.get(MATRIX, headers=PAGE).headers["etag"]
    assert reader.get(MATRIX, headers=PAGE | {"if-none-match": etag}).status_code == 304


def test_few_votes_are_counted_and_rank_nobody(server, template, tmp_path):
    with fresh_database(server, template) as database:
        arena = made_arena(database, 4, 12)
        with connect(database) as connection:
            connection.execute(
                "UPDATE prompts SET category = CASE WHEN prompt = 0 THEN 'rare' ELSE 'usual' END"
            )
        lay_votes(database, arena.arena, 400, 4, 12, sessions=30)
        close_window(database, arena.arena)
        rate(database)
        with served(database, folder=tmp_path) as running:
            html = running.client().get(MATRIX, headers=PAGE).text
    assert all(re.fullmatch(r"\d+ of 30 votes", row[2]) for row in cells(html))
    assert not any("of 30 votes" in row[3] for row in cells(html))
    assert "No model has" not in html


def test_without_categories_there_is_no_matrix(server, template, tmp_path):
    with fresh_database(server, template) as database:
        arena = made_arena(database, 3, 6)
        lay_votes(database, arena.arena, 200, 3, 6, sessions=20)
        close_window(database, arena.arena)
        rate(database)
        with served(database, folder=tmp_path) as running:
            reader = running.client()
            assert reader.get(MATRIX, headers=PAGE).status_code == 404
            assert f'href="{MATRIX}"' not in board(reader).text
