"""Battles on their way out: final votes in log order, de-identified, in pieces."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tiltyard.arena.keys import Keys
from tiltyard.arena.log.battles import Names, Vote, be_patient, read_bounds, read_names, read_votes
from tiltyard.arena.log.log import JUDGE, SOURCES
from tiltyard.core.battles import Kind
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import BadOption
from tiltyard.files.battle_stream import Container, stream_battles
from tiltyard.postgres.connecting import connect

__all__ = ["MEDIA_TYPES", "Export", "export_battles", "open_export"]

#: What each container is called on the wire.
MEDIA_TYPES: dict[Container, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

_LANES = tuple(lane.name.lower() for lane in Lane)
_LONGEST_RELEASE = 200
#: Seconds for a page of votes.
_PATIENCE = 60.0
#: Pseudonyms that are kept while a file is written.
_VOTERS = 20_000


@dataclass(frozen=True, slots=True)
class Export:
    """Which battles: those of an arena as of a position, under the pseudonyms of a release."""

    arena: int
    position: int
    release: str
    #: ``None``: every source.
    source: int | None


def open_export(
    url: str, arena: int, *, source: int | None = None, upto: int | None = None, release: str | None = None
) -> Export:
    """Settle what is exported: by default all votes that are final now, under new pseudonyms."""
    with connect(url, name="tiltyard export") as connection:
        horizon, _ = read_bounds(connection, arena)
    if upto is not None and not 0 <= upto <= horizon:
        raise BadOption(f"votes are final up to position {horizon}; {upto} cannot be exported yet")
    if release is not None and (not release.strip() or len(release) > _LONGEST_RELEASE):
        raise BadOption(f"the release needs a name of 1 to {_LONGEST_RELEASE} characters")
    named = secrets.token_urlsafe(16) if release is None else release
    return Export(arena, horizon if upto is None else upto, named, source)


def export_battles(
    url: str, keys: Keys, export: Export, container: Container
) -> Generator[bytes, None, None]:
    """The bytes of a battle file. A few pages of votes are in memory at a time; close it if you stop early."""
    with connect(url, name="tiltyard export") as connection:
        be_patient(connection, _PATIENCE)
        names = read_names(connection, export.arena)
        votes = read_votes(connection, export.arena, upto=export.position, source=export.source)
        yield from stream_battles(container, _battles(votes, names, keys, export.release))


def _battles(votes: Iterator[Vote], names: Names, keys: Keys, release: str) -> Iterator[Battle]:
    voters: dict[int, str] = {}
    for vote in votes:
        if len(voters) > _VOTERS:
            voters.clear()
        voter = voters.get(vote.session)
        if voter is None:
            voter = voters[vote.session] = keys.pseudonym(release, vote.session)
        yield _battle(vote, names, voter)


def _battle(vote: Vote, names: Names, voter: str) -> Battle:
    kind = Kind(vote.outcome)
    winner, label = SPELLED[kind]
    prompt, category, language = names.prompts[vote.prompt]
    judged = vote.source == JUDGE
    detail: dict[str, Any] = vote.detail or {} if judged else {}
    extra = {
        "lane": _LANES[vote.lane],
        "nominal_lane": _LANES[vote.nominal],
        "propensity": vote.propensity,
        "blind": vote.blind,
    }
    return Battle(
        model_a=names.models[vote.a],
        model_b=names.models[vote.b],
        winner=winner,
        label=label if judged else None,
        both_bad=kind.flagged if judged else None,
        source=SOURCES[vote.source],
        question_id=prompt,
        judge_model=detail.get("judge_model"),
        dimension="overall",
        category=category,
        language=language,
        pref=detail.get("pref"),
        voter=voter,
        time=vote.at,
        position=vote.position,
        extra=MappingProxyType(extra),
    )
