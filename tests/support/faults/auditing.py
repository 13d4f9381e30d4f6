"""Whether an arena's tables say what was acknowledged, and nothing else, once."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from support.faults.crowd import Crowd, Heard
from support.matchup_texts import stored_id
from support.rated_arenas import rated_arena
from support.replayed_logs import replay_log
from tiltyard.arena.log.crowd_changes import read_open_changes
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot, open_matchups_at
from tiltyard.arena.rating.checkpoints import list_checkpoints, read_checkpoint
from tiltyard.arena.rating.rater_progress import (
    RatedArena,
    event_time,
    log_head,
    read_rater_progress,
)
from tiltyard.core.battles import Kind
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

_OUTCOMES: dict[str | None, Kind] = {
    "model_a": Kind.WIN_A,
    "model_b": Kind.WIN_B,
    "tie": Kind.TIE,
    "both_bad": Kind.BOTH_BAD,
}
_ENDS = {LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE, LogKind.RELEASED}
_SERVES = {LogKind.SERVED, LogKind.PREFETCHED}
#: What ends other matchups of its voter, which are not late: an undo, a third prefetched, a third shown.
_CROWDS = {LogKind.UNDO, LogKind.PREFETCHED, LogKind.SHOWN}
_ACTS = {"vote": LogKind.VOTE, "skip": LogKind.SKIP, "undo": LogKind.UNDO}


@dataclass(frozen=True)
class Audited:
    """How much was looked at."""

    events: int
    votes: int
    undone: int
    told: int
    refused: int


@dataclass(frozen=True)
class Place:
    """How far the raters were, and what was compared."""

    position: int
    term: int
    boards: int
    checkpoints: int


def audit_log(url: str, *crowds: Crowd, arena: int = 1) -> Audited:
    """Every law of the log, and everything that these voters were told."""
    heard = [crowd.so_far() for crowd in crowds]
    with _moment(url) as connection:
        events = _rows(connection, "SELECT * FROM events WHERE arena = %s ORDER BY position", arena)
        matchups = _rows(connection, "SELECT * FROM matchups WHERE arena = %s ORDER BY position", arena)
        endings = _rows(connection, "SELECT * FROM endings WHERE arena = %s ORDER BY position", arena)
        battles = _rows(connection, "SELECT * FROM battles WHERE arena = %s ORDER BY position", arena)
        settings = rated_arena(connection, arena).settings
    _check_order(events)
    _check_times(events, matchups, settings)
    _check_matchups(events, matchups)
    _check_endings(events, matchups, endings, battles)
    _check_open(events, matchups)
    known = {row["matchup"]: (row["source"], row["serial"]) for row in matchups}
    ended = {(row["source"], row["serial"]): row for row in endings}
    by_position = {row["position"]: row for row in events}
    for one in heard:
        _check_told(one, known, ended, by_position)
        _check_refused(one, known, events)
    votes = [row for row in events if row["kind"] == LogKind.VOTE]
    undone = sum(row["kind"] == LogKind.UNDO for row in events)
    told, refused = sum(len(one.told) for one in heard), sum(len(one.refused) for one in heard)
    return Audited(len(events), len(votes), undone, told, refused)


def audit_ratings(url: str, arena: int = 1, *, every: bool = False) -> Place:
    """The newest board of each source, and the newest checkpoint, are those of a replay from zero.

    With ``every``, all boards and checkpoints that are kept.
    """
    with _moment(url) as connection:
        found, place = rated_arena(connection, arena), read_rater_progress(connection, arena)
        assert place.position <= place.horizon <= log_head(connection, arena)
        boards = _rows(
            connection,
            "SELECT source, generation, position, votes, document, sha256 FROM snapshots "
            "WHERE arena = %s ORDER BY generation, position",
            arena,
        )
        _check_counts(connection, arena, boards, place.position)
        newest = {board["source"]: board for board in boards}.values()
        for board in boards if every else newest:
            _check_board(connection, found, board)
        kept = list_checkpoints(connection, arena)
        for one in kept if every else kept[:1]:
            saved = read_checkpoint(connection, arena, one)
            replayed = replay_log(connection, arena, one.position, one.generation)
            state = ArenaFold.save_all([replayed[source] for source in sorted(replayed)])
            assert ArenaFold.digest_all(state) == saved.digest, (
                f"the checkpoint at {one.position} is no replay"
            )
            assert state == saved.state
    return Place(place.position, place.term, len(boards), len(kept))


def _check_counts(connection: Connection, arena: int, boards: list[dict[str, Any]], rated_to: int) -> None:
    """On every board, each vote that stands was folded once."""
    standing = _rows(
        connection, "SELECT source, position FROM battles WHERE arena = %s AND blind ORDER BY position", arena
    )
    for source in (0, 1):
        positions = [row["position"] for row in standing if row["source"] == source]
        for board in boards:
            if board["source"] == source:
                assert board["position"] <= rated_to
                there = bisect_right(positions, board["position"])
                assert there == board["votes"], (
                    f"folded {board['votes']} of {there} votes at {board['position']}"
                )


def _check_board(connection: Connection, arena: RatedArena, board: dict[str, Any]) -> None:
    replayed = replay_log(connection, arena.arena, board["position"], board["generation"])
    at = event_time(connection, arena.arena, board["position"])
    source = board["source"]
    opened = open_matchups_at(connection, arena.arena, source, replayed[source], board["position"])
    moment = BoardMoment(source, board["position"], at, board["generation"])
    changes = read_open_changes(connection, arena.arena, board["position"])
    made = make_snapshot(replayed[source], arena, moment, opened, changes=changes)
    assert made.document == board["document"], f"the board at {board['position']} is no replay"
    assert made.sha256 == bytes(board["sha256"]).hex()


@contextmanager
def _moment(url: str) -> Iterator[Connection]:
    """Everything as it was at one moment, whatever goes on."""
    with connect(url, name="audit") as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield connection


def _rows(connection: Connection, query: str, arena: int) -> list[dict[str, Any]]:
    found = connection.execute(query, (arena,))
    names = [column.name for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _check_order(events: list[dict[str, Any]]) -> None:
    assert [row["position"] for row in events] == list(range(1, len(events) + 1)), "positions are not dense"
    times = [row["at"] for row in events]
    assert times == sorted(times), "time runs backward in the log"


def _check_times(
    events: list[dict[str, Any]], matchups: list[dict[str, Any]], settings: ArenaSettings
) -> None:
    """What depends on time was decided by the log's own."""
    open_for = timedelta(seconds=settings.expiry_seconds)
    unseen_for = min(open_for, timedelta(seconds=settings.unseen_seconds))
    crowded = {(row["at"], row["source"], row["session"]) for row in events if row["kind"] in _CROWDS}
    expires: dict[tuple[int, int], Any] = {}
    unseen: set[tuple[int, int]] = set()
    voted: dict[tuple[int, int], Any] = {}
    for row in events:
        key = (row["source"], row["serial"])
        if row["kind"] in _SERVES:
            waits = row["kind"] == LogKind.PREFETCHED
            expires[key] = row["at"] + (unseen_for if waits else open_for)
            if waits:
                unseen.add(key)
        if row["kind"] == LogKind.SHOWN:
            assert row["at"] < expires[key], f"shown too late: {row}"
            unseen.remove(key)
            expires[key] = row["at"] + open_for
        if row["kind"] == LogKind.VOTE:
            voted[key] = row
        if row["kind"] in _ENDS:
            late = row["at"] >= expires[key]
            ended = row["kind"] in {LogKind.EXPIRE, LogKind.RELEASED}
            assert (row["kind"] == LogKind.RELEASED) == (key in unseen), (
                f"ended as if unseen, or shown: {row}"
            )
            crowded_out = ended and (row["at"], row["source"], row["session"]) in crowded
            assert late == ended or crowded_out, f"ended at the wrong time: {row}"
        if row["kind"] == LogKind.UNDO:
            vote = voted.pop(key)
            assert row["detail"]["vote"] == vote["position"], f"undoes another vote: {row}"
            age = (row["at"] - vote["at"]).total_seconds()
            assert age < settings.undo_seconds, f"undone too late: {row}"
            until = datetime.fromisoformat(row["detail"]["expires_at"])
            assert until >= expires[key], f"reopened for less time: {row}"
            expires[key] = until
    assert {(row["source"], row["serial"]): row["expires_at"] for row in matchups} == expires
    assert {(row["source"], row["serial"]) for row in matchups if row["unseen"]} == unseen


def _check_matchups(events: list[dict[str, Any]], matchups: list[dict[str, Any]]) -> None:
    served = [row for row in events if row["kind"] in _SERVES]
    same = ("position", "source", "serial", "session", "a", "b", "prompt", "nominal", "lane")
    assert [[row[name] for name in same] for row in served] == [
        [row[name] for name in same] for row in matchups
    ], "served events and matchups differ"
    for source in (0, 1):
        serials = [row["serial"] for row in matchups if row["source"] == source]
        assert serials == list(range(len(serials))), "serials are not dense"
    assert len({row["matchup"] for row in matchups}) == len(matchups)


def _check_endings(
    events: list[dict[str, Any]],
    matchups: list[dict[str, Any]],
    endings: list[dict[str, Any]],
    battles: list[dict[str, Any]],
) -> None:
    """The last ending of each matchup is the one in the table; every one before it was a vote that was undone."""
    last: dict[tuple[int, int], dict[str, Any]] = {}
    ballots: Counter[tuple[int, int]] = Counter()
    revealed: set[tuple[int, int]] = set()
    for row in events:
        key = (row["source"], row["serial"])
        if row["kind"] in _ENDS:
            assert last.get(key, {"undone": 0})["undone"] is not None, f"ended twice: {row}"
            same = ("position", "at", "kind", "source", "serial", "outcome")
            last[key] = {name: row[name] for name in same} | {"undone": None}
        elif row["kind"] == LogKind.UNDO:
            assert last[key]["kind"] == LogKind.VOTE, f"undoes no vote: {row}"
            assert last[key]["undone"] is None, f"undone twice: {row}"
            assert key not in revealed, f"undone though its names were shown: {row}"
            ballots[key] += 1
            assert row["detail"]["ballot"] == ballots[key]
            last[key]["undone"] = row["position"]
        elif row["kind"] == LogKind.REVEAL:
            assert (last[key]["kind"], last[key]["undone"]) == (LogKind.VOTE, None), f"no vote: {row}"
            revealed.add(key)
    told = sorted(last.values(), key=lambda row: row["position"])
    kept = [{name: row[name] for name in told[0]} for row in endings] if told else []
    assert kept == told, "endings and events differ"
    shown = {(row["source"], row["serial"]) for row in endings if row["revealed_at"] is not None}
    assert revealed == shown, "reveals and endings differ"
    assert {(row["source"], row["serial"]): row["ballot"] for row in matchups if row["ballot"]} == ballots
    final = [row["position"] for row in told if row["kind"] == LogKind.VOTE and row["undone"] is None]
    assert [row["position"] for row in battles] == final, "battles are not the votes that stand"


def _check_open(events: list[dict[str, Any]], matchups: list[dict[str, Any]]) -> None:
    """Nobody ever had more than two open matchups that were shown, and two that waited to be."""
    sessions = {(row["source"], row["serial"]): row["session"] for row in matchups}
    shown: Counter[tuple[int, int]] = Counter()
    unseen: Counter[tuple[int, int]] = Counter()
    for row in events:
        voter = (row["source"], sessions.get((row["source"], row["serial"]), -1))
        if row["kind"] in {LogKind.SERVED, LogKind.UNDO, LogKind.SHOWN}:
            shown[voter] += 1
        elif row["kind"] in _ENDS - {LogKind.RELEASED}:
            shown[voter] -= 1
        if row["kind"] == LogKind.PREFETCHED:
            unseen[voter] += 1
        elif row["kind"] in {LogKind.SHOWN, LogKind.RELEASED}:
            unseen[voter] -= 1
        # A vote on a third matchup, which was prefetched, shows it and ends it at once.
        assert 0 <= shown[voter] <= 3, "a voter had more than two open matchups"
        assert 0 <= unseen[voter] <= 2, "more than two matchups waited to be shown to a voter"


def _check_told(
    crowd: Heard,
    known: dict[Any, tuple[int, int]],
    ended: dict[tuple[int, int], dict[str, Any]],
    by_position: dict[int, dict[str, Any]],
) -> None:
    lost = [one for one in crowd.offered if stored_id(one) not in known]
    assert not lost, f"{len(lost)} matchups were handed out and are not there"
    for one in crowd.told:
        key = known[stored_id(one.matchup)]
        row = by_position.get(one.position)
        assert row is not None, f"lost: {one}"
        assert (row["source"], row["serial"]) == key, f"another's event: {one}, {row}"
        expected = _ACTS.get(one.act, LogKind.VOTE)
        assert row["kind"] == expected, f"another kind of event: {one}, {row}"
        if one.act == "vote":
            assert row["outcome"] == _OUTCOMES[one.winner], f"another outcome: {one}, {row}"
        if one.act == "reveal":
            assert ended[key]["revealed_at"] is not None


def _check_refused(crowd: Heard, known: dict[Any, tuple[int, int]], events: list[dict[str, Any]]) -> None:
    """What was refused is not in the log: no vote, on the ballot it was for, has the outcome that was refused."""
    odd = [one for one in crowd.refused if one.status not in {409, 410}]
    assert not odd, f"refused for no reason: {odd[:3]}"
    unanswered = {LogKind.EXPIRE, LogKind.RELEASED}
    expired = {(row["source"], row["serial"]) for row in events if row["kind"] in unanswered}
    taken: dict[tuple[int, int], list[dict[str, Any]]] = {}
    undone = {row["detail"]["vote"] for row in events if row["kind"] == LogKind.UNDO}
    for row in events:
        if row["kind"] == LogKind.VOTE:
            taken.setdefault((row["source"], row["serial"]), []).append(row)
    for one in crowd.refused:
        key = known[stored_id(one.matchup)]
        if one.status == 410:
            assert key in expired, f"not expired: {one}"
        elif one.act == "vote":
            votes = taken.get(key, [])
            same = votes[one.ballot : one.ballot + 1]
            stands = [row for row in same if row["position"] not in undone]
            wanted = _OUTCOMES[one.winner]
            assert not [row for row in stands if row["outcome"] == wanted], f"refused and yet taken: {one}"
