"""``python -m lab.redteam.admissions``: how many ranks an admission buys, by what lets voters in.

The demo's arena is served by two web processes and a rater that know nothing of each other but their database. An
attacker knows every response and votes for the last model, as a new client for each vote: with the cookie of an
invitation, a shared link or a passcode and no other; with a proof of work in an open arena; with a token. All else is
skipped (*skip farming*) or gets any vote (*omnipresent*). Clients change between the web processes. *By the next day* is
without an operator; *in the end* an operator has excluded what the pages name.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.redteam.attacks import Attacker, attack_named
from lab.redteam.demo_content import demo_content
from lab.redteam.demo_servers import ARENA, copy_database, fill_arena, open_server, serve_replicas
from lab.redteam.log_board import rank_among
from lab.redteam.served_arena import MatchupCells, ServedArena
from tiltyard._version import __version__
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.invitations import InvitationTerms, invite, set_passcode
from tiltyard.client import AsyncClient
from tiltyard.errors import NotAllowed, TiltyardError
from tiltyard.postgres.connections import open_pool

#: What lets voters in, and the setting of the arena.
ENTRIES = {
    "open": "open",
    "invitation": "invitation",
    "shared link": "invitation",
    "passcode": "passcode",
    "token": "open",
}
#: Cookies of what lets in, which an attacker keeps.
_ENTRY_COOKIE = "entry"
_LIFE_DURATION = timedelta(days=7)
_PATIENCE_SECONDS = 300.0


class Cost(NamedTuple):
    """What came of an attack."""

    entry: str
    attack: str
    admissions: int
    cast: int
    voters: int
    #: Votes that count at once, and the next day.
    counted: int
    counted_later: int
    told: bool
    #: Its voters that the operator's page lists.
    flagged: int
    gain: int
    gain_later: int
    gain_after: int
    #: Whether the board was officially stable before, at once and by the next day.
    official: str


@dataclass(slots=True, eq=False)
class AdmittedVoters:
    """Clients of an attacker who was let in so many times."""

    addresses: Iterator[str]
    entry: str
    #: The path, passcode or token of each admission.
    keys: Sequence[str]

    async def come_in(self, key: str) -> AsyncClient:
        """A client that was let in."""
        token = key if self.entry == "token" else None
        client = AsyncClient(next(self.addresses), token=token, patience=_PATIENCE_SECONDS)
        http = client._http  # noqa: SLF001 - people come in by pages, for which there is no call
        if self.entry in ("invitation", "shared link"):
            answer = await http.post(f"/join/{key}")
        elif self.entry == "passcode":
            answer = await http.post(f"/arenas/{ARENA}/enter", data={"passcode": key})
        else:
            return client
        if answer.status_code != 303:
            raise TiltyardError(f"an attacker was not let in: {answer.status_code} {answer.text[:200]}")
        return client

    def again(self, client: AsyncClient) -> AsyncClient:
        """Another client, perhaps of another process, that has only what let in; in open arenas the same one."""
        if self.entry in ("open", "token"):
            return client
        other = AsyncClient(next(self.addresses), patience=_PATIENCE_SECONDS)
        jar = client._http.cookies  # noqa: SLF001
        for name in jar:
            if _ENTRY_COOKIE in name:
                other._http.cookies.set(name, jar[name])  # noqa: SLF001
        return other


def attack_admitted(arena: ServedArena, voters: AdmittedVoters, attacker: Attacker) -> int:
    """Cast all votes of an attacker; returns how many were cast before a client was refused for good."""

    async def cast(stack: AsyncExitStack, cells: MatchupCells, key: str, votes: Iterator[int]) -> int:
        first, count = await stack.enter_async_context(await voters.come_in(key)), 0
        for _ in votes:
            client = voters.again(first)
            try:
                while not await arena.attempt(arena.rig(client, attacker, cells)):
                    pass
                count += 1
            except NotAllowed:
                return count
            finally:
                if client is not first:
                    await client.aclose()
        return count

    async def run() -> int:
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(open_pool(arena.database, most=2))
            cells, votes = MatchupCells(pool, arena.content), iter(range(attacker.votes))
            return sum(await asyncio.gather(*(cast(stack, cells, key, votes) for key in voters.keys)))

    return asyncio.run(run())


async def prepare(database: str, entry: str, admissions: int) -> tuple[str, list[str]]:
    """Set how voters come in; a token that reads the board, and what lets the attacker in."""
    async with open_pool(database, most=1) as pool:
        accounts = Accounts(pool)
        reader, _ = await accounts.make_token("lab", "reader", ["admin"])
        await change_settings(pool, ARENA, {"entry": ENTRIES[entry]}, actor="lab")
        if entry == "token":
            names = [f"judge-{number}" for number in range(admissions)]
            keys = [(await accounts.make_token("lab", name, ["judge"]))[0] for name in names]
        elif entry == "invitation":
            terms = InvitationTerms("lab", 1, _LIFE_DURATION)
            keys = [(await invite(pool, ARENA, terms, shard=0, actor="lab"))[0] for _ in range(admissions)]
        elif entry == "shared link":
            code, _ = await invite(
                pool, ARENA, InvitationTerms("lab", 100, _LIFE_DURATION), shard=0, actor="lab"
            )
            keys = [code] * admissions
        elif entry == "passcode":
            keys = [(await set_passcode(pool, ARENA, None, actor="lab"))[0]] * admissions
        else:
            keys = [""] * admissions
    return reader, keys


class Trial(NamedTuple):
    """One attack: what lets it in, how it votes, how often it is let in, and its votes."""

    entry: str
    attack: str
    admissions: int
    votes: int
    seed: int


def measure(filled: str, home: Path, trial: Trial) -> Cost:
    """One attack on a copy of a filled arena."""
    content, (entry, attack, admissions, votes, seed) = demo_content(), trial
    with copy_database(filled, f"admissions_{entry.replace(' ', '_')}_{admissions}_{seed}") as url:
        reader, keys = asyncio.run(prepare(url, entry, admissions))
        with serve_replicas(url, home) as addresses:
            arena = ServedArena(addresses[0], url, content, reader)
            first = arena.ranks(content.models)
            target = max(first, key=first.__getitem__)
            number = content.models.index(target)
            attacker = Attacker(attack_named(attack), content, number, np.random.default_rng(seed), votes)
            official = [arena.settle()["status"]]
            cast = attack_admitted(arena, AdmittedVoters(cycle(addresses), entry, keys), attacker)

            def gain() -> int:
                ranks = arena.ranks(content.models)
                return rank_among(arena.honest_board(), content.models)[target] - ranks[target]

            def counted() -> tuple[int, set[int]]:
                rigged = set(arena.rigged)
                own = [vote for vote in arena.votes() if vote.matchup in rigged]
                return sum(vote.blind and not vote.mark for vote in own), {vote.session for vote in own}

            now, (at_once, sessions) = gain(), counted()
            official.append(arena.settle()["status"])
            flagged = arena.flagged_sessions()
            admitted = arena.pass_a_day()
            later = gain()
            official.append(arena.settle()["status"])
            changes = arena.changes()
            arena.exclude_offered({session for change in changes for session in change.sessions} | flagged)
            return Cost(
                entry,
                attack,
                admissions,
                cast,
                len(sessions),
                at_once,
                at_once + admitted,
                bool(changes),
                len((flagged | arena.held_sessions()) & sessions),
                now,
                later,
                gain(),
                ", ".join("yes" if status == "official" else "no" for status in official),
            )


def page(costs: Sequence[Cost], history: int, command: str) -> str:
    """The table as Markdown."""
    heads = (
        "let in by",
        "attack",
        "admissions",
        "votes cast",
        "voters in the log",
        "count at once",
        "count the next day",
        "change of the crowd told",
        "of its voters named",
        "ranks gained at once",
        "by the next day",
        "in the end",
        "official before, at once, the next day",
    )
    described = " ".join((__doc__ or "").split("\n\n")[1].split())
    lines = [
        "# Cost of a rank by admission",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
        "",
        f"{described} {history:,} honest votes came before.",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|---{'|--:' * (len(heads) - 2)}|",
    ]
    for cost in costs:
        shown = [{True: "yes", False: "no"}[one] if isinstance(one, bool) else str(one) for one in cost]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all attacks, and write or print the page."""
    parser = argparse.ArgumentParser(prog="python -m lab.redteam.admissions", description=__doc__)
    parser.add_argument("--entry", nargs="+", choices=list(ENTRIES), default=list(ENTRIES))
    parser.add_argument(
        "--attack", nargs="+", choices=["skip farming", "omnipresent"], default=["skip farming"]
    )
    parser.add_argument("--admissions", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--votes", type=int, default=120, help="Votes of an attack.")
    parser.add_argument("--history", type=int, default=1000, help="Honest votes before it.")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="Write the page here instead of printing it.")
    options = parser.parse_args(arguments)
    command = shlex.join(["python", "-m", "lab.redteam.admissions", *(arguments or sys.argv[1:])])
    with tempfile.TemporaryDirectory(prefix="tiltyard-admissions-") as place:
        Path(place).chmod(0o755)
        home = Path(place) / "home"
        with open_server(home) as filled:
            fill_arena(filled, home, options.history, seed=7)
            costs = []
            for kind in product(options.entry, options.attack, options.admissions):
                for seed in range(1, options.seeds + 1):
                    costs.append(measure(filled, home, Trial(*kind, options.votes, seed)))
                    sys.stderr.write(f"{costs[-1]}\n")
    text = page(costs, options.history, command.partition(" --out")[0])
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
