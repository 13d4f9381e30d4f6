"""The report: one self-contained HTML file, light or dark, with or without JavaScript; its matrix of groups and its chart of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from tiltyard.core.board import Board, RatedGroup, Row, pair_rows
from tiltyard.core.ratings.ranks import claims_over_all
from tiltyard.report.board_charts import chart_specs, charts_available
from tiltyard.report.board_formats import (
    baseline_html,
    flip_sentence,
    has_rd,
    interval_text,
    method_title,
    model_text,
    rank_range,
    rating_text,
    settled_sentence,
    title_parts,
)
from tiltyard.report.html_parts import (
    FONT_FAMILY,
    charts_note,
    figure_html,
    findings_html,
    offline_page,
    section_html,
    sentence_html,
    text_html,
    text_width,
    wrap_text,
)
from tiltyard.report.methods_text import RunFacts, bibtex_entry, methods_text

PairAddress = Callable[[str | None, str, str], str | None]

_PAIR_LIMIT = 200
#: What every page of a run folder says at its end.
PAGE_FOOTER = (
    "Every number follows from the files beside this file: <code>tiltyard verify</code> recomputes them."
)

#: Shades from first to last.
_SHADE_STEPS = 7
_INK, _SOFT, _LINE, _ACCENT = "#1d2328", "#5d6870", "#d9dee2", "#2f6f8f"
_FONT_PIXELS, _SMALL_FONT_PIXELS = 13.0, 12.0
_LINE_PIXELS = 15.0
_DOT_PIXELS = 4.5
#: Empty space around the picture, and between the names and the intervals.
_MARGIN_PIXELS, _GAP_PIXELS = 8.0, 16.0
#: The height of the axis with its numbers and its title.
_AXIS_PIXELS = 42.0
_NAME_LINES = 2


def render_page(title: str, groups: Sequence[RatedGroup], facts: RunFacts | None = None) -> str:
    """Render a page of its own. It depends only on the arguments and the installed versions."""
    facts = facts or RunFacts()
    several = len(groups) > 1
    overview = f"{matrix_html(groups, facts.by or 'group')}{_contents(groups)}" if several else ""
    body = f"{overview}{boards_html(groups, fold_charts=several, fold_boards=several)}{_methods(title, groups, facts)}{charts_note()}"
    return offline_page(title, body, footer=PAGE_FOOTER)


def boards_html(
    groups: Sequence[RatedGroup],
    *,
    fold_charts: bool = False,
    fold_boards: bool = False,
    pair_address: PairAddress = lambda *_: None,
) -> str:
    """The boards with their charts and tables, one after the other.

    ``fold_charts`` closes the charts, so that what draws them is needed only when a reader opens them;
    ``fold_boards`` closes all boards but the first.
    ``pair_address`` is where the inconsistent matches of a pair can be read: group, both models.
    """
    return "".join(
        _section(rated, index, (fold_charts, fold_boards and index > 0), pair_address)
        for index, rated in enumerate(groups)
    )


def _contents(groups: Sequence[RatedGroup]) -> str:
    links = "".join(
        f'<li><a href="#{section_mark(index)}">{text_html(rated.name or "")}</a></li>\n'
        for index, rated in enumerate(groups)
    )
    return f'<nav aria-label="Contents"><ul>\n{links}<li><a href="#methods">Methods</a></li>\n</ul></nav>\n'


def _section(rated: RatedGroup, index: int, fold: tuple[bool, bool], pair_address: PairAddress) -> str:
    """What is settled, the board and its chart come first, details after them."""
    mark = section_mark(index)
    heading = "" if rated.name is None else f"<h2>{text_html(rated.name)}</h2>\n"
    settled = settled_sentence(rated)
    flip = flip_sentence(rated.flips)
    charts = _charts(rated, index) if charts_available() else ""
    if charts and fold[0]:
        charts = f'<details class="charts"><summary>Charts</summary>\n{charts}</details>\n'
    parts = [
        f'<p class="settled">{sentence_html(settled)}</p>\n' if settled else "",
        _lede(rated.board),
        _findings_link(rated.board, mark),
        f'<div class="first">\n<div>{_table(rated.board)}</div>\n{_intervals(rated, mark)}</div>\n',
        f"<p><small>{text_html(flip)}</small></p>\n" if flip else "",
        baseline_html(rated.board.baseline, f"{mark}-baseline"),
        f'<div id="{mark}-findings">{findings_html(rated.board.findings)}</div>\n',
        charts,
        *(_pairs(rated, pair_address), _sweep(rated), _prediction(rated), _method(rated)),
    ]
    body = f"{heading}{''.join(parts)}"
    if fold[1]:
        body = f'<details class="group"><summary>{heading}</summary>\n{"".join(parts)}</details>\n'
    return f'<section class="rated" id="{mark}">\n{body}</section>\n'


def _findings_link(board: Board, mark: str) -> str:
    count = len(board.findings)
    if not count:
        return ""
    words = "1 finding" if count == 1 else f"{count} findings"
    return f'<p class="noted"><a href="#{mark}-findings">{words} to read before you trust these numbers</a></p>\n'


def _intervals(rated: RatedGroup, mark: str) -> str:
    """The chart twice, as wide screens and phones need it; the style shows one."""
    board = rated.board
    shapes = [interval_chart(board, layout) for layout in (WIDE, NARROW)]
    if not shapes[0]:
        return ""
    wide, narrow = (
        shape.replace("<svg ", f'<svg class="{name}" ', 1)
        for shape, name in zip(shapes, ("broad", "slim"), strict=True)
    )
    apart = sum(row.rating is not None and row.group != 0 for row in board.rows)
    note = (
        f"<p><small>Not drawn, since they are not comparable with these: {apart:,} models.</small></p>\n"
        if apart
        else ""
    )
    return (
        f'<figure class="intervals" data-name="intervals-{mark}"><figcaption>{text_html(chart_title(board))}</figcaption>\n'
        f"{wide}{narrow}{note}</figure>\n"
    )


def _methods(title: str, groups: Sequence[RatedGroup], facts: RunFacts) -> str:
    entry = "\n".join(map(text_html, bibtex_entry(title, groups, facts).splitlines()))
    return section_html(
        "methods",
        "Methods",
        f"<p>{text_html(methods_text(groups, facts))}</p>\n",
        "<p>To cite this run, add who made it, when, and where it can be found:</p>\n"
        f'<pre class="copied">{entry}</pre>\n',
    )


def _lede(board: Board) -> str:
    parts = title_parts(board)
    if board.level is not None:
        level = "battle-level " if board.clusters == "battle" else ""
        parts.append(f"{100 * board.level:g}% {level}intervals for {board.scope} ({board.basis})")
    return f'<p class="lede">{text_html(" · ".join(parts))}</p>\n'


def _table(board: Board) -> str:
    """The board. On a phone the columns of class ``more`` are shown on request."""
    heads = _heads(board)
    head = "".join(f"<th{_class_of(kind)}>{text_html(name)}</th>" for name, kind in heads)
    body: list[str] = []
    group: int | None = 0
    tier: int | None = 1
    tiers = _has_tiers(board)
    for row in board.rows:
        if row.group != group:
            group, tier = row.group, row.tier
            text = "No rating" if group is None else "Not comparable with those above"
            body.append(f'<tr class="apart"><td></td><td colspan="{len(heads) - 1}">{text}</td></tr>\n')
        mark = ' class="tier"' if tiers and row.tier is not None and row.tier != tier else ""
        tier = row.tier
        cells = "".join(
            f"<td{_class_of(kind)}>{cell}</td>"
            for cell, (_, kind) in zip(_cells(row, board), heads, strict=True)
        )
        body.append(f"<tr{mark}>{cells}</tr>\n")
    return (
        f'<div class="wide"><table class="board">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody>\n'
        '</table></div>\n<label class="all"><input type="checkbox"> All columns</label>\n'
    )


def _heads(board: Board) -> list[tuple[str, str]]:
    """Headings, and the class of their columns: name, number, or number that a phone leaves out."""
    heads = [("", "n"), ("Model", "m"), ("Rating", "n")]
    if board.level is not None:
        tier = [("Tier", "n more")] if _has_tiers(board) else []
        heads += [(f"{100 * board.level:g}% interval", "n more"), ("Ranks", "n"), *tier]
    if has_rd(board):
        heads.append(("RD", "n"))
    heads += [(name, "n more") for name in ("Won", "Lost", "Tied")]
    # A laptop has room for one of them beside the chart; the files have both.
    return [*heads, ("Shrunk" if _has_shrunk(board) else "Both bad", "n more")]


def _has_tiers(board: Board) -> bool:
    """Whether tiers tell something: not where all models are in one, or each in its own."""
    tiers = [(row.group, row.tier) for row in board.rows if row.tier is not None]
    return 1 < len(set(tiers)) < len(tiers)


def _has_shrunk(board: Board) -> bool:
    return any(row.shrunk is not None for row in board.rows)


def _class_of(kind: str) -> str:
    return f' class="{kind}"'


def _cells(row: Row, board: Board) -> list[str]:
    label = "" if row.placed is None else f" <small>({row.placed})</small>"
    cells = [_number(row.rank), f"{text_html(row.model)}{label}", _number(row.rating, "{:.0f}")]
    if board.level is not None:
        # A phone has the interval below the rating.
        cells[-1] += f'<small class="slim">{text}</small>' if (text := interval_text(row)) else ""
        cells += [interval_text(row), rank_range(row.rank_low, row.rank_high)]
        cells += [_number(row.tier)] if _has_tiers(board) else []
    if has_rd(board):
        cells.append(_number(row.rd, "{:.0f}"))
    cells += map(_number, (row.wins, row.losses, row.ties))
    if _has_shrunk(board):
        half = "" if row.shrunk is None or row.shrunk_low is None else f" ±{row.shrunk - row.shrunk_low:.0f}"
        return [*cells, _number(row.shrunk, "{:.0f}") + half]
    rate = "" if row.both_bad_rate is None else f"{row.both_bad_rate:.0%}"
    return [*cells, f"{row.both_bad:,} <small>{rate}</small>"]


def _number(value: float | None, form: str = "{:,}") -> str:
    return "–" if value is None else form.format(value)


def _n(value: float | None, form: str = "{:,}") -> str:
    return f'<td class="n">{_number(value, form)}</td>'


def _linked(count: int, address: str | None) -> str:
    if not count or address is None:
        return _n(count)
    return f'<td class="n"><a href="{text_html(address)}">{count:,}</a></td>'


def _charts(rated: RatedGroup, index: int) -> str:
    figures = "".join(
        figure_html(f"spec-{index}-{number}", title, spec)
        for number, (title, spec) in enumerate(chart_specs(rated).items())
    )
    return f'<div class="figures">{figures}</div>\n'


def _pairs(rated: RatedGroup, pair_address: PairAddress) -> str:
    rows = sorted(pair_rows(rated.table, rated.ratings.method), key=lambda row: -row.battles)
    heads = ("A", "B", "A won", "B won", "Tied", "Inconsistent", "Both bad", "A's score")
    body = "".join(
        f"<tr><td class=m>{text_html(row.model_a)}</td><td class=m>{text_html(row.model_b)}</td>"
        + "".join(_n(n) for n in (row.a_wins, row.b_wins, row.ties))
        + _linked(row.inconsistent, pair_address(rated.name, row.model_a, row.model_b))
        + f"{_n(row.both_bad)}{_n(row.a_score, '{:.2f}')}</tr>\n"
        for row in rows[:_PAIR_LIMIT]
    )
    shown = (
        f"{len(rows):,}"
        if len(rows) <= _PAIR_LIMIT
        else f"{_PAIR_LIMIT} of {len(rows):,}, most battles first"
    )
    return _details(f"Pairs ({shown})", heads, body)


def _sweep(rated: RatedGroup) -> str:
    if not rated.sweep:
        return ""
    heads = ("Model", *(f"K = {k:g}" for k in rated.sweep))
    body = ""
    for row in rated.board.rows:
        k = rated.table.models.index(row.model)
        cells = (float(ratings.rating[k]) for ratings in rated.sweep.values())
        body += (
            f"<tr><td class=m>{text_html(row.model)}</td>"
            + "".join(_n(None if c != c else c, "{:.0f}") for c in cells)
            + "</tr>\n"
        )
    return _details("Elo under other values of K", heads, body)


def _prediction(rated: RatedGroup) -> str:
    found = rated.prediction
    if found is None:
        return ""
    body = "".join(f"<tr>{_n(p, '{:.2f}')}{_n(y, '{:.2f}')}{_n(n)}</tr>\n" for p, y, n in found.calibration)
    table = _details("Predicted against observed score", ("Predicted", "Observed", "Battles"), body)
    return (
        f"<p>Predicted from the battles before them, {found.battles:,} battles had a log-loss of "
        f"{found.log_loss:.4f} each; saying one half every time has {found.coin:.4f}.</p>\n{table}"
    )


def _details(title: str, heads: Sequence[str], body: str) -> str:
    head = "".join(
        f"<th{'' if k == 0 else ' class=n'}>{text_html(name)}</th>" for k, name in enumerate(heads)
    )
    return (
        f"<details><summary>{text_html(title)}</summary><div class=wide><table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table></div></details>\n"
    )


def _method(rated: RatedGroup) -> str:
    lines = "".join(
        f"<tr><td>{text_html(name)}</td><td><code>{text_html(repr(value))}</code></td></tr>\n"
        for name, value in rated.board.parameters().items()
    )
    return _details(f"Method: {method_title(rated.board.method.name)}", ("Parameter", "Value"), lines)


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
    proven = _proven_over_all(groups)
    heads = "".join(
        f'<th scope="col" class="n"><a href="#{section_mark(index)}">{text_html(rated.name or "")}</a> '
        f"<small>{rated.board.n_battles:,}</small></th>"
        for index, rated in enumerate(groups)
    )

    # By the mean of their ratings that can be compared; those without any last.
    def key(model: str) -> tuple[bool, float, str]:
        known = [row.rating for row in cells[model].values() if row.group == 0 and row.rating is not None]
        return (not known, -fmean(known) if known else 0.0, model)

    body = "".join(
        f'<tr><th scope="row">{text_html(model)}</th>'
        + "".join(
            _cell(cells[model].get(index), counts[index], rated, (index, model) in proven)
            for index, rated in enumerate(groups)
        )
        + "</tr>\n"
        for model in sorted(cells, key=key)
    )
    return (
        f'<section class="matrix" aria-label="Models by {text_html(by)}">\n'
        f'<div class="wide box" role="group" aria-label="Ratings by {text_html(by)}" tabindex="0"><table>\n'
        f'<thead><tr><th scope="col">Model</th>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'
        f"{_explanation(groups, by)}</section>\n"
    )


def _proven_over_all(groups: Sequence[RatedGroup]) -> set[tuple[int, str]]:
    """Group and model of each range of ranks whose claims hold together with those of all groups, if it claims any."""
    ranked = {index: one.ranks for index, one in enumerate(groups) if one.ranks is not None}
    found, claims = set(), claims_over_all(list(ranked.values())) if ranked else []
    for (index, ranks), kept in zip(ranked.items(), claims, strict=True):
        lost = ranks.above & ~kept
        proven = (ranks.above | ranks.above.T).any(axis=0) & ~(lost | lost.T).any(axis=0)
        found |= {(index, groups[index].ratings.models[k]) for k in np.flatnonzero(proven)}
    return found


def _cell(row: Row | None, count: int, rated: RatedGroup, proven: bool) -> str:
    if row is None or row.rating is None:
        return '<td class="n">–</td>'
    parts = []
    level = rated.board.level
    if level is not None and (interval := interval_text(row)):
        parts.append(f"{100 * level:g}% interval {interval}")
    parts.append(f"{row.battles:,} battles")
    ranks = (rank_range(row.rank_low, row.rank_high) or str(row.rank)) + ("*" if proven else "")
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
        "the number of these battles stands beside its name. Overall is from all battles.",
        "Ratings of two columns have no common zero: compare models within a column.",
        "Nothing here tests a difference between columns.",
        f"The colour is {colour}: blue is first, orange last.",
        "Rows are in the order of their mean rating, which serves to sort and is no rating.",
    ]
    if any(row.group for rated in groups for row in rated.board.rows):
        sentences.append(f"† not comparable with the other models of its {by}.")
    if ranges:
        sentences.append(
            f"Ranges hold together within one {by}, and those with * hold over all of them (Holm). "
            "The interval of a cell shows where the pointer rests on it, and in the section below."
        )
    if any(_has_shrunk(rated.board) for rated in groups):
        sentences.append(
            f"Below, “Shrunk” is the rating moved towards the model's ratings in the other columns, as far as chance "
            f"explains how they differ: the better guess of its rating in one {by}, but ranks rest on the {by} alone."
        )
    return f"<p><small>{text_html(' '.join(sentences))}</small></p>\n"


@dataclass(frozen=True, slots=True)
class ChartLayout:
    width: float
    #: The largest width of the names; ``None`` writes each name above its interval.
    names: float | None
    #: Space above and below each row.
    space: float
    ticks: int


#: For papers and screens, and for phones.
WIDE = ChartLayout(width=640.0, names=300.0, space=9.0, ticks=6)
NARROW = ChartLayout(width=350.0, names=None, space=7.0, ticks=4)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where numbers lie in the picture."""

    low: float
    high: float
    left: float
    right: float

    def at(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * (self.right - self.left)

    def ticks(self, most: int) -> list[float]:
        """Round numbers, at most so many."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, math.floor(self.high / step) + 1)]


def drawn_rows(board: Board) -> list[Row]:
    """The rows that one axis can show: rated, and comparable with each other."""
    return [row for row in board.rows if row.group == 0 and row.rating is not None]


def chart_title(board: Board) -> str:
    return "Ratings" if board.level is None else f"Ratings with {100 * board.level:g}% intervals"


def interval_chart(board: Board, layout: ChartLayout = WIDE) -> str:
    """The chart as SVG; empty if there is nothing to draw."""
    rows = drawn_rows(board)
    if not rows:
        return ""
    ranks = max(text_width(str(row.rank), _FONT_PIXELS) for row in rows)
    start = _MARGIN_PIXELS + ranks + 8.0
    names = [
        wrap_text(
            model_text(row),
            _FONT_PIXELS,
            (layout.width - start - _MARGIN_PIXELS if layout.names is None else layout.names),
            _NAME_LINES,
        )
        for row in rows
    ]
    left = _MARGIN_PIXELS + _DOT_PIXELS
    if layout.names is not None:
        left = start + max(text_width(line, _FONT_PIXELS) for lines in names for line in lines) + _GAP_PIXELS
    right = layout.width - _MARGIN_PIXELS - _DOT_PIXELS
    ends = [end for row in rows for end in (row.low, row.rating, row.high) if end is not None]
    low, high = min(ends), max(ends)
    if high - low < 1.0:
        low, high = low - 10.0, high + 10.0
    axis = _Axis(low, high, left, right)
    body, y = "", _MARGIN_PIXELS
    for row, lines in zip(rows, names, strict=True):
        height = len(lines) * _LINE_PIXELS + layout.space + (0.0 if layout.names else _LINE_PIXELS)
        body += _row(row, lines, axis, _Place(start, y, height, beside=layout.names is not None))
        y += height
    parts = "".join(_axis_parts(axis, layout, y))
    height = y + _AXIS_PIXELS
    label = text_html(f"{chart_title(board)} of {len(rows)} models")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:g} {height:g}" width="{layout.width:g}" '
        f'height="{height:g}" role="img" aria-label="{label}" font-family="{text_html(FONT_FAMILY)}" '
        f'font-size="{_FONT_PIXELS:g}">\n<rect class="paper" width="100%" height="100%" fill="#fff"/>\n{parts}'
        f'<g class="rows" fill="{_INK}" stroke-width="2">\n{body}</g>\n</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row is drawn; its interval ``beside`` the name, or below it."""

    start: float
    top: float
    height: float
    beside: bool


def _row(row: Row, lines: Sequence[str], axis: _Axis, place: _Place) -> str:
    inside = place.height - (0.0 if place.beside else _LINE_PIXELS)
    first = place.top + (inside - len(lines) * _LINE_PIXELS) / 2.0 + 11.5
    y = place.top + (place.height / 2.0 if place.beside else place.height - _LINE_PIXELS / 2.0 - 3.0)
    texts = "".join(
        f'<text x="{place.start:.1f}" y="{first + k * _LINE_PIXELS:.1f}">{text_html(line)}</text>'
        for k, line in enumerate(lines)
    )
    assert row.rating is not None
    bar = ""
    if row.low is not None and row.high is not None:
        bar = f'<path d="M{axis.at(row.low):.1f} {y:.1f}H{axis.at(row.high):.1f}" stroke="{_ACCENT}"/>'
    # A phone has nothing that hovers.
    title = f"<title>{text_html(_row_title(row))}</title>" if place.beside else ""
    return (
        f'<g>{title}<text class="soft" x="{place.start - 8.0:.1f}" y="{first:.1f}" fill="{_SOFT}" '
        f'text-anchor="end">{row.rank}</text>{texts}{bar}<circle cx="{axis.at(row.rating):.1f}" cy="{y:.1f}" '
        f'r="{_DOT_PIXELS:g}" fill="{_ACCENT}"/></g>\n'
    )


def _row_title(row: Row) -> str:
    interval, ranks = interval_text(row), rank_range(row.rank_low, row.rank_high)
    parts = [
        f"{row.rating:.0f}",
        f"interval {interval}" if interval else "",
        f"ranks {ranks}" if ranks else "",
    ]
    return f"{model_text(row)}: {', '.join(part for part in parts if part)}"


def _axis_parts(axis: _Axis, layout: ChartLayout, bottom: float) -> Iterator[str]:
    ticks = axis.ticks(layout.ticks)
    lines = "".join(f'<path d="M{axis.at(tick):.1f} {_MARGIN_PIXELS:g}V{bottom:.1f}"/>' for tick in ticks)
    yield f'<g class="grid" stroke="{_LINE}">{lines}</g>\n'
    numbers = "".join(
        f'<text x="{min(axis.at(tick), layout.width - 18.0):.1f}" y="{bottom + 15.0:.1f}">{tick:g}</text>'
        for tick in ticks
    )
    middle = (axis.left + axis.right) / 2.0
    yield (
        f'<g class="soft" fill="{_SOFT}" font-size="{_SMALL_FONT_PIXELS:g}" text-anchor="middle">{numbers}'
        f'<text x="{middle:.1f}" y="{bottom + 33.0:.1f}">rating</text></g>\n'
    )
