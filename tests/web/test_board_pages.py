"""The leaderboard's page by HTTP: what it shows is what was published, in every form and for everybody alike."""

import csv
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import escape as html_escape
from itertools import product
from threading import Event

import pyarrow.parquet as pq
import pytest

from support.rewritten_logs import allow_rewriting
from support.shown_boards import NAMES, PAGE, Rows, board, served_board, table_of
from tiltyard.core.board.document import BoardDocument
from tiltyard.postgres.connections import connect
from tiltyard.report.arena_charts import drawing_version
from tiltyard.web.pages.board import COLUMNS, COMPARISON_COLUMNS
from tiltyard.web.pages.board_view import DrawnInterval, board_lines, digits_to_show, floor_percent
from tiltyard.web.pages.localization import localization_for

NUMBER = localization_for("en").number
PERCENT = localization_for("en").percent
HEADINGS = [
    "Rank", "Model", "Rating", "Confidence", "Coverage", "Consistency", "Spread", "Avg score", "Record", "Votes",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def ranks(row):
    """What a page shows of a row of a document or a file: ranks that may be claimed, or the place alone."""
    low, high = row["rank_low"], row["rank_high"]
    if low is None:
        return NUMBER(row["rank"] if "rank" in row else row["place"])
    return NUMBER(low) if low == high else f"{NUMBER(low)}–{NUMBER(high)}"


def place_word(row):
    """How sure that is: one model of twelve is retired."""
    low, high = row["rank_low"], row["rank_high"]
    if low is None:
        return ""
    return "settled" if low == high else "not placed yet" if (low, high) == (1, 11) else "shared"


@pytest.fixture
def reader(place):
    return place.client()


def test_the_board_of_random_pairs_stands_beside_the_official_one(place, reader):
    with connect(place.database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE matchups SET lane = serial % 4")
    link = re.search(r'<p class="micro exploration-link"><a href="([^"]*)"', board(reader).text).group(1)
    page = reader.get(link, headers=PAGE).text
    said = reader.get("/api/v1/arenas/arena/board", params={"lane": "exploration"}).json()
    whole = reader.get("/api/v1/arenas/arena/board").json()
    with connect(place.database) as connection:
        (votes,) = connection.execute(
            "SELECT count(*) FROM endings d JOIN matchups m USING (arena, source, serial) "
            "WHERE d.arena = 1 AND d.source = 0 AND d.kind = 1 AND d.undone IS NULL AND m.lane = 3 "
            "AND vote_unrated(d.blind, d.mark, d.admitted, %s) IS NULL AND d.position <= %s "
            "AND NOT EXISTS (SELECT FROM excluded_votes v WHERE (v.source, v.serial) = (d.source, d.serial))",
            [said["position"], said["position"]],
        ).fetchone()
    assert said["filter"]["lane"] == "exploration"
    assert 0 < said["votes"] == votes < whole["votes"]
    assert "exploration-only" in [finding["name"] for finding in said["findings"]]
    headings, rows = table_of(page)
    assert (headings, len(rows)) == (HEADINGS, len(whole["rows"]))
    once = reader.get(f"/api/v1/arenas/arena/snapshots/{said['snapshot']}", params={"lane": "exploration"})
    assert once.json() == said


@pytest.mark.parametrize("query", [{}, {"category": "maths"}, {"source": "llm-judge"}])
def test_whole_and_filtered_boards_show_the_caveats_of_the_fit(reader, query):
    document = reader.get("/api/v1/arenas/arena/board", params=query).json()
    html = board(reader, **query).text
    fit = document["cross_check"]["findings"]
    assert "few-prompts" in {finding["name"] for finding in fit}
    beside = {"few-prompts-to-settle", "official-next"}
    for finding in (*(one for one in document["findings"] if one["name"] not in beside), *fit):
        assert html_escape(finding["text"]) in html
        assert html_escape(finding["advice"]) in html
        assert "--" not in finding["advice"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"category": "maths"}, "Only some of"),
        ({"excluded": "counted"}, "All votes, excluded"),
        ({"category": "maths", "excluded": "counted"}, "on some prompts"),
    ],
)
def test_a_filtered_board_says_which_votes_it_is_made_from(reader, query, said):
    html = board(reader, **query).text
    assert said in html
    assert "that of batch" not in html


def test_a_model_that_won_or_lost_everything_says_why_it_has_no_rating(reader):
    document = BoardDocument.from_json(reader.get("/api/v1/arenas/arena/board").content)
    line = replace(board_lines(document)[0], bradley_terry=None, wins=239, losses=0, ties=0)
    assert line.one_sided == "won"
    assert replace(line, wins=0, losses=7).one_sided == "lost"
    for other in ({"ties": 1}, {"losses": 1}, {"wins": 0}, {"bradley_terry": 1500.0}):
        assert replace(line, **other).one_sided is None


QUERIES = [
    {},
    {"sort": "votes", "order": "asc", "retired": "hide"},
    {"q": "R", "sort": "model", "order": "desc"},
    {"category": "maths", "sort": "record"},
    {"source": "llm-judge", "language": "de", "excluded": "counted"},
    {"excluded": "counted"},
]


@pytest.mark.parametrize("query", QUERIES)
def test_files_hold_exactly_what_is_shown(reader, query):
    rows = table_of(board(reader, **query).text)[1]
    said = reader.get("/arenas/arena/board.json", params=query).json()
    assert said["columns"] == list(COLUMNS)
    assert all(list(one) == list(COLUMNS) for one in said["rows"])
    assert len(rows) == len(said["rows"]) > 0
    for shown, row in zip(rows, said["rows"], strict=True):
        tiers = max(one["tier"] or 0 for one in said["rows"])
        tier = "" if row["tier"] is None or tiers < 2 else f"tier {row['tier']}"
        assert shown[0] == (ranks(row), f"{place_word(row)} {tier}".strip())
        assert shown[1][0] == row["model"]
        assert shown[2][0] == NUMBER(row["score"])
        if row["rating"] is not None:
            taken_off = float(f"{row['rating']:.0f}") - float(f"{row['score']:.0f}")
            assert shown[3][0] == f"−\u202f{NUMBER(taken_off)}"
            assert abs(taken_off - row["confidence"]) <= 1.0
        cells = [
            None,
            (row["consistency"], 0),
            (row["spread"], 2),
            (row["average_score"], 2),
        ]
        for cell, stated in zip(shown[4:8], cells, strict=True):
            assert cell[0] == (PERCENT(floor_percent(row["coverage"])) if stated is None else NUMBER(*stated))
        assert shown[8][0] == "–".join(NUMBER(row[part]) for part in ("wins", "losses", "ties"))
        assert shown[9] == (NUMBER(row["votes"]), f"{NUMBER(row['both_bad'])} both bad")
    written = reader.get("/arenas/arena/board.csv", params=query)
    as_text = [["" if one is None else str(one) for one in row.values()] for row in said["rows"]]
    assert list(csv.reader(io.StringIO(written.text, newline=""))) == [list(COLUMNS), *as_text]
    packed = reader.get("/arenas/arena/board.parquet", params=query)
    assert packed.headers["content-disposition"] == 'attachment; filename="arena-board.parquet"'
    assert pq.read_table(io.BytesIO(packed.content)).to_pylist() == said["rows"]


@pytest.mark.parametrize(
    "sort", ["rank", "model", "rating", "confidence", "coverage", "spread", "score", "votes"]
)
def test_every_column_sorts_both_ways_and_what_is_not_known_comes_last(reader, sort):
    column = {"rank": "place", "rating": "score", "score": "average_score"}.get(sort, sort)
    for order, sign in (("asc", 1), ("desc", -1)):
        rows = reader.get("/arenas/arena/board.json", params={"sort": sort, "order": order}).json()["rows"]
        values = [row[column] for row in rows]
        known = [value for value in values if value is not None]
        assert values == known + [None] * (len(values) - len(known))
        assert known == sorted(known, key=str.casefold if sort == "model" else None, reverse=sign < 0)


def test_filters_live_in_the_address_and_are_kept_by_links(reader):
    html = board(reader, category="maths", q="r", retired="hide", chart="history").text
    assert re.search(r'category=maths[^"]*" aria-current="true"><bdi>maths', html)
    assert 'name="category" value="maths"' in html
    assert 'value="hide" selected' in html
    links = Rows(html).links
    assert "/arenas/arena/board.csv?category=maths&retired=hide&q=r&chart=history" in links
    assert "/arenas/arena?category=maths&excluded=counted&retired=hide&q=r&chart=history" in links


def test_boards_with_and_without_excluded_votes_are_one_click_apart(reader, place):
    with connect(place.database) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM excluded_votes JOIN endings USING (arena, source, serial) WHERE source = 0"
        ).fetchone()
    assert count > 0
    without = board(reader).text
    assert f"Count the {count} excluded votes" in without
    counted = reader.get("/api/v1/arenas/arena/board", params={"excluded": "counted"}).json()
    whole = reader.get("/api/v1/arenas/arena/board").json()
    assert counted["votes"] == whole["votes"] + count
    assert counted["excluded"] == "counted"
    assert counted["findings"][0]["name"] == "excluded-counted"
    assert f"Hide the {count} excluded votes" in board(reader, excluded="counted").text


def test_people_and_judges_stand_side_by_side_and_are_never_pooled(reader):
    said = reader.get("/arenas/arena/board.json", params={"source": "both"}).json()
    boards = {
        who: {row["model"]: row for row in reader.get("/api/v1/arenas/arena/board", params={"source": who}).json()["rows"]}
        for who in ("human", "llm-judge")
    }  # fmt: skip
    assert said["columns"] == list(COMPARISON_COLUMNS)
    for row in said["rows"]:
        human, judge = boards["human"][row["model"]], boards["llm-judge"][row["model"]]
        assert (row["human_place"], row["human_votes"]) == (human["rank"], human["votes"])
        assert (row["judge_place"], row["judge_votes"]) == (judge["rank"], judge["votes"])
        assert row["judge_score"] == judge["conservative"]
    headings, rows = table_of(board(reader, source="both").text)
    assert headings[:4] == ["Model", "People", "Judges", "Difference"]
    assert [(row[1][0], row[2][0], row[0][0]) for row in rows] == [
        (*(ranks({name: row[f"{who}_{name}"] for name in ("place", "rank_low", "rank_high")}) for who in ("human", "judge")), row["model"])
        for row in said["rows"]
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["", "?category=maths", "?source=both", "?chart=win-rates", "?sort=votes"])
def test_whoever_has_the_page_is_not_sent_it_again(reader, path):
    first = reader.get(f"/arenas/arena{path}", headers=PAGE)
    etag = first.headers["etag"]
    again = reader.get(f"/arenas/arena{path}", headers={**PAGE, "if-none-match": etag})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert first.headers["content-encoding"] == "gzip"
    plain = reader.get(f"/arenas/arena{path}", headers={**PAGE, "accept-encoding": "identity"})
    assert plain.text == first.text
    assert plain.headers["etag"] != etag


def test_a_stampede_of_distinct_filters_is_told_to_come_back(place):
    sources, categories, languages = ("human", "llm-judge"), ("", "law", "maths"), ("", "de", "en")
    asked = [
        {"source": source, "category": category, "language": language, "excluded": "counted"}
        for source, category, language in product(sources, categories, languages)
    ]
    client = place.client()
    with ThreadPoolExecutor(len(asked)) as crowd, connect(place.database) as blocker:
        with blocker.transaction():
            blocker.execute("LOCK TABLE endings IN ACCESS EXCLUSIVE MODE")
            answers = [crowd.submit(client.get, "/arenas/arena/board.json", params=one) for one in asked]
            first = [answer.result() for answer in _done_first(answers, len(asked) - 10)]
            refused = [answer for answer in first if answer.status_code == 503]
        assert refused
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
        assert {answer.json()["type"] for answer in refused} == {"urn:tiltyard:problem:crowded"}
        assert {answer.result().status_code for answer in answers} <= {200, 503}
    assert client.get("/arenas/arena/board.json", params=asked[0]).status_code == 200


def _done_first(futures, count):
    from concurrent.futures import as_completed

    done = as_completed(futures, timeout=20)
    return [next(done) for _ in range(count)]


@pytest.mark.slow(but="ratings")
@pytest.mark.parametrize("name", ["ratings", "win-rates", "battle-counts", "history"])
def test_a_chart_is_one_definition_in_two_forms(reader, name):
    html = board(reader, chart=name).text
    sha256 = reader.get("/api/v1/arenas/arena/board").headers["etag"].strip('"')
    address = f"/arenas/arena/charts/{name}.svg?theme=light&in=en&snapshot={sha256}&drawn={drawing_version()}"
    assert f'<img src="{address.replace("&", "&amp;")}"' in html
    light = reader.get(address)
    assert light.headers["content-type"] == "image/svg+xml"
    assert light.headers["cache-control"] == "public, max-age=31536000, immutable, s-maxage=600"
    assert light.content != reader.get(address.replace("light", "dark")).content
    spec = reader.get(address.replace(".svg", ".json")).json()
    assert "url" not in json.dumps(spec["data"] if "data" in spec else spec["layer"])
    assert reader.get(address, headers={"if-none-match": light.headers["etag"]}).status_code == 304
    drawn = [one for one in NAMES[:-1] if one in light.text]
    assert len(drawn) >= 10
    assert "wren-3b" not in light.text


@pytest.mark.parametrize("drawn", ["", "&drawn=otherwise"])
def test_a_picture_drawn_by_other_code_is_kept_by_nobody_for_ever(reader, drawn):
    sha256 = reader.get("/api/v1/arenas/arena/board").headers["etag"].strip('"')
    answer = reader.get(f"/arenas/arena/charts/ratings.svg?snapshot={sha256}{drawn}")
    assert answer.status_code == 200
    assert "immutable" not in answer.headers["cache-control"]


@pytest.mark.parametrize("path", ["/arenas/arena", "/arenas/arena/categories"])
def test_a_page_is_the_same_for_all_readers_in_one_language(reader, path):
    """Caches and files have it: what a reader chose is done by a script, but for the language in the address."""
    pages = [
        reader.get(f"{path}?{query}", headers={**PAGE, "accept-language": accepted, "cookie": cookie})
        for query, accepted, cookie in (
            ("", "fr", ""),
            ("in=fr", "ar", "tiltyard_theme=dark; tiltyard_language=ar"),
            ("", "fr-CA, en", "tiltyard_theme=light; tiltyard_language=en; tiltyard_voter=x"),
        )
    ]
    assert len({page.content for page in pages}) == 1
    assert len({page.headers["etag"] for page in pages}) == 1
    assert '<html lang="fr"' in pages[0].text
    for page in pages:
        assert page.headers["vary"] == "Accept-Encoding, Accept-Language"
        assert "set-cookie" not in page.headers
    if path == "/arenas/arena":
        assert re.findall(r'data-spec(?:-dark)?="[^"]*theme=(\w+)', pages[0].text) == ["light", "dark"]


def test_a_language_that_is_chosen_on_a_board_is_in_the_address(reader):
    asked = {"next": "/arenas/arena?sort=votes", "language": "fr"}
    answer = reader.post("/theme", data=asked, headers={"cookie": ""})
    assert answer.headers["location"] == "/arenas/arena?sort=votes&in=fr"
    assert 'name="next" value="/arenas/arena?sort=votes"' in reader.get(answer.headers["location"]).text


def test_a_filtered_board_has_a_permalink_that_shows_the_same(reader):
    assert "to this board" in board(reader).text
    filtered = board(reader, category="maths", excluded="counted").text
    assert "to this board" not in filtered
    assert "whole board behind" in filtered
    sha256 = reader.get("/api/v1/arenas/arena/board").headers["etag"].strip('"')
    address = f"/arenas/arena/boards/{sha256}?category=maths&excluded=counted"
    assert address in Rows(filtered).links
    page = reader.get(address, headers=PAGE)
    assert table_of(page.text) == table_of(filtered)
    assert "never changes" in page.text
    assert f"{address}&sort=votes#board" in Rows(page.text).links
    document = reader.get(f"/api/v1/arenas/arena/snapshots/{sha256}?category=maths&excluded=counted")
    newest = reader.get("/api/v1/arenas/arena/board", params={"category": "maths", "excluded": "counted"})
    assert document.content == newest.content
    assert (document.json()["snapshot"], document.json()["filter"]["category"]) == (sha256, "maths")
    files = {
        one.partition("?")[0].rpartition(".")[2]: one for one in Rows(page.text).links if "/board." in one
    }
    assert (
        reader.get(files["csv"]).content
        == reader.get("/arenas/arena/board.csv", params={"category": "maths", "excluded": "counted"}).content
    )
    assert reader.get(f"/arenas/arena/boards/{sha256}?category=art", headers=PAGE).status_code == 404


def test_a_stampede_for_pictures_is_told_to_come_back_and_one_picture_is_drawn_once(place, monkeypatch):
    may_end, drawn = Event(), []

    def slow(name, document, theme, form, localization, *, narrow):
        drawn.append((name, theme, form))
        assert may_end.wait(20)
        return b"<svg/>"

    monkeypatch.setattr("tiltyard.web.pages.charts._draw", slow)
    names, queries = ("ratings", "win-rates", "battle-counts"), [{"language": "de"}, {"category": "law"}]
    asked = [
        (name, form, {"theme": theme, **query})
        for name, theme, form, query in product(names, ("light", "dark"), ("svg", "json"), queries)
    ]
    client = place.client()
    with ThreadPoolExecutor(2 * len(asked)) as crowd:
        answers = [
            crowd.submit(client.get, f"/arenas/arena/charts/{name}.{form}", params=query)
            for name, form, query in [*asked, *asked]
        ]
        first = [answer.result() for answer in _done_first(answers, len(asked) - 9)]
        may_end.set()
        assert {answer.status_code for answer in first} == {503}
        assert all(answer.headers["retry-after"] == "1" for answer in first)
        assert {answer.result().status_code for answer in answers} == {200, 503}
    assert len(drawn) <= len(asked)


def test_a_page_is_made_once_however_its_address_is_spelled(reader):
    plain = reader.get("/arenas/arena?sort=votes", headers=PAGE)
    spelled = reader.get("/arenas/arena?x=<1>&retired=show&sort=%76otes&order=&utm=2", headers=PAGE)
    assert spelled.content == plain.content
    assert 'value="/arenas/arena?sort=votes"' in plain.text


def test_a_filtered_board_names_the_snapshot_whose_votes_it_counts(reader, place, monkeypatch):
    with connect(place.database) as connection:
        (older,) = connection.execute(
            "SELECT encode(sha256, 'hex') FROM snapshots WHERE source = 0 ORDER BY position LIMIT 1"
        ).fetchone()
    boards = place.registry.boards
    found = place.run(boards.published(1, older))
    newest = place.run(boards.latest(1, 0))
    assert found.position < newest.position
    filtered = boards._filter

    async def earlier(arena, _newest, part):
        return await filtered(arena, found, part)

    monkeypatch.setattr(boards, "_filter", earlier)
    html = board(reader, category="maths", language="de").text
    assert f"/arenas/arena/boards/{older}" in html
    assert newest.sha256 not in html
    assert f"up to position {NUMBER(found.position)}," in html


def published(reader, order, **changes):
    document = reader.get("/api/v1/arenas/arena/board").json() | {"order": order}
    return document | changes


@pytest.mark.parametrize("order", ["conservative", "bradley-terry", "legacy-elo"])
def test_the_bar_is_the_bradley_terry_interval_whatever_ranks(reader, order):
    document = published(reader, order)
    checks = {row["model"]: row for row in document["cross_check"]["rows"]}
    for line, row in zip(board_lines(BoardDocument.from_dict(document)), document["rows"], strict=True):
        cross = checks.get(row["model"], {"low": None})
        if cross["low"] is None:
            assert line.drawn is None
        else:
            assert line.drawn == DrawnInterval(cross["low"], cross["rating"], cross["high"])


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({}, "Filters"),
        ({"q": "r", "sort": "votes"}, "Filters"),
        ({"retired": "hide"}, "Filters: retired models hidden"),
        ({"source": "both", "excluded": "counted"}, "Filters: people and judges, excluded votes counted"),
    ],
)
def test_folded_filters_say_which_are_chosen(reader, query, told):
    found = re.search(
        r'<details class="filter-fold"(?: open)?><summary>(.*?)</summary>',
        board(reader, **query).text,
        re.DOTALL,
    )
    assert " ".join(re.sub(r"<[^>]*>", "", found[1]).split()) == told


@pytest.mark.parametrize(
    ("value", "usual", "shown"), [(60.04, 1, "60.04"), (60.004, 1, "60.004"), (60.0001, 1, "60.000"), (61.2, 1, "61.2")]
)  # fmt: skip
def test_a_value_that_misses_its_bar_is_seen_to(value, usual, shown):
    assert NUMBER(value, digits_to_show(value, 60.0, usual, holds=False)) == shown
    assert digits_to_show(value, 60.0, usual, holds=True) == usual
    assert digits_to_show(None, 60.0, usual, holds=False) == usual


@pytest.mark.parametrize(("share", "shown"), [(0.996, "99"), (1.0, "100"), (0.29, "29"), (0.0, "0")])
def test_coverage_is_never_rounded_up(share, shown):
    assert PERCENT(floor_percent(share)).startswith(f"{shown}\u202f")


def test_without_the_drawing_library_the_tables_stay(reader, monkeypatch):
    monkeypatch.setattr("tiltyard.web.pages.charts._charts_available", lambda: False)
    html = board(reader, chart="win-rates", n="1").text
    assert "<img" not in html
    assert 'class="matrix"' in html
    assert reader.get("/arenas/arena/charts/ratings.svg").status_code == 404


@pytest.mark.parametrize(
    "query", [{"sort": "nothing"}, {"source": "everybody"}, {"q": "x" * 201}, {"category": "a\0b"}, {"dimension": "style"}]
)  # fmt: skip
def test_what_makes_no_sense_is_refused(reader, query):
    for path in ("/arenas/arena", "/arenas/arena/board.csv"):
        assert reader.get(path, params=query, headers=PAGE).status_code == 422
    assert reader.get("/arenas/arena", params={"category": "art"}, headers=PAGE).status_code == 404
