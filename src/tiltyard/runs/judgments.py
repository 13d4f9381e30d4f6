"""Strict judgments of a tournament: a winner in both orders, or none. The files that hold them or rest on them alone.

Leans and inconsistent results have no winner here, as in the scripts that these files are compared with.
"""

from __future__ import annotations

import io
import zipfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.reconciliation import JudgedMatch
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.core.ratings.decisive_elo import DecisiveElo, DecisiveRatings
from tiltyard.files.answer import Answer
from tiltyard.report.escapes import csv_text
from tiltyard.report.run_documents import EloDocument, EloEntry
from tiltyard.runs.manifest import ZIP_EPOCH
from tiltyard.runs.rating_documents import finite
from tiltyard.runs.tournament_manifest import TournamentManifest, prompt_of

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
