"""The cost of a run: sums over its attempts, next to the plan's estimate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import UnreadableFile
from tiltyard.files.parquet_tables import read_rows
from tiltyard.report.run_documents import ActualCosts, CostsDocument, TokenCount
from tiltyard.runs.tournament_manifest import ATTEMPT_COLUMNS, AttemptRow, TournamentManifest
from tiltyard.settings.prices import dollars_text

_TOKENS: tuple[TokenCount, ...] = get_args(TokenCount)
_Required = Literal["attempt_id", "request_key", "ask", "judge_model", "mode", "state"]
_REQUIRED: tuple[_Required, ...] = get_args(_Required)
_MODES = ("live", "batch")

#: The state of an attempt without a result: it is in progress, or waits in a batch.
IN_FLIGHT = "in_flight"

#: Judge and dimension.
Place = tuple[str, str]

_DECIMAL_DIGIT_COUNT = 12
_DECIMAL = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,12}))?")


class QuestionStatus(NamedTuple):
    """Judge and dimension of a question, whether it got a verdict, and whether a reply was read."""

    place: Place
    ok: bool
    replied: bool


class QuestionIndex:
    """A compact index of a run's questions by id."""

    def __init__(self) -> None:
        self._codes: dict[QuestionStatus, int] = {}
        self._standings: list[QuestionStatus] = []
        self._questions: dict[bytes, int] = {}

    def add(self, judged: JudgedQuestion) -> None:
        place = judged.question.judge, judged.question.dimension
        standing = QuestionStatus(place, judged.state is QuestionState.OK, judged.reply is not None)
        if standing not in self._codes:
            self._codes[standing] = len(self._standings)
            self._standings.append(standing)
        self._questions[bytes.fromhex(judged.question.id)] = self._codes[standing]

    def find(self, question_id: str) -> QuestionStatus | None:
        """The status of a question; ``None`` if it is not part of this run."""
        try:
            code = self._questions.get(bytes.fromhex(question_id))
        except ValueError:
            return None
        return None if code is None else self._standings[code]

    def by_place(self, *, replied: bool = False) -> Counter[Place]:
        """The number of questions (or only those with a reply) by judge and dimension."""
        counts = Counter(self._questions.values())
        found: Counter[Place] = Counter()
        for code, standing in enumerate(self._standings):
            found[standing.place] += counts[code] if standing.replied or not replied else 0
        return found


def read_attempts(path: Path) -> Iterator[AttemptRow]:
    """The rows of `attempts.parquet`; raises `UnreadableFile` if its columns are not those of `ATTEMPT_COLUMNS`."""
    # The types of the columns were checked, and they are those of an `AttemptRow`.
    return cast("Iterator[AttemptRow]", read_rows(path, ATTEMPT_COLUMNS))


def attempt_problem(row: AttemptRow, asked: QuestionIndex) -> str | None:
    """The problem with one row of the attempts, if any.

    An attempt without a question warmed a provider's prompt cache. A successful attempt left a
    raw reply, so its question has a verdict; an attempt in flight has no price yet.
    """
    missing = [name for name in _REQUIRED if row[name] is None]
    if missing:
        return f"{missing[0]} is missing"
    if row["state"] not in (*QuestionState, IN_FLIGHT) or row["mode"] not in _MODES:
        return f"state {row['state']!r} or mode {row['mode']!r} is unknown"
    if row["state"] == IN_FLIGHT and row["usd"] is not None:
        return f"attempt {row['attempt_id']} is in flight, but already has a price"
    return None if not row["question_id"] else _question_problem(row, asked.find(row["question_id"]))


def _question_problem(row: AttemptRow, found: QuestionStatus | None) -> str | None:
    if found is None:
        return f"question {row['question_id']} is not part of this run"
    if found.place != (row["judge_model"], row["dimension"]):
        return f"question {row['question_id']} belongs to {found.place[0]} and {found.place[1]}"
    if row["state"] == QuestionState.OK and not found.ok:
        return f"attempt {row['attempt_id']} was ok, but its question has no verdict"
    return None


@dataclass
class _Sums:
    """The sums for one judge and dimension, or for all."""

    calls: int = 0
    states: Counter[str] = field(default_factory=Counter)
    tokens: Counter[TokenCount] = field(default_factory=Counter)
    counted: int = 0
    paid: int = 0
    #: Of these, for replies that arrived and say their tokens; the worst case of the others counts as paid.
    known: int = 0
    unpriced: int = 0
    lost_paid: int = 0
    lost_unpriced: int = 0
    #: Attempts without a result, the amount reserved for them, and how many have no reservation.
    flying: int = 0
    reserved: int = 0
    unreserved: int = 0
    #: Questions with an attempt in this run, and those with a reply.
    fresh: int = 0
    fresh_replied: int = 0

    def add(self, row: AttemptRow, where: str) -> None:
        if row["state"] == IN_FLIGHT:
            reserved = row["reserved_usd"]
            self.flying += 1
            self.unreserved += reserved is None
            self.reserved += 0 if reserved is None else picodollars_of(reserved, f"{where}: reserved_usd")
            return
        self.calls += 1
        self.states[row["state"]] += 1
        self.counted += row["input_tokens"] is not None
        for name in _TOKENS:
            self.tokens[name] += row[name] or 0
        lost = row["state"] == QuestionState.LOST
        if row["usd"] is None:
            self.unpriced += 1
            self.lost_unpriced += lost
        else:
            paid = picodollars_of(row["usd"], f"{where}: usd")
            self.paid += paid
            self.known += 0 if lost or (paid and row["input_tokens"] is None) else paid
            self.lost_paid += paid if lost else 0

    def ask(self, standing: QuestionStatus | None) -> None:
        """Count a question at its first attempt."""
        self.fresh += 1
        self.fresh_replied += standing is not None and standing.replied

    def to_dict(self, questions: int, replied: int) -> ActualCosts:
        return {
            "questions": questions,
            "fresh": self.fresh,
            "from_cache": replied - self.fresh_replied,
            "calls": self.calls,
            "states": {state.value: self.states[state.value] for state in QuestionState},
            "calls_with_usage": self.counted,
            "input_tokens": self.counted_tokens("input_tokens"),
            "output_tokens": self.counted_tokens("output_tokens"),
            "cache_write_tokens": self.counted_tokens("cache_write_tokens"),
            "cache_read_tokens": self.counted_tokens("cache_read_tokens"),
            "usd": None if self.unpriced else dollars_text(self.paid),
            "known_usd": dollars_text(self.known),
            "at_most_usd": None
            if self.unpriced or self.unreserved
            else dollars_text(self.paid + self.reserved),
            "calls_of_unknown_price": self.unpriced,
            "paid_and_lost": {
                "calls": self.states[QuestionState.LOST.value],
                "usd": None if self.lost_unpriced else dollars_text(self.lost_paid),
            },
            "in_flight": {
                "calls": self.flying,
                "reserved_usd": None if self.unreserved else dollars_text(self.reserved),
            },
        }

    def counted_tokens(self, name: TokenCount) -> int | None:
        return self.tokens[name] if self.counted else None


def costs_document(
    manifest: TournamentManifest, asked: QuestionIndex, attempts: Iterable[AttemptRow]
) -> CostsDocument:
    """`costs.json`: the plan's estimate, and sums over every attempt, including lost ones; those in flight are separate."""
    whole, seen = _Sums(), set[str]()
    by_place: dict[Place, _Sums] = {}
    for number, row in enumerate(attempts, start=1):
        place = row["judge_model"], row["dimension"] or ""
        both = whole, by_place.setdefault(place, _Sums())
        for sums in both:
            sums.add(row, f"attempts.parquet, row {number}")
        question = row["question_id"]
        if question and question not in seen:
            seen.add(question)
            for sums in both:
                sums.ask(asked.find(question))
    total, parts = whole, by_place
    questions, replied = asked.by_place(), asked.by_place(replied=True)
    own = [(judge, dimension) for dimension in manifest.dimensions for judge in manifest.judges]
    known = questions.keys() | parts.keys()
    places = [*(place for place in own if place in known), *sorted(known - set(own))]
    # Whether the prompt cache was requested without effect: providers silently skip prefixes that are too short.
    return {
        "schema": 1,
        "estimate": manifest.estimate,
        "actual": total.to_dict(questions.total(), replied.total()),
        "by_judge_and_dimension": [
            {
                "judge_model": judge,
                "dimension": dimension or None,
                **parts.get((judge, dimension), _Sums()).to_dict(
                    questions[judge, dimension], replied[judge, dimension]
                ),
            }
            for judge, dimension in places
        ],
        "prompt_cache": {
            "asked": manifest.prompt_cache_asked,
            "read_tokens": total.counted_tokens("cache_read_tokens"),
            "written_tokens": total.counted_tokens("cache_write_tokens"),
            "did_nothing": manifest.prompt_cache_asked and total.counted_tokens("cache_read_tokens") == 0,
        },
    }


def picodollars_of(text: str, where: str) -> int:
    """Parse decimal text as integer picodollars; more than twelve decimals are rejected."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise UnreadableFile(f"{where} is {text!r}; expected dollars as decimal text, such as 0.0125")
    return int(found[1] + (found[2] or "").ljust(_DECIMAL_DIGIT_COUNT, "0"))
