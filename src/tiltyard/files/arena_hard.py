"""arena-hard-auto judgments: a model against a baseline, judged in both orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.battles.outcome import Outcome, reconcile_outcomes
from tiltyard.errors import BadBattle
from tiltyard.files.format import UNREADABLE, BattleFormat, Converted, SkippedRecord

_FIRST, _SECOND = Outcome.MODEL_A, Outcome.MODEL_B
_SCORES = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), _FIRST),
    **dict.fromkeys(("B>>A", "B>A", "A<B", "A<<B"), _SECOND),
    **dict.fromkeys(("A=B", "B=A"), Outcome.TIE),
}
_STRONG = frozenset({"A>>B", "B<<A", "B>>A", "A<<B"})
_OTHER_SIDE = {_FIRST: _SECOND, _SECOND: _FIRST, Outcome.TIE: Outcome.TIE}
_POINTS = {_FIRST: 1.0, _SECOND: 0.0, Outcome.TIE: 0.5}
#: What a verdict with ``>>`` weighs in arena-hard's own scores; any other weighs 1.
_STRONG_WEIGHT_RATIO = 3.0


def _recognises(columns: Collection[str]) -> bool:
    return {"model", "games"} <= set(columns) and not {"uid", "question_id"}.isdisjoint(columns)


def _convert(record: Mapping[str, object], *, baseline: str | None = None) -> Converted:
    """The baseline is A in the first game and B in the second.

    The outcome counts both games alike. ``pref`` and the judgment's weight count them as arena-hard does.
    """
    opponent = record.get("baseline") or baseline
    if opponent is None:
        raise BadBattle("baseline is missing; older judgments do not name it: name it with rate --baseline")
    games = record.get("games")
    if not isinstance(games, list) or len(games) > 2:
        raise BadBattle("games is not a list of two games")
    scores = [_score(game) for game in games]
    if len(scores) < 2 or None in scores:
        return SkippedRecord(UNREADABLE)
    against, with_ = (_outcome(score) for score in scores)
    winner, label = reconcile_outcomes(_OTHER_SIDE[against], with_)
    weights = [_STRONG_WEIGHT_RATIO if score in _STRONG else 1.0 for score in scores]
    return {
        "model_a": record.get("model"),
        "model_b": opponent,
        "winner": winner.value,
        "label": label.value,
        "source": "llm-judge",
        "question_id": record.get("uid") or record.get("question_id"),
        "judge_model": record.get("judge"),
        "category": record.get("category"),
        "pref": (weights[0] * _POINTS[_OTHER_SIDE[against]] + weights[1] * _POINTS[with_]) / sum(weights),
        JUDGMENT_WEIGHT: sum(weights),
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


def _format(baseline: str | None = None) -> BattleFormat:
    return BattleFormat(
        name="arena-hard",
        kinds=frozenset({"jsonl", "parquet"}),
        recognises=_recognises,
        convert=partial(_convert, baseline=baseline),
        gives={
            "model_a": "model",
            "model_b": "baseline" if baseline is None else "games",
            "winner": "games",
            "label": "games",
            "source": "games",
            "question_id": "model",
            "judge_model": "judge",
            "category": "category",
            "pref": "games",
            JUDGMENT_WEIGHT: "games",
        },
        also_reads=("uid", "question_id", "baseline"),
        with_baseline=_format,
    )


ARENA_HARD = _format()
