"""A single pass over the responses and the verdicts: yields settled matches, and collects strict judgments and diagnostics."""

from __future__ import annotations

import io
import zipfile
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from itertools import groupby
from typing import Any

import numpy as np

from tiltyard.core.battles import Battle, Label, Outcome
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
from tiltyard.core.judging.verdict import VerdictForm, VerdictStep
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.elo import DecisiveElo, DecisiveRatings
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.canonical_columns import STYLE
from tiltyard.files.style_text import TextStyle, measure_style
from tiltyard.report.escapes import csv_text
from tiltyard.report.run_documents import DiagnosticsDocument, EloDocument, EloEntry, JudgeAgreement
from tiltyard.runs.manifest import ZIP_EPOCH
from tiltyard.runs.rating_documents import finite
from tiltyard.runs.run_costs import QuestionIndex
from tiltyard.runs.tournament_manifest import (
    OVERALL,
    JudgedRun,
    TournamentManifest,
    prompt_of,
    prompt_set_hash,
)

PAIR_COLUMNS = (
    *("dimension", "entrant_a", "entrant_b", "a_wins", "b_wins", "ties", "inconsistent"),
    *("both_bad", "a_leans", "b_leans"),
)
#: What `elo_results.json` says of its limits.
_LIMITS_NOTE = (
    "sem, ci95_low and ci95_high measure the noise of shuffling the matches, which shrinks with more permutations. "
    "They do not say how uncertain a rating is: see dimension_ratings.json."
)
#: The columns that each result adds to.
_ADDS: Mapping[tuple[Label | None, Outcome], tuple[str, ...]] = {
    (Label.WIN, Outcome.MODEL_A): ("a_wins",),
    (Label.WIN, Outcome.MODEL_B): ("b_wins",),
    (Label.LEAN, Outcome.MODEL_A): ("ties", "inconsistent", "a_leans"),
    (Label.LEAN, Outcome.MODEL_B): ("ties", "inconsistent", "b_leans"),
    (Label.INCONSISTENT, Outcome.TIE): ("ties", "inconsistent"),
    (Label.TIE, Outcome.TIE): ("ties",),
}
#: What a verdict says of the two slots.
_LETTERS = {
    VerdictStep.FIRST_MUCH: "A",
    VerdictStep.FIRST: "A",
    VerdictStep.EVEN: "TIE",
    VerdictStep.SECOND: "B",
    VerdictStep.SECOND_MUCH: "B",
}

#: The number of style counts per response.
_STYLE_FIELD_COUNT = len(fields(TextStyle))


def pair_rows(
    matches: Iterable[Match], entrants: Sequence[str], answer: Callable[[str, str], Answer]
) -> Iterator[dict[str, object]]:
    """The lines of `matches/matches.jsonl`. ``answer`` finds the answer of an entrant to a prompt."""
    for prompt_id, group in groupby(matches, key=lambda match: match.prompt_id):
        answers: dict[str, Answer] = {}
        for match in group:
            pair = _ordered(match, entrants)
            for name in pair:
                if name not in answers:
                    answers[name] = answer(name, prompt_id)
            prompt = prompt_of(answers[pair[0]])
            yield {
                "dimension": match.dimension,
                "prompt_id": prompt_id,
                "source": prompt.source,
                "prompt_text": prompt.text,
                "entrant_a": pair[0],
                "entrant_b": pair[1],
                "response_a": answers[pair[0]].response,
                "response_b": answers[pair[1]].response,
                "gold_answer": prompt.gold,
                "expected_behavior": prompt.expected_behavior,
            }


def _ordered(match: Match, entrants: Sequence[str]) -> tuple[str, str]:
    """The models of a match in the order of the configuration."""
    a, b = match.model_a, match.model_b
    return (a, b) if entrants.index(a) < entrants.index(b) else (b, a)


def judgment_row(
    settled: JudgedMatch, battle: Battle, manifest: TournamentManifest, source: str
) -> dict[str, object]:
    """A line of `verdicts/<dimension>.jsonl`, from a match, its battle, and the source of its prompt."""
    match = settled.match
    pair = _ordered(match, manifest.entrants)
    rows = [_reply_row(one, pair, manifest, source) for one in settled.judged]
    judges = [manifest.judges.index(one.question.judge) for one in settled.judged]
    raw = sorted(zip(judges, rows, strict=True), key=lambda row: (row[0], row[1]["position_swap"]))
    return {
        "prompt_id": match.prompt_id,
        "dimension": match.dimension,
        "entrant_a": pair[0],
        "entrant_b": pair[1],
        "winner": winner_of(battle),
        "inconsistent": battle.label in (Label.LEAN, Label.INCONSISTENT),
        "raw": [row for _, row in raw],
    }


def _reply_row(
    judged: JudgedQuestion, pair: tuple[str, str], manifest: TournamentManifest, source: str
) -> dict[str, Any]:
    question, verdict = judged.question, judged.verdict
    return {
        "rubric_version": manifest.rubrics[question.dimension].version,
        "judge_model": manifest.judge_models[manifest.judges.index(question.judge)],
        "verdict": None if verdict is None else _LETTERS[verdict.step],
        "reasoning": None if verdict is None else verdict.reasoning,
        "dimension": question.dimension,
        "prompt_id": question.prompt_id,
        "entrant_a": pair[0],
        "entrant_b": pair[1],
        "position_swap": question.first != pair[0],
        "source": source,
        "question_id": question.id,
    }


def winner_of(battle: Battle) -> str | None:
    """The model that won in both orders, or with a panel's majority; ``None`` if there is none."""
    if battle.label is not Label.WIN:
        return None
    return battle.model_a if battle.winner is Outcome.MODEL_A else battle.model_b


class JudgmentTally:
    """The results of matches by dimension: who won, in the order of the matches, and counts by pair."""

    def __init__(self, dimensions: Sequence[str], entrants: Sequence[str]) -> None:
        self._entrants = entrants
        self._places = {name: place for place, name in enumerate(entrants)}
        #: Of each decisive match the winner, then the loser.
        self._decisive = {name: array("q") for name in dimensions}
        self._pairs: dict[str, dict[tuple[str, str], Counter[str]]] = {name: {} for name in dimensions}

    def add(self, dimension: str, battle: Battle) -> None:
        models = battle.model_a, battle.model_b
        winner = winner_of(battle)
        if winner is not None:
            loser = models[winner == models[0]]
            self._decisive[dimension].extend((self._places[winner], self._places[loser]))
        counts = self._pairs[dimension].setdefault(models, Counter())
        counts.update(_ADDS[battle.label, battle.winner])
        counts["both_bad"] += bool(battle.both_bad)

    def rate(self, method: DecisiveElo) -> dict[str, DecisiveRatings | None]:
        """Ratings by dimension; ``None`` without a decisive match."""
        found: dict[str, DecisiveRatings | None] = {}
        for name, decisive in self._decisive.items():
            codes = np.array(decisive, dtype=np.int64)
            found[name] = method(self._entrants, codes[::2], codes[1::2]) if len(codes) else None
        return found

    def decisive_counts(self) -> dict[str, int]:
        return {name: len(decisive) // 2 for name, decisive in self._decisive.items()}

    def winrates(self) -> str:
        """`pairwise_winrates.csv`: every pair with a judgment, in each dimension."""
        rows = (
            [name, *pair, *(counts[column] for column in PAIR_COLUMNS[3:])]
            for name, pairs in self._pairs.items()
            for pair, counts in sorted(pairs.items())
        )
        return csv_text(PAIR_COLUMNS, rows)


def elo_document(
    method: DecisiveElo, rated: Mapping[str, DecisiveRatings | None], decisive: Mapping[str, int]
) -> EloDocument:
    """`elo_results.json`: means over orders and their noise, for each K."""
    return {
        "default_k": method.k,
        "primary": {name: _entries(ratings, method.k) for name, ratings in rated.items()},
        "k_sensitivity": {
            name: {} if ratings is None else {str(float(k)): _entries(ratings, k) for k in method.sweep}
            for name, ratings in rated.items()
        },
        "n_decisive_matches": dict(decisive),
        "schema": 1,
        "note": _LIMITS_NOTE,
    }


def _entries(ratings: DecisiveRatings | None, k: float) -> dict[str, EloEntry]:
    if ratings is None:
        return {}
    columns = zip(ratings.models, ratings.means(k), ratings.errors(k), *ratings.limits(k), strict=True)
    return {
        name: {
            "entrant_id": name,
            "mean": float(mean),
            "sem": finite(error),
            "ci95_low": finite(low),
            "ci95_high": finite(high),
        }
        for name, mean, error, low, high in columns
    }


def elo_archive(rated: Mapping[str, DecisiveRatings | None]) -> bytes:
    """`elo_per_perm.npz`: one row per order and one column per entrant; equal numbers make equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, ratings in rated.items():
            if ratings is not None:
                _put(archive, f"{name}__data", ratings.runs[ratings.method.k])
                _put(archive, f"{name}__entrants", np.array(ratings.models, dtype=np.str_))
    return buffer.getvalue()


def _put(archive: zipfile.ZipFile, name: str, values: np.ndarray[Any, Any]) -> None:
    entry = io.BytesIO()
    np.lib.format.write_array(entry, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH), entry.getvalue())


def answers_of(run: JudgedRun) -> Iterator[Answer]:
    """The answers as written: with their prompt's fields, prompts in bank order, then models by name."""
    place = {prompt.prompt_id: k for k, prompt in enumerate(run.prompts)}
    entrants = frozenset(run.draft.entrants)
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
        judges, design = manifest.judges, manifest.design
        for settled in build_match_battles(matches, seen, judges, manifest.quorum, tags, design):
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
