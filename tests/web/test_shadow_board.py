"""The shadow board by HTTP: operators see it in every phase, readers in none, and the board of phase 1 has no trace of it."""

import csv
import io
import re

import pytest

from support.operating import signed
from support.postgres_servers import fresh_database
from support.served import make_operator, make_token, served
from support.shown_boards import NAMES, board, shown_board
from tiltyard.postgres.connections import connect

SHADOW, PAGES = "/api/v1/arenas/arena/shadow", "/operator/arenas/arena"


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.slow), 3])
def running(request, server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        shown_board(
            database, votes=300, names=NAMES[:5], phase=request.param, judged=0, excluded=False, retired=False
        )
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("home")) as site:
            site.phase = request.param
            yield site


@pytest.fixture(scope="module")
def admin(running):
    return running.client(make_token(running.database, "admin", name="admin"))


def test_the_file_and_the_pages_have_the_same_rows(running, admin):
    said = admin.get(SHADOW).json()["models"]
    answer = admin.get(SHADOW, params={"format": "csv"})
    assert answer.headers["cache-control"] == "private, no-store"
    written = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["model"] for row in written] == [one["model"] for one in said]
    assert list(written[0]) == list(said[0])
    operator = signed(running)
    for path in ("/shadow", f"/phase/confirm?phase={running.phase % 4 + 1}"):
        page = operator.get(f"{PAGES}{path}").text
        moved = sum(one["legacy_rank"] != one["policy_rank"] for one in said)
        assert f" {moved} of {len(said)} models" in page
        rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", page, re.DOTALL)
        assert len(rows) == len(said)
        for row, one in zip(rows, said, strict=True):
            cells = [
                re.sub(r"<[^>]+>", " ", cell).split()
                for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
            ]
            assert (cells[0][0], cells[1][0]) == (str(one["legacy_rank"]), str(one["policy_rank"]))


def test_readers_and_their_pages_know_nothing_of_it(running):
    reader = running.client()
    assert reader.get(SHADOW).status_code == 401
    assert running.client(make_token(running.database, "read", name="reader")).get(SHADOW).status_code == 403
    columns = reader.get("/arenas/arena/board.json").json()["columns"]
    assert bool({"rd", "confidence", "coverage", "badge", "volatility"} & set(columns)) is (running.phase > 1)
    both = reader.get("/arenas/arena/board.json", params={"source": "both"}).json()
    assert set(both["rows"][0]) == set(both["columns"])
    assert ("human_rank_low" in both["columns"]) is (running.phase > 1)
    assert ("Confidence</a>" in board(reader).text) is (running.phase > 1)


def test_readers_see_reports_of_phase_4_only(running, admin):
    with connect(running.database) as connection:
        connection.execute(
            "INSERT INTO reports (arena, since, until, position, sha256, document, phase) "
            "SELECT 1, now() - n * interval '2 weeks', now() - n * interval '1 week', 1, decode(repeat('0' || n, 32), 'hex'), "
            "'{}', n FROM (VALUES (1), (4)) AS phases (n)"
        )
    for client, seen in ((running.client(), ["04" * 32]), (admin, ["04" * 32, "01" * 32])):
        listed = [one["report"] for one in client.get("/api/v1/arenas/arena/reports").json()["reports"]]
        assert sorted(listed) == sorted(seen)
        for report in ("01" * 32, "04" * 32):
            answer = client.get(f"/api/v1/arenas/arena/reports/{report}")
            assert (answer.status_code == 200) is (report in seen)
    assert (
        admin.get(f"/api/v1/arenas/arena/reports/{'01' * 32}").headers["cache-control"] == "private, no-store"
    )
