"""Models by groups: every rating of a run with ``by`` in one table, and what a cell of it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tiltyard.core.board import RatedGroup, Row
from tiltyard.report.board_cells import interval_text, rank_range, rating_text
from tiltyard.report.html_parts import text_html

#: Shades from first to last.
_SHADE_STEPS = 7

_Cells = Mapping[str, Mapping[int, Row]]


def section_mark(index: int) -> str:
    """The anchor of a group's section."""
    return f"board-{index}"


def matrix_html(groups: Sequence[RatedGroup], by: str) -> str:
    """The table with its explanation: a row for each model, a column for each group."""
    cells: dict[str, dict[int, Row]] = {}
    for index, rated in enumerate(groups):
        for row in rated.board.rows:
            cells.setdefault(row.model, {})[index] = row
    counts = [sum(row.group == 0 for row in rated.board.rows) for rated in groups]
    heads = "".join(
        f'<th scope="col" class="n"><a href="#{section_mark(index)}">{text_html(rated.name or "")}</a> '
        f"<small>{rated.board.n_battles:,}</small></th>"
        for index, rated in enumerate(groups)
    )
    body = "".join(
        f'<tr><th scope="row">{text_html(model)}</th>'
        + "".join(_cell(cells[model].get(index), counts[index], rated) for index, rated in enumerate(groups))
        + "</tr>\n"
        for model in _sorted_models(cells)
    )
    return (
        f'<section class="matrix" aria-label="Models by {text_html(by)}">\n'
        f'<div class="wide box" role="group" aria-label="Ratings by {text_html(by)}" tabindex="0"><table>\n'
        f'<thead><tr><th scope="col">Model</th>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'
        f"{_explanation(groups, by)}</section>\n"
    )


def _sorted_models(cells: _Cells) -> list[str]:
    """By the mean of their ratings that can be compared in their groups; those without any last."""

    def key(model: str) -> tuple[bool, float, str]:
        known = [row.rating for row in cells[model].values() if row.group == 0 and row.rating is not None]
        return (not known, -fmean(known) if known else 0.0, model)

    return sorted(cells, key=key)


def _cell(row: Row | None, count: int, rated: RatedGroup) -> str:
    if row is None or row.rating is None:
        return '<td class="n">–</td>'
    parts = []
    level = rated.board.level
    if level is not None and (interval := interval_text(row)):
        parts.append(f"{100 * level:g}% interval {interval}")
    parts.append(f"{row.battles:,} battles")
    ranks = rank_range(row.rank_low, row.rank_high) or str(row.rank)
    shade = "" if row.group else f" q{_shade(row, count)}"
    apart = "†" if row.group else ""
    return f'<td class="n{shade}" title="{", ".join(parts)}">{rating_text(row.rating)}{apart} <small>{ranks}</small></td>'


def _shade(row: Row, count: int) -> int:
    """0 for the first rank, up to the last: by the middle of the range, so that an open order looks open."""
    low, high = row.rank_low or row.rank or 1, row.rank_high or row.rank or 1
    return round(((low + high) / 2.0 - 1.0) / max(count - 1, 1) * (_SHADE_STEPS - 1))


def _explanation(groups: Sequence[RatedGroup], by: str) -> str:
    ranges = any(rated.board.level is not None for rated in groups)
    rank = "range of ranks" if ranges else "rank"
    colour = "the middle of that range" if ranges else "that rank"
    sentences = [
        f"A cell is a model's rating in one {by} and, small, its {rank} there, from the battles of that {by} alone;",
        f"below the name of each {by} is its number of battles.",
        "Ratings of two columns have no common zero: compare models within a column.",
        "Nothing here tests a difference between columns.",
        f"The colour is {colour}: blue is first, orange last.",
        "Rows are in the order of their mean rating, which serves to sort and is no rating.",
    ]
    if any(row.group for rated in groups for row in rated.board.rows):
        sentences.append(f"† not comparable with the other models of its {by}.")
    if ranges:
        sentences.append(
            "The interval of a cell shows where the pointer rests on it, and in the section below."
        )
    return f"<p><small>{text_html(' '.join(sentences))}</small></p>\n"
