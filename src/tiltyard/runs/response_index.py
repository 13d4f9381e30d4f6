"""The responses of a run as needed for its verdicts: which models answered which prompts, and in what style."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from itertools import groupby

from tiltyard.core.battles import Battle
from tiltyard.core.judging.diagnostics import ResponseTraits
from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.question import Question
from tiltyard.core.judging.steering_attempts import SteeringKind, find_steering
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.canonical_columns import STYLE
from tiltyard.files.style_text import TextStyle, measure_style
from tiltyard.runs.judged_run import JudgedRun
from tiltyard.runs.tournament_manifest import prompt_of, prompt_set_hash

#: The number of style counts per response.
_STYLE_FIELD_COUNT = len(fields(TextStyle))


def answers_of(run: JudgedRun) -> Iterator[Answer]:
    """The answers as written: with their prompt's fields, prompts in bank order, then models by name."""
    place = {prompt.prompt_id: k for k, prompt in enumerate(run.prompts)}
    entrants = frozenset(run.entrants)
    judged = [one for one in run.answers if one.prompt_id in place and one.model in entrants]
    for answer in sorted(judged, key=lambda one: (place[one.prompt_id], one.model)):
        prompt = run.prompts[place[answer.prompt_id]]
        yield replace(
            answer,
            prompt=prompt.text,
            source=prompt.source or None,
            **{name: getattr(prompt, name) for name in ("category", "language", "gold", "expected_behavior")},
        )


class ResponseIndex:
    """Which models answered which prompts, and in which style; the texts are not kept.

    ``prompts`` have their fields, in bank order, but no text; ``prompt_set`` is the hash of
    the prompts including their text.
    """

    def __init__(
        self, answers: Iterable[Answer], entrants: Sequence[str], families: Mapping[str, str | None]
    ) -> None:
        self._models = {name: k for k, name in enumerate(sorted(entrants))}
        self._families = families
        self._rows: dict[str, int] = {}
        #: The style of each response, prompt by prompt, model by model; −1 if there is none.
        self._styles = array("q")
        self.prompts: dict[str, Prompt] = {}
        #: Truncated responses, by (model, prompt_id).
        self.truncated: set[tuple[str, str]] = set()
        #: What responses do to steer their judge, by (model, prompt_id).
        self.steering: dict[tuple[str, str], frozenset[SteeringKind]] = {}
        self.prompt_set = prompt_set_hash(self._read(answers))

    def _read(self, answers: Iterable[Answer]) -> Iterator[Prompt]:
        for prompt_id, group in groupby(answers, key=lambda one: one.prompt_id):
            if prompt_id in self._rows:
                raise UnreadableFile(f"the answers to prompt {prompt_id!r} are not consecutive")
            self._rows[prompt_id] = len(self._rows)
            here = list(group)
            names = [answer.model for answer in here]
            if names != sorted(set(names) & self._models.keys()):
                raise UnreadableFile(
                    f"the answers to prompt {prompt_id!r} are not one per entrant, sorted by name"
                )
            prompt = prompt_of(here[0])
            if any(prompt_of(answer) != prompt for answer in here):
                raise UnreadableFile(f"the answers to prompt {prompt_id!r} disagree about the prompt")
            self._measure(here)
            self.prompts[prompt_id] = replace(prompt, text="")
            yield prompt

    def _measure(self, answers: Sequence[Answer]) -> None:
        row = array("q", [-1]) * (_STYLE_FIELD_COUNT * len(self._models))
        for answer in answers:
            k = _STYLE_FIELD_COUNT * self._models[answer.model]
            row[k : k + _STYLE_FIELD_COUNT] = array("q", astuple(measure_style(answer.response)))
            if answer.truncated:
                self.truncated.add((answer.model, answer.prompt_id))
            if kinds := find_steering(answer.response, answer.prompt):
                self.steering[answer.model, answer.prompt_id] = kinds
        self._styles.extend(row)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every (model, prompt) that has a response."""
        for prompt_id in self._rows:
            for name in self._models:
                if self._style(name, prompt_id) is not None:
                    yield name, prompt_id

    def traits(self, question: Question) -> ResponseTraits | None:
        """The visible traits of a question's two responses; ``None`` if one of them is unknown."""
        first, second = (self._style(name, question.prompt_id) for name in (question.first, question.second))
        if first is None or second is None:
            return None
        return ResponseTraits(
            first.length,
            second.length,
            first.lists,
            second.lists,
            self._families.get(question.first),
            self._families.get(question.second),
        )

    def style_row(self, battle: Battle) -> dict[str, float]:
        """The style columns of a battle, for ratings with style control."""
        sides = [self._counts(name, battle.question_id or "") for name in (battle.model_a, battle.model_b)]
        counted = (float(count) for both in zip(*sides, strict=True) for count in both)
        return dict(zip(STYLE, counted, strict=True))

    def _style(self, model: str, prompt_id: str) -> TextStyle | None:
        found = self._counts(model, prompt_id)
        return TextStyle(*found) if found and found[0] >= 0 else None

    def _counts(self, model: str, prompt_id: str) -> array[int]:
        """The style counts of a response; empty if the model or the prompt is unknown."""
        row, k = self._rows.get(prompt_id), self._models.get(model)
        if row is None or k is None:
            return array("q")
        start = _STYLE_FIELD_COUNT * (row * len(self._models) + k)
        return self._styles[start : start + _STYLE_FIELD_COUNT]
