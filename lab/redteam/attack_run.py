"""Attacks on arenas in memory: honest history, attack, alarm, releases, exclusion, and what came of it."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from lab.redteam.attacks import Attacker, AttackPlan, SeenMatchup
from lab.redteam.defences import DEFENCES, Defence, attack_seconds
from lab.redteam.demo_content import ArenaContent, demo_content
from lab.redteam.honest_voters import HonestVoter, VoterStream
from lab.redteam.log_board import out_of_range, rank_among
from lab.redteam.memory_arena import MemoryArena, ServedPair
from lab.redteam.outcomes import AttackOutcome
from tiltyard.arena.log.event_log import LogKind
from tiltyard.core.policy.state.events import NO_MARK, least_look_seconds

#: Sessions of attackers are numbered from here.
FIRST_ACCOUNT_CODE = 1_000_000
_HASTY_SECONDS = 0.05
#: How much longer than it must an attacker looks.
_EXTRA_SECONDS = 0.2
#: Matchups that an account skips before it gives up a vote.
_SKIPS_LIMIT = 60
_DAY_SECONDS = 24 * 3600
#: History lasts so long, and somebody votes so often during an attack.
_HISTORY_SECONDS, _PAUSE_SECONDS = 20 * _DAY_SECONDS, 20.0


@dataclass(frozen=True, slots=True)
class AttackSize:
    """How large an arena is and how much of it is attacked."""

    #: Votes of honest people: before the attack, and meanwhile.
    history: int = 2000
    meanwhile: int = 1000
    #: The attackers' share of all votes in the end.
    share: float = 0.1
    accounts: int = 10

    @property
    def attack_votes(self) -> int:
        return round((self.history + self.meanwhile) * self.share / (1.0 - self.share))


@lru_cache(maxsize=4)
def _history(votes: int, seed: int) -> tuple[MemoryArena, VoterStream]:
    """An arena with honest votes, all of which count, and the people who go on to vote in it."""
    content = demo_content()
    arena = MemoryArena(content, Defence("history"), seed)
    people = VoterStream(content, np.random.default_rng([seed, 3]))
    for voter, _ in zip(people, range(votes), strict=False):
        arena.now += _HISTORY_SECONDS / votes
        _vote_once(arena, people, voter)
    arena.follow_history()
    arena.keep_fold()
    return arena, people


def _vote_once(arena: MemoryArena, people: VoterStream, voter: HonestVoter) -> None:
    """One vote of a person, perhaps after some skips."""
    while True:
        pair = arena.serve(voter.session)
        kind, seconds = voter.decide(arena.content, (pair.a, pair.b, pair.prompt), people.random)
        if kind is not None:
            start = arena.now
            arena.vote(pair, kind, seconds)
            arena.now = start
            return
        arena.skip(pair)


def seen_matchup(content: ArenaContent, matchup: tuple[int, int, int]) -> SeenMatchup:
    """What a voter sees of two models on a prompt."""
    a, b, prompt = matchup
    return SeenMatchup(
        content.prompts[prompt], content.responses[a, prompt], content.responses[b, prompt], matchup
    )


class _AttackedArena:
    """An attack in one arena, under the defence that it began with."""

    def __init__(self, plan: AttackPlan, defence: Defence, size: AttackSize, seed: int) -> None:
        history, people = _history(size.history, seed)
        self.arena = history.copy(defence, seed)
        self.people = deepcopy(people)
        self.plan, self.size = plan, size
        self.models = history.content.models
        ranked = [row.model for row in history.board().rows if row.rank is not None]
        self.target = self.models.index(ranked[-1])
        content = history.content.with_copies(self.target, plan.copies)
        if plan.copies:
            self.arena.enter(content)
            self.people.content = content
        random = np.random.default_rng([seed, 4])
        self.attacker = Attacker(plan, content, self.target, random, size.attack_votes)
        self.accounts = [FIRST_ACCOUNT_CODE + n for n in range(min(size.accounts, size.attack_votes))]
        self.skips = self.look = 0.0
        #: The votes that the target won, by serial, and how many of them there were at the alarm.
        self.won: list[ServedPair] = []
        self.alarmed_after: int | None = None
        self._order = random.permutation(size.attack_votes + size.meanwhile) < size.attack_votes

    def run(self) -> None:
        """Attack among honest votes; each day what is due is admitted."""
        honest, turn = iter(self.people), 0
        days = np.array_split(self._order, self.plan.days)
        for number, day in enumerate(days):
            for attacks in day.tolist():
                self.arena.now += _PAUSE_SECONDS
                if attacks:
                    self._attack(self.accounts[turn % len(self.accounts)])
                    turn += 1
                else:
                    _vote_once(self.arena, self.people, next(honest))
                self.arena.watch()
                self._notice()
            if number < len(days) - 1:
                self.arena.now += _DAY_SECONDS
                self.arena.admit_due()
        self.arena.watch(due=True)
        self._notice()

    def _notice(self) -> None:
        if self.alarmed_after is None and self.arena.alarms:
            self.alarmed_after = len(self.won)

    def _attack(self, account: int) -> None:
        """One vote of an account."""
        for _ in range(_SKIPS_LIMIT):
            pair = self.arena.serve(account)
            matchup = (pair.a, pair.b, pair.prompt)
            kind = self.attacker.decide(seen_matchup(self.arena.content, matchup))
            if kind is not None:
                break
            self.skips += 1
            self.arena.skip(pair)
        else:
            return
        least = least_look_seconds(self.arena.characters(pair)) + _EXTRA_SECONDS
        seconds = _HASTY_SECONDS if self.plan.hasty else least
        self.look += seconds
        self.arena.vote(pair, kind, seconds)
        if kind < 2 and matchup[kind] == self.target:
            self.won.append(pair)
        if self.attacker.is_learning:
            for told in self.arena.finish(account):
                names = {
                    self.arena.content.responses[model, told.prompt]: model for model in (told.a, told.b)
                }
                self.attacker.learn(names)

    @property
    def rigged(self) -> set[int]:
        """Serials of all votes of the attack."""
        return {pair.serial for account in self.accounts for pair in self.arena.voted.get(account, ())}

    def gain(self, defence: Defence, position: int | None = None, dropped: Collection[int] = ()) -> int:
        """Ranks of the target above those on the board of the same moment without the attack's votes."""
        name = self.models[self.target]
        clean = rank_among(self.arena.board(self.rigged, position, defence), self.models)[name]
        return clean - rank_among(self.arena.board(dropped, position, defence), self.models)[name]


def run_attack(plan: AttackPlan, size: AttackSize, seed: int) -> dict[str, AttackOutcome]:
    """The outcome of an attack under each defence, by name.

    Where nothing waits, defences differ only in the marks of votes, so that one log serves for all of these.
    """
    at_once = Defence("watched", watch=True)
    outcomes: dict[str, AttackOutcome] = {}
    for begun in (at_once, *(defence for defence in DEFENCES if defence.ageing)):
        for defence in DEFENCES:
            if defence is begun or (begun is at_once and not defence.ageing):
                run = _attacked(plan, begun, size, seed)
                outcomes[defence.name] = _outcome(deepcopy(run) if begun is at_once else run, defence)
    return {defence.name: outcomes[defence.name] for defence in DEFENCES}


@lru_cache(maxsize=1)
def _attacked(plan: AttackPlan, defence: Defence, size: AttackSize, seed: int) -> _AttackedArena:
    run = _AttackedArena(plan, defence, size, seed)
    run.run()
    return run


def _outcome(run: _AttackedArena, defence: Defence) -> AttackOutcome:
    """What an attack comes to under a defence, if the operator excludes what the pages offer."""
    arena = run.arena
    if not defence.watch:
        arena.alarms.clear()
        run.alarmed_after = None
    arena.defence = replace(defence, ageing=arena.defence.ageing)
    alarm = arena.alarms[0] if arena.alarms else None
    at_alarm = None if alarm is None else run.gain(defence, alarm.position)
    before = run.gain(defence)
    official = arena.board(defence=defence).status == "official" and not arena.alarms
    counted = _counted(run, defence)
    held = sum(session < FIRST_ACCOUNT_CODE for session in arena.waiting_sessions())
    offered = arena.named_sessions()
    flagged = arena.flagged_sessions(defence)
    dropped = (offered | flagged) if defence.watch else set()
    honest = {session for session in dropped if session < FIRST_ACCOUNT_CODE}
    lost = [pair for session, pairs in arena.voted.items() if session < FIRST_ACCOUNT_CODE for pair in pairs]
    arena.exclude(dropped)
    arena.now += 2 * _DAY_SECONDS
    arena.admit_due(explained=True)
    return AttackOutcome(
        target_votes=len(run.won),
        counted_votes=counted,
        gain_at_alarm=at_alarm,
        gain_before=before,
        gain_after=run.gain(defence, dropped=arena.excluded),
        alarm_after=run.alarmed_after,
        names_target=alarm is not None and alarm.model == run.target,
        official=official,
        honest_held=held,
        honest_lost=sum(pair.serial in arena.early for pair in lost[run.size.history :])
        if defence.shown
        else 0,
        honest_excluded=sum(len(arena.voted.get(session, ())) for session in honest),
        honest_sessions=len(arena.voted) - len(run.accounts),
        honest_flagged=sum(session < FIRST_ACCOUNT_CODE for session in flagged),
        accounts_flagged=sum(session >= FIRST_ACCOUNT_CODE for session in flagged),
        honest_offered=sum(session < FIRST_ACCOUNT_CODE for session in offered),
        accounts_offered=sum(session >= FIRST_ACCOUNT_CODE for session in offered),
        out_of_range=out_of_range(
            rank_among(arena.board(arena.excluded, defence=defence), arena.content.models),
            arena.board(run.rigged, defence=defence),
            run.models,
        ),
        seconds=_seconds(run, defence),
    )


def _counted(run: _AttackedArena, defence: Defence) -> int:
    """How many votes for the target count before anything is released."""
    columns = run.arena.columns_under(defence)
    serials = [pair.serial for pair in run.won]
    rows = (columns.kind == LogKind.VOTE) & np.isin(columns.serial, serials)
    admitted = (columns.kind == LogKind.ADMIT) & np.isin(columns.serial, serials)
    return int(np.count_nonzero(rows & (columns.blind != 0) & (columns.mark == NO_MARK)) + admitted.sum())


def _seconds(run: _AttackedArena, defence: Defence) -> float:
    look = run.look / max(run.attacker.cast, 1)
    return attack_seconds(defence, len(run.accounts), run.attacker.cast, int(run.skips), look)
