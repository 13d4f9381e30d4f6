"""A world's voters at the door of `tiltyard serve`, and what the pure functions make of the same log."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lab.api_voters import ApiVoting, CastVotes, answers_of, cast_votes
from support.rated_arenas import rated_arena
from support.served import make_token
from tiltyard.arena.boards.snapshots import latest_snapshot
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot, open_matchups_at
from tiltyard.arena.rating.checkpoints import list_checkpoints, read_checkpoint
from tiltyard.arena.rating.rater_progress import event_time, log_head, read_rater_progress
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.client import Client
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.validity.arena_fold import ArenaFold, save
from tiltyard.errors import TiltyardError
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.simulation.worlds import World, WorldSettings, draw_world_of

ARENA = "lab"
_WINNERS = {Kind.WIN_A: "model_a", Kind.WIN_B: "model_b", Kind.TIE: "tie", Kind.BOTH_BAD: "both_bad"}
#: As the rater keeps evaluations.
_WHOLE = 400


@dataclass
class Driven:
    """What voters did and saw."""

    drive: CastVotes
    seconds: float
    #: Of each look at the board: votes acknowledged by then that it did not know.
    lags: list[int] = field(default_factory=list)
    #: Votes at which the last board says that it became official; ``None`` if it is not.
    official_since: int | None = None
    battles: list[dict[str, object]] = field(default_factory=list)
    #: The standing of each source in a web process that has just loaded the arena.
    standings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Same:
    """Digests that were found equal, and what the log says of the rules."""

    events: int
    votes: int
    digests: tuple[str, ...]
    snapshot: str
    #: Votes at which the board first became official.
    official_at: int | None
    #: Boards that were published.
    boards: int


@contextmanager
def serve(url: str, home: Path, *, workers: int = 2) -> Iterator[Client]:
    """`tiltyard serve` on this database; a client with all rights. Afterwards it has stopped."""
    own = {"TILTYARD_HOME": str(home), "DATABASE_URL": url, "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tiltyard", "serve", "--port", "0", "--workers", str(workers)],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **own},
            text=True,
        )
        try:
            address = _greeting(process, log)
            with Client(address, token=make_token(url, "admin")) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
        assert code == 0, f"it did not stop as it should: {code} {_tail(log)}"


def _tail(log) -> str:
    log.seek(0)
    return log.read().decode()[-3000:]


def _greeting(process, log) -> str:
    """Where it listens."""
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(r"(http://[\d.:]+)/claim/", line)
        if found:
            return found[1]
    raise AssertionError(f"it did not start: {said} {_tail(log)}")


def world_of(settings: WorldSettings, seed: int) -> World:
    """The world that `simulate` draws of the same seed."""
    return draw_world_of(settings, np.random.default_rng([seed, 0]))


def driven(
    url: str,
    home: Path,
    settings: WorldSettings,
    *,
    votes: int,
    seed: int,
    voters: int = 16,
    snapshot_seconds: float = 0.1,
) -> Driven:
    """Serve an arena of this world, let its voters vote, and look at everything from outside."""
    world = world_of(settings, seed)
    with serve(url, home) as client, tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.jsonl"
        answers.write_text("".join(json.dumps(row) + "\n" for row in answers_of(world, settings.prompts)))
        # Voters of a world know no names: there are as many blind votes as are asked for.
        run = {"undo_seconds": 0.0, "snapshot_seconds": snapshot_seconds, "reveal": "never"}
        client.create_arena(ARENA, settings=run)
        client.import_answers(ARENA, answers)
        began = time.monotonic()
        done, lags = asyncio.run(_watched(client, world, settings, votes, seed, voters))
        found = Driven(done, time.monotonic() - began, lags)
        _wait_rated(url, client, votes)
        found.official_since = client.board(ARENA)["official_since"]
        found.battles = _battles(client, Path(folder) / "battles.jsonl")
        found.standings = asyncio.run(_fresh_standings(url))
    return found


async def _watched(client, world, settings, votes, seed, voters) -> tuple[CastVotes, list[int]]:
    """The votes, and beside them looks at the board."""
    cast, lags, seen = 0, [], asyncio.Event()

    def on_vote(done: int) -> None:
        nonlocal cast
        cast = done

    async def look() -> None:
        while True:
            before = cast
            with suppress(TiltyardError):
                board = await asyncio.to_thread(client.board, ARENA)
                lags.append(max(before - board["votes"], 0))
                seen.set()
            await asyncio.sleep(0.25)

    looking = asyncio.create_task(look())
    try:
        voting = ApiVoting(votes=votes, seed=seed, voters=voters, prompts=settings.prompts)
        done = await cast_votes(str(client._base_url), ARENA, world, voting, on_vote)
        # So few votes may be over before there is a board.
        await asyncio.wait_for(seen.wait(), 60)
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    return done, lags


def _wait_rated(url: str, client: Client, votes: int) -> None:
    """Until the rater has folded everything, and voters see it."""
    end = time.monotonic() + 180
    with connect(url) as connection:
        while time.monotonic() < end:
            place, head = read_rater_progress(connection, 1), log_head(connection, 1)
            with suppress(TiltyardError):
                if place.position == head and client.board(ARENA)["position"] == head:
                    assert client.board(ARENA)["votes"] == votes
                    return
            time.sleep(0.1)
    raise AssertionError("the rater did not reach the end of the log")


def _battles(client: Client, path: Path) -> list[dict[str, object]]:
    client.save_exact_battles(ARENA, path)
    return [json.loads(line) for line in path.read_text().splitlines()]


async def _fresh_standings(url: str) -> tuple[str, ...]:
    """A web process that starts now folds the log row by row, from its beginning or from a checkpoint."""
    with connect(url) as connection:
        arena = rated_arena(connection, 1)
    async with open_pool(url, most=4) as pool:
        queue = VotingQueue(pool, 1, ARENA, arena.settings)
        await queue.open()
        try:
            async with pool.connection() as connection:
                for source in (0, 1):
                    newest = await latest_snapshot(connection, 1, source)
                    queue.rank(source, newest.generation, newest.strengths)
            return tuple(save(standing).digest() for standing in queue.state.standings)
        finally:
            await queue.close()


def folded(columns: LogColumns, models: list[str], prompts: list[str], source: int) -> ArenaFold:
    """One source by the pure functions alone, in as few pieces as its arena's growth allows."""
    following, start = None, 0
    for row in np.flatnonzero(np.isin(columns.kind, (LogKind.POLICY, LogKind.WIDEN))).tolist():
        if following is not None:
            following.fold(columns[start:row].events(source))
        if columns.kind[row] == LogKind.WIDEN:
            following.widen(models[: columns.a[row]], prompts[: columns.prompt[row]])
        elif following is None:
            following = ArenaFold(
                *method_from_dict(columns.details[int(columns.position[row])]), whole=_WHOLE
            )
        start = row + 1
    following.fold(columns[start:].events(source))
    return following


def compared(url: str, found: Driven) -> Same:
    """That the service came to what the pure functions make of its log. It has stopped, and so has its rater."""
    with connect(url) as connection:
        arena, roster, place = (
            rated_arena(connection, 1),
            read_roster_sync(connection, 1),
            read_rater_progress(connection, 1),
        )
        columns = read_columns(connection, 1, 0)
        pure = [folded(columns, roster.models, roster.prompts, source) for source in (0, 1)]
        state = ArenaFold.save_all(pure)
        kept, *_ = list_checkpoints(connection, 1)
        checkpoint = read_checkpoint(connection, 1, kept)
        rows = connection.execute(
            "SELECT DISTINCT ON (source) source, position, document FROM snapshots ORDER BY source, position DESC"
        ).fetchall()
        (kept_boards,) = connection.execute("SELECT count(*) FROM snapshots WHERE source = 0").fetchone()
        boards = [
            make_snapshot(
                pure[source], arena, BoardMoment(source, position, event_time(connection, 1, position), generation=0),
                open_matchups_at(connection, 1, source, pure[source], position),
            )
            for source, position, _ in rows
        ]  # fmt: skip
    assert place.position == kept.position == len(columns)
    assert checkpoint.digest == ArenaFold.digest_all(state), "the checkpoint is not what the log says"
    assert checkpoint.state == state
    for one in pure:
        one.standing.forget_votes()  # as the queue does
    standings = tuple(save(one.standing).digest() for one in pure)
    assert found.standings == standings, "a fresh web process holds something else"
    assert [board.document for board in boards] == [document for _, _, document in rows]
    _check_battles(found, roster)
    history = pure[0].history
    assert found.official_since == history.official_since()
    return Same(
        len(columns), pure[0].votes, standings, boards[0].sha256, history.first_official(), kept_boards
    )


def _check_battles(found: Driven, roster) -> None:
    """Every vote that was acknowledged is a battle of the export, and there are no others."""
    cast = {
        position: (roster.models[a], roster.models[b], roster.prompts[prompt], _WINNERS[Kind(kind)])
        for position, (a, b, prompt, kind) in zip(found.drive.positions, found.drive.votes, strict=True)
    }
    exported = {
        row["position"]: (row["model_a"], row["model_b"], row["question_id"], row["winner"])
        for row in found.battles
    }
    assert len(found.battles) == len(exported) == len(cast) == len(found.drive.votes)
    assert exported == cast
