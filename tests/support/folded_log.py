"""Fold a fixed log and print digests of checkpoints and boards: run by other processes, in other environments.

``python folded_log.py MODELS MATCHUPS …`` prints a line for the state after each part of the log, and one for the board
after the last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from tiltyard.core.battles import Kind
from tiltyard.core.board.arena_board import make_arena_board
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.document import BoardDocument, BoardMethod, document_hash
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.arena_fold import ArenaFold

PROMPTS, PARTS = 12, 4
POLICY = Policy(window=200, evaluated_every=100, session_pairs=3, sessions_kept=8, form_votes=4)


def whole_numbers(state: int = 2026) -> Iterator[int]:
    """Numbers below 2^31 that every machine and every version of everything draws alike."""
    while True:
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        yield state >> 33


def matchup_rows(models: int, serial: int, numbers: Iterator[int]) -> list[dict[str, int]]:
    """A matchup and its ending; models of lower codes win more often, and one vote in 50 is excluded."""
    a, prompt, lane = next(numbers) % models, next(numbers) % PROMPTS, next(numbers) % 4
    b = (a + 1 + next(numbers) % (models - 1)) % models
    matchup = {"a": a, "b": b, "prompt": prompt, "serial": serial, "session": next(numbers) % 12 - 1}
    served = matchup | {"event": int(Event.SERVED), "lane": lane, "nominal": lane}
    chance = next(numbers) % 100
    if chance < 10:
        return [served, matchup | {"event": int((Event.SKIP, Event.EXPIRE)[chance % 2])}]
    if chance < 12:  # a vote that was excluded is folded as a skip
        return [served, matchup | {"event": int(Event.SKIP)}]
    kind = (
        next(numbers) % len(Kind) if chance < 30 else (Kind.WIN_A if (a < b) == (chance < 80) else Kind.WIN_B)
    )
    return [served, matchup | {"event": int(Event.VOTE), "kind": int(kind)}]


def log_rows(models: int, matchups: int) -> Iterator[dict[str, int]]:
    """A log with every kind of event."""
    numbers = whole_numbers()
    yield from ({"event": int(Event.ENABLE), "a": k} for k in range(models))
    for model in range(models):
        answered = [prompt for prompt in range(PROMPTS) if (model + prompt) % 7]
        yield from ({"event": int(Event.RESPOND), "a": model, "prompt": prompt} for prompt in answered)
    for serial in range(matchups):
        yield from matchup_rows(models, serial, numbers)
        if serial % 97 == 96:
            yield {"event": int((Event.RETIRE, Event.ENABLE)[serial % 2]), "a": serial % models}
        if serial == matchups // 2:
            yield {"event": int(Event.WITHDRAW), "a": 1, "prompt": 2}


def folded(models: int, matchups: int) -> Iterator[ArenaFold]:
    """The fold after each part of the log."""
    names, prompts = [f"m{k}" for k in range(models)], [f"p{k}" for k in range(PROMPTS)]
    rows = [row | {"time": 1_700_000_000 + 60 * k} for k, row in enumerate(log_rows(models, matchups))]
    following = ArenaFold(POLICY)
    following.widen(names, prompts)
    for part in range(PARTS):
        following.fold(Events.of(rows[len(rows) * part // PARTS : len(rows) * (part + 1) // PARTS]))
        yield following


def board(following: ArenaFold) -> BoardDocument:
    """The board of a fold, as an arena publishes it."""
    following.rank()
    standing = following.standing
    made = make_arena_board(
        standing,
        following.history,
        legacy_elo=following.rater.elo,
        volatility=following.rater.volatility,
        batch=batch_ratings(standing),
    )
    return BoardDocument.of(
        made,
        arena="poems",
        source="human",
        position=following.votes,
        generation=0,
        at=datetime(2026, 3, 1, tzinfo=UTC),
        method=BoardMethod(following.policy, following.settings),
    )


def digests(models: int, matchups: int) -> Iterator[str]:
    """Those of the states, then that of the last board."""
    for following in folded(models, matchups):
        yield following.digest()
    yield document_hash(board(following).to_json())


if __name__ == "__main__":
    sizes = [int(each) for each in sys.argv[1:]]
    for size in zip(sizes[::2], sizes[1::2], strict=True):
        print(*digests(*size), sep="\n")
