"""Arenas with an expert panel, and raters that vote in it."""

import asyncio

import numpy as np

from support.live_arenas import make_arena, voting_queue_of
from tiltyard.arena.operators.panels import PanelTerms, open_panel
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import NoMatchup
from tiltyard.postgres.connections import open_pool

RATERS = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Fay")


async def panelled_arena(url, terms=None, *, models=4, prompts=8, **options):
    """An arena and its new panel: by default six experts on eight prompts and four models."""
    arena = await make_arena(url, models, prompts, **options)
    async with open_pool(url, most=2) as pool:
        opened = await open_panel(
            pool, arena.name, terms or PanelTerms("panel", RATERS, seed=1), shard=0, actor="cli"
        )
    return arena, opened


def opinion(seed, noise):
    """A rater that mostly prefers models with a higher number."""
    rng = np.random.default_rng(seed)

    def vote(record):
        if rng.random() < noise:
            return Kind(int(rng.integers(4)))
        return Kind.WIN_A if record.a > record.b else Kind.WIN_B

    return vote


async def finish_list(queue, rater, vote, most=10_000):
    """Vote until the rater's list is finished; return how many votes that took."""
    voter = Voter(rater.session)
    for count in range(most):
        try:
            offered = await queue.next_matchup(voter)
        except NoMatchup:
            return count
        opened = queue.state.open[offered.matchup]
        await queue.vote(voter, offered.matchup, vote(opened))
    return most


async def finish_panel(url, arena, raters, noise=0.2):
    """Let every rater vote on its whole list."""
    async with voting_queue_of(url, arena) as queue:
        return [await finish_list(queue, rater, opinion(rater.rater, noise)) for rater in raters]


def make_panel(url, arena="arena", raters=("Ada", "Ben")):
    """A panel in an arena that exists already, for tests that are not asynchronous."""

    async def making():
        async with open_pool(url, most=2) as pool:
            return await open_panel(pool, arena, PanelTerms("panel", raters, seed=1), shard=0, actor="cli")

    return asyncio.run(making())
