"""Formats of arenas in which people vote: LMArena's data sets, logs cleaned by FastChat, compar:IA, and Open WebUI's feedback."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.format import (
    BattleFormat,
    Converted,
    Settled,
    SkippedRecord,
    has_columns,
    parse_arena_time,
    row_of,
)
from tiltyard.files.judgments import prompt_id
from tiltyard.foundation.option_names import quoted

_ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_CONVERSATIONS = ("conversation_a", "conversation_b")
#: A prompt is hard if it meets so many of the seven criteria, and long from so many tokens on.
_HARD_COUNT = 6
_LONG_QUERY_TOKENS = 500
#: Where the counts of each style trait are stated.
_COUNTS = {"headers": "header_count", "lists": "list_count", "bold": "bold_count"}
_KINDS = frozenset({"csv", "json", "jsonl", "parquet"})
_CHOICES = {"a_better": "model_a", "b_better": "model_b", "both_good": "tie", "both_bad": "both_bad"}


# LMArena


_GIVES_55K = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "winner_tie",
    "source": "winner_tie",
    "question_id": "id",
}
_GIVES_100K = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "winner",
    "source": "winner",
    "question_id": "question_id",
    "category": "category_tag",
    "language": "language",
    "voter": "judge_hash",
    "time": "tstamp",
}
#: A person's session may contain several votes, so it is used as the voter.
_GIVES_140K = _GIVES_100K | {"question_id": "id", "voter": "evaluation_session_id", "time": "timestamp"}
_ALONE = "one answer was rated, not compared with another"
_UNRATED = "neither a thumb up nor a thumb down"
#: What two thumbs of one person on the two answers of a pair say together.
_BOTH_RATED = {(1, 1): "tie", (-1, -1): "both_bad"}


def _convert_55k(record: Mapping[str, object]) -> Mapping[str, object]:
    """One of three columns is 1. In this data set a tie may also mean that both were bad."""
    chosen = [winner for key, winner in _ONE_HOT.items() if _is_one(key, record.get(key))]
    if len(chosen) != 1:
        raise BadBattle(f"{len(chosen)} of {', '.join(_ONE_HOT)} are 1; expected exactly one")
    return row_of(record, _GIVES_55K, winner=chosen[0], source="human")


def _convert_lmarena(record: Mapping[str, object], *, gives: Mapping[str, str]) -> Mapping[str, object]:
    time = parse_arena_time(record.get(gives["time"]))
    return row_of(record, gives, source="human", category=_category(record), time=time)


def _is_one(key: str, value: Any) -> bool:
    match value:
        case 1 | "1" | "1.0" | True:
            return True
        case 0 | "0" | "0.0" | False:
            return False
    raise BadBattle(f"{key} is {quoted(value)}; expected 0 or 1")


def _category(record: Mapping[str, object]) -> str | None:
    """The categories of LMArena's boards that a prompt belongs to, joined by ``+``."""
    tags, counts = record.get("category_tag"), record.get("conv_metadata")
    criteria = _part(tags, "criteria_v0.1")
    belongs = {
        "code": record.get("is_code") is True,
        "creative_writing": _part(tags, "creative_writing_v0.1").get("creative_writing") is True,
        "hard": sum(met is True for met in criteria.values()) >= _HARD_COUNT,
        "instruction_following": _part(tags, "if_v0.1").get("if") is True,
        "long_query": _number(_part(counts).get("sum_user_tokens")) >= _LONG_QUERY_TOKENS,
        "math": _part(tags, "math_v0.1").get("math") is True,
        "multi_turn": max(_number(record.get("turn")), _number(_part(counts).get("turns"))) > 1,
    }
    return "+".join(name for name, is_member in belongs.items() if is_member) or None


def _style(record: Mapping[str, object]) -> dict[str, float]:
    """The counts that LMArena controls for: tokens of the responses, headers, lists and bold text."""
    counts = _part(record, "conv_metadata")
    found: dict[str, float] = {}
    for side in "ab":
        stated = {"length": counts.get(f"sum_assistant_{side}_tokens")}
        stated |= {trait: _sum(counts.get(f"{key}_{side}")) for trait, key in _COUNTS.items()}
        for trait, value in stated.items():
            if not isinstance(value, int | float):
                raise BadBattle(
                    f"conv_metadata states no {trait} of response {side}; without conv_metadata the responses are measured"
                )
            found[f"{trait}_{side}"] = float(value)
    return found


def _sum(counts: object) -> float | None:
    """The total of counts by kind, such as headers by level."""
    if not isinstance(counts, Mapping):
        return None
    return float(sum(_number(value) for value in counts.values()))


def _part(record: object, *names: str) -> Mapping[str, Any]:
    """A part of a record; empty if there is none."""
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record if isinstance(record, Mapping) else {}


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


LMARENA_55K = BattleFormat(
    name="lmarena-55k",
    kinds=_KINDS,
    recognises=has_columns("model_a", "model_b", *_ONE_HOT),
    convert=_convert_55k,
    gives=_GIVES_55K,
    also_reads=("winner_model_a", "winner_model_b"),
    answers_in=("response_a", "response_b"),
)
LMARENA_100K = BattleFormat(
    name="lmarena-100k",
    kinds=_KINDS,
    recognises=has_columns("model_a", "model_b", "winner", "judge_hash", "tstamp"),
    convert=partial(_convert_lmarena, gives=_GIVES_100K),
    gives=_GIVES_100K,
    also_reads=("is_code", "conv_metadata", "turn"),
    answers_in=_CONVERSATIONS,
    style=_style,
    style_in=("conv_metadata",),
)
LMARENA_140K = replace(
    LMARENA_100K,
    name="lmarena-140k",
    recognises=has_columns("id", "model_a", "model_b", "winner", "evaluation_order"),
    convert=partial(_convert_lmarena, gives=_GIVES_140K),
    gives=_GIVES_140K,
)


# FastChat


def _is_fastchat(columns: Collection[str]) -> bool:
    names = {"model_a", "model_b", "winner", "judge", "anony", "tstamp"}
    return names <= set(columns) and "judge_hash" not in columns


_GIVES_FASTCHAT = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "winner",
    "source": "winner",
    "question_id": "question_id",
    "language": "language",
    "voter": "judge",
    "time": "tstamp",
}


def _convert_fastchat(record: Mapping[str, object]) -> Converted:
    if not _is_true("anony", record.get("anony")):
        return SkippedRecord("the voter knew the models (anony is false)")
    time = parse_arena_time(record.get("tstamp"))
    return row_of(record, _GIVES_FASTCHAT, source="human", time=time)


FASTCHAT = BattleFormat(
    name="fastchat-battles",
    kinds=_KINDS,
    recognises=_is_fastchat,
    convert=_convert_fastchat,
    gives=_GIVES_FASTCHAT,
    also_reads=("anony",),
    answers_in=_CONVERSATIONS,
)


# compar:IA


_GIVES_COMPARIA_VOTES = {
    "model_a": "model_a_name",
    "model_b": "model_b_name",
    "winner": "chosen_model_name",
    "source": "chosen_model_name",
    "question_id": "conversation_pair_id",
    "category": "selected_category",
    "voter": "visitor_id",
    "time": "timestamp",
}
_GIVES_COMPARIA_TURNS = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "choice",
    "source": "choice",
    "question_id": "comparison_id",
    "language": "metadata",
    "time": "timestamp",
}


def _convert_comparia_vote(record: Mapping[str, object]) -> Converted:
    winner = _vote(record, record.get("model_a_name"), record.get("model_b_name"))
    if isinstance(winner, SkippedRecord):
        return winner
    voter = record.get("visitor_id") or record.get("session_hash")
    time = parse_arena_time(record.get("timestamp"))
    return row_of(record, _GIVES_COMPARIA_VOTES, winner=winner, source="human", voter=voter, time=time)


def _vote(record: Mapping[str, object], model_a: Any, model_b: Any) -> str | SkippedRecord:
    chosen, equal = (
        record.get("chosen_model_name"),
        _is_true("both_equal", record.get("both_equal"), optional=True),
    )
    if equal and chosen is not None:
        raise BadBattle(f"both_equal is true, but chosen_model_name is {quoted(chosen)}")
    if equal:
        return "tie"
    if chosen is None:
        return SkippedRecord("no choice was made")
    if model_a == model_b:
        return SkippedRecord("both answers came from one model")
    if chosen not in (model_a, model_b):
        return SkippedRecord("the chosen model is neither of the two")
    return "model_a" if chosen == model_a else "model_b"


def _convert_comparia_turn(record: Mapping[str, object]) -> Converted:
    choice = record.get("choice")
    if choice is None:
        return SkippedRecord("no choice was made")
    if choice == "idk":
        return SkippedRecord("the voter did not know")
    if _is_true("excluded", record.get("excluded"), optional=True):
        return SkippedRecord("excluded by the arena")
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise BadBattle(f"choice is {quoted(choice)}; expected {', '.join(_CHOICES)} or idk")
    return row_of(
        record,
        _GIVES_COMPARIA_TURNS,
        winner=_CHOICES[choice],
        source="human",
        language=_one_language(record.get("metadata")),
        time=parse_arena_time(record.get("timestamp")),
    )


def _one_language(metadata: Any) -> str | None:
    languages = metadata.get("languages") if isinstance(metadata, Mapping) else None
    match languages:
        case [str(language)]:
            return language
    return None


COMPARIA_VOTES = BattleFormat(
    name="comparia-votes",
    kinds=_KINDS,
    recognises=has_columns("model_a_name", "model_b_name", "chosen_model_name", "both_equal"),
    convert=_convert_comparia_vote,
    gives=_GIVES_COMPARIA_VOTES,
    also_reads=("both_equal", "session_hash"),
    answers_in=("conversation_a", "conversation_b"),
)
COMPARIA_TURNS = BattleFormat(
    name="comparia-turns",
    kinds=_KINDS,
    recognises=has_columns("comparison_id", "model_a", "model_b", "choice", "turn"),
    convert=_convert_comparia_turn,
    gives=_GIVES_COMPARIA_TURNS,
    also_reads=("excluded",),
    answers_in=("response_a", "response_b"),
)


def _is_true(key: str, value: Any, *, optional: bool = False) -> bool:
    match value:
        case None if optional:
            return False
        case True | "True" | "true":
            return True
        case False | "False" | "false":
            return False
    raise BadBattle(f"{key} is {quoted(value)}; expected true or false")


#: A format that is added here needs no other registration.
ARENA_FORMATS = (LMARENA_55K, LMARENA_100K, LMARENA_140K, FASTCHAT, COMPARIA_VOTES, COMPARIA_TURNS)


# Open WebUI: thumbs of its users on answers of several models to one message


def _convert_open_webui(record: Mapping[str, object]) -> Mapping[str, object] | SkippedRecord:
    """One thumb; `_settle_open_webui` makes battles with each of the other answers of it."""
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


def _settle_open_webui(rows: Iterator[Settled]) -> Iterator[Settled]:
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
    convert=_convert_open_webui,
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
    settle=_settle_open_webui,
)
