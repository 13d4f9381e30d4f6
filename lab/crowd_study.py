"""``python -m lab.crowd_study``: when does an arena notice that its crowd changed, and how often falsely?

The votes are simulated and given to the test itself (`CrowdDrift`), without an arena around it. `just crowd-study` runs
it at full size, in about half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.integrity.crowd_drift import LIVE_DRIFT, CrowdDrift, WatchedVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.integrity.voter_tests import SessionVotes, find_unlike_voters

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_PROMPTS = 100
_SESSION_VOTES = 20
_LOOK_VOTES = 50
_HISTORY_VOTES = 3000
#: From here on, sessions are those of an attack.
_HONEST_SESSION_LIMIT = 10**9
_QUICK_GROUP, _NEW_GROUP, _HOUR_GROUP, _NETWORK_GROUP, _LANGUAGE_GROUP = (
    VOTE_GROUPS.index(name)
    for name in ("quick-votes", "new-voters", "hours-0-6", "shared-networks-1", "language-en")
)
#: Networks that half of all sessions share, the largest first, from how many sessions on one counts as shared; and how many
#: of the sessions speak each language.
_SHARED_NETWORK_COUNT = 40
_SHARING_SESSION_COUNT = 5
_LANGUAGE_SHARES = (0.5, 0.15, 0.1, 0.05, 0.05, 0.15)


@dataclass(frozen=True, slots=True)
class HonestCrowd:
    """What voters are like. Effects are deviations in logits; lazy voters vote at random, and half of them quickly."""

    taste: float = 0.3
    lazy: float = 0.2
    fans: float = 0.0
    #: The exponent of the distribution of votes over sessions; smaller is more uneven.
    activity: float = 1.5
    prompt_effect: float = 0.5
    #: How far those who speak a language differ from the others, together.
    language_taste: float = 0.2
    #: How far live answers become better or worse within a thousand votes; stored ones do not.
    walk: float = 0.0

    def drift(self, models: int) -> CrowdDrift:
        """The test as an arena of such votes has it."""
        return CrowdDrift(models, len(VOTE_GROUPS), LIVE_DRIFT if self.walk else None)

    def votes(self, random: np.random.Generator, models: int, n: int) -> tuple[Floats, WatchedVotes]:
        """Strengths, best first, and the votes of sessions that come and go."""
        strength = np.sort(random.normal(0.0, 1.15, models))[::-1]
        sessions = max(n // _SESSION_VOTES, 1)
        share = random.pareto(self.activity, sessions) + 0.5
        session = random.choice(sessions, size=n, p=share / share.sum())
        session = session[np.argsort(session * _SESSION_VOTES + random.normal(0.0, 0.02 * n, n))]
        taste = random.normal(0.0, self.taste, (sessions, models))
        fan = np.flatnonzero(random.random(sessions) < self.fans)
        taste[fan, random.integers(models, size=len(fan))] += 0.5
        language = random.choice(len(_LANGUAGE_SHARES), size=sessions, p=_LANGUAGE_SHARES)
        taste += random.normal(0.0, self.language_taste, (len(_LANGUAGE_SHARES), models))[language]
        lazy = random.random(sessions) < self.lazy
        quick = lazy & (random.random(sessions) < 0.5)
        prompt = random.integers(_PROMPTS, size=n)
        effect = random.normal(0.0, self.prompt_effect, (models, _PROMPTS))
        a = random.integers(models, size=n)
        b = (a + random.integers(1, models, size=n)) % models
        liked = taste[session]
        if self.walk:
            step = self.walk * (_LOOK_VOTES / 1000) ** 0.5
            steps = random.normal(0.0, step, (n // _LOOK_VOTES + 1, models))
            liked = liked + steps.cumsum(axis=0)[np.arange(n) // _LOOK_VOTES]
        likes = _liking(strength, effect, prompt, liked)
        gap = np.where(lazy[session], 0.0, likes(a) - likes(b) + 0.1)
        groups = _groups(session, quick)
        groups[np.arange(n), _LANGUAGE_GROUP + language[session]] = True
        _add_networks(random, groups, session)
        return strength, WatchedVotes(a, b, _scores(random, gap), session, groups, np.ones(n, dtype=bool))


def _liking(strength: Floats, effect: Floats, prompt: Ints, taste: Floats) -> Callable[[Ints], Floats]:
    """How much each vote's voter likes a model's response, in logits; ``taste`` is by vote and model."""
    votes = np.arange(len(prompt))
    return lambda models: strength[models] + effect[models, prompt] + taste[votes, models]


def _scores(random: np.random.Generator, gap: Floats) -> Floats:
    chance = 1.0 / (1.0 + np.exp(-gap))
    tied = random.random(len(gap)) < 0.64 * chance * (1.0 - chance)
    return np.where(tied, 0.5, (random.random(len(gap)) < chance).astype(float))


def _groups(session: Ints, quick: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The groups of each vote; a session belongs to one quarter of the day."""
    groups = np.zeros((len(session), len(VOTE_GROUPS)), dtype=bool)
    groups[:, 0] = True
    groups[:, _QUICK_GROUP] = quick[session]
    order = np.argsort(session, kind="stable")
    first = np.r_[True, np.diff(session[order]) != 0]
    begins = np.maximum.accumulate(np.where(first, np.arange(len(session)), 0))
    groups[order, _NEW_GROUP] = np.arange(len(session)) - begins < 10
    groups[np.arange(len(session)), _HOUR_GROUP + session % 4] = True
    return groups


def _add_networks(random: np.random.Generator, groups: npt.NDArray[np.bool_], session: Ints) -> None:
    """Half of the sessions come from networks that others use too; these are watched from their fifth session on."""
    numbers, first = np.unique(session, return_index=True)
    share = 1.0 / np.arange(1, _SHARED_NETWORK_COUNT + 1)
    network = random.choice(_SHARED_NETWORK_COUNT, size=session.max() + 1, p=share / share.sum())
    network[random.random(len(network)) < 0.5] = -1
    for number in range(_SHARED_NETWORK_COUNT):
        begun = np.sort(first[network[numbers] == number])
        if len(begun) >= _SHARING_SESSION_COUNT:
            votes = np.flatnonzero(network[session] == number)
            groups[votes[votes >= begun[_SHARING_SESSION_COUNT - 1]], _NETWORK_GROUP + number % 4] = True


#: Kinds of voters and their shares; the rest is careful.
_VOTER_SHARES = {"lazy": 0.2, "prefers a side": 0.1, "fast": 0.05, "fan of one model": 0.03}
_TESTED_VOTES = (12, 30, 100, 300)
_VOTERS = 300


def flagged_voters(votes: int, models: int, seeds: int) -> dict[str, tuple[int, int]]:
    """How many sessions of each kind are flagged, and how many there are, if each has so many votes."""
    found: dict[str, tuple[int, int]] = {}
    for seed in range(seeds):
        random = np.random.default_rng([seed, votes])
        names = ["careful", *_VOTER_SHARES]
        shares = [1.0 - sum(_VOTER_SHARES.values()), *_VOTER_SHARES.values()]
        kind = random.choice(len(names), size=_VOTERS, p=shares)
        signs = find_unlike_voters(_votes_by_kind(random, kind, votes, models), models)
        flagged = np.bincount(kind[[sign.session for sign in signs]], minlength=len(names))
        for name, few, all_of in zip(names, flagged, np.bincount(kind, minlength=len(names)), strict=True):
            before = found.get(name, (0, 0))
            found[name] = before[0] + int(few), before[1] + int(all_of)
    return found


def _votes_by_kind(random: np.random.Generator, kind: Ints, votes: int, models: int) -> SessionVotes:
    """Votes of sessions of these kinds: 1 lazy, 2 with a side, 3 fast (who vote as others do), 4 fans."""
    n = len(kind) * votes
    session = np.repeat(np.arange(len(kind)), votes)
    strength = random.normal(0.0, 1.15, models)
    taste = random.normal(0.0, 0.3, (len(kind), models))
    fans = np.flatnonzero(kind == 4)
    taste[fans, random.integers(models, size=len(fans))] += 0.5
    effect, prompt = random.normal(0.0, 0.5, (models, _PROMPTS)), random.integers(_PROMPTS, size=n)
    a = random.integers(models, size=n)
    b = (a + random.integers(1, models, size=n)) % models
    likes = _liking(strength, effect, prompt, taste[session])
    gap = likes(a) - likes(b) + np.where(kind[session] == 2, 0.5, 0.05)
    return SessionVotes(session, a, b, _scores(random, np.where(kind[session] == 1, 0.0, gap)))


class StudySize(NamedTuple):
    """Arenas of each crowd, arenas of each attack, votes of an arena without one, and models."""

    arenas: int
    attacked: int
    votes: int
    models: int


class Attack(NamedTuple):
    """Sessions that vote for the last model, each so often, with honest votes in between, among the honest crowd."""

    sessions: int
    target_votes: int
    cover_votes: int
    #: Their share of all votes meanwhile.
    share: float
    #: Whether they all come from one network.
    one_network: bool = False

    def __str__(self) -> str:
        crowd = "alone" if self.share == 1.0 else f"{self.share:.0%} of all votes"
        network = ", one network" if self.one_network else ""
        return f"{self.sessions} sessions × {self.target_votes}, {self.cover_votes} covering each, {crowd}{network}"


CROWDS = {
    "as the arena's world": HonestCrowd(),
    "heavy voters with strong tastes": HonestCrowd(taste=0.5, activity=1.1),
    "fans of one model, 3 % of sessions": HonestCrowd(fans=0.03),
}
#: In live arenas. A model that is exchanged without a word is not among them: it is told as a change.
LIVE_CROWDS = {
    "live answers that hardly change": HonestCrowd(walk=0.01),
    "live answers that change by 0.1 logit in 1,000 votes": HonestCrowd(walk=0.1),
    "the same by 0.2": HonestCrowd(walk=0.2),
}
ATTACKS = tuple(
    Attack(*kind, share, one_network)
    for one_network, shares in ((False, (1.0, 0.5, 0.1, 0.03)), (True, (0.1, 0.03)))
    for share in shares
    for kind in ((10, 100, 0), (100, 3, 5), (100, 10, 3))
)


def false_holds(crowd: HonestCrowd, models: int, votes: int, seed: int) -> tuple[int, int]:
    """How many sessions of a stable crowd are held when it is first said to change, and how many there are."""
    _, cast = crowd.votes(np.random.default_rng(seed), models, votes)
    drift = crowd.drift(models)
    held: set[int] = set()
    for end in range(_LOOK_VOTES, votes + 1, _LOOK_VOTES):
        drift.watch(cast[end - _LOOK_VOTES : end])
        for sign in drift.signs():
            held.update(drift.movers(sign, cast[end - sign.since_votes : end]).tolist())
        if held:
            break
    return len(held), len(np.unique(cast.session))


class NoticedAttack(NamedTuple):
    """An attack when it was noticed: votes for its target, its sessions that are held, and honest ones, of how many."""

    votes: int
    caught: int
    honest: int
    among: int


def attacked_arena(
    attack: Attack, honest_crowd: HonestCrowd, models: int, seed: int, *, counted: bool
) -> NoticedAttack | None:
    """What was known when the change was noticed, and its model named; ``None`` if it never was."""
    random = np.random.default_rng(seed)
    target_votes = attack.sessions * attack.target_votes
    honest = int(target_votes * (1 + attack.cover_votes) * (1.0 / attack.share - 1.0)) + 1000
    strength, crowd = honest_crowd.votes(random, models, _HISTORY_VOTES + honest)
    drift = honest_crowd.drift(models)
    drift.watch(crowd[:_HISTORY_VOTES])
    past, sent, cast = _HISTORY_VOTES, 0, [crowd[:_HISTORY_VOTES]]
    for votes, among in _attack_pieces(attack, strength, random, counted=counted):
        take = min(among, len(crowd) - past)
        drift.watch(crowd[past : past + take])
        drift.watch(votes)
        cast += [crowd[past : past + take], votes]
        past, sent = past + take, sent + int((votes.a == models - 1).sum())
        noticed = [sign for sign in drift.signs() if sign.model == models - 1]
        if noticed:
            span = WatchedVotes(
                *(
                    np.concatenate([getattr(one, field.name) for one in cast])
                    for field in fields(WatchedVotes)
                )
            )
            held = drift.movers(noticed[0], span[len(span) - noticed[0].since_votes :])
            caught = int((held >= _HONEST_SESSION_LIMIT).sum())
            return NoticedAttack(sent, caught, len(held) - caught, len(np.unique(crowd.session[:past])))
    return None


def _attack_pieces(
    attack: Attack, strength: Floats, random: np.random.Generator, *, counted: bool
) -> Iterator[tuple[WatchedVotes, int]]:
    """Votes of one or a few sessions, and how many honest votes come before them."""
    models, piece = len(strength), 1 + attack.cover_votes
    others = models - 1
    for vote in range(attack.target_votes):
        for session in range(attack.sessions):
            a, b = np.full(piece, models - 1), random.integers(others, size=piece)
            a[1:] = (b[1:] + random.integers(1, others, size=piece - 1)) % others
            score = _scores(random, strength[a] - strength[b])
            score[0] = 1.0
            groups = np.zeros((piece, len(VOTE_GROUPS)), dtype=bool)
            groups[:, [0, _HOUR_GROUP]] = True
            groups[:, _NEW_GROUP] = vote * piece < 10
            groups[:, _NETWORK_GROUP] = attack.one_network and (
                vote > 0 or session >= _SHARING_SESSION_COUNT - 1
            )
            number = np.full(piece, _HONEST_SESSION_LIMIT + session)
            among = random.poisson(piece * (1.0 / attack.share - 1.0))
            yield WatchedVotes(a, b, score, number, groups, np.full(piece, counted)), int(among)


def crowd_page(
    size: StudySize, command: str, run: Callable[..., Iterable[Any]] = map, *, live: bool = False
) -> str:
    """The tables of false alarms and of attacks, as Markdown; ``run`` maps a function over arenas."""
    arenas, attacked, votes, models = size
    crowds = LIVE_CROWDS if live else CROWDS
    attacked_crowd = (
        LIVE_CROWDS["live answers that change by 0.1 logit in 1,000 votes"] if live else HonestCrowd()
    )
    lines = [
        "# Changes of the crowd",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`. {models} models.",
        "",
        (
            f"Arenas of {votes:,} votes in which a stable crowd was ever said to have changed; at most 5 % may be. And the share of "
            "all sessions whose votes are then held."
        ),
        "",
        "| crowd | arenas | false alarms | held |",
        "|---|--:|--:|--:|",
    ]
    for name, crowd in crowds.items():
        found = list(run(partial(false_holds, crowd, models, votes), range(arenas)))
        alarms, held = sum(one > 0 for one, _ in found), sum(one for one, _ in found)
        lines.append(
            f"| {name} | {arenas} | {alarms} | {held / sum(sessions for _, sessions in found):.2%} |"
        )
    lines += [
        "",
        (
            f"Votes for the last model when its arena noticed, after {_HISTORY_VOTES:,} honest votes: median and largest of "
            f"{attacked} arenas, and in how many it never did before the attack ended. Votes that count change the ratings that "
            "later votes are compared with; votes of new voters that wait do not. *Held* are its sessions and honest ones then, "
            "on average."
        ),
        "",
        "| attack | its votes | noticed after | never | held | if they wait | never | held |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for attack in ATTACKS:
        cells = [str(attack), f"{attack.sessions * attack.target_votes}"]
        for counted in (True, False):
            noticed = list(
                run(partial(attacked_arena, attack, attacked_crowd, models, counted=counted), range(attacked))
            )
            seen = [one for one in noticed if one is not None]
            after = [one.votes for one in seen]
            cells += [f"{np.median(after):.0f} (≤ {max(after)})" if seen else "–", str(attacked - len(seen))]
            caught, honest = (
                np.mean([getattr(one, name) for one in seen] or [0]) for name in ("caught", "honest")
            )
            cells.append(f"{caught:.0f} + {honest:.0f}" if seen else "–")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Sessions that are flagged as unlike the others, by their number of votes; {_VOTERS * attacked:,} sessions in each column.",
        "",
        f"| voter | {' | '.join(f'{votes} votes' for votes in _TESTED_VOTES)} |",
        f"|---|{'--:|' * len(_TESTED_VOTES)}",
    ]
    flagged = [flagged_voters(votes, models, attacked) for votes in _TESTED_VOTES]
    for name in flagged[0]:
        cells = [f"{found[name][0]} of {found[name][1]}" for found in flagged]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and write or print its page."""
    parser = argparse.ArgumentParser(prog="python -m lab.crowd_study", description=__doc__)
    parser.add_argument("--arenas", type=int, default=100)
    parser.add_argument("--attacked", type=int, default=20)
    parser.add_argument("--votes", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--live", action="store_true", help="Live arenas, whose answers change.")
    parser.add_argument("--workers", type=int, default=1, help="Processes that share the arenas.")
    parser.add_argument("--out", type=Path, help="Write the page here instead of printing it.")
    options = parser.parse_args(arguments)
    size = StudySize(options.arenas, options.attacked, options.votes, options.models)
    said = " ".join(f"--{name} {value}" for name, value in size._asdict().items())
    command = f"python -m lab.crowd_study {said}{' --live' if options.live else ''}"
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            text = crowd_page(size, command, pool.map, live=options.live)
    else:
        text = crowd_page(size, command, live=options.live)
    write_page(text, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
