"""Formats of tools that ask judges: alpaca_eval, arena-hard-auto, MT-Bench, JudgeArena and AutoArena."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.battles.outcome import Outcome, parse_outcome, reconcile_outcomes
from tiltyard.errors import BadBattle
from tiltyard.files.format import (
    UNREADABLE,
    BattleFormat,
    Converted,
    Settled,
    SkippedRecord,
    has_columns,
    row_of,
)
from tiltyard.foundation.option_names import quoted

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
_MT_BENCH_WINNERS = {"model_1": Outcome.MODEL_A, "model_2": Outcome.MODEL_B, "tie": Outcome.TIE}
_JUDGEARENA_JUDGE = "llm-judge"
_AUTOARENA_COLUMNS = frozenset({"prompt", "model_a", "model_b", "response_a", "response_b", "winner"})
#: The judge name that AutoArena gives to human votes, unless another is set.
_PERSON = "AutoArena User"


def prompt_id(prompt: Any) -> str | None:
    """Half of the text's SHA-256, so that the same text has the same id in every file."""
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        raise BadBattle(f"the prompt is {type(prompt).__name__}; expected text")
    return hashlib.sha256(prompt.encode(errors="surrogatepass")).hexdigest()[:32]


_GIVES_ALPACA_EVAL = {
    "model_a": "generator_1",
    "model_b": "generator_2",
    "winner": "preference",
    "source": "preference",
    "question_id": "instruction",
    "judge_model": "annotator",
    "category": "dataset",
    "pref": "preference",
}


def _convert_alpaca_eval(record: Mapping[str, object]) -> Converted:
    preference = record.get("preference")
    if preference is None or (isinstance(preference, float) and math.isnan(preference)):
        return SkippedRecord("the annotator gave no preference")
    pref = _alpaca_eval_pref(preference)
    winner = "tie" if pref == 0.5 else "model_a" if pref > 0.5 else "model_b"
    question_id = prompt_id(record.get("instruction"))
    return row_of(
        record, _GIVES_ALPACA_EVAL, winner=winner, source="llm-judge", question_id=question_id, pref=pref
    )


def _alpaca_eval_pref(preference: Any) -> float:
    """P(first better). A tie is 1.5, or 0 in older files."""
    if isinstance(preference, int | float) and not isinstance(preference, bool):
        if preference == 0:
            return 0.5
        if 1 <= preference <= 2:
            return 2.0 - preference
    raise BadBattle(f"preference is {quoted(preference)}; expected a number from 1 to 2")


ALPACA_EVAL = BattleFormat(
    name="alpaca-eval",
    kinds=frozenset({"json", "jsonl", "parquet"}),
    recognises=has_columns("generator_1", "generator_2", "preference"),
    convert=_convert_alpaca_eval,
    gives=_GIVES_ALPACA_EVAL,
    answers_in=("output_1", "output_2"),
)


def _is_arena_hard(columns: Collection[str]) -> bool:
    return {"model", "games"} <= set(columns) and not {"uid", "question_id"}.isdisjoint(columns)


def _convert_arena_hard(record: Mapping[str, object], *, baseline: str | None = None) -> Converted:
    """The baseline is A in the first game and B in the second.

    The outcome counts both games alike. ``pref`` and the judgment's weight count them as arena-hard does.
    """
    opponent = record.get("baseline") or baseline
    if opponent is None:
        raise BadBattle("baseline is missing; older judgments do not name it: name it with rate --baseline")
    games = record.get("games")
    if not isinstance(games, list) or len(games) > 2:
        raise BadBattle("games is not a list of two games")
    scores = [_arena_hard_score(game) for game in games]
    if len(scores) < 2 or None in scores:
        return SkippedRecord(UNREADABLE)
    against, with_ = (_arena_hard_outcome(score) for score in scores)
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


def _arena_hard_score(game: Any) -> Any:
    if game is None:
        return None
    if isinstance(game, Mapping):
        return game.get("score")
    raise BadBattle(f"a game is {type(game).__name__}; expected an object with a score")


def _arena_hard_outcome(score: Any) -> Outcome:
    found = _SCORES.get(score) if isinstance(score, str) else None
    if found is None:
        raise BadBattle(f"score is {quoted(score)}; expected one of {', '.join(_SCORES)}")
    return found


def _arena_hard_format(baseline: str | None = None) -> BattleFormat:
    return BattleFormat(
        name="arena-hard",
        kinds=frozenset({"jsonl", "parquet"}),
        recognises=_is_arena_hard,
        convert=partial(_convert_arena_hard, baseline=baseline),
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
        with_baseline=_arena_hard_format,
    )


ARENA_HARD = _arena_hard_format()


_GIVES_MT_BENCH = {
    "model_a": "model_1",
    "model_b": "model_2",
    "winner": "g1_winner",
    "label": "g1_winner",
    "source": "g1_winner",
    "question_id": "question_id",
    "judge_model": "judge",
    "time": "tstamp",
}


def _convert_mt_bench(record: Mapping[str, object]) -> Converted:
    first, second = _mt_bench_outcome(record, "g1_winner"), _mt_bench_outcome(record, "g2_winner")
    if first is None or second is None:
        return SkippedRecord(UNREADABLE)
    winner, label = reconcile_outcomes(first, second)
    # The model name of a judge given as model and prompt template.
    judge = record.get("judge")
    return row_of(
        record,
        _GIVES_MT_BENCH,
        winner=winner.value,
        label=label.value,
        source="llm-judge",
        judge_model=judge[0] if isinstance(judge, list) and judge else judge,
    )


def _mt_bench_outcome(record: Mapping[str, object], key: str) -> Outcome | None:
    """Both games name the models, whatever the order; ``error`` is an unreadable reply."""
    text = record.get(key)
    if text == "error":
        return None
    if not isinstance(text, str) or text not in _MT_BENCH_WINNERS:
        raise BadBattle(f"{key} is {quoted(text)}; expected model_1, model_2, tie or error")
    return _MT_BENCH_WINNERS[text]


MT_BENCH = BattleFormat(
    name="mt-bench",
    kinds=frozenset({"json", "jsonl", "parquet"}),
    recognises=has_columns("model_1", "model_2", "g1_winner", "g2_winner"),
    convert=_convert_mt_bench,
    gives=_GIVES_MT_BENCH,
    also_reads=("g2_winner",),
)


def _convert_judgearena(record: Mapping[str, object]) -> Converted:
    source = record.get("source", _JUDGEARENA_JUDGE)
    pref = _flipped(record.get("pref"))
    unread = source == _JUDGEARENA_JUDGE and pref is None
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": None if unread else parse_outcome(record.get("winner")).value,
        "source": source,
        "question_id": record.get("question_id"),
        "judge_model": record.get("judge_model"),
        "language": record.get("lang"),
        "pref": pref,
    }


def _flipped(pref: Any) -> float | None:
    """P(A better), from P(B better); absent values may be NaN."""
    if pref is None or (isinstance(pref, float) and math.isnan(pref)):
        return None
    if isinstance(pref, bool) or not isinstance(pref, int | float) or not 0 <= pref <= 1:
        raise BadBattle(f"pref is {quoted(pref)}; expected a number from 0 to 1")
    return 1.0 - pref


def _settle_judgearena(rows: Iterator[Settled]) -> Iterator[Settled]:
    """Join the two orders of a question; rows without a question are kept separate."""
    pairs: dict[object, list[tuple[str, Mapping[str, object]]]] = {}
    for where, row in rows:
        assert not isinstance(row, SkippedRecord)
        question = row["question_id"]
        paired = row["source"] == _JUDGEARENA_JUDGE and question is not None
        key = (str(question), row["model_a"], row["model_b"], row["judge_model"]) if paired else where
        pairs.setdefault(key, []).append((where, row))
    for found in pairs.values():
        yield found[0][0], _joined(found)


def _joined(found: list[tuple[str, Mapping[str, object]]]) -> Converted:
    where, first = found[0]
    if len(found) > 2:
        raise BadBattle(
            f"question {first['question_id']} was judged {len(found)} times; expected two orders", where=where
        )
    if any(row["winner"] is None for _, row in found):
        return SkippedRecord(UNREADABLE)
    if len(found) == 1:
        return first
    second = found[1][1]
    winner, label = reconcile_outcomes(parse_outcome(first["winner"]), parse_outcome(second["winner"]))
    pref = (_judgearena_pref(first) + _judgearena_pref(second)) / 2
    return {**first, "winner": winner.value, "label": label.value, "pref": pref}


def _judgearena_pref(row: Mapping[str, object]) -> float:
    pref = row["pref"]
    assert isinstance(pref, float)  # A verdict without one is unread, and has no winner.
    return pref


JUDGEARENA = BattleFormat(
    name="judgearena",
    kinds=frozenset({"jsonl", "parquet"}),
    recognises=has_columns("model_a", "model_b", "winner", "pref", "pref_hard"),
    convert=_convert_judgearena,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "label": "winner",
        "source": "winner",
        "question_id": "question_id",
        "judge_model": "judge_model",
        "language": "lang",
        "pref": "pref",
    },
    also_reads=("source",),
    settle=_settle_judgearena,
)


def _is_autoarena(columns: Collection[str]) -> bool:
    return set(columns) - {"judge"} == _AUTOARENA_COLUMNS


def _convert_autoarena(record: Mapping[str, object]) -> Mapping[str, object]:
    """The judge is in the file only if the head-to-heads of a single model were exported."""
    winner, judge = record.get("winner"), record.get("judge")
    row = {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": "tie" if winner == "-" else winner,
        "question_id": prompt_id(record.get("prompt")),
    }
    if judge == _PERSON:
        return {**row, "source": "human", "voter": judge}
    return {**row, "source": "llm-judge", "judge_model": judge} if judge is not None else row


AUTOARENA = BattleFormat(
    name="autoarena",
    kinds=frozenset({"csv", "parquet"}),
    recognises=_is_autoarena,
    convert=_convert_autoarena,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "source": "judge",
        "question_id": "prompt",
        "judge_model": "judge",
        "voter": "judge",
    },
    answers_in=("response_a", "response_b"),
)

#: A format that is added here needs no other registration.
JUDGMENT_FORMATS = (JUDGEARENA, ARENA_HARD, MT_BENCH, ALPACA_EVAL, AUTOARENA)
