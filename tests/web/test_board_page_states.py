"""The leaderboard's page in every state of an arena: phases, no votes, no board, hostile names, closed doors."""

import csv
import hashlib
import io
import json

import pyarrow.parquet as pq
import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.shown_boards import NAMES, PAGE, Rows, board, shown_board, table_of
from support.voted_arenas import rate, rate_and_show
from tiltyard.postgres.connections import connect
from tiltyard.web.pages import paths

HEADINGS = [
    "Rank", "Model", "Rating", "Confidence", "Coverage", "Consistency", "Spread", "Avg score", "Record", "Votes",
]  # fmt: skip
HOSTILE = (
    "<script>window.tripped=1</script>",
    '"><img src=x onerror=window.tripped=1>',
    "org/model' onmouseover='window.tripped=1",
    "100%25 {{ 7*7 }} {% raw %}",
    "\u202eevil\u2066 \u200bname",
    "a" * 5000,
    "=cmd|' /C calc'!A0",
    "--><svg onload=window.tripped=1>",
)


def test_a_permalink_stays_as_it_is_and_names_the_document_it_shows(server, template, tmp_path):
    with fresh_database(server, template) as database:
        shown_board(database, votes=260, judged=0, excluded=False, retired=False)
        with served(database, folder=tmp_path) as running:
            reader = running.client()
            sha256 = hashlib.sha256(reader.get("/api/v1/arenas/arena/board").content).hexdigest()
            assert f"/arenas/arena/boards/{sha256}" in Rows(board(reader).text).links
            kept = reader.get(f"/arenas/arena/boards/{sha256}", headers=PAGE)
            admin = running.client(make_token(database, "admin"))
            assert admin.post("/api/v1/arenas/arena/models/wren-3b/retire").status_code == 200
            rate_and_show(running)
            newest = board(reader).text
            assert "retired</span>" in newest
            again = reader.get(f"/arenas/arena/boards/{sha256}", headers=PAGE)
            assert again.content == kept.content
            assert "retired</span>" not in again.text
            assert "never changes" in again.text
            assert f"snapshots/{sha256} | sha256sum" in again.text
            assert reader.get(f"/arenas/arena/boards/{'0' * 64}", headers=PAGE).status_code == 404
            _files_hold_what_the_permalink_shows(reader, sha256)


def _files_hold_what_the_permalink_shows(reader, sha256):
    query = {"sort": "model", "q": "r", "retired": "hide"}
    html = reader.get(f"/arenas/arena/boards/{sha256}", params=query, headers=PAGE).text
    shown = [row[1][0] for row in table_of(html)[1]]
    assert "wren-3b" in shown
    files = {one.partition("?")[0].rpartition(".")[2]: one for one in Rows(html).links if "/board." in one}
    assert set(files) == {"csv", "json", "parquet"}
    said = reader.get(files["json"]).json()
    assert said["snapshots"] == [sha256]
    assert [row["model"] for row in said["rows"]] == shown
    written = csv.DictReader(io.StringIO(reader.get(files["csv"]).text, newline=""))
    assert [row["model"] for row in written] == shown
    assert pq.read_table(io.BytesIO(reader.get(files["parquet"]).content))["model"].to_pylist() == shown
    assert reader.get(files["csv"].replace(sha256, "0" * 64)).status_code == 404


@pytest.mark.slow(but=("1", "4"))
@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_each_phase_shows_what_it_has_and_says_why_the_rest_is_missing(server, template, tmp_path, phase):
    with fresh_database(server, template) as database:
        shown_board(
            database, votes=120, names=NAMES[:4], phase=phase, judged=0, excluded=False, retired=False
        )
        with served(database, folder=tmp_path) as running:
            html = board(running.client()).text
            headings, rows = table_of(html)
    assert headings == (HEADINGS if phase > 1 else [*HEADINGS[:3], *HEADINGS[5:]])
    assert ("Calibrating" in html) is (phase > 1)
    assert ("legacy Elo" in table_caption(html)) is (phase <= 2)
    assert {len(row) for row in rows} == {len(headings)}
    assert "–" not in {row[3][0] for row in rows}
    assert ("Phase 1" in html) is (phase == 1)
    assert ("Phase 2" in html) is (phase == 2)
    scores = [int(row[2][0].replace(",", "")) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert 'class="interval"' not in html, "the table is ordered by another rating than bars are drawn for"
    assert all(row[2][1].startswith("rating") is (phase > 2) for row in rows)


def test_an_arena_without_votes_or_without_a_board_has_a_page(server, template, tmp_path):
    with fresh_database(server, template) as database:
        made_arena(database, 3, 3)
        with served(database, folder=tmp_path) as running:
            assert "No board yet" in board(running.client()).text
        rate(database)
        with served(database, folder=tmp_path) as running:
            reader = running.client()
            for query in (
                {},
                {"source": "both"},
                {"chart": "win-rates"},
                {"chart": "history"},
                {"q": "nobody"},
            ):
                board(reader, **query)
            assert "No model matches" in board(reader, q="nobody").text
            html = board(reader).text
            assert "No votes yet" in html
            assert {row[0][0] for row in table_of(html)[1]} == {"–"}
            rows = reader.get("/arenas/arena/board.json").json()["rows"]
            assert {(row["place"], row["rank_low"], row["tier"]) for row in rows} == {(None, None, None)}
            assert len(rows) == 3
            for query in ({}, {"source": "llm-judge"}, {"source": "llm-judge", "excluded": "counted"}):
                said = reader.get("/api/v1/arenas/arena/board", params=query).json()
                ranks = [
                    (row["rank"], row["rank_low"], row["rank_high"], row["tier"]) for row in said["rows"]
                ]
                assert ranks == [(None,) * 4] * 3
                assert said["cross_check"]["findings"] == []
                named = [finding["name"] for finding in said["findings"]]
                assert named == (["excluded-counted"] if "excluded" in query else [])


def test_an_arena_without_prompts_says_so(server, template, tmp_path):
    with fresh_database(server, template) as database:
        made_arena(database, 3, 3)
        rate(database)
        with connect(database) as connection:
            connection.execute("DELETE FROM responses")
            connection.execute("DELETE FROM prompts")
        with served(database, folder=tmp_path) as running:
            answer = running.client().get("/arenas/arena/board.json", params={"excluded": "counted"})
    assert answer.status_code == 404
    assert "no prompts" in answer.json()["detail"]


def test_hostile_names_are_text_everywhere(server, template, tmp_path):
    with fresh_database(server, template) as database:
        shown_board(database, votes=200, names=HOSTILE, judged=10, excluded=False, retired=False)
        with served(database, folder=tmp_path) as running:
            reader = running.client()
            for query in (
                {},
                {"source": "both"},
                {"chart": "win-rates"},
                {"chart": "history"},
                {"category": "maths"},
            ):
                html = board(reader, **query).text
                assert "<script>window" not in html
                assert "onerror=window.tripped=1>" not in html.replace("&gt;", "")
                assert "\u202e" not in html
                assert "\x1e" not in html
            assert board(reader, q='"><script>alert(1)</script>').text.count("<script>") == 0
            said = reader.get("/arenas/arena/board.csv").text
            named = {row["model"] for row in csv.DictReader(io.StringIO(said))}
            assert {name.removeprefix("'") for name in named} == set(HOSTILE)
            assert not any(name.startswith(("=", "+", "-", "@")) for name in named)
            for name in ("ratings", "win-rates", "battle-counts", "history"):
                svg = reader.get(f"/arenas/arena/charts/{name}.svg")
                assert svg.status_code == 200
                assert "<script" not in svg.text
                assert "<img" not in svg.text


def test_a_title_that_would_turn_round_is_spelled_out(server, template, tmp_path):
    with fresh_database(server, template) as database:
        made_arena(database, 3, 3)
        with connect(database) as connection:
            connection.execute("UPDATE arenas SET title = %s", ("\u202e<b>dnert",))
        with served(database, folder=tmp_path) as running:
            assert page_title(board(running.client()).text).startswith("[U+202E]&lt;b&gt;dnert · ")
            admin, name = running.client(make_token(database, "admin")), "an\u3164other"
            answer = {"prompt_id": "p", "prompt": "What?", "model": name, "response": "yes"}
            assert admin.post("/api/v1/arenas/arena/responses", content=json.dumps(answer)).status_code == 200
            rate_and_show(running)
            title = page_title(admin.get(paths.model("arena", name), headers=PAGE).text)
            assert title.startswith("an[U+3164]other · [U+202E]&lt;b&gt;dnert · ")
            for query in ({}, {"source": "both"}):
                assert page_title(board(running.client(), **query).text).startswith(
                    "[U+202E]&lt;b&gt;dnert · "
                )


def page_title(html):
    return html.partition("<title>")[2].partition("</title>")[0]


def table_caption(html):
    return html.partition('<caption id="board-caption">')[2].partition("</caption>")[0]
