"""The report: one self-contained HTML file, light or dark, with or without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiltyard.core.board import Board, RatedGroup, Row, pair_rows
from tiltyard.report.baseline_table import baseline_html
from tiltyard.report.board_cells import (
    flip_sentence,
    interval_text,
    method_title,
    rank_range,
    settled_sentence,
    title_parts,
)
from tiltyard.report.board_charts import HEATMAP_MODELS, chart_specs, charts_available
from tiltyard.report.group_matrix import matrix_html, section_mark
from tiltyard.report.html_parts import findings_html, section_html, sentence_html, text_html
from tiltyard.report.interval_chart import NARROW, WIDE, chart_title, interval_chart
from tiltyard.report.methods_text import RunFacts, bibtex_entry, methods_text
from tiltyard.report.page_shell import charts_note, figure_html, offline_page

PairAddress = Callable[[str | None, str, str], str | None]

_PAIR_LIMIT = 200
#: What every page of a run folder says at its end.
PAGE_FOOTER = (
    "Every number follows from the files beside this file: <code>tiltyard verify</code> recomputes them."
)


def render_page(title: str, groups: Sequence[RatedGroup], facts: RunFacts | None = None) -> str:
    """Render a page of its own. It depends only on the arguments and the installed versions."""
    facts = facts or RunFacts()
    several = len(groups) > 1
    overview = f"{matrix_html(groups, facts.by or 'group')}{_contents(groups)}" if several else ""
    body = (
        f"{overview}{boards_html(groups, fold_charts=several)}{_methods(title, groups, facts)}{charts_note()}"
    )
    return offline_page(title, body, footer=PAGE_FOOTER)


def boards_html(
    groups: Sequence[RatedGroup], *, fold_charts: bool = False, pair_address: PairAddress = lambda *_: None
) -> str:
    """The boards with their charts and tables, one after the other.

    ``fold_charts`` closes the charts, so that what draws them is needed only when a reader opens them.
    ``pair_address`` is where the inconsistent matches of a pair can be read: group, both models.
    """
    return "".join(_section(rated, index, fold_charts, pair_address) for index, rated in enumerate(groups))


def _contents(groups: Sequence[RatedGroup]) -> str:
    links = "".join(
        f'<li><a href="#{section_mark(index)}">{text_html(rated.name or "")}</a></li>\n'
        for index, rated in enumerate(groups)
    )
    return f'<nav aria-label="Contents"><ul>\n{links}<li><a href="#methods">Methods</a></li>\n</ul></nav>\n'


def _section(rated: RatedGroup, index: int, fold_charts: bool, pair_address: PairAddress) -> str:
    """What is settled, the board and its chart come first, details after them."""
    mark = section_mark(index)
    heading = "" if rated.name is None else f"<h2>{text_html(rated.name)}</h2>\n"
    settled = settled_sentence(rated)
    flip = "" if rated.flip is None else f"<p>{text_html(flip_sentence(rated.flip))}</p>\n"
    charts = _charts(rated, index) if charts_available() else ""
    if charts and fold_charts:
        charts = f'<details class="charts"><summary>Charts</summary>\n{charts}</details>\n'
    parts = [
        heading,
        f'<p class="settled">{sentence_html(settled)}</p>\n' if settled else "",
        _lede(rated.board),
        _findings_link(rated.board, mark),
        f'<div class="first">\n<div>{_table(rated.board)}</div>\n{_intervals(rated, mark)}</div>\n',
        flip,
        baseline_html(rated.board.baseline, f"{mark}-baseline"),
        f'<div id="{mark}-findings">{findings_html(rated.board.findings)}</div>\n',
        charts,
        *(_pairs(rated, pair_address), _sweep(rated), _prediction(rated), _method(rated)),
    ]
    return f'<section class="rated" id="{mark}">\n{"".join(parts)}</section>\n'


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
    """How the ratings were made, ready to be quoted."""
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
    for row in board.rows:
        if row.group != group:
            group, tier = row.group, row.tier
            text = "No rating" if group is None else "Not comparable with those above"
            body.append(f'<tr class="apart"><td></td><td colspan="{len(heads) - 1}">{text}</td></tr>\n')
        mark = ' class="tier"' if row.tier is not None and row.tier != tier else ""
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
        heads += [(f"{100 * board.level:g}% interval", "n"), ("Ranks", "n"), ("Tier", "n more")]
    if _has_rd(board):
        heads.append(("RD", "n"))
    return heads + [(name, "n more") for name in ("Won", "Lost", "Tied", "Both bad")]


def _has_rd(board: Board) -> bool:
    return any(row.rd is not None for row in board.rows)


def _class_of(kind: str) -> str:
    return f' class="{kind}"'


def _cells(row: Row, board: Board) -> list[str]:
    label = "" if row.placed is None else f" <small>({row.placed})</small>"
    cells = [_number(row.rank), f"{text_html(row.model)}{label}", _number(row.rating, "{:.0f}")]
    if board.level is not None:
        cells += [interval_text(row), rank_range(row.rank_low, row.rank_high), _number(row.tier)]
    if _has_rd(board):
        cells.append(_number(row.rd, "{:.0f}"))
    rate = "" if row.both_bad_rate is None else f"{row.both_bad_rate:.0%}"
    return [
        *cells,
        *map(_number, (row.wins, row.losses, row.ties)),
        f"{row.both_bad:,} <small>{rate}</small>",
    ]


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
    many = sum(row.group == 0 for row in rated.board.rows) > HEATMAP_MODELS
    note = f"<p><small>Heatmaps show the first {HEATMAP_MODELS} models.</small></p>\n" if many else ""
    return f'<div class="figures">{figures}</div>\n{note}'


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
