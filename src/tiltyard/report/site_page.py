"""The first page of a published site: a card for each run, and how to verify it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiltyard.report.board_formats import method_title, rank_range
from tiltyard.report.html_parts import (
    Cell,
    LinkedText,
    findings_html,
    interval_svg,
    offline_page,
    page_asset,
    sentence_html,
    table_html,
    text_html,
)
from tiltyard.report.site_boards import (
    CARD_HEIGHT_PIXELS,
    CARD_WIDTH_PIXELS,
    SiteBoard,
    SiteRow,
    SiteRun,
    badge_text,
    find_series,
    first_place_sentence,
    headline_board,
    result_sentence,
)

_FOOTER = (
    "Every number follows from the files of its run: <code>tiltyard verify</code> recomputes them. Whoever can "
    "change this page can change the hashes on it: compare them with a second place, if you know one."
)
#: So many rows of a board are shown if there are several runs, or several boards in a run.
_TOP_ROW_COUNT = 5
#: So many boards of a run are shown if there are several runs.
_TOP_BOARD_COUNT = 6


@dataclass(frozen=True, slots=True)
class SitePage:
    """What the page says besides its runs. ``url`` is the site's address without a slash at its end, if it is known."""

    title: str
    url: str | None
    #: The address of the first run's card inside the site, if there is one in a format that other sites show.
    card: str | None


def render_site_page(page: SitePage, runs: Sequence[SiteRun]) -> str:
    """Render the page. It has no scripts, loads only the badges beside it, and all its links are relative."""
    series = find_series(runs)
    newest = [one[0] for one in series]
    body = "".join(_run(run, page, earlier, alone=len(series) == 1) for run, *earlier in series)
    if len(series) > 1:
        items = "".join(f'<li><a href="#{run.name}">{sentence_html(run.title)}</a></li>\n' for run in newest)
        body = f'<nav aria-label="Boards"><ul>\n{items}</ul></nav>\n{body}'
    return offline_page(page.title, body, footer=_FOOTER, head=_head(page, newest), scripts="")


def _head(page: SitePage, runs: Sequence[SiteRun]) -> str:
    style = f"\n{page_asset('site.css')}"
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (f"\n{page_asset('page.css')}", style)
    )
    policy = (
        f"default-src 'none'; style-src {hashes}; img-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
    described = result_sentence(runs[0]) if len(runs) == 1 else f"{len(runs)} boards"
    tags = [("description", "name", described)]
    if page.url is not None:
        tags += [
            ("og:type", "property", "website"),
            ("og:title", "property", page.title),
            ("og:description", "property", described),
            ("og:url", "property", f"{page.url}/"),
        ]
        if page.card is not None:
            tags += [
                ("og:image", "property", f"{page.url}/{page.card}"),
                ("og:image:width", "property", str(CARD_WIDTH_PIXELS)),
                ("og:image:height", "property", str(CARD_HEIGHT_PIXELS)),
                ("og:image:alt", "property", f"{runs[0].title}: {result_sentence(runs[0])}"),
                ("twitter:card", "name", "summary_large_image"),
            ]
    metas = "".join(f'<meta {kind}="{name}" content="{text_html(text)}">\n' for name, kind, text in tags)
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{metas}<style>{style}</style>\n'


def _run(run: SiteRun, page: SitePage, earlier: Sequence[SiteRun], *, alone: bool) -> str:
    heading = "" if alone and run.title == page.title else f"<h2>{sentence_html(run.title)}</h2>\n"
    if page.url is None:
        embed = ""
    else:
        target = f"{page.url}/#{run.name}"
        embed = f"<pre><code>[![tiltyard]({page.url}/badges/{run.name}.svg)]({target})</code></pre>\n"
    alt = text_html(result_sentence(run))
    badge = (
        f'<details><summary>Badge</summary>\n<p><img src="badges/{run.name}.svg" alt="{alt}" height="20"></p>\n'
        f"{embed}</details>\n"
    )
    first = "" if page.url is not None else "Download the run, then:"
    lines = "\n".join(map(text_html, verify_commands(run, page.url)))
    done = (
        "Before it was published, every number was recomputed from the battles."
        if run.recomputed
        else "Before it was published, only hashes were checked: it has too many battles to recompute by default."
    )
    verify = (
        f'<details class="verify"{" open" if alone else ""}><summary>Verify</summary>\n<p>{first}</p>\n'
        f"<pre><code>{lines}</code></pre>\n"
        f"<p><small>SHA-256 of the manifest: <code>{run.manifest_sha256}</code>. {done}</small></p></details>\n"
    ).replace("<p></p>\n", "")
    return (
        f'<section class="run" id="{run.name}">\n{heading}'
        f'<p class="result">{sentence_html(result_sentence(run))}</p>\n'
        f'<p class="lede">{text_html(" · ".join(_facts(run)))}</p>\n'
        f"{''.join(_boards(run, alone=alone))}{_findings(run, alone=alone)}"
        f"{_history([run, *earlier]) if earlier else ''}"
        f'<p class="links"><a href="{run.name}/report.html">Full report</a>'
        f'<a href="{run.name}.zip">Download the run ({format_bytes(run.archive_bytes)})</a>'
        f'<a href="{run.name}/manifest.json">Manifest</a></p>\n'
        f"{verify}{badge}</section>\n"
    )


def _history(series: Sequence[SiteRun]) -> str:
    """A row for each date, newest first: what its board said of first place, and of the models that lead today."""
    board = headline_board(series[0])
    models = [] if board is None else [row.model for row in board.rows[:_TOP_ROW_COUNT]]
    heads = ["Date", "First place", "Battles", *models]
    rows: Iterator[tuple[Cell, ...]] = (
        (
            LinkedText(run.date or run.name, f"{run.name}/report.html"),
            badge_text(run).removeprefix("first place "),
            f"{run.battles:,}",
            *(_past_rating(run, model) for model in models),
        )
        for run in series
    )
    return (
        "<h3>History</h3>\n<p><small>Each row is a board as it was published: ranks, and the rating. Its ranges hold "
        "for that look alone.</small></p>\n"
        f"{table_html(heads, rows, words=2)}"
    )


def _past_rating(run: SiteRun, model: str) -> str:
    board = headline_board(run)
    row = next((row for row in board.rows if row.model == model), None) if board is not None else None
    if row is None or row.rating is None:
        return "–"
    return " · ".join(filter(None, (rank_range(row.rank_low, row.rank_high), f"{row.rating:.0f}")))


def _facts(run: SiteRun) -> Iterator[str]:
    yield f"{run.battles:,} battles"
    yield f"{run.models:,} models"
    if run.prompts is not None:
        yield f"{run.prompts:,} prompts"
    if run.date is not None:
        yield run.date
    yield method_title(run.method)
    board = headline_board(run)
    if board is not None and board.level is not None and run.comparison is None:
        yield f"{100 * board.level:g}% intervals for {board.scope}"


def _boards(run: SiteRun, *, alone: bool) -> Iterator[str]:
    if run.comparison is not None:
        yield f"<p>{sentence_html(run.comparison.numbers)}</p>\n"
        return
    shown = run.boards if alone else run.boards[:_TOP_BOARD_COUNT]
    for board in shown:
        if board.name is not None:
            yield f"<h3>{sentence_html(board.name)}</h3>\n"
        if board is not headline_board(run):
            yield f"<p>{sentence_html(first_place_sentence(board))}</p>\n"
        yield _table(board, None if alone and board is headline_board(run) else _TOP_ROW_COUNT)
    if len(shown) < len(run.boards):
        yield f"<p><small>{len(run.boards) - len(shown)} more boards are in the report.</small></p>\n"


def _table(board: SiteBoard, limit: int | None) -> str:
    rows = board.rows[:limit]
    if not rows:
        return ""
    ends = [end for row in board.rows for end in (row.ci_low, row.ci_high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    interval = "Interval" if board.level is None else f"{100 * board.level:g}% interval"
    tiers = [None, *(row.tier for row in rows)]
    body = "".join(_row(row, span, tier) for row, tier in zip(rows, tiers, strict=False))
    more = len(board.rows) - len(rows)
    note = f"<p><small>{more:,} more in the report.</small></p>\n" if more else ""
    return (
        '<table class="top">\n<thead><tr><th>Ranks</th><th>Model</th><th class="n">Rating</th>'
        f'<th class="n">{interval}</th><td></td></tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{note}'
    )


def _row(row: SiteRow, span: tuple[float, float], tier_above: int | None) -> str:
    mark = ' class="tier"' if None not in (row.tier, tier_above) and row.tier != tier_above else ""
    if row.group is None:
        label = "no rating"
    elif row.group:
        label = "not comparable with those above"
    else:
        label = row.placed or ""
    small = f" <small>({text_html(label)})</small>" if label else ""
    rating = "–" if row.rating is None else f"{row.rating:.0f}"
    interval = "" if row.ci_low is None or row.ci_high is None else f"{row.ci_low:.0f} – {row.ci_high:.0f}"
    ranks = rank_range(row.rank_low, row.rank_high) or "–"
    return (
        f'<tr{mark}><td>{ranks}</td><td class="m">{sentence_html(row.model)}{small}</td><td class="n">{rating}</td>'
        f'<td class="n ends">{interval}</td>'
        f'<td class="bar">{interval_svg((row.ci_low, row.rating, row.ci_high), span)}</td></tr>\n'
    )


def _findings(run: SiteRun, *, alone: bool) -> str:
    """The findings of a single board; how many there are of several."""
    if alone and len(run.boards) == 1:
        return findings_html(run.boards[0].findings)
    count = sum(len(board.findings) for board in run.boards)
    if not count:
        return ""
    found = "1 finding limits" if count == 1 else f"{count} findings limit"
    return f"<p><small>{found} what these numbers mean: see the report.</small></p>\n"


def verify_commands(run: SiteRun, url: str | None) -> tuple[str, ...]:
    """What a reader types to verify a run; without the site's address the archive is already downloaded."""
    download = () if url is None else (f"curl -LO {url}/{run.name}.zip",)
    return (
        *download,
        f"unzip {run.name}.zip",
        f"echo '{run.manifest_sha256}  {run.name}/manifest.json' | sha256sum -c",
        f"tiltyard verify {run.name}",
    )


def format_bytes(count: int) -> str:
    """A size for readers: ``1.2 MB``."""
    if count < 1_000_000:
        return f"{max(count / 1000, 0.1):.1f} kB"
    return f"{count / 1_000_000:.1f} MB" if count < 1_000_000_000 else f"{count / 1_000_000_000:.1f} GB"
