"""A plan in a terminal: questions, calls, tokens, dollars and expected precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.report.costs_section import format_dollar_text as usd
from tiltyard.report.run_documents import EstimateDocument, PilotForecast
from tiltyard.report.terminal_escape import escape_controls
from tiltyard.settings.prices import format_dollars, to_picodollars

_LineCount = Literal["questions", "cached", "calls", "input_tokens", "output_tokens"]
_LINE_COUNTS: Mapping[_LineCount, str] = {
    "questions": "questions",
    "cached": "cached",
    "calls": "calls",
    "input_tokens": "tokens in",
    "output_tokens": "out",
}


def plan_tables(
    estimate: EstimateDocument,
    earlier: Mapping[str, PilotForecast] | None,
    cap: int | None,
    notes: Sequence[str],
) -> RenderableType:
    """Everything that `tiltyard plan` prints."""
    parts: list[RenderableType] = [_lines(estimate), Text(), _costs(estimate), Text()]
    parts.append(Text(_tokens(estimate), style="dim"))
    parts.append(Text(_worst(estimate)))
    if cap is not None:
        parts.append(Text(_budget(estimate, cap)))
    parts += [Text(sentence) for sentence in _expectations(estimate, earlier)]
    parts += [Text(f"Note: {escape_controls(note)}.", style="yellow") for note in notes]
    return Group(*parts)


def _lines(estimate: EstimateDocument) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("judge", overflow="fold")
    table.add_column("dimension", overflow="fold")
    for head in _LINE_COUNTS.values():
        table.add_column(head, justify="right")
    for line in estimate["lines"]:
        table.add_row(
            escape_controls(line["judge"]),
            escape_controls(line["dimension"]),
            *(f"{line[name]:,}" for name in _LINE_COUNTS),
        )
    if len(estimate["lines"]) > 1:
        totals = (sum(line[name] for line in estimate["lines"]) for name in _LINE_COUNTS)
        table.add_row("all", "", *(f"{number:,}" for number in totals), style="bold")
    return table


def _costs(estimate: EstimateDocument) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("dollars")
    for head in ("low", "expected", "worst"):
        table.add_column(head, justify="right")
    for way, cost in estimate["usd"].items():
        # The configured row is highlighted; the others show the cost of the alternatives.
        style = "bold" if way.partition(",")[0] in estimate["sent_by"] else "dim"
        table.add_row(way, usd(cost["low"]), usd(cost["expected"]), usd(cost["worst"]), style=style)
    return table


def _worst(estimate: EstimateDocument) -> str:
    """Explains the expected and the worst cost, and their ratio."""
    limits = {line["judge"]: line["max_tokens"] for line in estimate["lines"]}
    by_judge = ", ".join(f"{escape_controls(judge)} {limit:,}" for judge, limit in limits.items())
    return (
        f"Expected: replies of typical length. Worst: every reply reaches max_tokens ({by_judge}). A truncated reply is "
        "requested once more, with up to four times as many tokens: if every reply needed that, "
        f"{usd(estimate['worst_twice_usd'])}."
    )


def _budget(estimate: EstimateDocument, cap: int) -> str:
    sentence = (
        f"Budget: {format_dollars(cap)}, never exceeded; questions that it does not cover are not asked. Before a call its "
        f"worst case is reserved, one token per byte: {usd(estimate['most_reserved_usd'])} for all calls together."
    )
    dearest = estimate["dearest_call_usd"]
    if not estimate["calls"] or dearest is None or not (single := to_picodollars(dearest)):
        return sentence
    if single > cap:
        return (
            f"{sentence} The worst case of a single call is up to {format_dollars(single)}, more than the budget. Raise "
            "the budget, or lower max_tokens."
        )
    return (
        f"{sentence} The worst case of a single call is up to {format_dollars(single)}: at most about {cap // single:,} calls run "
        "at once, and up to that amount may remain unspent."
    )


def _tokens(estimate: EstimateDocument) -> str:
    ratios = ", ".join(
        f"{escape_controls(judge)} {ratio:.2f}" for judge, ratio in estimate["bytes_per_token"].items()
    )
    return (
        f"Tokens by {estimate['tokens_by']} (bytes in a token: {ratios}). {_output(estimate)} "
        f"{_dated(estimate['prices_as_of'])}"
    )


def _output(estimate: EstimateDocument) -> str:
    """Which output was measured, and which is assumed."""
    measured = [
        f"{escape_controls(line['judge'])}, {escape_controls(line['dimension'])}: "
        f"{line['output_tokens'] // line['calls']:,} tokens, the mean of {line['measured']:,}"
        for line in estimate["lines"]
        if line["calls"] and line["measured"]
    ]
    assumed = any(line["calls"] and not line["measured"] for line in estimate["lines"])
    parts = [f"Measured output of a reply: {'; '.join(measured)}."] if measured else []
    if assumed:
        rest = "The other output" if measured else "Output"
        parts.append(f"{rest} is assumed: 250 tokens, or 2,000 if the model thinks or this is not known.")
    return " ".join(parts)


def _dated(day: str | None) -> str:
    if day is None:
        return "No built-in price is used."
    return f"Built-in prices are from {day} or later: compare them with the provider's page."


def _expectations(estimate: EstimateDocument, earlier: Mapping[str, PilotForecast] | None) -> Sequence[str]:
    found = estimate["expectation"]
    if found is None:
        return ["The precision cannot be estimated: some models never meet, or there is only one prompt."]
    sentence = (
        f"It will show, in each dimension: ratings to about ±{found['half_width']:.0f} points "
        f"({100 * found['level']:g}% interval, {found['prompts']} prompts), and with "
        f"{100 * found['power']:g}% power a difference of {found['detectable']:.0f} points. "
        f"Assumed: {found['assumptions']['tie_rate']:.0%} ties, models that vary by "
        f"{found['assumptions']['interaction']:g} logits from prompt to prompt."
    )
    return [
        sentence,
        *(
            f"Based on the earlier run, {escape_controls(name)}: ±{one['half_width']:.0f} points, "
            f"a difference of {one['detectable']:.0f} detectable (it had {one['pilot_prompts']:.0f} prompts)."
            for name, one in (earlier or {}).items()
        ),
    ]
