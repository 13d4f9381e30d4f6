"""Feedback exported by Open WebUI: thumbs of its users on answers of several models to one message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.format import BattleFormat, Settled, SkippedRecord, has_columns
from tiltyard.files.judgments import prompt_id

_ALONE = "one answer was rated, not compared with another"
_UNRATED = "neither a thumb up nor a thumb down"
#: What two thumbs of one person on the two answers of a pair say together.
_BOTH_RATED = {(1, 1): "tie", (-1, -1): "both_bad"}


def _part(record: object, *names: str) -> Mapping[str, Any]:
    """A part of a record; empty if there is none."""
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record if isinstance(record, Mapping) else {}


def _convert(record: Mapping[str, object]) -> Mapping[str, object] | SkippedRecord:
    """One thumb; `_settle` makes battles with each of the other answers of it."""
    data, meta = _part(record, "data"), _part(record, "meta")
    others = data.get("sibling_model_ids") or []
    if not isinstance(others, Sequence) or isinstance(others, str):
        raise BadBattle(f"sibling_model_ids is {type(others).__name__}; expected a list of models")
    if not others:
        return SkippedRecord(_ALONE)
    if str(data.get("rating")) not in {"1", "-1"}:
        return SkippedRecord(_UNRATED)
    # The message of the user that was answered, if the conversation was exported.
    messages = _part(record, "snapshot", "chat", "chat", "history", "messages")
    answer = _part(messages, str(_part(record, "meta").get("message_id")))
    content = _part(messages, str(answer.get("parentId"))).get("content")
    question = prompt_id(content if isinstance(content, str) else None)
    tags = [tag for tag in meta.get("tags") or data.get("tags") or [] if isinstance(tag, str)]
    return {
        "model_a": data.get("model_id"),
        "others": list(dict.fromkeys(others)),
        "thumb": int(data["rating"]),
        "source": "human",
        "voter": record.get("user_id"),
        "question_id": question or meta.get("chat_id") or record.get("id"),
        # Without the conversation nobody knows which other thumbs were on the same message.
        "message": (meta.get("chat_id"), question) if question else record.get("id"),
        "time": record.get("created_at"),
        "category": "+".join(sorted(set(tags))) or None,
    }


def _settle(rows: Iterator[Settled]) -> Iterator[Settled]:
    """A battle for each pair that a thumb compares; two thumbs of one person on one pair are one battle."""
    thumbs: dict[tuple[object, ...], dict[object, int]] = {}
    found: dict[tuple[object, ...], tuple[str, dict[str, object]]] = {}
    for where, row in rows:
        if isinstance(row, SkippedRecord):
            yield where, row
            continue
        battle = dict(row)
        others, thumb, message = battle.pop("others"), battle.pop("thumb"), battle.pop("message")
        assert isinstance(others, list)
        assert isinstance(thumb, int)
        for other in others:
            key = (message, battle["voter"], *sorted((str(battle["model_a"]), str(other))))
            thumbs.setdefault(key, {})[battle["model_a"]] = thumb
            found.setdefault(key, (where, {**battle, "model_b": other}))
    for key, (where, row) in found.items():
        own, other = (thumbs[key].get(row[side]) for side in ("model_a", "model_b"))
        winner = _BOTH_RATED.get((own or 0, other or 0), "model_a" if own == 1 else "model_b")
        yield where, {**row, "winner": winner}


OPEN_WEBUI = BattleFormat(
    name="open-webui",
    kinds=frozenset({"json", "jsonl", "parquet"}),
    recognises=has_columns("id", "user_id", "type", "data", "meta"),
    convert=_convert,
    gives={
        "model_a": "data",
        "model_b": "data",
        "winner": "data",
        "source": "data",
        "voter": "user_id",
        "question_id": "meta",
        "category": "meta",
        "time": "created_at",
    },
    also_reads=("id", "snapshot", "type"),
    settle=_settle,
)
