"""An arena in which everything has happened, rated, with texts of people in every place that has room for one."""

import numpy as np

from support.rated_arenas import Yard, rated_arena, tell_all
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating.arena_rater import ArenaRater
from tiltyard.arena.rating.rater_process import Leadership

#: Sessions as large as real ones: no other number in a log looks like them.
FIRST_SESSION = 4_611_686_018_427_387_904
#: What must not be in a release.
TEXTS = (
    "203.0.113.77",
    "2001:db8::feed",
    "Mozilla/5.0 (X11; Linux)",
    "I am Ada Lovelace",
    "the operator suspects Ada",
    "because the lane said so",
    "judge-of-the-secret-lab",
    "What did Ada write?",
    "A title with a name",
)
SHOWN_SECONDS = 17.123456789


def busy_yard(url, seed=5, **options):
    """An arena with two rounds of everything, texts included. It is not rated yet."""
    yard = Yard(url, **options)
    rng = np.random.default_rng(seed)
    for _ in range(2):
        tell_all(yard, rng)
    write_texts(yard)
    yard.age()
    return yard


def write_texts(yard):
    """Real sessions, and texts wherever the database takes them."""
    ip, ip6, agent, who, why, lane, judge, asked, title = TEXTS
    of = "WHERE arena = %(arena)s"
    values = {"arena": yard.arena, "first": FIRST_SESSION}
    for table in ("events", "matchups"):
        yard.sql(f"UPDATE {table} SET session = session * 1000003 + %(first)s {of} AND session < 100", values)
    yard.sql(f"UPDATE matchups SET reason = %(text)s {of}", values | {"text": lane})
    yard.sql(f"UPDATE exclusions SET reason = %(text)s {of}", values | {"text": why})
    yard.sql(f"UPDATE prompts SET text = %(text)s, category = %(text)s {of}", values | {"text": asked})
    yard.sql(f"UPDATE arenas SET title = %(text)s {of}", values | {"text": title})
    shown = f'{{"shown": {{"a": {SHOWN_SECONDS}, "b": 2.5}}}}'
    yard.sql(f"UPDATE events SET detail = '{shown}' {of} AND kind = 1 AND source = 0", values)
    judged = f'{{"pref": 0.25, "judge_model": "{judge}"}}'
    yard.sql(f"UPDATE events SET detail = '{judged}' {of} AND kind = 1 AND source = 1", values)
    yard.sql(
        "INSERT INTO remarks (arena, source, serial, session, tags, comment)"
        f" SELECT arena, source, serial, session, %(tags)s, %(text)s FROM matchups {of} AND source = 0",
        values | {"text": who, "tags": [agent]},
    )
    yard.sql(
        "INSERT INTO complaints (arena, source, serial, session, reason, note)"
        f" SELECT arena, source, serial, session, 'broken', %(text)s FROM matchups {of} AND serial < 2",
        values | {"text": f"{who} from {ip} or {ip6}"},
    )


def rate_all(yard, connection):
    """Let a rater fold everything and publish its boards."""
    leadership = Leadership(yard.url, new_process())
    try:
        term = leadership.lead(yard.arena)
    finally:
        leadership.close()
    rater = ArenaRater(connection, rated_arena(connection, yard.arena), term)
    for _ in range(2000):
        if not rater.step():
            rater.finish()
            return rater
    raise AssertionError("it goes on for ever")
