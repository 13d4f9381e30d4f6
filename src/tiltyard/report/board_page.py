"""The report: one self-contained HTML file, light or dark, with or without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.core.board import Board, RatedGroup, Row, pair_rows
from tiltyard.report.board_charts import HEATMAP_MODELS, chart_specs, charts_available
from tiltyard.report.html_parts import findings_html, text_html
from tiltyard.report.page_shell import charts_note, figure_html, offline_page
from tiltyard.report.terminal import flip_sentence, method_title

__all__ = ["render_page"]

_PAIR_LIMIT = 200
_FOOTER = (
    "Every number follows from the files beside this file: <code>tiltyard verify</code> recomputes them."
)


def render_page(title: str, groups: Sequence[RatedGroup], *, lede: str = "", sections: str = "") -> str:
    """Render the page. It depends only on the arguments and the installed versions.

    ``lede`` and ``sections`` are HTML placed before and after the groups.
    """
    charts = charts_available()
    ratings = "".join(_section(rated, index, charts=charts) for index, rated in enumerate(groups))
    return offline_page(title, f"{lede}{ratings}{charts_note()}{sections}", footer=_FOOTER)


def _section(rated: RatedGroup, index: int, *, charts: bool) -> str:
    heading = "" if rated.name is None else f"<h2>{text_html(rated.name)}</h2>\n"
    parts = [
        heading,
        _lede(rated.board),
        findings_html(rated.board.findings),
        _table(rated.board),
    ]
    if rated.flip is not None:
        parts.append(f"<p>{text_html(flip_sentence(rated.flip))}</p>\n")
    parts.append(_charts(rated, index) if charts else "")
    parts += [_pairs(rated), _sweep(rated), _prediction(rated), _method(rated)]
    return "".join(parts)


def _lede(board: Board) -> str:
    rated = sum(row.rank is not None for row in board.rows)
    parts = [method_title(board.method.name), f"{board.n_battles:,} battles", f"{rated} models"]
    if board.level is not None:
        level = "battle-level " if board.clusters == "battle" else ""
        parts.append(f"{100 * board.level:g}% {level}intervals for {board.scope} ({board.basis})")
    return f'<p class="lede">{text_html(" · ".join(parts))}</p>\n'


def _table(board: Board) -> str:
    heads = ["", "Model", "Rating"]
    if board.level is not None:
        heads += [f"{100 * board.level:g}% interval", "", "Ranks", "Tier"]
    if any(row.rd is not None for row in board.rows):
        heads.append("RD")
    heads += ["Won", "Lost", "Tied", "Both bad"]
    head = "".join(
        f"<th{'' if name in ('Model', '') else ' class=n'}>{text_html(name)}</th>" for name in heads
    )
    ends = [end for row in board.rows for end in (row.low, row.high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
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
        body.append(f"<tr{mark}>{_row(row, board, heads, span)}</tr>\n")
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody>\n</table></div>\n'


def _row(row: Row, board: Board, heads: list[str], span: tuple[float, float]) -> str:
    cells = [_n(row.rank), f'<td class="m">{text_html(row.model)}</td>', _n(row.rating, "{:.0f}")]
    if board.level is not None:
        interval = "" if row.low is None or row.high is None else f"{row.low:.0f} – {row.high:.0f}"
        cells += [f'<td class="n">{interval}</td>', f"<td>{_bar(row, span)}</td>"]
        ranks = "" if row.rank_low is None else f"{row.rank_low}–{row.rank_high}"
        if row.rank_low is not None and row.rank_low == row.rank_high:
            ranks = str(row.rank_low)
        cells += [f'<td class="n">{ranks}</td>', _n(row.tier)]
    if "RD" in heads:
        cells.append(_n(row.rd, "{:.0f}"))
    cells += [_n(row.wins), _n(row.losses), _n(row.ties)]
    rate = row.both_bad_rate
    cells.append(f'<td class="n">{row.both_bad} <small>{"" if rate is None else f"{rate:.0%}"}</small></td>')
    return "".join(cells)


def _n(value: float | None, form: str = "{:,}") -> str:
    return f'<td class="n">{"–" if value is None else form.format(value)}</td>'


def _bar(row: Row, span: tuple[float, float]) -> str:
    """The interval drawn to scale, as a line and a dot."""
    if row.low is None or row.high is None or row.rating is None:
        return ""
    scale = 190.0 / max(span[1] - span[0], 1e-9)
    low, dot, high = (5.0 + (value - span[0]) * scale for value in (row.low, row.rating, row.high))
    return (
        '<svg class="bar" viewBox="0 0 200 16" preserveAspectRatio="none" aria-hidden="true">'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8" stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{dot:.1f}" cy="8" r="4" fill="currentColor"/></svg>'
    )


def _charts(rated: RatedGroup, index: int) -> str:
    figures = "".join(
        figure_html(f"spec-{index}-{number}", title, spec)
        for number, (title, spec) in enumerate(chart_specs(rated).items())
    )
    many = sum(row.group == 0 for row in rated.board.rows) > HEATMAP_MODELS
    note = f"<p><small>Heatmaps show the first {HEATMAP_MODELS} models.</small></p>\n" if many else ""
    return figures + note


def _pairs(rated: RatedGroup) -> str:
    rows = sorted(pair_rows(rated.table), key=lambda row: -row.battles)
    heads = ("A", "B", "A won", "B won", "Tied", "Inconsistent", "Both bad", "A's score")
    body = "".join(
        f"<tr><td class=m>{text_html(row.model_a)}</td><td class=m>{text_html(row.model_b)}</td>"
        + "".join(_n(n) for n in (row.a_wins, row.b_wins, row.ties, row.inconsistent, row.both_bad))
        + f"{_n(row.a_score, '{:.2f}')}</tr>\n"
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
