"""A single pass over the responses and the verdicts: yields settled matches, and collects diagnostics of matches and judges."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from itertools import groupby

from tiltyard.core.battles import Battle, Outcome
from tiltyard.core.judging.diagnostics.judge_diagnostics import (
    ResponseTraits,
    VerdictObserver,
    list_judge_findings,
)
from tiltyard.core.judging.diagnostics.rater_agreement import MatchKey, match_outcome, measure_agreement
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match, Prompt, draw_order
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.reconciliation import (
    JudgedMatch,
    MatchTally,
    build_match_battles,
    panel_name,
)
from tiltyard.core.judging.untrusted_text import SteeringKind, find_steering
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.canonical_columns import STYLE
from tiltyard.files.style_text import TextStyle, measure_style
from tiltyard.report.run_documents import DiagnosticsDocument, JudgeAgreement
from tiltyard.runs.judged_run import OVERALL, JudgedRun
from tiltyard.runs.judgments import JudgmentTally, judgment_row
from tiltyard.runs.run_costs import QuestionIndex
from tiltyard.runs.tournament_manifest import TournamentManifest, prompt_of, prompt_set_hash

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
            row = array("q", [-1]) * (_STYLE_FIELD_COUNT * len(self._models))
            for answer in here:
                k = _STYLE_FIELD_COUNT * self._models[answer.model]
                row[k : k + _STYLE_FIELD_COUNT] = array("q", astuple(measure_style(answer.response)))
                if answer.truncated:
                    self.truncated.add((answer.model, answer.prompt_id))
                if kinds := find_steering(answer.response, answer.prompt):
                    self.steering[answer.model, answer.prompt_id] = kinds
            self._styles.extend(row)
            self.prompts[prompt_id] = replace(prompt, text="")
            yield prompt

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


def as_anchor_battles(battles: Iterable[Battle], spelling: str | None = None) -> Iterator[Battle]:
    """Human battles as written to the folder: those without a dimension are overall.

    ``spelling`` is that of the outcome both_bad, if not as in their files.
    """
    for battle in battles:
        written = replace(battle, spelling=spelling) if spelling else battle
        yield replace(written, dimension=OVERALL) if battle.dimension is None else written


class HumanVotes:
    """Human votes on matches between the entrants, by dimension."""

    def __init__(self, anchors: Iterable[Battle], entrants: Iterable[str]) -> None:
        known = frozenset(entrants)
        self._votes: dict[str, list[tuple[MatchKey, Outcome]]] = {}
        self._keys: set[MatchKey] = set()
        for one in anchors:
            if (
                one.question_id is None
                or one.source == "llm-judge"
                or not {one.model_a, one.model_b} <= known
            ):
                continue
            key, outcome = match_outcome(one.question_id, one.model_a, one.model_b, one.winner)
            self._votes.setdefault(one.dimension or OVERALL, []).append((key, outcome))
            self._keys.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def of(self, dimension: str) -> list[tuple[MatchKey, Outcome]]:
        """Votes on this dimension, and overall votes."""
        names = dict.fromkeys((dimension, OVERALL))
        return [vote for name in names for vote in self._votes.get(name, ())]


class VerdictPass:
    """Collects everything except matches while verdicts pass through. Verdicts themselves are not kept."""

    def __init__(self, manifest: TournamentManifest, responses: ResponseIndex, human: HumanVotes) -> None:
        self._manifest = manifest
        self._responses = responses
        self._human = human
        self._observer = VerdictObserver()
        #: How each judge was asked.
        self._forms: dict[str, VerdictForm] = {}
        #: By judge: the models that were served in its name, and how many of its replies each wrote.
        self._served: dict[str, Counter[str]] = defaultdict(Counter)
        #: Results on matches that also have human votes, by dimension and judge.
        self._compared: dict[tuple[str, str], dict[MatchKey, Outcome]] = {}
        #: Judged responses that were truncated, and those that try to steer their judge, by (model, prompt_id).
        self._truncated: set[tuple[str, str]] = set()
        self._steering: set[tuple[str, str]] = set()
        self.tally = MatchTally()
        self.judgments = JudgmentTally(manifest.dimensions, manifest.entrants)
        self.asked = QuestionIndex()

    def settle(
        self, matches: Iterable[Match], judged: Iterable[JudgedQuestion]
    ) -> Iterator[tuple[JudgedMatch, Battle]]:
        """The settled matches of one dimension with their battles, from its matches and all its questions, in canonical order."""
        manifest = self._manifest
        seen = self._observed(judged)
        tags = self._responses.prompts
        for settled in build_match_battles(matches, seen, manifest.judges, manifest.quorum, tags):
            self.tally.add(settled)
            self._compare(settled)
            match = settled.match
            shown = {(model, match.prompt_id) for model in (match.model_a, match.model_b)}
            self._truncated |= shown & self._responses.truncated
            self._steering |= shown & self._responses.steering.keys()
            if settled.battle is not None:
                self.judgments.add(match.dimension, settled.battle)
                extra = self._responses.style_row(settled.battle)
                yield settled, replace(settled.battle, extra=extra)

    def drawn_prompts(self) -> list[str]:
        """The prompts in the order in which they were drawn."""
        return draw_order(self._responses.prompts.values(), self._manifest.pilot_seed)

    def judgment_row(self, settled: JudgedMatch, battle: Battle) -> dict[str, object]:
        """The line of a settled match in `verdicts/<dimension>.jsonl`."""
        source = self._responses.prompts[settled.match.prompt_id].source
        return judgment_row(settled, battle, self._manifest, source)

    def _observed(self, judged: Iterable[JudgedQuestion]) -> Iterator[JudgedQuestion]:
        for one in judged:
            traits = (
                self._responses.traits(one.question)
                if one.question.purpose is QuestionPurpose.MATCH
                else None
            )
            if not one.free:
                self._observer.add(one.question, one.state, one.verdict, traits)
                self._forms[one.question.judge] = one.form
            if one.reply is not None and one.reply.model is not None:
                self._served[one.question.judge][one.reply.model] += 1
            self.asked.add(one)
            yield one

    def _compare(self, settled: JudgedMatch) -> None:
        match = settled.match
        key = (match.prompt_id, match.model_a, match.model_b)
        if key not in self._human:
            return
        found = {judge: result.outcome for judge, result in settled.results.items() if result is not None}
        if settled.battle is not None:
            found[panel_name(self._manifest.judges)] = settled.battle.winner
        for judge, outcome in found.items():
            self._compared.setdefault((match.dimension, judge), {})[key] = outcome

    def document(self) -> DiagnosticsDocument:
        """`diagnostics.json`: how matches ended, the diagnostics of the judges, and agreement with people."""
        manifest = self._manifest
        diagnosed = self._observer.diagnostics(manifest.judge_families)
        agreements: list[JudgeAgreement] = [
            {"judge_model": judge, "dimension": dimension, **found.to_dict()}
            for (dimension, judge), judged in self._compared.items()
            if (found := measure_agreement(judged, self._human.of(dimension))) is not None
        ]
        return {
            "schema": 1,
            "matches": self.tally.to_dict(),
            "dropped_pairs": manifest.dropped,
            "missing_responses": dict(manifest.missing),
            "judges": [one.to_dict() for one in diagnosed],
            "agreement": agreements,
            "findings": [
                finding.to_dict()
                for finding in (
                    *list_judge_findings(diagnosed, self._forms),
                    *_changed_models(self._served),
                    *_truncated_answers(self._truncated),
                    *_steering_answers({key: self._responses.steering[key] for key in self._steering}),
                )
            ],
        }


def _changed_models(served: Mapping[str, Counter[str]]) -> Iterator[Finding]:
    """The judges in whose name several models were served, with the replies of each model."""
    for judge, counts in sorted(served.items()):
        if len(counts) > 1:
            named = [{"model": model, "replies": counts[model]} for model in sorted(counts)]
            yield Finding("judge-model-changed", {"judge": judge, **first_of("models", named)})


def _truncated_answers(truncated: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """The number of judged answers that were truncated, by model."""
    counts = Counter(model for model, _ in truncated)
    if counts:
        named = [{"model": model, "answers": counts[model]} for model in sorted(counts)]
        yield Finding("truncated-answers", {"answers": counts.total(), **first_of("models", named)})


def _steering_answers(steering: Mapping[tuple[str, str], frozenset[SteeringKind]]) -> Iterator[Finding]:
    """The number of judged answers that speak to their judge, by model, with the first prompt of each."""
    counts = Counter(model for model, _ in steering)
    if counts:
        first = dict(sorted(steering, reverse=True))
        named = [
            {
                "model": model,
                "answers": counts[model],
                "prompt": first[model],
                "kind": min(steering[model, first[model]]).value,
            }
            for model in sorted(counts)
        ]
        yield Finding("steering-answers", {"answers": counts.total(), **first_of("models", named)})
