"""``python -m lab.linkage``: which voters can be found again in another release of the same arena?

Arenas are simulated, and released twice by the code that releases them, with votes in between. An attacker has both
releases: first it joins them by every column, then it compares what voters voted. `just linkage` runs it at full size,
in about two minutes.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.arena.log.battle_release import BattleRelease, ReleaseChoice, make_release, shuffle_rows
from tiltyard.arena.log.votes import ArenaNames, Ballots
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry

Ints = npt.NDArray[np.int64]

#: Votes of a voter in the first release. Each class casts as many votes as each other.
CLASS_VOTES = (1, 3, 10, 30, 100, 300)
_KEYS = SecretKeys(["a key of the laboratory, which is no secret"])
_OUTCOMES = (Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD)
#: Voters who vote at the same time.
_CONCURRENT_VOTERS = 10
_RETURNING_SHARE = 0.5
_GROWTH_SHARE = 0.25
#: Voters of a class whose sitting is looked for in the ordered table.
_SAMPLED_VOTERS = 100
#: In larger arenas every battle occurs so often that a join by it takes hours.
_JOINED_VOTES_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class LinkageWorld:
    """An arena: how many votes its first release has, on how many models and prompts."""

    votes: int
    models: int = 10
    prompts: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SeenTable:
    """What an attacker sees of a table with voters, as codes, and the truth about its voters."""

    #: Model, model and outcome of each row.
    battle: Ints
    prompt: Ints
    voter: Ints
    #: The session of each voter's number.
    session: Ints

    def __len__(self) -> int:
        return len(self.battle)


@dataclass(frozen=True, slots=True, eq=False)
class TwoReleases:
    """Two releases of a growing arena, and the ballots behind them."""

    first: SeenTable
    second: SeenTable
    ballots: tuple[Ballots, Ballots]
    #: Votes in the first release by session.
    cast: Mapping[int, int]


def release_twice(world: LinkageWorld) -> TwoReleases:
    """Release an arena, let people vote, and release it again."""
    rng = np.random.default_rng(world.seed)
    sittings = [
        (number, votes)
        for number, votes in enumerate(
            votes for votes in CLASS_VOTES for _ in range(world.votes // len(CLASS_VOTES) // votes)
        )
    ]
    before = _session_order(rng, sittings)
    known = [number for number, _ in sittings]
    back = rng.permutation(known)[: round(_RETURNING_SHARE * len(known))].tolist()
    size = dict(sittings)
    later = [(number, max(1, size[number] // 4)) for number in back]
    new = rng.permutation(len(sittings))[: round(_GROWTH_SHARE * len(sittings))]
    later += [(len(sittings) + k, sittings[one][1]) for k, one in enumerate(new.tolist())]
    session = np.concatenate([before, _session_order(rng, later)])
    ballots = _vote(rng, world, session)
    first = ballots[np.arange(len(session)) < len(before)]
    return TwoReleases(
        _seen(_released(first, world)), _seen(_released(ballots, world)), (first, ballots), size
    )


def _session_order(rng: np.random.Generator, sittings: Sequence[tuple[int, int]]) -> Ints:
    """Whose vote is the next: a few people vote at the same time, each until the end of a sitting."""
    waiting = [sittings[k] for k in rng.permutation(len(sittings)).tolist()]
    active: list[list[int]] = []
    found: list[int] = []
    while waiting or active:
        while waiting and len(active) < _CONCURRENT_VOTERS:
            active.append(list(waiting.pop()))
        chosen = int(rng.integers(len(active)))
        found.append(active[chosen][0])
        active[chosen][1] -= 1
        if not active[chosen][1]:
            active.pop(chosen)
    return np.array(found, dtype=np.int64)


def _vote(rng: np.random.Generator, world: LinkageWorld, session: Ints) -> Ballots:
    """Votes on pairs and prompts at random; better models win more often."""
    n = len(session)
    a = rng.integers(world.models, size=n)
    b = (a + rng.integers(1, world.models, size=n)) % world.models
    decided = 1.0 / (1.0 + np.exp((b - a) * 2.0 / world.models)) > rng.random(n)
    kind = np.where(decided, _OUTCOMES[0], _OUTCOMES[1])
    drawn = rng.random(n)
    kind = np.where(drawn < 0.15, _OUTCOMES[2], np.where(drawn < 0.22, _OUTCOMES[3], kind))
    zeros = np.zeros(n, dtype=np.int64)
    prompt = rng.integers(world.prompts, size=n)
    return Ballots(np.arange(1, n + 1), session, a, b, prompt, kind.astype(np.int64), zeros, zeros)


def _released(ballots: Ballots, world: LinkageWorld) -> BattleRelease:
    names = ArenaNames(
        tuple(f"model-{k}" for k in range(world.models)),
        tuple((f"prompt-{k}", None, None) for k in range(world.prompts)),
    )
    return make_release(ballots, names, ReleaseChoice(1, "arena", 0, len(ballots)), _KEYS)


def _seen(release: BattleRelease) -> SeenTable:
    """The rows of the table with voters, coded. Of the ballots only the truth is taken."""
    rows = list(release.table("voters"))
    model = {name: k for k, name in enumerate(release.names.models)}
    codes = [(model[row.model_a] * len(model) + model[row.model_b]) * len(Kind) + row.kind for row in rows]
    voter, prompt = (
        np.array([int(str(text).rpartition(letter)[2]) for text in texts], dtype=np.int64)
        for letter, texts in (("v", [row.voter for row in rows]), ("p", [row.question_id for row in rows]))
    )
    session = np.zeros(voter.max() + 1, dtype=np.int64)
    session[voter] = release.ballots.session[shuffle_rows(release.seed, len(rows))]
    return SeenTable(np.array(codes, dtype=np.int64), prompt, voter, session)


#: What two tables are joined by: all that they have in common.
JOINS = ("number of the voter", "number of the prompt", "row", "row from the end", "battle", "all columns")


def joined_voters(one: SeenTable, other: SeenTable, join: str) -> float:
    """The share of the first table's voters that a join by a column maps to themselves, by the majority of their rows."""
    keys = [_join_keys(table, join) for table in (one, other)]
    found: dict[int, list[int]] = defaultdict(list)
    for key, voter in zip(keys[1].tolist(), other.voter.tolist(), strict=True):
        found[key].append(voter)
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for key, voter in zip(keys[0].tolist(), one.voter.tolist(), strict=True):
        votes[voter].update(found.get(key, ()))
    hits = 0.0
    for voter, counted in votes.items():
        most = max(counted.values(), default=0)
        best = [mapped for mapped, count in counted.items() if count == most]
        hits += sum(other.session[best] == one.session[voter]) / max(len(best), 1)
    return hits / len(votes)


def _join_keys(table: SeenTable, join: str) -> Ints:
    n = len(table)
    if join == "all columns":
        columns = np.column_stack([table.battle, table.prompt, table.voter])
        return np.array([hash(tuple(row)) for row in columns.tolist()], dtype=np.int64)
    by_name = {
        "number of the voter": table.voter,
        "number of the prompt": table.prompt,
        "row": np.arange(n),
        "row from the end": np.arange(n)[::-1],
        "battle": table.battle,
    }
    return by_name[join]


def shuffled_again(table: SeenTable, seed: int) -> SeenTable:
    """The same table with its rows, and the numbers of voters and prompts, drawn by lot: what links it, links by chance."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    voters, prompts = (rng.permutation(column.max() + 1) for column in (table.voter, table.prompt))
    session = np.empty_like(table.session, shape=len(voters))
    session[voters] = table.session
    return SeenTable(table.battle[order], prompts[table.prompt[order]], voters[table.voter[order]], session)


def match_prompts(one: SeenTable, other: SeenTable) -> Ints:
    """For each prompt of the first table the prompt of the second that holds most of its battles."""
    battles = int(max(one.battle.max(), other.battle.max())) + 1
    counts = []
    for table in (one, other):
        found = np.zeros((int(table.prompt.max()) + 1, battles), dtype=np.float32)
        np.add.at(found, (table.prompt, table.battle), 1.0)
        counts.append(found)
    held = np.array([np.minimum(row, counts[1]).sum(axis=1) for row in counts[0]])
    # Of prompts that hold all, the one with the fewest other battles.
    return np.asarray(np.argmax(held - 1e-4 * counts[1].sum(axis=1), axis=1), dtype=np.int64)


def _row_keys(one: SeenTable, other: SeenTable, *, prompts: bool) -> tuple[Ints, Ints]:
    """Battle, and prompt as far as prompts can be matched, of each row of both tables."""
    if not prompts:
        return one.battle, other.battle
    matched = match_prompts(one, other)
    width = int(other.prompt.max()) + 1
    return one.battle * width + matched[one.prompt], other.battle * width + other.prompt


def matched_voters(two: TwoReleases, *, prompts: bool) -> dict[int, tuple[float, int]]:
    """By class: how many voters are found again by what they voted, and of how many.

    A voter of the second release may be the same if all votes are among theirs; of these, whoever has the fewest others is
    taken, and where several have as few, one of them by lot.
    """
    keys = _row_keys(two.first, two.second, prompts=prompts)
    mine, theirs = (_patterns(table, key) for table, key in zip((two.first, two.second), keys, strict=True))
    having: dict[int, set[int]] = defaultdict(set)
    for voter, pattern in theirs.items():
        for key in pattern:
            having[key].add(voter)
    size = {voter: pattern.total() for voter, pattern in theirs.items()}
    found = {votes: [0.0, 0] for votes in CLASS_VOTES}
    for voter, pattern in mine.items():
        session = int(two.first.session[voter])
        rarest = sorted(pattern, key=lambda key: len(having[key]))
        able = set.intersection(*(having[key] for key in rarest[:50]))
        twice = [(key, count) for key, count in pattern.items() if count > 1]
        rest = rarest[50:]
        able = {
            one
            for one in able
            if all(key in theirs[one] for key in rest)
            and all(theirs[one][key] >= count for key, count in twice)
        }
        least = min((size[one] for one in able), default=0)
        best = [one for one in able if size[one] == least]
        counted = found[two.cast[session]]
        counted[0] += sum(int(two.second.session[one]) == session for one in best) / max(len(best), 1)
        counted[1] += 1
    return {votes: (hits, int(number)) for votes, (hits, number) in found.items()}


def _patterns(table: SeenTable, keys: Ints) -> dict[int, Counter[int]]:
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for voter, key in zip(table.voter.tolist(), keys.tolist(), strict=True):
        found[voter][key] += 1
    return found


def chance_of_class(two: TwoReleases) -> dict[int, float]:
    """What guessing among the voters with at least as many votes would find, of each class."""
    sizes = np.bincount(two.second.voter)
    return {votes: 1.0 / int((sizes >= votes).sum()) for votes in CLASS_VOTES}


def find_sittings(two: TwoReleases) -> dict[int, tuple[int, int]]:
    """By class: how many voters' sittings are found in the ordered table of the same release, and of how many looked for.

    The attacker takes the stretch of the log that holds most of a voter's battles. It is found if its middle is within
    the length of a sitting of the true one.
    """
    ballots = two.ballots[0]
    models = int(max(ballots.a.max(), ballots.b.max())) + 1
    log = (ballots.a * models + ballots.b) * len(Kind) + ballots.kind
    places: dict[int, Ints] = {int(key): np.flatnonzero(log == key) for key in np.unique(log)}
    found = dict.fromkeys(CLASS_VOTES, (0, 0))
    for session, votes in two.cast.items():
        hits, looked = found[votes]
        if looked == _SAMPLED_VOTERS:
            continue
        own = np.flatnonzero(ballots.session == session)
        keys = np.unique(log[own])
        where = np.sort(np.concatenate([places[int(key)] for key in keys]))
        span = votes * _CONCURRENT_VOTERS
        inside = np.searchsorted(where, where + span) - np.arange(len(where))
        middle = where[int(np.argmax(inside))] + span / 2
        found[votes] = (hits + int(abs(middle - (own[0] + own[-1]) / 2) <= span), looked + 1)
    return found


def rejoined_voters(two: TwoReleases, most: int) -> tuple[int, int]:
    """If a release gave a voter a new number after ``most`` votes: how many heavy voters two releases put together again.

    Rows that occur once in both releases are the same vote; each joins a number of one release to a number of the other.
    """
    rng = np.random.default_rng(1)
    first, second = (_split(table, most, rng) for table in (two.first, two.second))
    keys = _row_keys(two.first, two.second, prompts=True)
    once = [
        {key: row for row, key in enumerate(column.tolist()) if counts[key] == 1}
        for column, counts in ((column, Counter(column.tolist())) for column in keys)
    ]
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = parent[above]
            node = parent[node]
        return node

    for key in once[0].keys() & once[1].keys():
        one, other = (0, int(first[once[0][key]])), (1, int(second[once[1][key]]))
        parent[root(one)] = root(other)
    owners: dict[tuple[int, int], set[int]] = defaultdict(set)
    pieces: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
    sessions = two.first.session[two.first.voter]
    for number, session in set(zip(first.tolist(), sessions.tolist(), strict=True)):
        owners[root((0, number))].add(session)
        pieces[session][root((0, number))] += 1
    heavy = [session for session, roots in pieces.items() if roots.total() > 1]
    whole = sum(
        len(roots) == 1 and len(owners[next(iter(roots))]) == 1
        for roots in (pieces[session] for session in heavy)
    )
    return whole, len(heavy)


def _split(table: SeenTable, most: int, rng: np.random.Generator) -> Ints:
    """Numbers of voters, of which each has at most so many votes."""
    order = np.lexsort((rng.random(len(table)), table.voter))
    voter = table.voter[order]
    start = np.maximum.accumulate(np.where(np.r_[True, voter[1:] != voter[:-1]], np.arange(len(voter)), 0))
    piece = (np.arange(len(voter)) - start) // most
    number = np.empty(len(voter), dtype=np.int64)
    number[order] = voter * (len(voter) + 1) + piece
    return number


def split_width_ratios(world: LinkageWorld, limits: Sequence[int], worlds: int) -> dict[int, float]:
    """How wide intervals are if a voter has a new number after so many votes, as a share of what they are with voters.

    Voters have tastes: what a model is worth differs between them by a standard deviation of half a logit.
    """
    ratios: dict[int, list[float]] = {most: [] for most in limits}
    for number in range(worlds):
        rng = np.random.default_rng(number)
        two = release_twice(replace(world, seed=number))
        ballots = two.ballots[0]
        taste = rng.normal(0.0, 0.5, (int(ballots.session.max()) + 1, world.models))
        gap = 2.0 * (ballots.b - ballots.a) / world.models
        gap = gap + taste[ballots.session, ballots.b] - taste[ballots.session, ballots.a]
        won = 1.0 / (1.0 + np.exp(gap)) > rng.random(len(ballots))
        kind = np.where(won, int(Kind.WIN_A), int(Kind.WIN_B)).astype(np.uint8)

        def width(voter: Ints, kind: npt.NDArray[np.uint8] = kind, ballots: Ballots = ballots) -> float:
            keys = (voter + 1).astype(np.uint64), (ballots.prompt + 1).astype(np.uint64)
            codes = CodedBattles(
                ballots.a.astype(np.uint16), ballots.b.astype(np.uint16), kind, keys[1], keys[0]
            )
            models = sorted(f"model-{k:03}" for k in range(world.models))
            interval = BradleyTerry()(Table.from_codes(models, codes)).interval
            assert interval is not None
            return float(np.median(interval.high - interval.low))

        whole = width(ballots.session)
        plain = SeenTable(ballots.a, ballots.prompt, ballots.session, ballots.session)
        for most in limits:
            ratios[most].append(width(_split(plain, most, rng)) / whole)
    return {most: float(np.median(each)) for most, each in ratios.items()}


def linkage_page(sizes: Sequence[int], worlds: int, command: str) -> str:
    """The page of the study."""
    said = [release_twice(LinkageWorld(votes)) for votes in sizes]
    lines = [
        "# Linkage of releases",
        "",
        f"{__version__}, {datetime.now(UTC):%Y-%m-%d}. Made by `{command}`.",
        "",
        (
            "Simulated arenas of 10 models and 200 prompts are released twice. In the first release each class of voters has cast "
            "as many votes as each other. Before the second, half of the voters come back and cast a quarter as many votes again, and a quarter "
            "as many new voters come. Ten people vote at a time."
        ),
        "",
        "## Joins",
        "",
        (
            "Share of voters that a join of the two tables with voters maps to themselves, and the same if rows and numbers of the "
            "second table are drawn by lot. What a join by the battle links, it links by what was voted: see below."
        ),
        "",
    ]
    joined = [two for two, votes in zip(said, sizes, strict=True) if votes <= _JOINED_VOTES_LIMIT]
    lines += [
        f"| joined by | {' | '.join(f'{votes:,} votes' for votes in sizes if votes <= _JOINED_VOTES_LIMIT)} |",
        f"|---|{'--:|' * len(joined)}",
    ]
    for join in JOINS:
        cells = []
        for two in joined:
            lot = np.mean(
                [joined_voters(two.first, shuffled_again(two.second, seed), join) for seed in range(3)]
            )
            cells.append(f"{joined_voters(two.first, two.second, join):.2%} (by lot {lot:.2%})")
        lines.append(f"| {join} | {' | '.join(cells)} |")
    lines += ["", *_pattern_lines(sizes, said), "", *_split_lines(sizes, said, worlds)]
    return "\n".join(lines) + "\n"


def _pattern_lines(sizes: Sequence[int], said: Sequence[TwoReleases]) -> Iterator[str]:
    yield "## Patterns of votes"
    yield ""
    yield (
        "Share of voters of the first release that are found in the second by what they voted, by their votes in the first. "
        "*Battles*: by pair and outcome. *Prompts too*: prompts of both releases are matched first, by the battles on them. "
        "*Guess*: one of the voters with at least as many votes."
    )
    yield ""
    yield "| votes of the arena | by | " + " | ".join(f"{votes} votes" for votes in CLASS_VOTES) + " |"
    yield f"|--:|---|{'--:|' * len(CLASS_VOTES)}"
    for size, two in zip(sizes, said, strict=True):
        for name, prompts in (("battles", False), ("prompts too", True)):
            found = matched_voters(two, prompts=prompts)
            cells = [f"{hits / max(number, 1):.1%}" if number else "–" for hits, number in found.values()]
            yield f"| {size:,} | {name} | {' | '.join(cells)} |"
        cells = [f"{share:.2%}" for share in chance_of_class(two).values()]
        yield f"| {size:,} | guess | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Sittings of voters that are found in the ordered table of the same release, of at most {_SAMPLED_VOTERS} voters: the stretch of "
        "the log with most of the voter's battles is the right one, within the length of a sitting."
    )
    yield ""
    yield "| votes of the arena | " + " | ".join(f"{votes} votes" for votes in CLASS_VOTES) + " |"
    yield f"|--:|{'--:|' * len(CLASS_VOTES)}"
    for size, two in zip(sizes, said, strict=True):
        cells = [
            f"{hits / max(looked, 1):.0%}" if looked else "–" for hits, looked in find_sittings(two).values()
        ]
        yield f"| {size:,} | {' | '.join(cells)} |"


def _split_lines(sizes: Sequence[int], said: Sequence[TwoReleases], worlds: int) -> Iterator[str]:
    limits = (10, 30)
    yield "## A limit on the votes of a number"
    yield ""
    yield (
        "Not done. If a voter got a new number after so many votes, drawn anew in each release: the share of such voters that two "
        "releases put together again, and the width of intervals as a share of what it is, where voters have tastes "
        f"(median of {worlds} worlds of {sizes[0]:,} votes)."
    )
    yield ""
    yield f"| votes of a number | {' | '.join(f'put together, {size:,} votes' for size in sizes)} | width |"
    yield f"|--:|{'--:|' * len(sizes)}--:|"
    ratios = split_width_ratios(LinkageWorld(sizes[0]), limits, worlds)
    for most in limits:
        cells = []
        for two in said:
            whole, heavy = rejoined_voters(two, most)
            cells.append(f"{whole / max(heavy, 1):.0%} of {heavy}")
        yield f"| {most} | {' | '.join(cells)} | {ratios[most]:.0%} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and write or print its page."""
    parser = argparse.ArgumentParser(prog="python -m lab.linkage", description=__doc__)
    parser.add_argument("--votes", type=int, nargs="+", default=[1_800, 18_000, 180_000])
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="Write the page here instead of printing it.")
    options = parser.parse_args(arguments)
    said = f"--votes {' '.join(map(str, options.votes))} --worlds {options.worlds}"
    text = linkage_page(options.votes, options.worlds, f"python -m lab.linkage {said}")
    write_page(text, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
