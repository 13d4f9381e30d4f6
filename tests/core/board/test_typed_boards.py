"""Boards as typed values: what was published is read whole, and written again byte for byte."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_document import document, published, whole_board

from support.boarded_arenas import noisy
from tiltyard.core.board.document import BoardDocument, FilteredBoard, PromptFilter, canonical_json
from tiltyard.errors import BadOption, InputError

HERE = Path(__file__).parent
#: Documents as they are published.
STORED = sorted((HERE / "published").glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_document_is_written_again_byte_for_byte(path):
    written = path.read_bytes()
    assert BoardDocument.from_json(written).to_json() == written
    assert BoardDocument.from_json(written.decode()) == BoardDocument.from_json(written)


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_a_board_is_read_as_it_was_made(phase):
    board = published(whole_board(noisy(1, np.linspace(-1, 1, 6), n=2500, prompts=20, phase=phase)))
    assert BoardDocument.from_json(board.to_json()) == board


def test_every_row_has_the_score_of_its_order():
    row = whole_board().rows[0]
    assert row.score("conservative") == row.conservative
    assert row.score("bradley-terry") == row.bradley_terry
    assert row.score("legacy-elo") == row.legacy_elo


def test_a_board_without_retired_models_keeps_everything_else():
    board = published(whole_board(noisy(1, np.linspace(-1, 1, 6), n=2500, prompts=20, retired=(2,))))
    shown = board.without_retired()
    assert {row.model for row in board.rows} - {row.model for row in shown.rows} == {"m2"}
    assert replace(shown, rows=board.rows) == board
    assert list(board.ranks.values()) == [1, 2, 3, 4, 5]


def test_a_field_that_nobody_knows_is_ignored_and_one_that_is_missing_is_refused():
    plain = document()
    assert BoardDocument.from_dict(plain | {"colour": "blue"}) == BoardDocument.from_dict(plain)
    for place, name in ((plain, "settled"), (plain["rows"][0], "official"), (plain["method"], "order")):
        value = place.pop(name)
        with pytest.raises(InputError):
            BoardDocument.from_dict(plain)
        place[name] = value


def changed(**changes):
    plain = document() | changes
    return canonical_json({name: value for name, value in plain.items() if value != "left out"})


def row_with(**changes):
    plain = document()
    plain["rows"][0] |= changes
    return canonical_json(plain)


WRONG = {
    "no JSON": b"{",
    "no object": b"[]",
    "another format": changed(format="tiltyard-board/9"),
    "no time": changed(at="left out"),
    "a time that is none": changed(at="yesterday"),
    "no method": changed(method="left out"),
    "a method that is none": changed(method=[]),
    "a policy that is unknown": changed(method={"policy": {"colour": "blue"}}),
    "no rows": changed(rows="left out"),
    "rows that are no list": changed(rows={}),
    "a row that is no object": changed(rows=[1]),
    "an unknown order": changed(order="alphabetical"),
    "a position that is a fraction": changed(position=1.5),
    "a position that is true": changed(position=True),
    "a model that is a number": row_with(model=7),
    "an unknown badge": row_with(badge="golden"),
    "a badge that is a list": row_with(badge=[]),
    "a finding without an object of values": changed(findings=[{"name": "x", "values": 1, "text": "X."}]),
}


@pytest.mark.parametrize("written", WRONG.values(), ids=WRONG)
def test_what_is_no_board_is_refused(written):
    with pytest.raises(InputError):
        BoardDocument.from_json(written)


def filtered_board():
    whole = published()
    return FilteredBoard(
        arena=whole.arena,
        source=whole.source,
        snapshot="0" * 64,
        position=whole.position,
        generation=whole.generation,
        filter=PromptFilter("maths", None),
        excluded="left-out",
        prompts=20,
        votes=whole.votes,
        order=whole.order,
        phase=whole.phase,
        settled=whole.settled,
        first_place=whole.first_place,
        cross_check=whole.cross_check,
        rows=whole.rows,
        findings=whole.findings,
        method=whole.method,
    )


def test_a_filtered_board_is_read_as_it_was_made():
    board = filtered_board()
    plain = json.loads(board.to_json())
    assert plain["format"] == "tiltyard-filtered-board/2"
    assert plain["filter"] == {"category": "maths", "language": None, "lane": "all"}
    assert plain["method"]["cross_check"]["name"] == "bradley-terry"
    assert plain["rows"] == document()["rows"]
    assert plain["settled"]["name"] == "order-settled"
    assert FilteredBoard.from_json(board.to_json()) == board


@pytest.mark.parametrize("change", [{"format": "tiltyard-board/1"}, {"method": None}, {"rows": None}])
def test_what_is_no_filtered_board_is_refused(change):
    with pytest.raises(InputError):
        FilteredBoard.from_json(canonical_json(filtered_board().to_dict() | change))


def test_a_method_with_a_value_that_makes_no_sense_is_refused():
    plain = document()
    plain["method"]["policy"]["phase"] = 9
    with pytest.raises(BadOption, match="phase"):
        BoardDocument.from_dict(plain)
