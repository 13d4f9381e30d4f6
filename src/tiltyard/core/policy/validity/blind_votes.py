"""How many blind votes one voter has: once names were told, a response is blind to its voter no more."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["blind_votes_of_one"]


def blind_votes_of_one(responses: Sequence[int], told_after: int | None) -> int | None:
    """Blind votes that one voter has at least, or ``None`` where no names are told: any number.

    ``responses`` are the enabled models that have answered each prompt, ``told_after`` the votes after which the
    names of all of them are told.

    A vote makes at most two responses known, and a prompt with m responses gives a blind matchup while two of them
    are unknown. So a prompt has at least ⌊m/2⌋ blind votes, whenever names are told, and exactly so many where they
    are told after each vote. Before the first telling everything is blind, whatever is repeated: a voter who does
    not ask for names earlier has as many different matchups as a session has votes, or as there are.

    =======================================  ============  =========
    prompts × models                         after 1 vote  after 20
    =======================================  ============  =========
    1 × 2                                    1             1
    3 × 5                                    6             20
    10 × 4                                   20            20
    50 × 9                                   200           200
    =======================================  ============  =========
    """
    if told_after is None:
        return None
    apart = sum(count // 2 for count in responses)
    different = sum(count * (count - 1) // 2 for count in responses)
    return max(apart, min(told_after, different))
