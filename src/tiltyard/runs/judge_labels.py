"""Matches of a tournament for people to label, as a sheet without names, and the labels that come back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from tiltyard.core.battles import Battle, Outcome
from tiltyard.core.battles.outcome import Label
from tiltyard.core.judging.diagnostics.label_agreement import FIRST, SECOND, TIE, Labelled
from tiltyard.core.judging.label_sample import LabelSample, draw_labelled
from tiltyard.core.judging.matches import Match, stable_id
from tiltyard.errors import BadBattle, BadOption, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.format_detection import open_records
from tiltyard.foundation.arrays import Bools, Floats
from tiltyard.foundation.local_files import atomic_write
from tiltyard.foundation.option_names import quoted
from tiltyard.report.escapes import csv_text
from tiltyard.report.match_text import ContextText, context_of, split_shared
from tiltyard.runs.manifest import BATTLE_LINES, read_lines
from tiltyard.runs.match_reader import open_tournament
from tiltyard.runs.tournament_manifest import TournamentManifest
from tiltyard.runs.tournament_verification import ResponseTexts

_COLUMNS = (
    "item",
    "dimension",
    "conversation",
    "prompt",
    "reference",
    "response_1",
    "response_2",
    "better",
    "remark",
)
#: An item: the seed, the number of labels, the place in the sheet, and the beginning of a hash of match and texts.
_ITEM = re.compile(r"(\d{1,9})-(\d{1,5})-(\d{1,5})-([0-9a-f]{8})")
_WORDS = {"1": 1, "2": 2, "tie": 0, "both bad": 0}
_EXPECTED = "1, 2, tie or both bad"
_COLUMN_OF = {Outcome.MODEL_A: FIRST, Outcome.MODEL_B: SECOND, Outcome.TIE: TIE}


@dataclass(frozen=True, slots=True)
class JudgedMatches:
    """The judged matches of a finished tournament, with its texts."""

    folder: Path
    manifest: TournamentManifest
    texts: ResponseTexts
    matches: Sequence[Match]
    battles: Sequence[Battle]

    @classmethod
    def read(cls, folder: Path) -> JudgedMatches:
        """Read them; raises if the folder is no finished tournament."""
        folder, manifest, texts = open_tournament(folder)
        battles = []
        for where, row in read_lines(folder / BATTLE_LINES):
            try:
                battle = Battle.from_dict(row)
            except BadBattle as error:
                raise UnreadableFile(f"{where}: {error}") from None
            if battle.source == "llm-judge" and battle.label is not None:
                battles.append(battle)
        matches = [
            Match.between(one.dimension or "", one.question_id or "", one.model_a, one.model_b)
            for one in battles
        ]
        return cls(folder, manifest, texts, matches, battles)

    def draw(self, count: int, seed: int) -> LabelSheet:
        """Draw so many of them for people to label."""
        self._refuse_other_media()
        labels = [one.label for one in self.battles if one.label is not None]
        return LabelSheet(
            self, draw_labelled([one.id for one in self.matches], labels, count, seed), count, seed
        )

    def _refuse_other_media(self) -> None:
        for model, prompt_id in self.texts:
            answer = self.texts.answer(model, prompt_id)
            parts = [part for one in (*answer.messages, *answer.trace) for part in one.parts]
            if answer.kind != "text" or any(part.kind != "text" for part in parts):
                raise BadOption(
                    f"the answer of {model} to {prompt_id} has more than text, which a sheet cannot show: let people vote "
                    "on such matches in an arena of their own"
                )


@dataclass(frozen=True, slots=True)
class LabelSheet:
    """The drawn matches of a run. Everything follows from the run, the number of labels and the seed."""

    run: JudgedMatches
    sample: LabelSample
    count: int
    seed: int

    def item(self, number: int) -> str:
        """The name of a drawn match, which tells nothing of its models. It changes with what people are shown."""
        match = self.run.matches[self.sample.places[number]]
        shown = stable_id(
            [match.id, *(part for one in self._pair(number) for part in (one.prompt, one.response))]
        )
        return f"{self.seed}-{self.count}-{number + 1}-{shown[:8]}"

    def is_turned(self, number: int) -> bool:
        """Whether the first response is that of the second model."""
        match = self.run.matches[self.sample.places[number]]
        return int(stable_id(["label side", self.seed, match.id])[:8], 16) % 2 == 1

    def write(self, path: Path) -> None:
        """Write the sheet that people fill in, as a CSV file."""
        with atomic_write(path) as file:
            file.write(csv_text(_COLUMNS, self._rows()).encode("utf-8-sig"))

    def answers(self) -> Iterator[Answer]:
        """Both answers of each drawn match, as answers to a prompt that has the name of the item."""
        for number in range(len(self.sample.places)):
            for answer in self._pair(number):
                yield replace(answer, prompt_id=self.item(number))

    def _pair(self, number: int) -> list[Answer]:
        match = self.run.matches[self.sample.places[number]]
        return [self.run.texts.answer(model, match.prompt_id) for model in (match.model_a, match.model_b)]

    def _rows(self) -> Iterator[Sequence[str]]:
        for number, place in enumerate(self.sample.places):
            match, answers = self.run.matches[place], self._pair(number)
            if self.is_turned(number):
                answers.reverse()
            shared, *own = split_shared(*map(context_of, answers))
            responses = [
                _in_paragraphs([*texts, ContextText("Response", one.response, 0)]) if texts else one.response
                for texts, one in zip(own, answers, strict=True)
            ]
            # What the rubric lets the judge know.
            needs = self.run.manifest.rubrics[match.dimension].needs
            reference = (answers[0].gold or "") if needs == "gold" else ""
            texts = (_in_paragraphs(shared), answers[0].prompt, reference, *responses)
            # The csv module does not quote a lone carriage return, which then ends the line.
            lines = (text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
            yield (self.item(number), match.dimension, *lines, "", "")


def _in_paragraphs(texts: Sequence[ContextText]) -> str:
    return "\n\n".join(f"{one.label}: {one.text}" for one in texts)


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """What one person said of a drawn match: `FIRST`, `SECOND` or `TIE`, of its models in the order of their names."""

    number: int
    rater: str
    value: int
    #: Whether the response that was shown first was chosen; ``None`` for a tie.
    chose_shown_first: bool | None


@dataclass(frozen=True, slots=True)
class NamedLabel:
    """What one person said of an item elsewhere: the name of the better model, or ``None`` for neither."""

    item: str
    rater: str
    better: str | None


def read_labels(run: JudgedMatches, paths: Sequence[Path]) -> tuple[LabelSheet, list[PersonLabel]]:
    """The labels of filled-in sheets of one run, a person for each file or each value of a column ``rater``."""
    found = _Labels(run)
    for path in paths:
        records = open_records(path)
        missing = [name for name in ("item", "better") if name not in records.columns]
        if missing:
            raise UnreadableFile(
                f"{path} has no column {quoted(missing[0])}; expected a sheet that `tiltyard agree` wrote"
            )
        for where, row in records.records():
            said = "" if row.get("better") is None else str(row["better"]).strip()
            if said:
                number = found.number(where, str(row.get("item") or "").strip())
                choice, turned = _choice(where, said), found.sheet.is_turned(number)
                value = TIE if choice == 0 else FIRST if (choice == 1) != turned else SECOND
                rater = str(row.get("rater") or path.stem).strip()
                found.add(where, PersonLabel(number, rater, value, choice == 1 if choice else None))
    return found.finished(f"the column better is empty in {', '.join(map(str, paths))}; write {_EXPECTED}")


def take_labels(run: JudgedMatches, labels: Iterable[NamedLabel]) -> tuple[LabelSheet, list[PersonLabel]]:
    """Labels that were given elsewhere, by the names of models."""
    found = _Labels(run)
    for one in labels:
        number = found.number("the panel", one.item)
        first = run.matches[found.sheet.sample.places[number]].model_a
        value = TIE if one.better is None else FIRST if one.better == first else SECOND
        found.add("the panel", PersonLabel(number, one.rater, value, None))
    return found.finished("nobody has voted yet")


class _Labels:
    """Labels of one sheet, each checked to be of this run."""

    def __init__(self, run: JudgedMatches) -> None:
        self._run = run
        self._sheet: LabelSheet | None = None
        self._labels: dict[tuple[int, str], PersonLabel] = {}

    @property
    def sheet(self) -> LabelSheet:
        """The sheet of the first label."""
        assert self._sheet is not None
        return self._sheet

    def number(self, where: str, item: str) -> int:
        """The place of an item in its sheet."""
        parts = _ITEM.fullmatch(item)
        if parts is None:
            raise UnreadableFile(
                f"{where}: item is {quoted(item)}; expected what `tiltyard agree` wrote there, unchanged"
            )
        seed, count, number = map(int, parts.groups()[:3])
        if self._sheet is None:
            self._sheet = self._run.draw(count, seed)
        if (self._sheet.count, self._sheet.seed) != (count, seed):
            raise BadOption(f"{where}: is of another sheet than the rows before; read one sheet at a time")
        if not 1 <= number <= len(self._sheet.sample.places) or self._sheet.item(number - 1) != item:
            raise BadOption(
                f"{where}: item {quoted(item)} is not of this run, or of another version of Tiltyard; expected a sheet "
                f"written from {self._run.folder}"
            )
        return number - 1

    def add(self, where: str, label: PersonLabel) -> None:
        """Keep a label, the only one of this person on this item."""
        key = label.number, label.rater
        if key in self._labels:
            item = self.sheet.item(label.number)
            raise BadOption(
                f"{where}: {quoted(label.rater)} labelled item {item} before; leave one of the two, or, if these are "
                "two people, give their files different names"
            )
        self._labels[key] = label

    def finished(self, empty: str) -> tuple[LabelSheet, list[PersonLabel]]:
        """The sheet and all labels; raises, with the reason, if there are none."""
        if self._sheet is None:
            raise BadOption(f"there are no labels: {empty}")
        return self._sheet, [self._labels[key] for key in sorted(self._labels)]


def _choice(where: str, said: str) -> int:
    # Spreadsheets turn 1 into 1.0.
    word = " ".join(said.lower().removesuffix(".0").replace("_", " ").split())
    if word not in _WORDS:
        raise UnreadableFile(f"{where}: better is {quoted(said)}; expected {_EXPECTED}, or nothing")
    return _WORDS[word]


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """Drawn matches that people labelled, as columns."""

    sheet: LabelSheet
    raters: tuple[str, ...]
    columns: Labelled
    #: For each labelled match, its place among the run's matches.
    places: tuple[int, ...]
    #: The share of those who preferred a response that preferred the one shown first; ``None`` if nobody did.
    shown_first: float | None
    #: Pairs of people who said the same of every match that both labelled.
    copies: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, sheet: LabelSheet, labels: Sequence[PersonLabel]) -> LabelledRun:
        """Put labels into columns. A match that nobody labelled is left out of its stratum."""
        numbers = sorted({one.number for one in labels})
        row = {number: place for place, number in enumerate(numbers)}
        votes = np.zeros((len(numbers), 3))
        for one in labels:
            votes[row[one.number], one.value] += 1.0
        places = tuple(sheet.sample.places[number] for number in numbers)
        run = sheet.run
        _, prompts = np.unique([run.matches[place].prompt_id for place in places], return_inverse=True)
        columns = Labelled(
            np.array([stratum.matches for stratum in sheet.sample.strata], dtype=np.float64),
            np.array([sheet.sample.stratum[number] for number in numbers]),
            prompts,
            np.array([_COLUMN_OF[run.battles[place].winner] for place in places]),
            votes,
        )
        chosen = [one.chose_shown_first for one in labels if one.chose_shown_first is not None]
        raters = tuple(sorted({one.rater for one in labels}))
        shown_first = sum(chosen) / len(chosen) if chosen else None
        return cls(sheet, raters, columns, places, shown_first, tuple(_copies(labels, raters)))

    def battles(self) -> list[Battle]:
        """The labelled matches."""
        return [self.sheet.run.battles[place] for place in self.places]

    def longer_side(self) -> Floats:
        """1 where the first model's response is longer, -1 where the second's is, 0 where they are equally long."""
        texts, matches = self.sheet.run.texts, self.sheet.run.matches
        lengths = [
            [
                len(texts[model, matches[place].prompt_id])
                for model in (matches[place].model_a, matches[place].model_b)
            ]
            for place in self.places
        ]
        return np.sign(np.array([one - other for one, other in lengths], dtype=np.float64))

    def own_side(self) -> Floats:
        """The same for the model of the judge's family, of which only one of the two may be. 0 for several judges."""
        manifest = self.sheet.run.manifest
        own = {family for family in manifest.judge_families.values() if family is not None}
        sides = [
            (manifest.families.get(battle.model_a) in own) - (manifest.families.get(battle.model_b) in own)
            for battle in self.battles()
        ]
        return np.array(sides, dtype=np.float64) * (len(own) == 1)

    def groups(self) -> Iterator[tuple[str, str, Bools]]:
        """Parts of the labelled matches: by what the judge was like, by dimension, language and category."""
        battles = self.battles()
        for number, stratum in enumerate(self.sheet.sample.strata):
            words = " or ".join(DOUBT_WORDS[label] for label in stratum.labels)
            yield "the judge", words, self.columns.stratum == number
        for scope in ("dimension", "language", "category"):
            values = [getattr(battle, scope) for battle in battles]
            names = sorted({value for value in values if value is not None})
            for name in names if len(names) > 1 else ():
                yield scope, name, np.array([value == name for value in values])


#: People with fewer matches in common may agree on all of them.
_COPY_COUNT = 20


def _copies(labels: Sequence[PersonLabel], raters: Sequence[str]) -> Iterator[tuple[str, str]]:
    said: dict[str, dict[int, int]] = {rater: {} for rater in raters}
    for one in labels:
        said[one.rater][one.number] = one.value
    for first, second in combinations(raters, 2):
        both = said[first].keys() & said[second].keys()
        if len(both) >= _COPY_COUNT and all(said[first][number] == said[second][number] for number in both):
            yield first, second


#: What a judge was like on a match, as readers are told.
DOUBT_WORDS = {
    Label.WIN: "was sure",
    Label.LEAN: "leant",
    Label.TIE: "called a tie",
    Label.INCONSISTENT: "contradicted itself",
}
