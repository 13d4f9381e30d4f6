"""The verdict browser of a report: its part of the page, and its data, in scripts that are loaded when a reader needs them.

A page opened from disk cannot fetch files, but it can load scripts. Each part is a script with one call,
`tiltyardPart(name, value)`, whose value is JSON. There are three kinds:

- ``index``: what the list shows and the filters need, a few bytes for each match;
- ``texts``: prompts and responses;
- ``verdicts``: what the judges replied.

Names from a run are only ever values, never keys: as a key, `__proto__` would change an object.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from tiltyard.core.battles.outcome import Label, Outcome
from tiltyard.core.judging.canaries import question_texts
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.question import QuestionPurpose, QuestionTexts
from tiltyard.core.judging.reconciliation import MatchResult, VerdictGroup, group_verdicts
from tiltyard.files.answer import Answer
from tiltyard.report.board_charts import charts_available
from tiltyard.report.html_parts import page_asset, script_json, section_html, text_html
from tiltyard.report.match_text import context_of

#: The kinds of parts.
PART_KINDS = ("index", "texts", "verdicts")
#: A part is closed when it is as large as this. Of a kind with many parts the later ones are larger, up to the
#: maximum, so that a large run does not have too many files.
_PART_BYTES = 48_000
_LARGEST_PART_BYTES = 1_000_000
_PART_GROWTH_COUNT = 256
#: A part of the index is loaded for its rows, not for a single one.
_INDEX_PART_BYTES = 160_000
#: Longer texts are cut; the page says how long they are and where the whole is.
_RESPONSE_CHARACTERS = 20_000
_REASONING_CHARACTERS = 6_000
#: The beginning of a prompt that is shown in the list.
_EXCERPT_CHARACTERS = 90
#: Sides of a match in results: both orders for one model, or one order and a tie.
_WINS = {Outcome.MODEL_A: "A", Outcome.MODEL_B: "B"}
_PURPOSES = {
    QuestionPurpose.IDENTICAL: "i",
    QuestionPurpose.TRUNCATED: "t",
    QuestionPurpose.GARBAGE: "g",
    QuestionPurpose.REPEAT: "r",
    QuestionPurpose.SWAPPED: "s",
    QuestionPurpose.EMPTY: "e",
}

#: Stores a finished part under its name.
PartSink = Callable[[str, bytes], None]

#: The folder of the parts, beside the page.
REPORT_DATA = "report_data"
#: The name of the part that draws the charts.
CHARTS_NAME = "charts"
_SHOWN = {
    "all": "All matches",
    "flips": "Flips",
    "disputed": "Judges disagree",
    "none": "No verdict",
    "failed": "Failed checks",
    "checks": "All checks",
}
_SELECTS = {"dimension": "Dimension", "a": "Model", "b": "Against", "judge": "Judge", "category": "Category"}
_MISSING = f"This needs JavaScript, and the folder <code>{REPORT_DATA}</code> beside this file."
_LEDE = (
    "Every match with its prompt, both responses, and each judge's verdict in both orders. A <em>flip</em>: the "
    "winner changes with the order. A <em>check</em>: a planted question with a known answer, or one asked again."
)


@dataclass(frozen=True, slots=True)
class PartCounts:
    """The number of parts of each kind."""

    index: int = 0
    texts: int = 0
    verdicts: int = 0


def part_name(kind: str, number: int) -> str:
    """The name of a part, without its folder and ending; ``number`` counts from 0."""
    return f"{kind}-{number:04d}"


@dataclass(frozen=True, slots=True)
class _PromptPlace:
    """A prompt as the list shows it, and where its texts are."""

    category: int
    excerpt: str
    part: int
    place: int


class VerdictParts:
    """Makes the parts of one run while its answers and verdicts pass through; keeps no texts.

    ``responses`` holds the texts by model and prompt, for planted questions: these show a spoilt copy.
    """

    def __init__(
        self,
        sink: PartSink,
        judges: Sequence[str],
        entrants: Sequence[str],
        responses: Mapping[tuple[str, str], str],
    ) -> None:
        self._judges = {name: k for k, name in enumerate(judges)}
        self._entrants = {name: k for k, name in enumerate(entrants)}
        self._responses = responses
        self._sink = sink
        self._texts = _OpenPart(sink, "texts")
        self._verdicts = _OpenPart(sink, "verdicts")
        self._index_count = 0
        self._prompts: dict[str, _PromptPlace] = {}
        self._categories: dict[str, int] = {}

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of prompts, in order of first occurrence."""
        return tuple(self._categories)

    @property
    def counts(self) -> PartCounts:
        return PartCounts(self._index_count, self._texts.count, self._verdicts.count)

    def texts(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Yield the answers unchanged; those to one prompt are consecutive."""
        line = 1
        for prompt_id, group in groupby(answers, key=lambda one: one.prompt_id):
            here = list(group)
            # ``line`` is the place of the first answer in the file of answers.
            prompt = here[0]
            responses = [
                [
                    self._entrants[one.model],
                    *_cut(one.response, _RESPONSE_CHARACTERS),
                    line + k,
                    int(one.truncated),
                    context_of(one),
                ]
                for k, one in enumerate(here)
                if one.model in self._entrants
            ]
            beside = [
                None if text is None else _cut(text, _RESPONSE_CHARACTERS)
                for text in (prompt.gold, prompt.expected_behavior)
            ]
            part, place = self._texts.add(
                [*_cut(prompt.prompt, _RESPONSE_CHARACTERS), line, *beside, responses]
            )
            category = -1
            if prompt.category is not None:
                category = self._categories.setdefault(prompt.category, len(self._categories))
            excerpt = " ".join(prompt.prompt[: 4 * _EXCERPT_CHARACTERS].split())
            shown = excerpt[:_EXCERPT_CHARACTERS] + ("…" if len(excerpt) > _EXCERPT_CHARACTERS else "")
            self._prompts[prompt_id] = _PromptPlace(category, shown, part, place)
            line += len(here)
            yield from here
        self._texts.close()

    def verdicts(self, dimension: int, judged: Iterable[JudgedQuestion]) -> Iterator[JudgedQuestion]:
        """Yield the verdicts of one dimension unchanged, in canonical order. ``dimension`` is its number."""
        index = _IndexPart(dimension)
        line = 1
        for group in group_verdicts(judged):
            if index.size >= _INDEX_PART_BYTES:
                index = self._close_index(index)
            part, _ = self._verdicts.add(self._said(group, line))
            index.add(part, self._row(group, index))
            line += len(group.judged)
            yield from group.judged
        self._verdicts.close()
        if index.size:
            self._close_index(index)

    def _close_index(self, index: _IndexPart) -> _IndexPart:
        self._sink(*_script("index", self._index_count, script_json(index.value())))
        self._index_count += 1
        return _IndexPart(index.dimension)

    def _row(self, group: VerdictGroup, index: _IndexPart) -> str:
        """A line of the index: prompt, models and results; of a planted question also kind, judge and slot."""
        prompt = index.prompt(group.prompt_id, self._prompts.get(group.prompt_id))
        models = f"{prompt} {self._entrants[group.model_a]} {self._entrants[group.model_b]}"
        if group.purpose is QuestionPurpose.MATCH:
            return f"{models} {''.join(_letter(group.results.get(judge)) for judge in self._judges)}"
        question = group.judged[0].question
        slot = question.order if question.spoilt is None else question.spoilt
        # + passed, ! failed, - no verdict, ? nothing to compare with.
        mark = "-" if group.lacks() else {True: "+", False: "!", None: "?"}[group.passed]
        return f"{models} {mark} {_PURPOSES[group.purpose]} {self._judges[question.judge]} {slot}"

    def _said(self, group: VerdictGroup, line: int) -> Mapping[str, object]:
        said = [self._reply(one, line + k) for k, one in enumerate(group.judged)]
        question = group.judged[0].question
        if group.purpose is QuestionPurpose.MATCH:
            return {"said": said}
        if group.purpose is QuestionPurpose.REPEAT:
            return {"said": said, "before": group.before}
        whole = self._responses.get((question.first, question.prompt_id), "")
        shown = question_texts(question, QuestionTexts("", whole, whole), self._responses)
        copy = shown.second if question.spoilt else shown.first
        return {"said": said, "copy": _cut(copy, _RESPONSE_CHARACTERS)}

    def _reply(self, one: JudgedQuestion, line: int) -> list[object]:
        """Judge, order, state, verdict, both bad, what it said with its full length, line, and why unusable."""
        judge, order = self._judges[one.question.judge], one.question.order
        if one.verdict is not None:
            text, length = _cut(one.verdict.reasoning, _REASONING_CHARACTERS)
            step, both_bad = one.verdict.step.value, int(one.verdict.both_bad)
            return [judge, order, one.state.value, step, both_bad, text, length, line, None]
        text, length = _cut(_raw(one), _REASONING_CHARACTERS)
        return [judge, order, one.state.value, None, 0, text, length, line, one.problem]


class _OpenPart:
    """A part that grows until it is large enough; the next one is begun when something is added."""

    def __init__(self, sink: PartSink, kind: str) -> None:
        self._sink = sink
        self._kind = kind
        self._values: list[str] = []
        self._size = 0
        self.count = 0

    def add(self, value: object) -> tuple[int, int]:
        """Add a value; return the number of its part and its place in it."""
        text = script_json(value)
        most = min(_PART_BYTES << self.count // _PART_GROWTH_COUNT, _LARGEST_PART_BYTES)
        if self._values and self._size + len(text) > most:
            self.close()
        self._values.append(text)
        self._size += len(text)
        return self.count, len(self._values) - 1

    def close(self) -> None:
        """Store what was added since the last call, if anything."""
        if self._values:
            self._sink(*_script(self._kind, self.count, f"[{','.join(self._values)}]"))
            self._values, self._size = [], 0
            self.count += 1


class _IndexPart:
    """A part of the index: prompts, and rows by the part that holds their verdicts."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.size = 0
        self._prompts: dict[str, int] = {}
        self._shown: list[list[object]] = []
        self._rows: dict[int, list[str]] = {}

    def prompt(self, prompt_id: str, place: _PromptPlace | None) -> int:
        """The number of a prompt in this part."""
        found = self._prompts.get(prompt_id)
        if found is None:
            found = self._prompts[prompt_id] = len(self._prompts)
            shown = place or _PromptPlace(-1, "", -1, 0)
            self._shown.append([prompt_id, shown.category, shown.excerpt, shown.part, shown.place])
            self.size += len(prompt_id) + len(shown.excerpt) + 20
        return found

    def add(self, part: int, row: str) -> None:
        self._rows.setdefault(part, []).append(row)
        self.size += len(row) + 1

    def value(self) -> object:
        rows = [[part, ";".join(together)] for part, together in self._rows.items()]
        return {"dimension": self.dimension, "prompts": self._shown, "rows": rows}


def _script(kind: str, number: int, text: str) -> tuple[str, bytes]:
    name = part_name(kind, number)
    return name, f"tiltyardPart({json.dumps(name)},{text});\n".encode()


def _cut(text: str, most: int) -> tuple[str, int]:
    """A text, cut if it is too long, and its full length in characters."""
    return text[:most], len(text)


def _raw(one: JudgedQuestion) -> str:
    if one.reply is None:
        return ""
    return one.reply.text or (json.dumps(dict(one.reply.data)) if one.reply.data is not None else "")


def _letter(result: MatchResult | None) -> str:
    """The result of one judge: A or B won; a or b is a lean; = is a tie, x a flip, - no result."""
    if result is None:
        return "-"
    if result.label is Label.INCONSISTENT:
        return "x"
    winner = _WINS.get(result.outcome, "=")
    return winner.lower() if result.label is Label.LEAN else winner


@dataclass(frozen=True, slots=True)
class BrowserHead:
    """What the section needs before any part is loaded."""

    judges: Sequence[str]
    entrants: Sequence[str]
    dimensions: Sequence[str]
    categories: Sequence[str]
    index_parts: int


def browser_section(head: BrowserHead) -> str:
    """The section; empty if there is nothing to read."""
    if not head.index_parts:
        return ""
    data = {
        "judges": list(head.judges),
        "entrants": list(head.entrants),
        "dimensions": list(head.dimensions),
        "categories": list(head.categories),
        "index": head.index_parts,
        "folder": REPORT_DATA,
    }
    return section_html(
        "said",
        "What the judge said",
        f'<p class="lede">{_LEDE}</p>\n<p class="said-missing">{_MISSING}</p>\n',
        f'<script type="application/json" id="said-data">{script_json(data)}</script>\n',
        '<div class="said" hidden>\n',
        _filters(head),
        '<p class="said-count" role="status"></p>\n<div class="said-panes">\n'
        '<nav class="said-list" aria-label="Matches"><ol></ol><p class="said-pages"></p></nav>\n'
        '<article class="said-one" tabindex="-1" aria-label="The selected match"></article>\n</div>\n</div>\n',
    )


def _filters(head: BrowserHead) -> str:
    chips = "".join(
        f'<label><input type="radio" name="show" value="{name}"{" checked" if name == "all" else ""}>'
        f"<span>{title} <b></b></span></label>\n"
        for name, title in _SHOWN.items()
        if name != "disputed" or len(head.judges) > 1
    )
    options = {
        "dimension": head.dimensions,
        "a": sorted(head.entrants),
        "b": sorted(head.entrants),
        "judge": head.judges,
        "category": sorted(head.categories),
    }
    selects = "".join(
        f'<label>{title} <select name="{name}"><option value="">all</option>'
        + "".join(f'<option value="{text_html(one)}">{text_html(one)}</option>' for one in options[name])
        + "</select></label>\n"
        for name, title in _SELECTS.items()
        if len(options[name]) > 1
    )
    return (
        f'<form class="said-filters"><fieldset class="chips"><legend>Show</legend>\n{chips}</fieldset>\n'
        f'<div class="selects">{selects}<label>Prompt <input name="find" type="search" placeholder="id or words">'
        '</label>\n<button type="reset">Clear</button></div></form>\n'
    )


def browser_address(show: str | None = None, **chosen: str | None) -> str:
    """The address, inside the page, of the list with these filters."""
    parts = {"show": show, **chosen}
    return "#said?" + "&".join(
        f"{name}={quote(text, safe='', errors='replace')}" for name, text in parts.items() if text is not None
    )


def browser_head() -> str:
    """The section's style, and the page's security policy: its own script, the parts beside it, nothing else.

    The library that draws charts compiles expressions, which needs ``unsafe-eval``.
    """
    digest = base64.b64encode(hashlib.sha256(_browser_script().encode()).digest()).decode()
    compiles = " 'unsafe-eval'" if charts_available() else ""
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' 'self' file:{compiles}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    style = page_asset("verdict_browser.css")
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>\n'


def browser_scripts() -> str:
    """The script that loads parts and fills the section."""
    return f"<script>{_browser_script()}</script>"


def _browser_script() -> str:
    return page_asset("verdict_browser.js") + page_asset("controls.js")
