"""A single pass over the verdicts: yields battles, and collects diagnostics of matches and judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tiltyard.core.battles import Battle, Outcome
from tiltyard.core.judging.diagnostics import (
    VerdictObserver,
    list_judge_findings,
    match_outcome,
    measure_agreement,
)
from tiltyard.core.judging.diagnostics.rater_agreement import MatchKey
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.reconciliation import JudgedMatch, MatchTally, build_match_battles, panel_name
from tiltyard.core.judging.untrusted_text import SteeringKind
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.report.run_documents import DiagnosticsDocument, JudgeAgreement
from tiltyard.runs.judged_run import OVERALL
from tiltyard.runs.response_index import ResponseIndex
from tiltyard.runs.run_costs import QuestionIndex
from tiltyard.runs.tournament_manifest import TournamentManifest


def as_anchor_battles(battles: Iterable[Battle]) -> Iterator[Battle]:
    """Human battles as written to the folder: those without a dimension are overall."""
    for battle in battles:
        yield replace(battle, dimension=OVERALL) if battle.dimension is None else battle


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
    """Collects everything except battles while verdicts pass through. Verdicts themselves are not kept."""

    def __init__(self, manifest: TournamentManifest, responses: ResponseIndex, human: HumanVotes) -> None:
        self._manifest = manifest
        self._responses = responses
        self._human = human
        self._observer = VerdictObserver()
        #: How each judge was asked.
        self._forms: dict[str, VerdictForm] = {}
        #: Results on matches that also have human votes, by dimension and judge.
        self._compared: dict[tuple[str, str], dict[MatchKey, Outcome]] = {}
        #: Judged responses that were truncated, and those that try to steer their judge, by (model, prompt_id).
        self._truncated: set[tuple[str, str]] = set()
        self._steering: set[tuple[str, str]] = set()
        self.tally = MatchTally()
        self.asked = QuestionIndex()

    def battles(self, matches: Iterable[Match], judged: Iterable[JudgedQuestion]) -> Iterator[Battle]:
        """The battles of one dimension, from its matches and all its questions, in canonical order."""
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
                yield replace(settled.battle, extra=self._responses.style_row(settled.battle))

    def _observed(self, judged: Iterable[JudgedQuestion]) -> Iterator[JudgedQuestion]:
        for one in judged:
            traits = (
                self._responses.traits(one.question)
                if one.question.purpose is QuestionPurpose.MATCH
                else None
            )
            self._observer.add(one.question, one.state, one.verdict, traits)
            self._forms[one.question.judge] = one.form
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
                    *_truncated_answers(self._truncated),
                    *_steering_answers({key: self._responses.steering[key] for key in self._steering}),
                )
            ],
        }


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
