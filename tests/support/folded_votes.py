"""What tests of voting look at: rows of the tables, and the counts of a queue beside those of a replay."""

from support.replayed_logs import replay_log
from tiltyard.arena.log.event_log import LogKind
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.arena_fold import save
from tiltyard.postgres.connections import connect


def rows(url, query):
    with connect(url) as connection:
        return connection.execute(query).fetchall()


def story_of(url, serial=0):
    """What happened to the matchups with a serial, in order."""
    query = f"SELECT kind FROM events WHERE serial = {serial} AND kind NOT IN (6, 7) ORDER BY position"
    return [LogKind(kind) for (kind,) in rows(url, query)]


def counts(standing):
    """A standing without what ratings bring to it."""
    standing.rank(Strengths.unknown(len(standing.models)))
    standing.forget_votes()  # as the queue does
    return save(standing).digest()


def replayed(url, arena, generation=0):
    """The folds of an arena's whole log, by source."""
    with connect(url) as connection:
        head = connection.execute("SELECT max(position) FROM events WHERE arena = %s", (arena,)).fetchone()[0]
        return replay_log(connection, arena, head, generation)


def catch_up(rater_process):
    """Let a rater process fold everything that is final."""
    rater_process.search()
    for _ in range(200):
        if not rater_process.turn() and rater_process.raters:
            return
    raise AssertionError("the rater does not come to an end")
