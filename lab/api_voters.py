"""Simulated voters that vote in an arena through its API, with known true strengths.

The responses are encoded texts that only this module can decode, so that the voters recognise the models
although matchups are blind.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tiltyard.client import AsyncClient
from tiltyard.core.battles import Kind
from tiltyard.errors import BadOption, Expired
from tiltyard.simulation.worlds import World

_WINNERS = {Kind.WIN_A: "model_a", Kind.WIN_B: "model_b", Kind.TIE: "tie", Kind.BOTH_BAD: "both_bad"}


@dataclass(frozen=True, slots=True)
class ApiVoting:
    """How many votes are cast, by how many voters at once, on how many prompts."""

    votes: int
    seed: int
    voters: int = 16
    prompts: int = 100


@dataclass(frozen=True, slots=True)
class CastVotes:
    """The votes in order of acknowledgement, as left, right, prompt, kind."""

    votes: tuple[tuple[int, int, int, int], ...]
    #: Positions in the arena's log, in the same order.
    positions: tuple[int, ...]


def answers_of(world: World, prompts: int) -> Iterator[dict[str, object]]:
    """The rows of an answers file for this world."""
    for model, name in enumerate(world.models):
        for prompt in range(prompts):
            yield {
                "prompt_id": f"prompt-{prompt}",
                "prompt": f"Question {prompt} of a simulated world",
                "model": name,
                "response": _mark(model, prompt),
            }


async def cast_votes(
    base_url: str,
    arena: str,
    world: World,
    voting: ApiVoting,
    on_vote: Callable[[int], None] = lambda _done: None,
) -> CastVotes:
    """Cast votes through the API, by voters that each have a session of their own."""
    if voting.votes < 1 or voting.voters < 1:
        raise BadOption(f"votes is {voting.votes} and voters {voting.voters}; expected 1 or more")
    marks = {
        _mark(model, prompt): (model, prompt)
        for model in range(len(world.models))
        for prompt in range(voting.prompts)
    }
    done: list[tuple[tuple[int, int, int, int], int]] = []
    left = voting.votes

    async def voter(number: int) -> None:
        nonlocal left
        rng = np.random.default_rng([voting.seed, number])
        async with AsyncClient(base_url) as client:
            while left > 0:
                left -= 1
                try:
                    done.append(await _vote(client, arena, world, marks, rng, len(done)))
                    on_vote(len(done))
                except Expired:
                    left += 1

    await asyncio.gather(*(voter(number) for number in range(voting.voters)))
    return CastVotes(tuple(vote for vote, _ in done), tuple(position for _, position in done))


async def _vote(
    client: AsyncClient,
    arena: str,
    world: World,
    marks: dict[str, tuple[int, int]],
    rng: np.random.Generator,
    at: int,
) -> tuple[tuple[int, int, int, int], int]:
    matchup = await client.next_matchup(arena)
    (a, prompt), (b, _) = [
        marks[(await client.response(matchup.matchup, side)).decode()] for side in ("a", "b")
    ]
    kind = world.vote(a, b, prompt, rng, at)
    ended = await client.vote(matchup.matchup, _WINNERS[kind])
    return (a, b, prompt, int(kind)), ended.position


def _mark(model: int, prompt: int) -> str:
    """A text that only `lab` can decode."""
    return hashlib.sha256(f"{model} {prompt}".encode()).hexdigest()
