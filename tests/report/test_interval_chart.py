"""The static chart of intervals."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from support.rated_boards import HOSTILE, hostile, small
from tiltyard.core.ratings import BradleyTerry, Glicko2
from tiltyard.report.board_page import NARROW, WIDE, drawn_rows, interval_chart
from tiltyard.report.escapes import escape_controls

SVG = "{http://www.w3.org/2000/svg}"


def parts(board, layout=WIDE):
    return ET.fromstring(interval_chart(board, layout))


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_comparable_model_is_drawn_once_to_scale(layout):
    board = small(BradleyTerry()).board
    picture = parts(board, layout)
    rows = drawn_rows(board)
    assert [row.model for row in rows] == ["oak", "elm", "ash"], "yew and fir never met them"
    texts = [one.text for one in picture.iter(f"{SVG}text")]
    assert [text for text in texts if text in {row.model for row in board.rows}] == [
        row.model for row in rows
    ]
    dots = [float(one.get("cx")) for one in picture.iter(f"{SVG}circle")]
    first, *others = [(row.rating, dot) for row, dot in zip(rows, dots, strict=True)]
    slopes = [(dot - first[1]) / (rating - first[0]) for rating, dot in others]
    assert slopes[0] > 0
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=0.02)
    _, _, width, height = map(float, picture.get("viewBox").split())
    assert all(0 < dot < width for dot in dots)
    assert all(0 < float(one.get("y")) < height for one in picture.iter(f"{SVG}text"))


def test_ratings_without_intervals_are_dots_and_nobody_has_no_chart():
    board = small(Glicko2(kernel="plain")).board
    picture = parts(board)
    assert "Ratings of" in picture.get("aria-label")
    assert len(list(picture.iter(f"{SVG}circle"))) == len(drawn_rows(board))
    assert not [one for one in picture.iter(f"{SVG}path") if one.get("stroke")]
    assert interval_chart(replace(small().board, rows=())) == ""


def test_names_are_text_and_nothing_else():
    picture = parts(hostile().board)
    known = {"svg", "rect", "g", "path", "text", "title", "circle"}
    assert {one.tag.removeprefix(SVG) for one in picture.iter()} == known
    titles = [one.text for one in picture.iter(f"{SVG}title")]
    for name in HOSTILE:
        assert any(title.startswith(f"{escape_controls(name)}: ") for title in titles)
