"""Paid judgments: verdicts that another script has bought, read in the place of judges' replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import Reply, VerdictForm, VerdictStep, has_verdict_line, read_reply
from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import open_input
from tiltyard.files.json_records import JsonLinesRecords, parse_object
from tiltyard.foundation.local_files import read_regular_text
from tiltyard.settings.tournament_config import TournamentConfig, load_rubric
from tiltyard.tournaments.tournament_plan import TournamentPlan

_KEY_DIGIT_COUNT = 12
_KEY = re.compile(rf"[0-9a-f]{{{_KEY_DIGIT_COUNT}}}")
#: The letters are slots: A is the response that was shown first.
_STEPS = {"A": VerdictStep.FIRST, "B": VerdictStep.SECOND, "TIE": VerdictStep.EVEN}
_TIE = "TIE"


class _Line(NamedTuple):
    """A stored judgment: its verdict, what the judge said, and which question it names."""

    verdict: str
    reasoning: str
    asked: tuple[object, ...]


@dataclass(frozen=True)
class PaidJudgments:
    """The judgments that fit the questions of a plan, by the id of the question; and how many there are."""

    judged: Mapping[str, JudgedQuestion] = field(default_factory=dict)
    #: By dimension: ``used``, ``unreadable`` ones of these, ``stale`` (of today's questions with other texts), ``other``
    #: and ``replaced``.
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Files whose last line was cut off.
    torn: tuple[str, ...] = ()

    def find(self, question: Question) -> JudgedQuestion | None:
        return self.judged.get(question.id)

    def notes(self) -> Iterator[str]:
        """What was read of each file."""
        for dimension, counts in self.counts.items():
            yield (
                f"{_file_name(dimension)}: {counts['used']:,} paid judgments are used; not used are {counts['stale']:,} "
                f"whose rubric or responses have changed, {counts['other']:,} of questions that this run does not ask, "
                f"and {counts['replaced']:,} that a later line replaces"
            )
            if counts["unreadable"]:
                yield (
                    f"{_file_name(dimension)}: {counts['unreadable']:,} of the used ones are a TIE without a VERDICT "
                    "line; they count as unreadable, not as ties"
                )
        yield from self.torn

    def unused_notes(self) -> Iterator[str]:
        """What a run that asks its judges should say before it pays."""
        used = sum(counts["used"] for counts in self.counts.values())
        if used:
            yield (
                f"{used:,} judgments that another script has paid for would fit, and are asked and paid for again: "
                "--skip-judging rates them instead"
            )


def read_paid_judgments(config: TournamentConfig, plan: TournamentPlan) -> PaidJudgments:
    """Read ``judgments_<dimension>.jsonl`` in ``caches.judgments_dir``, as far as there are such files."""
    judged: dict[str, JudgedQuestion] = {}
    counts: dict[str, Mapping[str, int]] = {}
    torn: list[str] = []
    folder = config.caches.judgments_dir
    for dimension in config.dimensions if folder is not None else ():
        path = config.at(folder or "") / _file_name(dimension)
        if not path.is_file():
            continue
        lines, total = _read_lines(path, torn)
        apart = any(line.verdict != _TIE and not has_verdict_line(line.reasoning) for line in lines.values())
        keys = _Keys(config, plan, dimension)
        asked: set[tuple[object, ...]] = set()
        used: set[str] = set()
        unreadable = 0
        for question in plan.dimension(dimension):
            if question.purpose is not QuestionPurpose.MATCH:
                continue
            key, place = keys.of(question)
            asked.add(place)
            if key in lines:
                used.add(key)
                one = judged[question.id] = _judged(question, lines[key], key, apart=apart)
                unreadable += one.verdict is None
        left = Counter(lines[key].asked in asked for key in lines.keys() - used)
        counts[dimension] = {
            "used": len(used),
            "unreadable": unreadable,
            "stale": left[True],
            "other": left[False],
            "replaced": total - len(lines),
        }
    return PaidJudgments(judged, counts, tuple(torn))


def _file_name(dimension: str) -> str:
    return f"judgments_{dimension}.jsonl"


def _read_lines(path: Path, torn: list[str]) -> tuple[dict[str, _Line], int]:
    """The last line of each key, and the number of all lines; without a last line that a killed script cut off."""
    lines: dict[str, _Line] = {}
    total = 0
    for where, row in _rows(path, torn):
        key, verdict, reasoning = (row.get(name) for name in ("cache_key", "verdict", "reasoning"))
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise UnreadableFile(f"{where}: cache_key is not {_KEY_DIGIT_COUNT} hexadecimal digits")
        if not isinstance(verdict, str) or verdict not in _STEPS:
            raise UnreadableFile(f"{where}: verdict is {verdict!r:.60}; expected {', '.join(_STEPS)}")
        if not isinstance(reasoning, str):
            raise UnreadableFile(f"{where}: reasoning is not text")
        lines.pop(key, None)
        lines[key] = _Line(verdict, reasoning, _named(row))
        total += 1
    return lines, total


def _rows(path: Path, torn: list[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    lines = list(JsonLinesRecords(open_input(path)).lines()) if path.stat().st_size else []
    for number, (where, line) in enumerate(lines, start=1):
        try:
            yield where, parse_object(where, line)
        except UnreadableFile:
            if number < len(lines) or line.endswith(b"\n"):
                raise
            torn.append(f"{path.name}: the last line is cut off, and left out")


def _named(row: Mapping[str, Any]) -> tuple[object, ...]:
    """The question that a line names; it need not name one."""
    metadata = row.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    names = ("prompt_id", "entrant_a", "entrant_b", "position_swap")
    return (str(row.get("judge_model")), *(json.dumps(fields.get(name)) for name in names))


def _judged(question: Question, line: _Line, key: str, *, apart: bool) -> JudgedQuestion:
    """The result of a question, with a reply from which our parser reads the stored verdict.

    Some scripts store TIE where they cannot read a reply: such a reply has no verdict here either. ``apart``: verdicts
    of this file are stored apart from what the judge said, which says nothing of them.
    """
    form, text = VerdictForm.TEXT, line.reasoning
    if line.verdict != _TIE or apart or has_verdict_line(line.reasoning):
        stated = {"reasoning": line.reasoning, "verdict": _STEPS[line.verdict], "both_bad": False}
        form, text = VerdictForm.SCHEMA, json.dumps(stated)
    reply = Reply(text)
    reading = read_reply(reply, form)
    return JudgedQuestion(
        question=question,
        match_id=match_id_of(question),
        state=reading.state,
        verdict=reading.verdict,
        problem=reading.problem,
        reply=reply,
        form=form,
        key=key,
        asks=1,
    )


class _Keys:
    """The keys of judgments of one dimension, from today's texts: a hash that every change of them changes."""

    def __init__(self, config: TournamentConfig, plan: TournamentPlan, dimension: str) -> None:
        self._plan = plan
        self._places = {entrant.entrant_id: place for place, entrant in enumerate(config.entrants)}
        path = config.rubrics[dimension].path
        rubric = read_regular_text(config.at(path)) if path else load_rubric(config, dimension).file_text()
        self._rubric = _plain(rubric)

    def of(self, question: Question) -> tuple[str, tuple[object, ...]]:
        """The key of a question, and its name as `_named` spells it."""
        a, b = sorted((question.first, question.second), key=self._places.__getitem__)
        model, prompt_id, swapped = (
            self._plan.seat(question).settings.model,
            question.prompt_id,
            question.first == b,
        )
        texts = [_plain(self._plan.answers[name, prompt_id].response) for name in (a, b)]
        fields = {
            "rubric_text": self._rubric,
            "judge_model": model,
            "prompt_id": prompt_id,
            "entrant_a": a,
            "entrant_b": b,
            "position_swap": swapped,
            "response_a": texts[0],
            "response_b": texts[1],
        }
        data = json.dumps(fields, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return hashlib.sha256(data).hexdigest()[:_KEY_DIGIT_COUNT], (
            model,
            *map(json.dumps, (prompt_id, a, b, swapped)),
        )


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
