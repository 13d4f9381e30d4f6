"""The client covers the API: every route, every parameter, every field that can be sent."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest

from tiltyard.client import AsyncClient, Client
from tiltyard.client.api_call import Call
from tiltyard.web.server.app import make_app
from tiltyard.wire import arenas, live, moderation, operators, voting
from tiltyard.wire.arenas import SnapshotInfo

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SNAPSHOT = SnapshotInfo("0" * 64, 1, 2, 3, evaluated=True, citable=True, made_at=NOW)

CLIENT = Client("http://127.0.0.1:1")

#: What pages alone can say: a receipt is for the texts that a page showed, and programs fetch texts by their URLs.
OF_PAGES = {("/api/v1/matchups/{matchup}/vote", "receipt")}

#: One use of every method, with everything that can be said.
USES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "next_matchup": (("demo",), {"ahead": True}),
    "gate": (("demo",), {}),
    "open_matchups": (("demo",), {}),
    "show": (("m",), {}),
    "response": (("m", "a"), {}),
    "vote": (
        ("m", "tie"),
        {
            "ballot": 1,
            "reveal": True,
            "shown": {"a": 2.0, "b": 1.0},
            "recognized": True,
            "label": "tie",
            "both_bad": True,
            "pref": 0.5,
            "judge_model": "j",
        },
    ),
    "undo": (("m",), {"ballot": 1}),
    "skip": (("m",), {"reason": "broken", "recognized": True}),
    "reveal": (("m",), {}),
    "finish": (("demo",), {}),
    "report": (("m", "broken", "it is empty"), {}),
    "remark": (("m",), {"tags": ["clear"], "comment": "why"}),
    "ask": (("demo", "Why?"), {"category": "any"}),
    "live_battle": (("m",), {}),
    "live_frames": (("m",), {"after": "1.2.3"}),
    "follow_up": (("m", "And?"), {}),
    "stop": (("m",), {}),
    "again": (("m",), {}),
    "turn_vote": (("m", 1, "tie"), {}),
    "arenas": ((), {}),
    "arena": (("demo",), {}),
    "newest": (("demo",), {}),
    "board": (
        ("demo",),
        {"source": "llm-judge", "category": "c", "language": "en", "retired": False, "excluded": "counted"},
    ),
    "effects": (("demo",), {}),
    "snapshots": (("demo",), {"source": "human", "before": SNAPSHOT, "limit": 5}),
    "snapshot": (("demo", "0" * 64), {"category": "maths", "language": "en", "excluded": "counted"}),
    "model": (("demo", "org/m-1"), {"source": "human"}),
    "reports": (("demo",), {}),
    "validity_report": (("demo", "0" * 64), {}),
    "battles": (("demo",), {"source": "human", "table": "ordered", "snapshot": "0" * 64}),
    "save_battles": (
        ("demo", "x"),
        {"format": "csv", "source": "human", "table": "both", "snapshot": "0" * 64},
    ),
    "save_exact_battles": (("demo", "x"), {"format": "csv", "source": "human", "upto": 3, "release": "r"}),
    "create_arena": (("demo",), {"title": "t", "settings": {}, "policy": {}, "volatility": 0.06}),
    "change_arena": (("demo",), {"title": "t", "settings": {}}),
    "import_answers": (("demo", b"{}"), {"enable": False}),
    "import_votes": (("demo", b"{}"), {"name": "old"}),
    "past_votes": (("demo",), {}),
    "models": (("demo",), {}),
    "enable": (("demo", "org/m-1"), {}),
    "retire": (("demo", "org/m-1"), {}),
    "prompts": (("demo",), {"after": 3, "limit": 5}),
    "response_of": (("demo", "m", "p"), {}),
    "withdraw": (("demo", "p"), {"reason": "asked for", "model": "m"}),
    "policy": (("demo",), {}),
    "set_policy": (("demo",), {"tolerance": 0.2}),
    "shadow_board": (("demo",), {"source": "llm-judge"}),
    "exclusions": (("demo",), {}),
    "exclude": (
        ("demo", "a bot"),
        {
            "sessions": [1],
            "voters": ["v"],
            "release": "r",
            "invitation": 3,
            "matchups": ["m"],
            "since": NOW,
            "until": NOW,
            "source": "human",
        },
    ),
    "restore": (("demo", 1), {}),
    "audit": (("demo",), {"before": 3, "limit": 5}),
    "complaints": (("demo",), {"after": 3, "limit": 5, "settled": True}),
    "settle_complaint": (("demo", 1), {}),
    "me": ((), {}),
    "health": ((), {}),
    "ready": ((), {}),
    "metrics": ((), {}),
}


class _Sent(Exception):
    """Instead of an answer."""


def sent_by(method: str, *positional: Any, **named: Any) -> Call[Any]:
    """The call that a method of the client sends."""
    sent: list[Call[Any]] = []

    def keep(_self: Client, call: Call[Any]) -> None:
        sent.append(call)
        raise _Sent

    with (
        patch.object(Client, "call", keep),
        patch.object(Client, "stream", keep),
        suppress(_Sent),
    ):
        list(getattr(CLIENT, method)(*positional, **named))
    return sent[0]


CALLS = {method: sent_by(method, *positional, **named) for method, (positional, named) in USES.items()}
CALLS["response, the other side"] = sent_by("response", "m", "b")


class _Nothing:
    """An application of which only the routes are checked."""

    def __getattr__(self, name: str) -> Any:
        return _Nothing()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return _Nothing()


@pytest.fixture(scope="module")
def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """Every operation of the API, by method and path."""
    from tiltyard.arena.secret_keys import SecretKeys
    from tiltyard.settings.serving_settings import ServingSettings

    site = _Nothing()
    site.settings = ServingSettings()
    paths = make_app(site, SecretKeys(["a secret for tests that is long enough"])).openapi()["paths"]
    return {
        (method.upper(), path): operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


@pytest.fixture(scope="module")
def meant(operations: dict[tuple[str, str], Any]) -> dict[str, tuple[str, str] | None]:
    """The operation of each call; of several templates that fit, the one with the fewest gaps."""
    patterns = {
        one: re.compile(re.sub(r"\\\{\w+(:path)?\\\}", "[^/]+", re.escape(one[1]))) for one in operations
    }

    def operation_of(call: Call[Any]) -> tuple[str, str] | None:
        fitting = [
            one for one, pattern in patterns.items() if one[0] == call.method and pattern.fullmatch(call.path)
        ]
        return min(fitting, key=lambda one: one[1].count("{"), default=None)

    return {name: operation_of(call) for name, call in CALLS.items()}


def test_every_route_has_a_method_and_every_method_a_route(operations, meant):
    assert set(meant.values()) == set(operations)


def test_every_parameter_and_field_can_be_said(operations, meant):
    for (method, path), operation in operations.items():
        calls = [CALLS[name] for name, one in meant.items() if one == (method, path)]
        query = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        assert query <= {name for call in calls for name in call.query}, path
        bodies = [call.body for call in calls if isinstance(call.body, dict)]
        for field in _fields(operation):
            if (path, field) in OF_PAGES:
                continue
            assert any(field in body for body in bodies), (path, field)


def _fields(operation: dict[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "")
    if reference:
        name = reference.rpartition("/")[2]
        found = [
            vars(module)[name]
            for module in (voting, live, arenas, moderation, operators)
            if name in vars(module)
        ]
        yield from (field.name for field in fields(found[0]))


def test_every_method_is_tried_here_and_both_clients_have_it():
    for kind in (Client, AsyncClient):
        methods = {
            name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
        }
        assert methods - {"call", "stream", "stream_lines", "close", "aclose"} == set(USES)


def test_help_shows_what_a_caller_says_and_gets():
    for method, returned in ((Client.vote, "Ended"), (Client.live_frames, "Iterator[ShownFrame]")):
        assert inspect.signature(method).return_annotation == returned
    assert all(inspect.getdoc(getattr(Client, name)) for name in USES)


def test_what_is_never_sent_twice_is_known():
    once = {name for name, call in CALLS.items() if not call.repeatable}
    assert once == {
        "report",
        "ask",
        "follow_up",
        "again",
        "finish",
        "create_arena",
        "withdraw",
        "exclude",
        "restore",
    }
