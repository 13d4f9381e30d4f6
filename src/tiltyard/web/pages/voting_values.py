"""What every voting page shares: template values, the forms for remarks and skills, and what makes a vote final."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypedDict
from uuid import UUID

from fastapi import Form, Request

from tiltyard.arena.boards.board_cache import ModelRank, newest_ranks
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import DeclaredSkills, RevealedMatchup, ReviewedMatchup, Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.core.board.document import ranks_above
from tiltyard.errors import BadOption, Closed, Expired, NotFound
from tiltyard.web.access.access import access_of, context_of
from tiltyard.web.access.cookies import preset_languages
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.board_data import model_details_of
from tiltyard.web.pages.matchup_view import MatchupView
from tiltyard.wire.records import MAX_COMMENT_CHARACTERS, REMARK_TAG_LIMIT, SKIP_REASONS, TAGS, Tag

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
    #: If the board has settled their order: the one above, and the one below.
    settled: tuple[str, str] | None
    about: dict[str, ModelDetails]


class MatchupValues(TypedDict):
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


NO_NAMES: ShownNames = {"names": None, "places": None, "settled": None, "about": {}}


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
        "needs_proof": access_of(request).gate.needs_proof(request, queue, voter),
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
    pair = (names.model_a, names.model_b)
    a, b = (found.get(model) for model in pair)
    settled = None
    if a and b and ranks_above(a.rank_high, b.rank_low):
        settled = pair
    elif a and b and ranks_above(b.rank_high, a.rank_low):
        settled = pair[::-1]
    return {
        "names": names,
        "places": {"a": a, "b": b},
        "settled": settled,
        "about": {model: details.of(model) for model in pair},
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
    expires_in = None
    if scene is not None:
        left = scene.expires_at - datetime.now(scene.expires_at.tzinfo)
        expires_in = max(0, int(left.total_seconds()))
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
        "expires_in": expires_in,
    }


#: Tags for the better response, and for two bad ones.
POSITIVE_TAGS: tuple[Tag, ...] = TAGS[:8]
NEGATIVE_TAGS: tuple[Tag, ...] = TAGS[8:]
#: Reasons for a complaint about a matchup.
COMPLAINTS = ("broken", "identifies-model", "harmful", "personal-data", "copyright", "other")


def read_remark(tags: Sequence[str] | None, comment: str) -> Remark:
    """Parse the tags and the comment of a form; raise `BadOption` if they are invalid."""
    chosen = tuple(dict.fromkeys(tags or ()))
    text = comment.replace("\r\n", "\n").strip()
    unknown = [tag for tag in chosen if tag not in TAGS]
    if unknown or len(chosen) > REMARK_TAG_LIMIT:
        raise BadOption(f"expected at most {REMARK_TAG_LIMIT} tags, each one of {', '.join(TAGS)}")
    if len(text) > MAX_COMMENT_CHARACTERS or "\0" in text:
        raise BadOption(
            f"the comment is longer than {MAX_COMMENT_CHARACTERS} characters, or contains a null character"
        )
    return Remark(chosen, text or None)


def read_matchup_id(request: Request, matchup: str) -> UUID | None:
    """The id in a field that a script or a link filled; ``None`` if it is none of this server's."""
    with suppress(NotFound):
        return context_of(request).matchup_ids.parse(matchup)
    return None


async def finish_vote(
    queue: VotingQueue, voter: Voter, one: UUID | None, tags: Sequence[str] | None, comment: str
) -> bool:
    """Save the remark that came with the request, if still possible; reveal the names, if they are revealed now.

    Returns whether the next page can show the result of the vote.
    """
    remark = read_remark(tags, comment)
    if one is None:
        return False
    if remark != Remark():
        with suppress(Closed, Expired, NotFound):
            await queue.remark(voter, one, remark.tags, remark.comment)
    if queue.settings.reveal != "vote":
        return True
    with suppress(Closed, Expired, NotFound):
        await queue.reveal(voter, one)
        return True
    return False


async def revealed_names(queue: VotingQueue, voter: Voter, one: UUID | None) -> RevealedMatchup | None:
    """The names of a vote of this voter if they are revealed; otherwise ``None``."""
    if one is None:
        return None
    with suppress(Closed, NotFound):
        seen = await queue.review(voter, one)
        if seen.state == "voted" and seen.revealed:
            return await queue.reveal(voter, one)
    return None


@dataclass(frozen=True, slots=True)
class Skill:
    """A language or a category, and whether the voter can judge it."""

    name: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class SkillChoice:
    """What a voter can choose from; empty where an arena has fewer than two values."""

    languages: tuple[Skill, ...]
    categories: tuple[Skill, ...]

    @property
    def offers_something(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.languages or self.categories)


class SkillForm:
    """The fields of the form, as they were sent."""

    def __init__(
        self,
        declared: Annotated[str, Form()] = "",
        languages: Annotated[list[str] | None, Form()] = None,
        categories: Annotated[list[str] | None, Form()] = None,
    ) -> None:
        #: Whether the form was sent: boxes that are not ticked are not.
        self.declared = bool(declared)
        self._languages = languages or []
        self._categories = categories or []

    def read(self, categories: Sequence[str], languages: Sequence[str]) -> DeclaredSkills:
        """What was declared of the values that the arena has. All boxes ticked, or none, is everything."""
        return DeclaredSkills(_some(self._languages, languages), _some(self._categories, categories))


def skill_choice(
    languages: Sequence[str], categories: Sequence[str], declared: DeclaredSkills | None, accepted: str | None
) -> SkillChoice:
    """The boxes of the form: as declared, or else preset from the ``accepted`` languages of the browser."""
    spoken = preset_languages(accepted, languages) if declared is None else declared.languages
    judged = () if declared is None else declared.categories
    return SkillChoice(_skills(languages, spoken), _skills(categories, judged))


def _skills(values: Sequence[str], chosen: Collection[str]) -> tuple[Skill, ...]:
    if len(values) < 2:
        return ()
    return tuple(Skill(value, not chosen or value in chosen) for value in values)


def _some(sent: Collection[str], known: Sequence[str]) -> tuple[str, ...]:
    found = tuple(value for value in known if value in sent)
    return () if len(found) == len(known) else found
