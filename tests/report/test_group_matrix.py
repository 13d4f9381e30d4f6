"""The matrix of models by groups."""

import re

from test_board_page import Page

from support.rated_boards import HOSTILE, hostile, rated, small
from support.worlds import told
from tiltyard.report.board_page import matrix_html


def rows_of(html):
    """By model: its cells."""
    found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', html)
    return {
        model: re.findall(r"<td class=\"([^\"]*)\"(?: title=\"([^\"]*)\")?>(.*?)</td>", cells)
        for model, cells in found
    }


def group(name, story):
    return rated(told(story), name=name)


def test_a_cell_is_a_rating_with_its_range_of_ranks():
    groups = [group("one", "a>b*90 b>a*10 b>c*90 c>b*10"), group("two", "c>a*60 a>c*30")]
    cells = rows_of(matrix_html(groups, "category"))
    for k, rated_group in enumerate(groups):
        for row in rated_group.board.rows:
            _, title, text = cells[row.model][k]
            assert text.startswith(f"{row.rating:.0f} <small>")
            assert f"95% interval {row.low:.0f} – {row.high:.0f}, {row.battles} battles" == title
    assert [cells[model][0][0] for model in "abc"] == ["n q0", "n q3", "n q6"], "settled orders have the ends"
    assert cells["b"][1] == ("n", "", "–"), "b is not in the second group"


def test_a_range_that_holds_over_all_groups_is_marked():
    weak = "a>b*24 b>a*7"
    alone = rows_of(matrix_html([group("one", weak)], "category"))
    assert [text.endswith("*</small>") for model in "ab" for *_, text in alone[model]] == [True, True]
    groups = [group("one", weak), *(group(str(k), "a>b*10 b>a*10") for k in range(12))]
    among = rows_of(html := matrix_html(groups, "category"))
    assert among["a"][0][2].endswith("<small>1</small>"), "within its group it still is first"
    assert "*</small>" not in html
    sure = matrix_html([group("one", "a>b*90 b>a*7"), *groups[1:]], "category")
    assert sure.count("*</small>") == 2


def test_rows_are_in_the_order_of_their_means():
    groups = [group("one", "a>b*6 b>a*3 c>b*5 b>c*4"), group("two", "b>a*8 a>b c>b*5 b>c*4")]
    ratings = {}
    for one in groups:
        for row in one.board.rows:
            ratings.setdefault(row.model, []).append(row.rating)
    expected = sorted(ratings, key=lambda model: -sum(ratings[model]) / len(ratings[model]))
    assert list(rows_of(matrix_html(groups, "category"))) == expected


def test_models_that_cannot_be_compared_have_a_mark_and_no_colour():
    html = matrix_html([small(name="people"), small(name="judges")], "source")
    cells = rows_of(html)
    assert all(text.split()[0].endswith("†") and kind == "n" for kind, _, text in cells["yew"])
    assert "† not comparable" in html
    assert set(list(cells)[:3]) == {"oak", "elm", "ash"}, "the others are below"
    assert "†" not in matrix_html([group("one", "a>b*6 b>a*3")], "source")


def test_no_element_stems_from_a_name():
    page = Page(matrix_html([hostile(name=HOSTILE[4]), hostile(name=HOSTILE[3])], "category"))
    known = {"section", "div", "table", "thead", "tbody", "tr", "th", "td", "a", "small", "p"}
    assert set(page.tags) == known
    assert page._open == []
