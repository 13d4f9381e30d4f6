"""What makes a vote final: the remark on it is saved, and its names are revealed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import RevealedMatchup, Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import Closed, Expired, NotFound
from tiltyard.web.pages.remark_form import read_remark


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
