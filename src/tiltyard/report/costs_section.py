"""The costs section of a tournament's report: the only one that depends on how the calls went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tiltyard.core.ratings import Finding
from tiltyard.report.html_parts import findings_html, section_html, table_html, text_html
from tiltyard.report.run_documents import ActualCosts, CostsDocument, PlaceCosts
from tiltyard.settings.prices import format_dollars as _dollars
from tiltyard.settings.prices import to_picodollars

_TokenCount = Literal["input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"]
_TOKENS: Mapping[_TokenCount, str] = {
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "cache_write_tokens": "Cache written",
    "cache_read_tokens": "Cache read",
}


def costs_section(costs: CostsDocument) -> str:
    """Estimated and actual costs by judge and dimension, including calls that were paid and lost."""
    actual = costs["actual"]
    return section_html(
        "costs",
        "What it cost",
        _warnings(costs),
        _sentence(actual),
        _by_place(costs["by_judge_and_dimension"], actual),
        _estimate(costs["estimate"], actual),
    )


def format_dollar_text(text: str | None) -> str:
    """Format decimal text as an amount; ``None`` is shown as unknown."""
    return _dollars(None if text is None else to_picodollars(text))


def cache_warning(costs: CostsDocument) -> Finding | None:
    """A finding where prompt caching was asked for and did nothing."""
    if not costs["prompt_cache"]["did_nothing"]:
        return None
    return Finding("prompt-cache-idle", {"written": costs["prompt_cache"]["written_tokens"] or 0})


def _warnings(costs: CostsDocument) -> str:
    idle = cache_warning(costs)
    return findings_html([] if idle is None else [idle])


def _sentence(actual: ActualCosts) -> str:
    lost = actual["paid_and_lost"]
    asked = f"{actual['from_cache']:,} from the cache, {actual['fresh']:,} asked in {actual['calls']:,} calls"
    parts = [f"{actual['questions']:,} questions: {asked}, {format_dollar_text(actual['usd'])}."]
    if actual["calls_of_unknown_price"] and actual["known_usd"] != "0":
        parts.append(f"{format_dollar_text(actual['known_usd'])} of it is known.")
    if lost["calls"]:
        parts.append(f"Paid and lost: {lost['calls']:,} calls, {format_dollar_text(lost['usd'])}.")
    return f"<p>{text_html(' '.join(parts))}</p>\n"


def _by_place(places: Sequence[PlaceCosts], actual: ActualCosts) -> str:
    """One row per judge and dimension; prompt cache columns only if the cache was used."""
    tokens = {name: head for name, head in _TOKENS.items() if "cache" not in name or actual[name]}
    heads = ("Judge", "Dimension", "Questions", "From cache", "Calls", "ok", "Failed", "Lost")
    rows = [_row(one["judge_model"], one["dimension"] or "(none)", one, tokens) for one in places]
    total = _row("All", "", actual, tokens)
    return table_html((*heads, *tokens.values(), "Dollars"), [*rows, total], words=2)


def _row(judge: str, dimension: str, one: ActualCosts, tokens: Iterable[_TokenCount]) -> list[str]:
    ok, lost = one["states"]["ok"], one["states"]["lost"]
    counts = (one["questions"], one["from_cache"], one["calls"], ok, one["calls"] - ok - lost, lost)
    return [
        judge,
        dimension,
        *(f"{n:,}" for n in counts),
        *("–" if one[name] is None else f"{one[name]:,}" for name in tokens),
        format_dollar_text(one["usd"]),
    ]


def _estimate(estimate: Mapping[str, object], actual: ActualCosts) -> str:
    """The plan's estimate next to the actual numbers."""
    if not estimate:
        return ""
    rows = [
        ["Questions", _count(estimate.get("questions")), _count(actual["questions"])],
        ["From the cache", _count(estimate.get("cached")), _count(actual["from_cache"])],
        ["Calls", _count(estimate.get("calls")), _count(actual["calls"])],
    ]
    ways = estimate.get("usd")
    for way, cost in ways.items() if isinstance(ways, Mapping) else ():
        if isinstance(cost, Mapping):
            estimates = ", ".join(
                f"{name} {format_dollar_text(cost.get(name))}" for name in ("low", "expected", "worst")
            )
            rows.append([f"Dollars, {way}", estimates, format_dollar_text(actual["usd"])])
    return f"<h3>What the plan expected</h3>\n{table_html(('', 'Estimate', 'Actual'), rows)}"


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"
