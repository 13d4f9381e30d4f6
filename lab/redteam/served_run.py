"""One attack on a served arena: history, attack, alarm, releases, exclusion, and what came of it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from lab.redteam.attack_run import AttackSize
from lab.redteam.attacks import Attacker, AttackPlan
from lab.redteam.demo_content import demo_content
from lab.redteam.demo_servers import copy_database, serve
from lab.redteam.honest_voters import VoterStream
from lab.redteam.log_board import out_of_range, rank_among
from lab.redteam.outcomes import AttackOutcome
from lab.redteam.served_arena import ServedArena
from tiltyard.core.policy.state.events import VoteMark


def run_served(filled: str, home: Path, plan: AttackPlan, size: AttackSize, seed: int) -> AttackOutcome:
    """Attack a copy of a filled arena, on a public address with default settings."""
    with (
        copy_database(filled, f"attack_{time.monotonic_ns()}") as url,
        serve(url, home, public=True) as address,
    ):
        return attack_served(ServedArena(address, url, demo_content()), plan, size, seed)


def attack_served(arena: ServedArena, plan: AttackPlan, size: AttackSize, seed: int) -> AttackOutcome:
    """Attack an arena on a server; then release, exclude and compare as its operator would."""
    models = arena.content.models
    first = arena.ranks(models)
    target = max(first, key=first.__getitem__)
    content = arena.content.with_copies(arena.content.models.index(target), plan.copies)
    if plan.copies:
        arena.enter(content)
    attacker = Attacker(
        plan, content, content.models.index(target), np.random.default_rng(seed), size.attack_votes
    )
    start = time.monotonic()
    arena.attack(
        attacker, size.accounts, VoterStream(content, np.random.default_rng([seed, 1])), size.meanwhile
    )
    seconds = time.monotonic() - start
    board = arena.settle()
    votes, rigged, won = arena.votes(), set(arena.rigged), set(arena.won)
    accounts = {vote.session for vote in votes if vote.matchup in rigged}
    honest = [vote for vote in votes if vote.matchup not in rigged]
    before = rank_among(arena.honest_board(), models)[target] - arena.ranks(models)[target]
    changes = arena.changes()
    told = changes[0] if changes else None
    offered = {session for change in changes for session in change.sessions}
    flagged = arena.flagged_sessions()
    arena.pass_a_day()
    arena.exclude_offered(offered | flagged)
    arena.settle()
    arena.pass_a_day()
    final, reference = arena.ranks(content.models), arena.honest_board()
    ends = [name for name in final if name in models]
    return AttackOutcome(
        target_votes=len(won),
        counted_votes=sum(vote.matchup in won and vote.blind and not vote.mark for vote in votes),
        gain_at_alarm=None if told is None else before,
        gain_before=before,
        gain_after=rank_among(reference, models)[target] - ends.index(target) - 1,
        alarm_after=None
        if told is None
        else sum(vote.matchup in won and vote.position < told.position for vote in votes),
        names_target=told is not None and told.model == target,
        official=board["status"] == "official",
        honest_held=sum(vote.mark == VoteMark.WAITING for vote in honest),
        honest_lost=sum(vote.mark in (VoteMark.EARLY, VoteMark.UNSEEN) for vote in honest),
        honest_excluded=sum(vote.session in offered | flagged for vote in honest),
        honest_sessions=len({vote.session for vote in honest}),
        honest_flagged=len(flagged - accounts),
        accounts_flagged=len(flagged & accounts),
        honest_offered=len(offered - accounts),
        accounts_offered=len(offered & accounts),
        out_of_range=out_of_range(final, reference, models),
        seconds=seconds,
    )
