"""arena-hard-auto judgments: a model against a baseline, judged in both orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.core.battles.outcome import Outcome
from tiltyard.core.judging.reconciliation import reconcile_outcomes
from tiltyard.errors import BadBattle
from tiltyard.files.format import UNREADABLE, BattleFormat, Converted, SkippedRecord

__all__ = ["ARENA_HARD"]

_FIRST, _SECOND = Outcome.MODEL_A, Outcome.MODEL_B
_SCORES = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), _FIRST),
    **dict.fromkeys(("B>>A", "B>A", "A<B", "A<<B"), _SECOND),
    **dict.fromkeys(("A=B", "B=A"), Outcome.TIE),
}
_OTHER_SIDE = {_FIRST: _SECOND, _SECOND: _FIRST, Outcome.TIE: Outcome.TIE}


def _recognises(columns: Collection[str]) -> bool:
    return {"model", "games"} <= set(columns) and not {"uid", "question_id"}.isdisjoint(columns)


def _convert(record: Mapping[str, object]) -> Converted:
    """The baseline is A in the first game and B in the second."""
    if record.get("baseline") is None:
        raise BadBattle("baseline is missing; older judgments do not name it: add it to every line")
    games = record.get("games")
    if not isinstance(games, list) or len(games) > 2:
        raise BadBattle("games is not a list of two games")
    scores = [_score(game) for game in games]
    if len(scores) < 2 or None in scores:
        return SkippedRecord(UNREADABLE)
    against, with_ = (_outcome(score) for score in scores)
    winner, label = reconcile_outcomes(_OTHER_SIDE[against], with_)
    return {
        "model_a": record.get("model"),
        "model_b": record.get("baseline"),
        "winner": winner.value,
        "label": label.value,
        "source": "llm-judge",
        "question_id": record.get("uid") or record.get("question_id"),
        "judge_model": record.get("judge"),
        "category": record.get("category"),
    }


def _score(game: Any) -> Any:
    if game is None:
        return None
    if isinstance(game, Mapping):
        return game.get("score")
    raise BadBattle(f"a game is {type(game).__name__}; expected an object with a score")


def _outcome(score: Any) -> Outcome:
    found = _SCORES.get(score) if isinstance(score, str) else None
    if found is None:
        raise BadBattle(f"score is {score!r}; expected one of {', '.join(_SCORES)}")
    return found


ARENA_HARD = BattleFormat(
    name="arena-hard",
    kinds=frozenset({"jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "model",
        "model_b": "baseline",
        "winner": "games",
        "label": "games",
        "source": "games",
        "question_id": "model",
        "judge_model": "judge",
        "category": "category",
    },
    also_reads=("uid", "question_id"),
)
