"""Conversations and votes of a live arena for release: one row per turn, without voters and times, in random order.

Texts are keys: rows of two files with the same conversation can always be joined. So a file with voters, times and
positions is for operators only.

Left out are voters who did not agree to the arena's consent, texts that were erased, battles that are void or excluded,
and battles with private data unless they are asked for. What is left out is counted.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tiltyard.arena.live.turn_notes import TurnFlags
from tiltyard.arena.log.buckets import fetch_row_sync, find_statement
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.core.live.private_data import find_private_data
from tiltyard.core.live.prompt_texts import UNKNOWN_LANGUAGE, detect_language
from tiltyard.errors import BadOption, NotFound
from tiltyard.files.parquet_tables import write_row_table
from tiltyard.foundation.local_files import atomic_write
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings

#: The columns of a released file, in their order.
CONVERSATION_COLUMNS: dict[str, type] = {
    "battle": int,
    "turn": int,
    "turns": int,
    "voter": str,
    "began_at": str,
    "category": str,
    "language": str,
    "prompt": str,
    "answer_a": str,
    "answer_b": str,
    "state": str,
    "turn_outcome": str,
    "model_a": str,
    "model_b": str,
    "version_a": str,
    "version_b": str,
    "winner": str,
    "blind": int,
    "position": int,
    "propensity": float,
    "identity": str,
    "private": str,
    "rules": str,
    **{
        f"{name}_{side}": kind
        for side in "ab"
        for name, kind in {
            "input_tokens": int,
            "output_tokens": int,
            "first_token_seconds": float,
            "seconds": float,
            "cost_microdollars": int,
            "calls": int,
        }.items()
    },
}
#: Columns by which voters could be linked: a file for release does not have them.
EXACT_COLUMNS = frozenset({"voter", "began_at", "position", "propensity"})
_PAGE_BATTLES = 200
_MAX_RELEASE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ReleasedTurn:
    """One turn: texts, state, verdict on it alone, flags, and what the calls of both sides took."""

    turn: int
    prompt: str
    answers: tuple[str, str]
    state: str
    outcome: str | None
    flags: TurnFlags
    #: Input tokens, output tokens, seconds to the first token, seconds, cost in microdollars, calls; by side.
    calls: tuple[tuple[object, ...], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class ReleasedBattle:
    turns: list[ReleasedTurn]
    winner: str | None
    session: int
    began_at: datetime
    category: str
    language: str | None
    #: The number of its distinct first prompt.
    free_prompt: int
    a: int
    b: int
    blind: bool
    position: int | None
    propensity: float


@dataclass(slots=True)
class ReleaseCounts:
    """How many battles and turns were released, and how many battles were left out, by reason."""

    battles: int = 0
    turns: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str) -> None:
        """Count a battle that is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


_NO_CALLS = (None, None, None, None, None, 0)


def write_conversations(
    url: str,
    keys: SecretKeys,
    arena: str,
    path: Path,
    *,
    release: str | None = None,
    with_flagged: bool = False,
    exact_for: str | None = None,
) -> ReleaseCounts:
    """Write the conversations of an arena as Parquet.

    With ``exact_for``, who is named in the audit log: in the order of time, with `EXACT_COLUMNS`; the same ``release``
    gives voters the same pseudonyms.
    """
    exact = exact_for is not None
    if release is not None and not exact:
        raise BadOption(
            "a release names pseudonyms, which only the exact file has; leave it out, or add --exact"
        )
    if release is not None and (not release.strip() or len(release) > _MAX_RELEASE_CHARACTERS):
        raise BadOption(f"the release needs a name of 1 to {_MAX_RELEASE_CHARACTERS} characters")
    named = secrets.token_urlsafe(16) if release is None else release
    counts = ReleaseCounts()
    with connect(url, name="tiltyard conversations") as connection:
        number = find_live_arena(connection, arena)
        if exact_for is not None:
            about = {"exact": True, "flagged": with_flagged, "release": release}
            entry = {"arena": number, "actor": exact_for, "action": "export conversations"}
            with translate_errors("write to the audit log"):
                connection.execute(statement("write_audit"), entry | {"detail": Jsonb(about)})
        found = _fetch(connection, "release_models", {"arena": number})
        models = {model: (name, version) for model, name, version in found}
        battles = read_conversations(
            connection, number, counts, with_flagged=with_flagged, shuffled=not exact
        )
        columns = {
            name: kind for name, kind in CONVERSATION_COLUMNS.items() if exact or name not in EXACT_COLUMNS
        }
        rows = (
            row
            for place, battle in enumerate(battles, start=1)
            for row in _rows(place, battle, keys.pseudonym(named, battle.session), models)
        )
        write_row_table(path, columns, ({name: row[name] for name in columns} for row in rows))
    return counts


def find_live_arena(connection: psycopg.Connection, name: str) -> int:
    """The number of a live arena; raises for any other."""
    row = fetch_row_sync(connection, "arenas_find", {"name": name}, "find an arena")
    if row is None:
        raise NotFound(f"no arena {name!r}; see the list of arenas")
    if not ArenaSettings.kept(row[3]).is_live:
        raise BadOption(f"{name} is no live arena: it has no conversations; export its battles instead")
    return int(row[0])


def read_conversations(
    connection: psycopg.Connection,
    arena: int,
    counts: ReleaseCounts,
    *,
    with_flagged: bool = False,
    shuffled: bool = False,
) -> Iterator[ReleasedBattle]:
    """The battles that may be released, oldest first or ``shuffled``, a page at a time.

    ``counts`` has what was left out.
    """
    matchups: list[UUID] = [one for (one,) in _fetch(connection, "release_matchups", {"arena": arena})]
    if shuffled:
        secrets.SystemRandom().shuffle(matchups)
    for start in range(0, len(matchups), _PAGE_BATTLES):
        wanted = matchups[start : start + _PAGE_BATTLES]
        page = {
            row[0]: row for row in _fetch(connection, "release_battles", {"arena": arena, "matchups": wanted})
        }
        turns = _read_turns(connection, arena, list(page))
        for row in (page[one] for one in wanted if one in page):
            reason = _left_out(row, turns[row[0]], with_flagged=with_flagged)
            if reason is not None:
                counts.leave_out(reason)
                continue
            counts.battles += 1
            counts.turns += len(turns[row[0]])
            winner = None if row[4] is None else str(SPELLED[Kind(row[4])][0])
            yield ReleasedBattle(turns[row[0]], winner, *row[5:])


def _left_out(row: tuple[Any, ...], turns: list[ReleasedTurn], *, with_flagged: bool) -> str | None:
    """Why a battle is left out; ``None`` if it is released."""
    is_void, agreed, excluded = row[1:4]
    if not agreed:
        return "without consent"
    if is_void or not turns:
        return "void"
    if excluded:
        return "excluded"
    if not all(turn.prompt for turn in turns):
        return "erased"
    if not with_flagged and any(turn.flags.get("private") for turn in turns):
        return "with private data"
    return None


def _read_turns(
    connection: psycopg.Connection, arena: int, matchups: list[UUID]
) -> dict[UUID, list[ReleasedTurn]]:
    """The turns of these battles. Private data is looked for again: rules may have become better since."""
    values = {"arena": arena, "matchups": matchups}
    calls = {row[:3]: row[3:] for row in _fetch(connection, "release_calls", values)}
    found: dict[UUID, list[ReleasedTurn]] = {matchup: [] for matchup in matchups}
    for matchup, turn, prompt, a, b, state, outcome, stored in _fetch(connection, "release_turns", values):
        flags = cast("TurnFlags", dict(stored))
        private = find_private_data("\n".join(text for text in (prompt, a, b) if text))
        flags["private"] = list(dict.fromkeys((*flags.get("private", ()), *private)))
        left, right = (calls.get((matchup, turn, side), _NO_CALLS) for side in (0, 1))
        texts = (a or "", b or "")
        found[matchup].append(ReleasedTurn(turn, prompt or "", texts, state, outcome, flags, (left, right)))
    return found


def _rows(
    place: int, battle: ReleasedBattle, voter: str, models: dict[int, tuple[str, str]]
) -> Iterator[dict[str, object]]:
    (name_a, version_a), (name_b, version_b) = models[battle.a], models[battle.b]
    for turn in battle.turns:
        spent = [value for side in turn.calls for value in side]
        flags = [turn.flags.get("identity", []), turn.flags.get("private", []), turn.flags.get("rules", [])]
        values = (
            place,
            turn.turn,
            len(battle.turns),
            voter,
            battle.began_at.astimezone(UTC).isoformat(timespec="seconds"),
            battle.category,
            battle.language,
            turn.prompt,
            *turn.answers,
            turn.state,
            turn.outcome,
            name_a,
            name_b,
            version_a,
            version_b,
            battle.winner,
            int(battle.blind),
            battle.position,
            battle.propensity,
            *(", ".join(names) for names in flags),
            *spent,
        )
        yield dict(zip(CONVERSATION_COLUMNS, values, strict=True))


def _fetch(connection: psycopg.Connection, name: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
    with translate_errors("read conversations for release"):
        return connection.execute(find_statement(name, values), values).fetchall()


#: The category of an arena that has no categories.
_ANY_CATEGORY = "any"


def promote_prompts(url: str, arena: str, path: Path) -> ReleaseCounts:
    """Write the distinct first prompts of an arena's battles that may be released, as JSON Lines.

    Tournaments and ``tiltyard generate`` read such a file as a bank of prompts.
    """
    counts, lines = ReleaseCounts(), 0
    with connect(url, name="tiltyard promotion") as connection:
        number = find_live_arena(connection, arena)
        battles = read_conversations(connection, number, counts)
        with atomic_write(str(path)) as file:
            for prompt in promoted_lines(battles, arena, counts):
                given = {name: value for name, value in prompt.items() if value is not None}
                file.write((json.dumps(given, ensure_ascii=False) + "\n").encode())
                lines += 1
    counts.battles = lines
    return counts


def promoted_lines(
    battles: Iterator[ReleasedBattle], arena: str, counts: ReleaseCounts
) -> Iterator[dict[str, str | None]]:
    """Each distinct prompt once, in the order in which it was first written; flagged ones are counted and left out.

    Only the first prompt of a battle stands alone: the others answer what the two models said.
    """
    seen: set[int] = set()
    for battle in battles:
        first = battle.turns[0]
        if battle.free_prompt in seen:
            continue
        if first.flags.get("rules") or "prompt" in first.flags.get("identity", ()):
            counts.leave_out("flagged")
            continue
        seen.add(battle.free_prompt)
        language = battle.language or detect_language(first.prompt)
        yield {
            "prompt_id": f"live-{battle.free_prompt}",
            "text": first.prompt,
            "source": f"live:{arena}",
            "category": None if battle.category == _ANY_CATEGORY else battle.category,
            "language": None if language == UNKNOWN_LANGUAGE else language,
        }
