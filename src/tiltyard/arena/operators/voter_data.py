"""Reads what is held about a voter, for that voter: a summary for a page, and everything as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiltyard.arena.accounts import GateResult
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.operators.session_erasure import find_arenas_of_voter, require_voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors


@dataclass(frozen=True, slots=True)
class HeldAccount:
    """What is held of a person outside the arenas. Without a row in the tables all is ``None``."""

    since: datetime | None
    gate: str | None
    #: If they signed in.
    name: str | None
    groups: list[str] | None
    first_sign_in: datetime | None
    last_sign_in: datetime | None
    sign_ins: int


@dataclass(frozen=True, slots=True)
class HeldInArena:
    """How much one arena holds of a person."""

    arena: Arena
    votes: int
    #: Matchups that were skipped, expired or are open.
    others: int
    remarks: int
    reports: int
    prompts: int
    consents: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class HeldOfVoter:
    """What is held of a person: outside the arenas, and how much in each."""

    session: int
    account: HeldAccount
    arenas: list[HeldInArena]


async def read_held_summary(pool: ConnectionPool, session: int) -> HeldOfVoter:
    """What is held of a person: outside the arenas, and how much in each."""
    arenas = await find_arenas_of_voter(pool, session)
    async with connect_from_pool(pool) as connection:
        with translate_errors("read what is held of a voter"):
            held = [await _count(connection, arena, session) for arena in arenas]
            return HeldOfVoter(session, await _account(connection, session), held)


async def read_held_in_arena(pool: ConnectionPool, arena: Arena, session: int) -> HeldInArena:
    """How much one arena holds of a person; `NotFound` if it is nothing."""
    async with connect_from_pool(pool) as connection:
        with translate_errors("read what is held of a voter"):
            await require_voter(connection, arena, session)
            return await _count(connection, arena, session)


async def read_held_data(pool: ConnectionPool, session: int) -> dict[str, object]:
    """Everything that is held of a person, as plain values."""
    arenas = await find_arenas_of_voter(pool, session)
    async with connect_from_pool(pool) as connection:
        with translate_errors("read what is held of a voter"):
            account = await _account(connection, session)
            held = [await _arena_data(connection, arena, session) for arena in arenas]
    return {
        "session": str(session),
        "account": {
            "since": _text(account.since),
            "gate": account.gate,
            "name": account.name,
            "groups": account.groups,
            "first_sign_in": _text(account.first_sign_in),
            "last_sign_in": _text(account.last_sign_in),
            "sign_ins": account.sign_ins,
        },
        "arenas": held,
    }


async def _count(connection: Connection, arena: Arena, session: int) -> HeldInArena:
    (row,) = await _rows(connection, "voter_data_counts", arena.arena, session)
    return HeldInArena(arena, *row)


async def _account(connection: Connection, session: int) -> HeldAccount:
    (row,) = await _rows(connection, "voter_data_account", 0, session)
    since, gate, *person = row
    return HeldAccount(since, None if gate is None else GateResult(gate).name.lower(), *person)


async def _arena_data(connection: Connection, arena: Arena, session: int) -> dict[str, object]:
    async def rows(name: str) -> list[tuple[Any, ...]]:
        return await _rows(connection, f"voter_data_{name}", arena.arena, session)

    return {
        "arena": arena.name,
        "title": arena.title,
        "votes_after_deletion": arena.settings.erased_votes,
        "matchups": [_matchup(*row) for row in await rows("matchups")],
        "remarks": [
            {"matchup": str(matchup), "at": _text(at), "tags": tags, "comment": comment}
            for matchup, at, tags, comment in await rows("remarks")
        ],
        "reports": [
            {"matchup": str(matchup), "at": _text(at), "reason": reason, "note": note}
            for matchup, at, reason, note in await rows("reports")
        ],
        "live_prompts": [_turn(*row) for row in await rows("turns")],
        "consents": [
            {"sha256": bytes(sha256).hex(), "at": _text(at)} for sha256, at in await rows("consents")
        ],
    }


def _matchup(*row: Any) -> dict[str, object]:
    matchup, served_at, prompt, a, b, kind, outcome, at, revealed_at, served, ended = row
    served_detail: Mapping[str, object] = served or {}
    ended_detail: Mapping[str, object] = ended or {}
    return {
        "matchup": str(matchup),
        "served_at": _text(served_at),
        "prompt": prompt,
        "model_a": a,
        "model_b": b,
        "ended": None if kind is None else LogKind(kind).name.lower(),
        "outcome": None if outcome is None else Kind(outcome).name.lower(),
        "at": _text(at),
        "names_shown_at": _text(revealed_at),
        "languages": served_detail.get("languages"),
        "categories": served_detail.get("categories"),
        "seconds_on_screen": ended_detail.get("shown"),
        "reason": ended_detail.get("reason"),
        "recognized": ended_detail.get("recognized"),
    }


def _turn(*row: Any) -> dict[str, object]:
    matchup, turn, at, prompt, answer_a, answer_b, outcome, language, payers = row
    return {
        "matchup": str(matchup),
        "turn": turn,
        "at": _text(at),
        "prompt": prompt,
        "answer_a": answer_a,
        "answer_b": answer_b,
        "outcome": outcome,
        "language": language,
        "accounts": [str(payer) for payer in payers],
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


async def _rows(connection: Connection, name: str, arena: int, session: int) -> list[tuple[Any, ...]]:
    values = {"arena": arena, "session": session}
    return await fetch_rows(connection, name, values)
