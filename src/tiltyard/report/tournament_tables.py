"""Tournaments in a terminal: a plan and its questions, what is known of models, and how a run ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.core.board import RatedGroup, Row
from tiltyard.core.judging.question import ChatPrompt, Question
from tiltyard.core.ratings import Finding
from tiltyard.report.escapes import escape_controls
from tiltyard.report.judging_sections import cache_warning, format_dollar_text, paid_text
from tiltyard.report.run_documents import (
    WAYS,
    CostsDocument,
    DiagnosticsDocument,
    PilotForecast,
    PlaceCosts,
    PlanEstimate,
    TokenCount,
)
from tiltyard.report.terminal import NameTable, findings_list
from tiltyard.settings.prices import format_dollars

_LINE_COUNTS = {
    "questions": "questions",
    "cached": "cached",
    "calls": "calls",
    "input_tokens": "tokens in",
    "output_tokens": "out",
}

_INDENT = "    "
#: Longer values of a request, such as images, are shown by their beginning.
_LONG_CHARACTERS, _BEGINNING_CHARACTERS = 2_000, 60
#: Longer names are wrapped where the terminal is narrow.
_MIN_NAME_CHARACTERS = 20
_THINKS = {True: "yes", False: "no", None: "?"}
_Count = Literal["questions", "from_cache", "calls", TokenCount]
_MatchCount = Literal["matches", "settled", "decisive", "incomplete"]
_MATCH_COUNTS: tuple[_MatchCount, ...] = get_args(_MatchCount)
_TOKENS: Mapping[TokenCount, str] = {
    "input_tokens": "tokens in",
    "output_tokens": "out",
    "cache_write_tokens": "written",
    "cache_read_tokens": "read",
}


def plan_tables(
    estimate: PlanEstimate,
    earlier: Mapping[str, PilotForecast] | None,
    cap: int | None,
    notes: Sequence[str],
    findings: tuple[Finding, ...] = (),
    designs: Sequence[Sequence[str]] = (),
) -> RenderableType:
    """Everything that `tiltyard plan` prints."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("dollars")
    for head in ("low", "expected", "worst"):
        table.add_column(head, justify="right")
    for way, cache in WAYS:
        # The configured row is highlighted; the others show the cost of the alternatives.
        style, cost = "bold" if way in estimate.sent_by else "dim", estimate.total(way, cache)
        amounts = map(format_dollars, (cost.low, cost.expected, cost.worst))
        table.add_row(f"{way}, {cache}", *amounts, style=style)
    parts: list[RenderableType] = [_lines(estimate), Text(), table, Text()]
    parts.append(Text(_tokens(estimate), style="dim"))
    parts.append(Text(_worst(estimate)))
    if cap is not None:
        parts.append(Text(_budget(estimate, cap)))
    parts += [Text(sentence) for sentence in _expectations(estimate, earlier)]
    if designs:
        heads = ("design", "calls", "expected dollars", "detects, points")
        parts += [Text(), NameTable(heads, designs), Text()]
    parts += [Text(f"Note: {escape_controls(note)}.", style="yellow") for note in notes]
    if findings:
        parts += [Text(), findings_list(findings)]
    return Group(*parts)


def _lines(estimate: PlanEstimate) -> NameTable:
    rows = [
        [line.judge, line.dimension, *(f"{getattr(line, name):,}" for name in _LINE_COUNTS)]
        for line in estimate.lines
    ]
    if len(rows) > 1:
        totals = (sum(getattr(line, name) for line in estimate.lines) for name in _LINE_COUNTS)
        rows.append(["all", "", *(f"{number:,}" for number in totals)])
    return NameTable(("judge", "dimension", *_LINE_COUNTS.values()), rows, names=2)


def _worst(estimate: PlanEstimate) -> str:
    limits = {line.judge: line.max_tokens for line in estimate.lines}
    by_judge = ", ".join(f"{escape_controls(judge)} {limit:,}" for judge, limit in limits.items())
    return (
        f"Expected: replies of typical length. Worst: every reply reaches max_tokens ({by_judge}). A truncated reply is "
        "requested once more, with up to four times as many tokens: if every reply needed that, "
        f"{format_dollars(estimate.worst_twice)}."
    )


def _budget(estimate: PlanEstimate, cap: int) -> str:
    sentence = (
        f"Budget: {format_dollars(cap)}, never exceeded; questions that it does not cover are not asked. Before a call its "
        f"worst case is reserved, one token per byte: {format_dollars(estimate.worst)} for all calls together."
    )
    single = estimate.dearest
    if not estimate.calls or not single:
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


def _tokens(estimate: PlanEstimate) -> str:
    ratios = ", ".join(
        f"{escape_controls(judge)} {ratio:.2f}" for judge, ratio in estimate.bytes_per_token.items()
    )
    # Which output was measured, and which is assumed.
    measured = [
        f"{escape_controls(line.judge)}, {escape_controls(line.dimension)}: "
        f"{line.output_tokens // line.calls:,} tokens, the mean of {line.measured:,}"
        for line in estimate.lines
        if line.calls and line.measured
    ]
    assumed = any(line.calls and not line.measured for line in estimate.lines)
    parts = [f"Measured output of a reply: {'; '.join(measured)}."] if measured else []
    if assumed:
        rest = "The other output" if measured else "Output"
        parts.append(f"{rest} is assumed: 250 tokens, or 2,000 if the model thinks or this is not known.")
    output = " ".join(parts)
    return (
        f"Tokens by {estimate.tokens_by} (bytes in a token: {ratios}). {output} "
        f"{_dated(estimate.prices_as_of)}"
    )


def _dated(day: str | None) -> str:
    if day is None:
        return "No built-in price is used."
    return f"Built-in prices are from {day} or later: compare them with the provider's page."


def _expectations(estimate: PlanEstimate, earlier: Mapping[str, PilotForecast] | None) -> Sequence[str]:
    found = estimate.expectation
    if found is None:
        return ["The precision cannot be estimated: some models never meet, or there is only one prompt."]
    sentence = (
        f"It will show, in each dimension: ratings to about ±{found.half_width:.0f} points "
        f"({100 * found.level:g}% interval, {found.prompts} prompts), and with "
        f"{100 * found.power:g}% power a difference of {found.detectable:.0f} points. "
        f"Assumed: {found.assumptions.tie_rate:.0%} ties, models that vary by "
        f"{found.assumptions.interaction:g} logits from prompt to prompt."
    )
    return [
        sentence,
        *(
            f"Based on the earlier run, {escape_controls(name)}: ±{one['half_width']:.0f} points, "
            f"a difference of {one['detectable']:.0f} detectable (it had {one['pilot_prompts']:.0f} prompts)."
            for name, one in (earlier or {}).items()
        ),
    ]


@dataclass(frozen=True, slots=True)
class SentQuestion:
    """A question with its request. ``body`` is the JSON document that the provider gets."""

    question: Question
    prompt: ChatPrompt
    provider: str
    address: str
    body: Mapping[str, Any]


def question_lines(sent: SentQuestion, number: int) -> Iterator[str]:
    """Who is asked what and how: system and user text, and the rest of the request. All text is escaped."""
    question, prompt = sent.question, sent.prompt
    purpose = "" if question.purpose == "match" else f", {question.purpose} check"
    yield escape_controls(
        f"Question {number}: {question.judge}, {question.dimension}, prompt {question.prompt_id}{purpose}; "
        f"A is {question.first}, B is {question.second}"
    )
    yield escape_controls(f"To {sent.provider} at {sent.address or 'no address'}; reply form {prompt.form}")
    yield ""
    for title, text in (("System", prompt.system), ("User", prompt.user)):
        yield f"{title} ({len(text):,} characters)"
        yield from (f"{_INDENT}{escape_controls(line)}" for line in text.split("\n"))
        yield ""
    yield "Request, with these texts left out"
    named = {prompt.system: "(system text above)", prompt.user: "(user text above)"}
    document = json.dumps(_without(sent.body, named), indent=2)
    yield from (f"{_INDENT}{line}" for line in document.split("\n"))
    yield ""


def _without(value: Any, named: Mapping[str, str]) -> Any:
    """A JSON value in which the given texts are replaced by their names, and images are cut."""
    if isinstance(value, str):
        cut = f"{value[:_BEGINNING_CHARACTERS]}… ({len(value):,} characters)"
        return named.get(value, value if len(value) <= _LONG_CHARACTERS else cut)
    if isinstance(value, Mapping):
        return {key: _without(inner, named) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_without(inner, named) for inner in value]
    return value


def models_table(models: Sequence[Mapping[str, Any]], as_of: str) -> RenderableType:
    """One line for each model: prices per million tokens, thinking, limits."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold", min_width=_MIN_NAME_CHARACTERS)
    for head in ("$ in", "cached", "out", "batch"):
        table.add_column(head, justify="right")
    table.add_column("thinks")
    for head in ("context", "output"):
        table.add_column(head, justify="right")
    table.add_column("until", no_wrap=True)
    for model in models:
        table.add_row(
            escape_controls(model["model"]),
            *(_number(model[name]) for name in ("input", "cache_read", "output", "batch")),
            _THINKS[model["thinks"]],
            *(_short(model[name]) for name in ("context", "max_output")),
            model.get("retired") or "",
        )
    note = (
        f"Compiled on {as_of} from public pages: compare with the provider's. ? is unknown. "
        "tiltyard plan --prices NAME shows one model with its sources; prices: in a configuration overrides."
    )
    return Group(table, Text(), Text(note, style="dim"))


def model_details(model: Mapping[str, Any]) -> RenderableType:
    """All that is known about one model."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _details(model):
        table.add_row(name, escape_controls(value))
    return Group(Text(escape_controls(model["model"]), style="bold"), table)


def _details(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "provider", model["provider"] or "any"
    if model["base_url"]:
        yield "address", ", ".join(model["base_url"])
    for name, words in (
        ("input", "input"),
        ("cache_read", "cached input"),
        ("cache_write_5m", "writing to the prompt cache, 5m"),
        ("cache_write_1h", "writing to the prompt cache, 1h"),
        ("output", "output"),
    ):
        yield words, _dollars(model[name])
    yield "batch", "?" if model["batch"] is None else f"{model['batch']:.0%} of the price"
    if model["long_above"] is not None:
        yield (
            f"prompts above {model['long_above']:,} tokens",
            f"input {_dollars(model['long_input'])}, output {_dollars(model['long_output'])}",
        )
    yield "thinks", _THINKS[model["thinks"]]
    yield "thinking on, off", ", ".join(_switch(model[name]) for name in ("thinking_on", "thinking_off"))
    for name, words in (
        ("efforts", "effort"),
        ("forms", "reply forms"),
        ("refuses", "rejects"),
        ("refuses_thinking", "rejects while thinking"),
    ):
        yield words, "?" if model[name] is None else ", ".join(model[name]) or "none"
    yield "context", _limit_tokens(model["context"])
    yield "longest reply", _limit_tokens(model["max_output"])
    if model.get("retired"):
        follows = f"; the provider recommends {model['successor']}" if model["successor"] else ""
        yield "retired", f"{model['retired']}{follows}"
    if model.get("as_of"):
        yield "as of", model["as_of"]


def _switch(fields: object) -> str:
    return "?" if fields is None else str(fields)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"


def _dollars(value: float | None) -> str:
    return "?" if value is None else f"${value:g} per million tokens"


def _short(value: int | None) -> str:
    if value is None:
        return "?"
    return f"{value / 1e6:.3g}M" if value >= 1_000_000 else f"{value / 1e3:.4g}k"


def _limit_tokens(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def tournament_summary(
    groups: Sequence[RatedGroup], diagnostics: DiagnosticsDocument, costs: CostsDocument
) -> RenderableType:
    """Ratings with intervals, decisive and incomplete matches, tokens and dollars, and findings.

    ``diagnostics`` and ``costs`` are the documents of those names.
    """
    parts: list[RenderableType] = [
        Text("Bradley–Terry ratings, with 95 % intervals", style="bold"),
        "",
        _ratings(groups),
    ]
    parts += ["", Text("Matches", style="bold"), "", _matches(diagnostics), *_dropped(diagnostics)]
    actual = costs["actual"]
    lost = actual["paid_and_lost"]
    text = f"Paid: {paid_text(actual)}"
    if lost["calls"]:
        text += f"; lost in flight: {lost['calls']:,} calls, at most {format_dollar_text(lost['usd'])}"
    flying = actual["in_flight"]
    if flying["calls"]:
        text += f"; still in flight: {flying['calls']:,} calls, at most {format_dollar_text(flying['reserved_usd'])}"
    parts += ["", Text("Calls and tokens", style="bold"), "", _calls(costs), Text(f"{text}.", style="bold")]
    found = [Finding.from_dict(one) for one in diagnostics["findings"]]
    idle = cache_warning(costs)
    found += [] if idle is None else [idle]
    if found:
        parts += ["", findings_list(tuple(found))]
    for names, several in _by_dimension(groups).items():
        parts += [
            "",
            Text(f"{escape_controls(', '.join(names))}:", style="bold"),
            findings_list(tuple(several)),
        ]
    return Group(*parts)


def _by_dimension(groups: Sequence[RatedGroup]) -> dict[tuple[str, ...], list[Finding]]:
    """Findings of the ratings without duplicates, by the dimensions that have them."""
    where: dict[Finding, dict[str, None]] = {}
    for rated in groups:
        for finding in rated.board.findings:
            where.setdefault(finding, {})[rated.name or "all"] = None
    found: dict[tuple[str, ...], list[Finding]] = {}
    for finding, names in where.items():
        found.setdefault(tuple(names), []).append(finding)
    return found


def _ratings(groups: Sequence[RatedGroup]) -> RenderableType:
    if not groups:
        return Text("No match has a result: there is nothing to rate.")
    boards = [{row.model: row for row in rated.board.rows} for rated in groups]
    models = list(dict.fromkeys(model for board in reversed(boards) for model in board))
    heads = ("entrant", *(rated.name or "all" for rated in groups))
    return NameTable(heads, [[model, *(_cell(board.get(model)) for board in boards)] for model in models])


def _cell(row: Row | None) -> str:
    if row is None or row.rating is None:
        return "–"
    interval = "" if row.low is None or row.high is None else f" [{row.low:.0f}, {row.high:.0f}]"
    label = "" if row.placed is None else f" ({row.placed})"
    return f"{row.rating:.0f}{interval}{label}"


def _matches(diagnostics: DiagnosticsDocument) -> RenderableType:
    rows = [
        [dimension, *(f"{one[name]:,}" for name in _MATCH_COUNTS), f"{one['labels']['inconsistent']:,}"]
        for dimension, one in diagnostics["matches"].items()
    ]
    # Not decisive and inconsistent: the Elo summary counts leans among those without a winner.
    return NameTable(("dimension", "matches", "complete", "won", "incomplete", "opposite"), rows)


def _dropped(diagnostics: DiagnosticsDocument) -> list[RenderableType]:
    dropped = diagnostics["dropped_pairs"]
    return [Text(f"{dropped:,} pairs dropped: a response is missing.", style="dim")] if dropped else []


def _calls(costs: CostsDocument) -> RenderableType:
    """Sums by dimension, over all judges; prompt cache columns only if the cache was used."""
    places = costs["by_judge_and_dimension"]
    tokens = {name: head for name, head in _TOKENS.items() if _touched(name, places)}
    names: list[_Count] = ["questions", "from_cache", "calls", *tokens]
    rows = []
    for dimension in dict.fromkeys(one["dimension"] for one in places):
        mine = [one for one in places if one["dimension"] == dimension]
        counts = (_sum([one[name] for one in mine]) for name in names)
        # The sum of decimal texts; unknown if one of them is.
        texts = [one["usd"] for one in mine]
        known = [Decimal(text) for text in texts if text is not None]
        rows.append(
            [
                dimension or "(none)",
                *counts,
                format_dollar_text(str(sum(known, Decimal(0))) if len(known) == len(texts) else None),
            ]
        )
    return NameTable(("dimension", "questions", "cached", "calls", *tokens.values(), "dollars"), rows)


def _touched(name: TokenCount, places: Sequence[PlaceCosts]) -> bool:
    return not name.startswith("cache_") or any(one[name] for one in places)


def _sum(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known):,}" if known else "–"
