"""Battle export: final votes in log order, de-identified, in chunks."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import JUDGE, SOURCES
from tiltyard.arena.log.votes import (
    ArenaNames,
    Vote,
    read_bounds,
    read_names,
    read_votes,
    set_statement_timeout,
)
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.core.live.prompt_texts import free_prompt_name
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import BadOption
from tiltyard.files.battle_writer import Container, stream_battles
from tiltyard.postgres.connections import connect

#: The media type of each container.
MEDIA_TYPES: dict[Container, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

_LANES = tuple(lane.name.lower() for lane in Lane)
_MAX_RELEASE_CHARACTERS = 200
#: Time limit for reading one page of votes.
_STATEMENT_SECONDS = 60.0
#: Pseudonyms cached while a file is written.
_CACHED_PSEUDONYM_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class BattleExport:
    """The battles to export: those of an arena as of a position, with the pseudonyms of a release."""

    arena: int
    position: int
    release: str
    #: ``None``: every source.
    source: int | None


def open_export(
    url: str, arena: int, *, source: int | None = None, upto: int | None = None, release: str | None = None
) -> BattleExport:
    """Decide what is exported: by default all votes that are final now, with new pseudonyms."""
    with connect(url, name="tiltyard export") as connection:
        horizon, _ = read_bounds(connection, arena)
    if upto is not None and not 0 <= upto <= horizon:
        raise BadOption(f"votes are final up to position {horizon}; {upto} cannot be exported yet")
    if release is not None and (not release.strip() or len(release) > _MAX_RELEASE_CHARACTERS):
        raise BadOption(f"the release needs a name of 1 to {_MAX_RELEASE_CHARACTERS} characters")
    named = secrets.token_urlsafe(16) if release is None else release
    return BattleExport(arena, horizon if upto is None else upto, named, source)


def export_battles(
    url: str, keys: SecretKeys, export: BattleExport, container: Container
) -> Generator[bytes, None, None]:
    """Generate the bytes of a battle file, with a few pages of votes in memory at a time.

    Close the generator if you stop early.
    """
    with connect(url, name="tiltyard export") as connection:
        set_statement_timeout(connection, _STATEMENT_SECONDS)
        names = read_names(connection, export.arena)
        votes = read_votes(connection, export.arena, upto=export.position, source=export.source)
        yield from stream_battles(container, _battles(votes, names, keys, export.release))


def _battles(votes: Iterator[Vote], names: ArenaNames, keys: SecretKeys, release: str) -> Iterator[Battle]:
    voters: dict[int, str] = {}
    for vote in votes:
        if len(voters) > _CACHED_PSEUDONYM_LIMIT:
            voters.clear()
        voter = voters.get(vote.session)
        if voter is None:
            voter = voters[vote.session] = keys.pseudonym(release, vote.session)
        yield _battle(vote, names, voter)


def _battle(vote: Vote, names: ArenaNames, voter: str) -> Battle:
    kind = Kind(vote.outcome)
    winner, label = SPELLED[kind]
    prompt, category, language = names.prompts[vote.prompt]
    judged = vote.source == JUDGE
    said: VoteDetail = vote.detail or {}
    detail: VoteDetail = said if judged else {}
    cast_at = said.get("cast_at")
    extra = {
        "lane": _LANES[vote.lane],
        "nominal_lane": _LANES[vote.nominal],
        "propensity": vote.propensity,
        "blind": vote.blind,
        # A text in every row: the first rows decide what a column holds.
        "unrated": vote.unrated or "no",
        "imported": vote.imported,
    }
    return Battle(
        model_a=names.models[vote.a],
        model_b=names.models[vote.b],
        winner=winner,
        label=label if judged else None,
        both_bad=kind.flagged if judged else None,
        source=SOURCES[vote.source],
        question_id=free_prompt_name(vote.free_prompt) if vote.free_prompt else prompt,
        judge_model=detail.get("judge_model"),
        dimension="overall",
        category=category,
        language=language,
        pref=detail.get("pref"),
        voter=voter,
        time=vote.at if cast_at is None else datetime.fromisoformat(cast_at),
        position=vote.position,
        extra=MappingProxyType(extra),
    )
