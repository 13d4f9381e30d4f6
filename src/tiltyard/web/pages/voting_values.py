"""Template values that every voting page shares."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from fastapi import Request

from tiltyard.arena.boards.board_cache import ModelRank, newest_ranks
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import RevealedMatchup, ReviewedMatchup, Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.web.access.access import access_of
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.board_data import model_details_of
from tiltyard.web.pages.matchup_view import MatchupView
from tiltyard.web.pages.remark_form import COMPLAINTS, NEGATIVE_TAGS, POSITIVE_TAGS
from tiltyard.wire.vocabulary import SKIP_REASONS

#: Notes that a page can show, given by the query parameter ``note``.
_NOTES = frozenset({"stands", "reported", "noted", "late", "undone"})


class VotingFrame(TypedDict):
    """Template values of every voting page."""

    arena: Arena
    active: str
    undo_seconds: float
    #: The voter's final votes.
    final_votes: int
    reveal: str
    session_votes: int
    skip_reasons: tuple[str, ...]
    #: Votes whose names are not revealed yet; ``None`` if names are not revealed by session.
    unrevealed_votes: int | None
    #: Whether the voter must pass the gate before the next matchup; and what a link to the page asks to be shown.
    needs_proof: bool
    choose: str


class ShownNames(TypedDict):
    """The names of both models, with their places on the newest board, and what the operator says about them."""

    names: RevealedMatchup | None
    places: dict[str, ModelRank | None] | None
    about: dict[str, ModelDetails]


class MatchupValues(TypedDict):
    """Template values of a matchup."""

    praise: tuple[str, ...]
    reproach: tuple[str, ...]
    complaints: tuple[str, ...]
    scene: MatchupView | None
    state: str
    seen: ReviewedMatchup | None
    ballot: int
    outcome: str | None
    remark: Remark
    note: str | None
    expires_in: int | None


NO_NAMES: ShownNames = {"names": None, "places": None, "about": {}}


async def arena_of(request: Request, queue: VotingQueue) -> Arena:
    """The arena of a voting queue, as it is now."""
    return await boards_of(request).arena(queue.name)


async def voting_frame(request: Request, queue: VotingQueue, voter: Voter | None) -> VotingFrame:
    """Values of every voting page: the arena, its settings and the voter's counts."""
    arena = await arena_of(request, queue)
    unrevealed = None
    if voter is not None and queue.settings.reveal == "session":
        unrevealed = await queue.unrevealed_votes(voter)
    return {
        "arena": arena,
        "active": "vote",
        "undo_seconds": queue.settings.undo_seconds,
        "final_votes": 0 if voter is None else await queue.final_votes(voter),
        "reveal": queue.settings.reveal,
        "session_votes": queue.settings.session_votes,
        "skip_reasons": SKIP_REASONS,
        "unrevealed_votes": unrevealed,
        "needs_proof": await access_of(request).gate.needs_proof(request, queue, voter),
        "choose": request.query_params.get("choose", ""),
    }


async def shown_names(
    request: Request, queue: VotingQueue, voter: Voter, names: RevealedMatchup | None
) -> ShownNames:
    """The names of a matchup, if they are known, with their places on the newest board."""
    if names is None:
        return NO_NAMES
    found = await newest_ranks(boards_of(request), queue.arena, voter.source) or {}
    details = await model_details_of(request, await arena_of(request, queue))
    return {
        "names": names,
        "places": {"a": found.get(names.model_a), "b": found.get(names.model_b)},
        "about": {model: details.of(model) for model in (names.model_a, names.model_b)},
    }


def matchup_values(
    scene: MatchupView | None,
    seen: ReviewedMatchup | None = None,
    remark: Remark | None = None,
    note: str = "",
    ballot: int = 0,
) -> MatchupValues:
    """Values of a matchup: as it was served, or as it was reviewed later."""
    outcome = None if seen is None or seen.outcome is None else SPELLED[seen.outcome][0]
    return {
        "praise": POSITIVE_TAGS,
        "reproach": NEGATIVE_TAGS,
        "complaints": COMPLAINTS,
        "scene": scene,
        "state": "open" if seen is None else seen.state,
        "seen": seen,
        "ballot": ballot if seen is None else seen.ballot,
        "outcome": outcome,
        "remark": remark or Remark(),
        "note": note if note in _NOTES else None,
        "expires_in": None if scene is None else _until(scene.expires_at),
    }


def _until(moment: datetime) -> int:
    """Whole seconds until a moment."""
    return max(0, int((moment - datetime.now(moment.tzinfo)).total_seconds()))
