"""Sections of a tournament's report: the ratings under each choice, the judges, the questions, the costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from tiltyard.core.judging.match_design import MatchDesign
from tiltyard.core.judging.reconciliation import MatchCounts
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.core.ratings import Finding
from tiltyard.report.board_charts import charts_available, sweep_spec
from tiltyard.report.escapes import escape_controls
from tiltyard.report.html_parts import (
    Cell,
    LinkedText,
    figure_html,
    findings_html,
    section_html,
    table_html,
    text_html,
)
from tiltyard.report.run_documents import (
    ActualCosts,
    ChoiceDocument,
    ChoiceRating,
    CostsDocument,
    DiagnosticsDocument,
    EloDocument,
    EloEntry,
    JudgeAgreement,
    TokenCount,
)
from tiltyard.report.verdict_parts import browser_address
from tiltyard.settings.prices import format_dollars as _dollars
from tiltyard.settings.prices import to_picodollars

ShareName = Literal[
    "flips",
    "inconsistent",
    "first_slot",
    "longer_wins",
    "lists_win",
    "own_family",
    "own_family_by_others",
    "own_family_excess",
    "self_agreement",
    "identical",
    "truncated",
    "garbage",
    "swapped",
    "empty",
]
#: Each share: its label, and its value for an unbiased judge.
SHARES: Mapping[ShareName, tuple[str, str]] = {
    "flips": ("Winner changes with the order", "0 %"),
    "inconsistent": ("Inconsistent, of all pairs", "0 %"),
    "first_slot": ("Chose the response shown first", "50 %"),
    "longer_wins": ("Longer response won", "–"),
    "lists_win": ("More list items won", "–"),
    "own_family": ("Own family won", "–"),
    "own_family_by_others": ("The same, by other judges", "–"),
    "own_family_excess": ("Own family, beyond others", "0 %"),
    "self_agreement": ("Agreed with itself when asked again", "100 %"),
    "identical": ("Identical pair called even", "100 %"),
    "truncated": ("Saw a truncated response", "100 %"),
    "garbage": ("Saw a garbage response", "100 %"),
    "swapped": ("Saw the response to another prompt", "100 %"),
    "empty": ("Saw an empty response", "100 %"),
}
#: The shares whose matches or checks can be read, and the filter that shows them.
_READ: Mapping[str, str] = {
    "flips": "flips",
    "inconsistent": "flips",
    "self_agreement": "checks",
    "identical": "checks",
    "truncated": "checks",
    "garbage": "checks",
    "swapped": "checks",
    "empty": "checks",
}
#: The shares that are shown by dimension, too.
_BY_DIMENSION: tuple[ShareName, ...] = (
    "flips",
    "inconsistent",
    "first_slot",
    "longer_wins",
    "self_agreement",
)
_MatchCount = Literal["matches", "settled", "incomplete", "decisive", "both_bad"]
_MATCH_COUNTS: tuple[_MatchCount, ...] = get_args(_MatchCount)
_MATCH_HEADS: Mapping[_MatchCount, str] = {"settled": "Complete", "decisive": "Won"}
_MODEL_LIMIT = 60

_TOKENS: Mapping[TokenCount, str] = {
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "cache_write_tokens": "Cache written",
    "cache_read_tokens": "Cache read",
}

_TITLE = "Elo summary (mean ± SEM)"
_RULE_CHARACTERS, _NAME_CHARACTERS, _CELL_CHARACTERS = 72, 28, 22
#: Why the summary and the ratings after it differ.
ELO_NOTE = (
    "The Elo summary counts only matches that the same entrant won in both orders, and its ± is the noise of "
    "shuffling them; the Bradley–Terry ratings below count leans and ties too, and their intervals say where the "
    "ratings would lie on other prompts like these."
)


def tournament_lede(
    judges: Sequence[str], quorum: int, entrants: Sequence[str], prompts: int, design: MatchDesign
) -> str:
    """A summary line: judges, entrants and prompts."""
    who = judges[0] if len(judges) == 1 else f"{len(judges)} judges ({', '.join(judges)}), quorum {quorum}"
    pairs = "every pair" if design.design == "all" else f"{design.design} pairs"
    parts = (
        f"Judged by {who}",
        f"{len(entrants):,} entrants",
        f"{prompts:,} prompts",
        f"{pairs} in {'both orders' if design.orders == 'both' else 'an order at random'}",
    )
    return f'<p class="lede">{text_html(" · ".join(parts))}</p>\n'


def choices_section(choices: Mapping[str, Sequence[ChoiceDocument]]) -> str:
    """The same battles with other scores for leans, ties and inconsistent results."""
    if not choices:
        return ""
    note = (
        "<p>A lean is decisive in one order and a tie in the other; an inconsistent result has opposite "
        "winners in the two. How they are scored is a choice; these are the resulting ratings.</p>\n"
    )
    return section_html("choices", "Ratings under each choice", note, *map(_choices, choices.items()))


def _choices(group: tuple[str, Sequence[ChoiceDocument]]) -> str:
    name, found = group
    ratings = [{row["model"]: row for row in choice["ratings"]} for choice in found]
    models = list(ratings[0])
    rows = [
        [model, *(_rated(by_model.get(model)) for by_model in ratings)] for model in models[:_MODEL_LIMIT]
    ]
    more = f"<p><small>The first {_MODEL_LIMIT} of {len(models):,} models.</small></p>\n"
    heads = ["Model", *(choice["name"] for choice in found)]
    table = table_html(heads, rows)
    return f"<h3>{text_html(name)}</h3>\n{table}{more if len(models) > _MODEL_LIMIT else ''}"


def _rated(row: ChoiceRating | None) -> str:
    if row is None or row["rating"] is None:
        return "–"
    interval = "" if row["ci_low"] is None else f" [{row['ci_low']:.0f}, {row['ci_high']:.0f}]"
    return f"{row['rating']:.0f}{interval}"


def judges_section(diagnostics: DiagnosticsDocument) -> str:
    """What the verdicts say of the judges: shares with intervals, findings, agreement with people."""
    found = [Finding.from_dict(one) for one in diagnostics["findings"]]
    judges = diagnostics["judges"]
    whole = [one for one in judges if one["dimension"] is None]
    parts = [findings_html(found), *map(_judge, whole)]
    return section_html(
        "judges", "How the judges did", *parts, _dimensions(judges), _agreement(diagnostics["agreement"])
    )


def _judge(one: Mapping[str, Any]) -> str:
    rows = [
        [title, _read_share(one, name), f"{share['n']:,}", f"{share['clusters']:,}", without]
        for name, (title, without) in SHARES.items()
        if (share := one[name]) is not None
    ]
    heads = ("Over all dimensions", "Share, 95% interval", "Of", "Prompts", "Without the habit")
    heading = f"<h3>{text_html(one['judge_model'])}</h3>\n"
    return heading + (table_html(heads, rows) if rows else "<p>Nothing to say: no verdicts.</p>\n")


def _read_share(one: Mapping[str, Any], name: ShareName) -> Cell:
    """A share, linked to the matches or checks that it counts."""
    text = _share(one[name])
    if name not in _READ or one[name] is None:
        return text
    address = browser_address(_READ[name], dimension=one["dimension"], judge=one["judge_model"])
    return LinkedText(text, address)


def _share(share: Mapping[str, Any] | None) -> str:
    if share is None:
        return "–"
    value, low, high = (100.0 * bound for bound in (share["value"], share["low"], share["high"]))
    return f"{value:.0f} % [{low:.0f}, {high:.0f}]"


def _dimensions(judges: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [one["judge_model"], one["dimension"], *(_read_share(one, name) for name in _BY_DIMENSION)]
        for one in judges
        if one["dimension"] is not None
    ]
    if not rows:
        return ""
    heads = ("Judge", "Dimension", *(SHARES[name][0] for name in _BY_DIMENSION))
    table = table_html(heads, rows, words=2)
    return f"<details><summary>By dimension</summary>{table}</details>\n"


def _agreement(found: Sequence[JudgeAgreement]) -> str:
    if not found:
        return ""
    rows = [
        [one["judge_model"], one["dimension"], _kappa(one), f"{one['agreed']:.0%}", f"{one['n']:,}"]
        for one in found
    ]
    heads = ("Judge", "Dimension", "κ, 95% interval", "Agreed", "Votes")
    return f"<h3>Agreement with people</h3>\n{table_html(heads, rows, words=2)}"


def _kappa(one: JudgeAgreement) -> str:
    if one["kappa"] is None:
        return "–"
    return f"{one['kappa']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"


def questions_section(diagnostics: DiagnosticsDocument) -> str:
    """The final state of every question and every match, including those left out."""
    # Questions by state; states without questions are not shown.
    judges = [one for one in diagnostics["judges"] if one["dimension"] is not None]
    met = {state: None for one in judges for state, n in one["states"].items() if n}
    states = [state for one in judges[:1] for state in one["states"] if state in met]
    rows: list[list[Cell]] = [
        [
            one["judge_model"],
            one["dimension"] or "",
            f"{one['questions']:,}",
            *(_state_count(one, state) for state in states),
        ]
        for one in judges
    ]
    heads = ("Judge", "Dimension", "Questions", *(state.replace("_", " ") for state in states))
    return section_html(
        "questions",
        "Questions and matches",
        (f"<h3>Questions</h3>\n{table_html(heads, rows, words=2)}"),
        _matches(diagnostics["matches"]),
        _dropped(diagnostics),
    )


def _state_count(one: Mapping[str, Any], state: str) -> Cell:
    """A count of questions, linked to those without a verdict."""
    text = f"{one['states'][state]:,}"
    if state == QuestionState.OK or not one["states"][state]:
        return text
    return LinkedText(text, browser_address("none", dimension=one["dimension"], judge=one["judge_model"]))


def _matches(matches: Mapping[str, MatchCounts]) -> str:
    rows: list[list[Cell]] = [
        [
            dimension,
            *(_match_count(dimension, one, name) for name in _MATCH_COUNTS),
            *(f"{n:,}" for n in one["labels"].values()),
        ]
        for dimension, one in matches.items()
    ]
    labels = next((list(one["labels"]) for one in matches.values()), [])
    heads = (
        "Dimension",
        *(_MATCH_HEADS.get(name, name.replace("_", " ").capitalize()) for name in _MATCH_COUNTS),
        *(name.replace("_", " ") for name in labels),
    )
    return f"<h3>Matches</h3>\n{table_html(heads, rows)}"


def _match_count(dimension: str, one: MatchCounts, name: _MatchCount) -> Cell:
    text = f"{one[name]:,}"
    if name != "incomplete" or not one[name]:
        return text
    return LinkedText(text, browser_address("none", dimension=dimension))


def _dropped(diagnostics: DiagnosticsDocument) -> str:
    lacking = ", ".join(f"{name} {n:,}" for name, n in diagnostics["missing_responses"].items())
    dropped = diagnostics["dropped_pairs"]
    if not dropped:
        return "<p>An incomplete match lacks a verdict in one order and is not a battle. No pair lacked a response.</p>\n"
    return (
        "<p>An incomplete match lacks a verdict in one order and is not a battle. "
        f"{dropped:,} pairs were dropped because a response is missing ({text_html(lacking)}).</p>\n"
    )


def costs_section(costs: CostsDocument) -> str:
    """Estimated and actual costs by judge and dimension, including calls whose replies were lost."""
    actual = costs["actual"]
    idle = cache_warning(costs)
    # One row per judge and dimension; prompt cache columns only if the cache was used.
    tokens = {name: head for name, head in _TOKENS.items() if "cache" not in name or actual[name]}
    heads = ("Judge", "Dimension", "Questions", "From cache", "Calls", "ok", "Failed", "Lost")
    rows = [
        _row(one["judge_model"], one["dimension"] or "(none)", one, tokens)
        for one in costs["by_judge_and_dimension"]
    ]
    total = _row("All", "", actual, tokens)
    lost = actual["paid_and_lost"]
    asked = f"{actual['from_cache']:,} from the cache, {actual['fresh']:,} asked in {actual['calls']:,} calls"
    parts = [f"{actual['questions']:,} questions: {asked}, {paid_text(actual)}."]
    if lost["calls"]:
        parts.append(f"Lost in flight: {lost['calls']:,} calls, at most {format_dollar_text(lost['usd'])}.")
    return section_html(
        "costs",
        "What it cost",
        findings_html([] if idle is None else [idle]),
        f"<p>{text_html(' '.join(parts))}</p>\n",
        table_html((*heads, *tokens.values(), "Dollars"), [*rows, total], words=2),
        _estimate(costs["estimate"], actual),
    )


def paid_text(actual: ActualCosts) -> str:
    """What is known to be paid, and what it is at most: with calls that were lost, without tokens, or still in flight."""
    known, most = actual["known_usd"], actual["at_most_usd"]
    if known == most or (most is None and known == "0"):
        return format_dollar_text(most)
    rest = "the rest unknown" if most is None else f"at most {format_dollar_text(most)}"
    return f"{format_dollar_text(known)} known, {rest}"


def format_dollar_text(text: str | None) -> str:
    """Format decimal text as an amount; ``None`` is shown as unknown."""
    return _dollars(None if text is None else to_picodollars(text))


def cache_warning(costs: CostsDocument) -> Finding | None:
    """A finding where prompt caching was asked for and did nothing."""
    if not costs["prompt_cache"]["did_nothing"]:
        return None
    return Finding("prompt-cache-idle", {"written": costs["prompt_cache"]["written_tokens"] or 0})


def _row(judge: str, dimension: str, one: ActualCosts, tokens: Iterable[TokenCount]) -> list[str]:
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


def elo_table(document: EloDocument) -> str:
    """Means and order noise by entrant and dimension, and how many matches were decisive; lines may be long."""
    rule = "=" * _RULE_CHARACTERS
    return "\n".join((rule, _TITLE, rule, *_table_lines(document)))


def _table_lines(document: EloDocument) -> Iterator[str]:
    primary = document["primary"]
    entrants = sorted({name for entries in primary.values() for name in entries})
    if not entrants:
        yield "(no Elo results)"
        return
    head = _line("entrant", primary)
    yield head
    yield "-" * len(head)
    for name in entrants:
        yield _line(name, [_cell(entries.get(name)) for entries in primary.values()])
    yield "-" * len(head)
    counts = document["n_decisive_matches"]
    yield escape_controls(f"decisive matches: {', '.join(f'{name}={counts[name]}' for name in primary)}")


def _line(name: str, cells: Iterable[str]) -> str:
    return f"{escape_controls(name):<{_NAME_CHARACTERS}}" + "".join(
        f" | {cell:>{_CELL_CHARACTERS}}" for cell in cells
    )


def _cell(entry: EloEntry | None) -> str:
    if entry is None:
        return "—"
    error = float("nan") if entry["sem"] is None else entry["sem"]
    return f"{entry['mean']:8.1f} ± {error:5.2f}"


def elo_section(document: EloDocument) -> str:
    """The same for the report, with a chart of each dimension under other values of K."""
    lines = "\n".join(map(text_html, elo_table(document).split("\n")))
    table = f'<div class="wide"><pre>{lines}</pre></div>\n'
    charts = "".join(_figures(document)) if charts_available() else ""
    if charts:
        charts = f'<details class="charts"><summary>Elo under other values of K</summary>\n<div class="figures">{charts}</div>\n</details>\n'
    return section_html("elo", _TITLE, table, f"<p>{text_html(ELO_NOTE)}</p>\n", charts)


def _figures(document: EloDocument) -> Iterator[str]:
    for number, (dimension, by_k) in enumerate(document["k_sensitivity"].items()):
        means = {
            float(k): {name: one["mean"] for name, one in entries.items()} for k, entries in by_k.items()
        }
        if means:
            yield figure_html(f"elo-{number}", f"{dimension}: Elo under other values of K", sweep_spec(means))
