"""``python -m lab.voter_study``: whom the tests of single voters and of groups flag, among honest voters and attackers.

The sessions are simulated with their votes, skips and times, and given to the tests themselves. `just voter-study` runs
it at full size, in a few minutes.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.integrity.session_groups import (
    ShownMatchups,
    find_groups_in_step,
    find_groups_together,
    find_habits,
)
from tiltyard.core.integrity.voter_tests import SessionVotes, VoterTest, find_unlike_voters

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_PROMPTS = 100
#: Kinds of honest voters and their shares; the rest is careful.
KINDS = ("careful", "lazy", "prefers a side", "fast", "fan of one model")
_SHARES = (0.62, 0.2, 0.1, 0.05, 0.03)


class BotKind(NamedTuple):
    """Sessions that vote for the last model, each so often, with honest votes in between."""

    sessions: int
    target_votes: int
    cover_votes: int
    #: Seconds between votes, and by how much each of them differs: 0.3 is ± 30 %.
    seconds: float = 4.0
    jitter: float = 0.3
    #: How many matchups without the target it skips for each vote; and whether it looks too short.
    skips: int = 0
    hasty: bool = False


BOTS = {
    "100 × 3, 5 covering, identical timing": BotKind(100, 3, 5, jitter=0.002),
    "100 × 3, 5 covering, timing ± 30 %": BotKind(100, 3, 5),
    "100 × 3, 5 covering, times like people's": BotKind(100, 3, 5, 12.0, -0.6),
    "10 × 30, 60 covering, timing ± 30 %": BotKind(10, 30, 60),
    "10 × 30 without cover, timing ± 30 %": BotKind(10, 30, 0),
    "10 × 10 and 40 skips of others": BotKind(10, 10, 0, 12.0, -0.6, skips=4),
    "10 × 30, 60 covering, at a glance": BotKind(10, 30, 60, 1.0, 0.5, hasty=True),
}
#: Tests whose sessions are told and not held.
HARMLESS = {VoterTest.UNLIKELY, VoterTest.SIDE}


@dataclass(frozen=True, slots=True, eq=False)
class StudiedSessions:
    """Sessions with what they were shown; ``score`` is NaN where they did not vote."""

    shown: ShownMatchups
    score: Floats

    def votes(self) -> SessionVotes:
        """Votes that rate somebody and were not hasty."""
        rated = ~np.isnan(self.score) & ~self.shown.hasty
        shown = self.shown
        return SessionVotes(shown.session[rated], shown.a[rated], shown.b[rated], self.score[rated])

    def joined(self, other: StudiedSessions) -> StudiedSessions:
        """Both, the other's sessions numbered on."""
        first = int(self.shown.session.max()) + 1
        fields = ("session", "a", "b", "voted", "hasty", "served", "ended")
        columns = {
            name: np.concatenate([getattr(self.shown, name), getattr(other.shown, name)]) for name in fields
        }
        columns["session"][len(self.score) :] += first
        return StudiedSessions(ShownMatchups(**columns), np.concatenate([self.score, other.score]))


class StudiedCrowd:
    """An arena's models and honest voters: who they are, and what they do."""

    def __init__(self, random: np.random.Generator, models: int) -> None:
        self._random, self.models = random, models
        self.strength = np.sort(random.normal(0.0, 1.15, models))[::-1]
        self._effect = random.normal(0.0, 0.5, (models, _PROMPTS))
        #: Some models are skipped more often than others by everybody.
        self._skipped = random.normal(0.0, 0.3, models)

    def sessions(self, count: int, votes: int) -> tuple[Ints, StudiedSessions]:
        """The kind of each of so many sessions, and what they did; votes are spread unevenly around their mean."""
        random = self._random
        kind = random.choice(len(KINDS), size=count, p=_SHARES)
        session = np.repeat(np.arange(count), 1 + random.geometric(1.0 / votes, size=count))
        taste = random.normal(0.0, 0.3, (count, self.models))
        fans = np.flatnonzero(kind == 4)
        taste[fans, random.integers(self.models, size=len(fans))] += 0.5
        a, b = self._pairs(len(session))
        gap = self._gap(a, b, taste[session]) + np.where(kind[session] == 2, 0.5, 0.05)
        score = self._scores(np.where(kind[session] == 1, 0.0, gap))
        skip_logit = random.normal(-2.5, 1.0, count)[session] + self._skipped[a] + self._skipped[b]
        voted = random.random(len(session)) >= 1.0 / (1.0 + np.exp(-skip_logit))
        quick = (kind == 3) | ((kind == 1) & (random.random(count) < 0.5))
        centre = np.log(np.where(quick, 3.0, 12.0)) + random.normal(0.0, 0.3, count)
        spread = random.uniform(0.4, 0.9, count)
        seconds = np.exp(centre[session] + spread[session] * random.normal(size=len(session)))
        hasty = voted & (seconds < 1.4)
        return kind, StudiedSessions(
            self._shown(session, (a, b), seconds, voted, hasty), np.where(voted, score, np.nan)
        )

    def bots(self, kind: BotKind) -> StudiedSessions:
        """What the sessions of one program did."""
        random, target = self._random, self.models - 1
        each = kind.target_votes * (1 + kind.skips) + kind.cover_votes
        session = np.repeat(np.arange(kind.sessions), each)
        place = np.tile(np.arange(each), kind.sessions)
        is_target = place % (each // kind.target_votes) == 0
        is_target &= place // (each // kind.target_votes) < kind.target_votes
        others = self.models - 1
        b = random.integers(others, size=len(session))
        a = np.where(is_target, target, (b + random.integers(1, others, size=len(session))) % others)
        swap = random.random(len(session)) < 0.5
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        score = self._scores(self._gap(a, b, np.zeros((len(session), self.models))))
        score = np.where(is_target, np.where(swap, 0.0, 1.0), score)
        voted = is_target | (kind.skips == 0)
        noise = random.uniform(-1.0, 1.0, len(session)) * kind.jitter
        if kind.jitter < 0.0:
            noise = np.exp(-kind.jitter * random.normal(size=len(session))) - 1.0
        seconds = kind.seconds * (1.0 + noise)
        hasty = np.full(len(session), kind.hasty)
        return StudiedSessions(
            self._shown(session, (a, b), seconds, voted, hasty), np.where(voted, score, np.nan)
        )

    def _shown(
        self,
        session: Ints,
        pair: tuple[Ints, Ints],
        seconds: Floats,
        voted: npt.NDArray[np.bool_],
        hasty: npt.NDArray[np.bool_],
    ) -> ShownMatchups:
        starts = self._random.uniform(0.0, 7 * 86400.0, int(session.max()) + 1)
        total = np.cumsum(seconds)
        first = np.r_[True, np.diff(session) != 0]
        before = np.maximum.accumulate(np.where(first, total - seconds, 0.0))
        ended = starts[session] + total - before
        return ShownMatchups(session, *pair, voted, hasty, ended - seconds, ended)

    def _pairs(self, n: int) -> tuple[Ints, Ints]:
        a = self._random.integers(self.models, size=n)
        return a, (a + self._random.integers(1, self.models, size=n)) % self.models

    def _gap(self, a: Ints, b: Ints, taste: Floats) -> Floats:
        prompt, row = self._random.integers(_PROMPTS, size=len(a)), np.arange(len(a))

        def likes(models: Ints) -> Floats:
            return np.asarray(self.strength[models] + self._effect[models, prompt] + taste[row, models])

        return likes(a) - likes(b)

    def _scores(self, gap: Floats) -> Floats:
        chance = 1.0 / (1.0 + np.exp(-gap))
        tied = self._random.random(len(gap)) < 0.64 * chance * (1.0 - chance)
        return np.where(tied, 0.5, (self._random.random(len(gap)) < chance).astype(float))


def flagged_by(found: StudiedSessions, models: int) -> dict[int, set[VoterTest]]:
    """The tests that flag each session."""
    flagged: dict[int, set[VoterTest]] = {}
    signs = [*find_unlike_voters(found.votes(), models), *find_habits(found.shown, models)]
    for sign in signs:
        flagged.setdefault(sign.session, set()).add(sign.test)
    for group in [*find_groups_in_step(found.shown), *find_groups_together(found.votes(), models)]:
        for session in group.sessions:
            flagged.setdefault(session, set()).add(group.test)
    return flagged


def _honest_rows(sessions: int, votes: int, models: int, seeds: int) -> dict[str, tuple[int, int, int]]:
    """Sessions of each kind that are flagged, those of which any vote is held, and all, without any attack."""
    found: Counter[str] = Counter()
    held: Counter[str] = Counter()
    among: Counter[str] = Counter()
    for seed in range(seeds):
        crowd = StudiedCrowd(np.random.default_rng([seed, sessions, votes]), models)
        kind, done = crowd.sessions(sessions, votes)
        among.update(KINDS[one] for one in kind.tolist())
        flagged = flagged_by(done, models)
        found.update(KINDS[kind[session]] for session in flagged)
        held.update(KINDS[kind[session]] for session, by in flagged.items() if by - HARMLESS)
    return {name: (found[name], held[name], among[name]) for name in KINDS}


def _attacked_row(bot: BotKind, sessions: int, votes: int, models: int, seeds: int) -> tuple[str, str, str]:
    """The share of attackers that is flagged, by which tests, and the share of careful and fast voters that is."""
    caught, wrong, among = 0, 0, 0
    tests: Counter[str] = Counter()
    for seed in range(seeds):
        crowd = StudiedCrowd(np.random.default_rng([seed, sessions, votes, 1]), models)
        kind, done = crowd.sessions(sessions, votes)
        flagged = flagged_by(done.joined(crowd.bots(bot)), models)
        caught += sum(session >= sessions for session in flagged)
        tests.update(test for session, by in flagged.items() if session >= sessions for test in by)
        good = np.isin(kind, [0, 3])
        wrong += sum(session < sessions and bool(good[session]) for session in flagged)
        among += int(good.sum())
    total = bot.sessions * seeds
    by = ", ".join(f"{test} {count / total:.0%}" for test, count in tests.most_common())
    return f"{caught / total:.0%}", by or "–", f"{wrong / among:.2%}"


def study_page(
    sizes: Sequence[tuple[int, int]],
    models: int,
    seeds: int,
    timed: Sequence[int],
    command: str,
    *,
    honest: int,
) -> str:
    """The tables of honest voters, of so many arenas, and of attackers, as Markdown."""
    lines = [
        "# Tests of voters",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`. {models} models, {seeds} attacked arenas of each size.",
        "",
        f"Honest sessions without an attack: flagged by a test, with a vote that is held, of all (share held); {honest} arenas of each size:",
        "",
        f"| voter | {' | '.join(f'{sessions:,} × {votes}' for sessions, votes in sizes)} |",
        f"|---|{'--:|' * len(sizes)}",
    ]
    columns = [_honest_rows(*size, models, honest) for size in sizes]
    for column in columns:
        found, held, among = (sum(numbers) for numbers in zip(*column.values(), strict=True))
        column["all"] = (found, held, among)
    for name in (*KINDS, "all"):
        cells = [
            f"{found}, {held} of {among:,} ({held / among:.2%})"
            for found, held, among in (one[name] for one in columns)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for sessions, votes in sizes:
        lines += [
            "",
            f"Attackers among {sessions:,} honest sessions with {votes} votes on average:",
            "",
            "| attack | flagged | by | careful and fast voters flagged |",
            "|---|--:|---|--:|",
        ]
        for name, bot in BOTS.items():
            lines.append(f"| {name} | {' | '.join(_attacked_row(bot, sessions, votes, models, seeds))} |")
    lines += ["", "Processor time of all tests together:", "", "| sessions × votes | seconds |", "|---|--:|"]
    for sessions in timed:
        votes = 10
        _, done = StudiedCrowd(np.random.default_rng(0), models).sessions(sessions, votes)
        begun = time.process_time()
        flagged_by(done, models)
        lines.append(f"| {sessions:,} × {votes} | {time.process_time() - begun:.2f} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and write or print its page."""
    parser = argparse.ArgumentParser(prog="python -m lab.voter_study", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--honest", type=int, default=67, help="Arenas of each size without an attack.")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--sizes", default="300x10,1000x30,3000x10", help="Sessions and their mean votes.")
    parser.add_argument(
        "--timed", type=int, nargs="*", default=[1000, 3000, 10000], help="Sessions for which time is taken."
    )
    parser.add_argument("--out", type=Path, help="Write the page here instead of printing it.")
    options = parser.parse_args(arguments)
    sizes = [(int(one), int(other)) for one, other in (size.split("x") for size in options.sizes.split(","))]
    said = (
        f"python -m lab.voter_study --seeds {options.seeds} --honest {options.honest} "
        f"--models {options.models} --sizes {options.sizes}"
    )
    text = study_page(sizes, options.models, options.seeds, options.timed, said, honest=options.honest)
    write_page(text, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
