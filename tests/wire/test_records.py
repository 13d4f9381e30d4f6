"""The records of the API: defined once, checked where they arrive, and sent as the same bytes as ever."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from types import ModuleType

import pytest
from pydantic import ValidationError

from tiltyard.wire import arenas, moderation, operators, records, voting
from tiltyard.wire.moderation import ExcludeRequest
from tiltyard.wire.records import body_of, json_bytes, reader_of
from tiltyard.wire.voting import (
    Ended,
    Matchup,
    MatchupList,
    MatchupResponses,
    RemarkRequest,
    ShownPrompt,
    ShownResponse,
    ShownTimes,
    UndoRequest,
    VoteRequest,
)

MODULES = (arenas, moderation, operators, records, voting)
AT = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)
MATCHUP = Matchup(
    matchup="q",
    arena="main",
    prompt=ShownPrompt("What is “1 + 1”?"),
    responses=MatchupResponses(ShownResponse("/m/q/a", "text"), ShownResponse("/m/q/b", "text")),
    served_at=AT,
    expires_at=AT.replace(microsecond=7),
    ballot=1,
)
ENDED = Ended(
    "q", "vote", "tie", "tie", None, 7, AT, None, revealed=False, ballot=0, blind=True, unrated=None
)


def records_of(module: ModuleType) -> dict[str, type]:
    """The classes that a module defines."""
    return {
        name: one
        for name, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_record_is_a_frozen_dataclass(module: ModuleType) -> None:
    found = records_of(module)
    for record in found.values():
        assert is_dataclass(record)
        assert record.__dataclass_params__.frozen
        assert record.__doc__


def test_no_name_is_defined_twice() -> None:
    names = [name for module in MODULES for name in records_of(module)]
    assert len(names) == len(set(names))


def test_a_matchup_has_the_bytes_that_it_always_had() -> None:
    assert (
        json_bytes(MatchupList([MATCHUP]))
        == (
            '{"matchups":[{"matchup":"q","arena":"main","prompt":{"text":"What is “1 + 1”?"},'
            '"responses":{"a":{"url":"/m/q/a","kind":"text"},"b":{"url":"/m/q/b","kind":"text"}},'
            '"served_at":"2026-01-05T12:30:00+00:00","expires_at":"2026-01-05T12:30:00.000007+00:00","ballot":1}]}'
        ).encode()
    )


def test_a_vote_is_told_in_the_bytes_that_it_always_had() -> None:
    assert json_bytes(ENDED) == (
        b'{"matchup":"q","kind":"vote","winner":"tie","label":"tie","both_bad":null,"position":7,'
        b'"at":"2026-01-05T12:30:00+00:00","undo_until":null,"revealed":false,"ballot":0,"blind":true,"unrated":null}'
    )


@pytest.mark.parametrize("record", [MATCHUP, ENDED], ids=["matchup", "ended"])
def test_what_was_sent_is_read_as_it_was(record: object) -> None:
    assert reader_of(type(record)).validate_json(json_bytes(record)) == record


def test_a_newer_server_may_say_more() -> None:
    said = json.loads(json_bytes(ENDED)) | {"kind": "handed over", "by": "a friend"}
    assert reader_of(Ended).validate_python(said).kind == "handed over"


def test_answers_list_their_words_and_name_every_field() -> None:
    schema = reader_of(Ended).json_schema(mode="serialization")
    assert schema["properties"]["kind"]["enum"] == ["vote", "skip", "expire", "undo"]
    assert schema["required"] == [field.name for field in fields(Ended)]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b'{"winner":"tie","who":"me"}', "who"),
        (b'{"winner":"neither"}', "winner"),
        (b'{"winner":"tie","ballot":"0"}', "ballot"),
        (b'{"winner":"tie","shown":{"a":1}}', "shown"),
        (b'{"winner":"tie","judge_model":""}', "judge_model"),
        (b"{}", "winner"),
    ],
)
def test_a_vote_that_makes_no_sense_is_refused(data: bytes, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        reader_of(VoteRequest).validate_json(data)
    assert refused.value.errors()[0]["loc"][0] == field


def test_a_request_is_sent_without_what_it_does_not_say() -> None:
    assert body_of(VoteRequest(winner="tie", shown=ShownTimes(a=2.0, b=1.5))) == {
        "winner": "tie",
        "ballot": 0,
        "shown": {"a": 2.0, "b": 1.5},
        "reveal": False,
        "recognized": False,
    }
    assert body_of(UndoRequest(ballot=2)) == {"ballot": 2}
    assert body_of(RemarkRequest(tags=["clear"])) == {"tags": ["clear"]}


def test_moments_are_sent_as_text_that_json_has() -> None:
    body = body_of(ExcludeRequest(reason="a bot", sessions=[1], since=AT))
    assert body == {"reason": "a bot", "sessions": [1], "since": "2026-01-05T12:30:00+00:00"}
    assert reader_of(ExcludeRequest).validate_json(json.dumps(body)).since == AT
