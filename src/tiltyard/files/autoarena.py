"""AutoArena head-to-heads, as it exports and imports them: winners A, B, or - for a tie."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat
from tiltyard.files.prompt_id import prompt_id

_COLUMNS = frozenset({"prompt", "model_a", "model_b", "response_a", "response_b", "winner"})

#: The judge name that AutoArena gives to human votes, unless another is set.
_PERSON = "AutoArena User"


def _recognises(columns: Collection[str]) -> bool:
    return set(columns) - {"judge"} == _COLUMNS


def _convert(record: Mapping[str, object]) -> Mapping[str, object]:
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
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "source": "judge",
        "question_id": "prompt",
        "judge_model": "judge",
        "voter": "judge",
    },
    answers=answers_in("response_a", "response_b"),
    answers_in=("response_a", "response_b"),
)
