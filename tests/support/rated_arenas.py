"""Arenas in a real database whose log is written by hand, and a naive reader of such logs."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import count
from uuid import uuid4

import numpy as np

from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.arenas import add_arena, reserve_arena_number
from tiltyard.arena.log.event_log import (
    HUMAN,
    JUDGE,
    LogKind,
    OpenMatchup,
    WaitingVote,
    append_batch,
)
from tiltyard.arena.rating.rater_progress import read_rated_arenas
from tiltyard.core.policy.state.events import NO_MARK, NO_SESSION, Event, Events, VoteMark
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import method_from_dict, method_to_dict
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings

SMALL = Policy(
    window=12,
    contenders=2,
    meetings=3,
    session_pairs=2,
    sessions_kept=6,
    both_bad_over=5,
    form_votes=3,
    evaluated_every=5,
    evaluations=2,
    published_rd=345.0,
)
_NUMBERS = count(1)


def rated_arena(connection, arena):
    """One arena, as its rater has it."""
    return read_rated_arenas(connection, [arena])[0]


class Yard:
    """One arena: what happens there is appended to its log. Names are by number."""

    def __init__(self, url, *, policy=SMALL, models=4, prompts=3, settings=None, **named):
        self.url = url
        self.policy = policy
        self.settings = settings or ArenaSettings(snapshot_seconds=1.0)
        self.name = named.get("name", f"yard-{next(_NUMBERS)}")
        self.models, self.prompts = [], []
        self.served = [[], []]
        self.open, self.unseen, self.voted, self.revealed = [], [], [], set()
        #: The voter of each matchup.
        self.sessions = {}
        #: How often each vote was undone.
        self.ballots = Counter()
        self.exclusions = []
        self.head = self.aged = 0
        self._plain = connect(url, name="tiltyard test")
        allow_rewriting(self._plain)
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(connect_async(url, name="tiltyard test"))
        self.arena = self._runner.run(self._make())
        self.append(lambda log: log.add(LogKind.POLICY, detail=method_to_dict(policy)))
        self.grow([f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)])

    def close(self):
        self._runner.run(self._connection.close())
        self._runner.close()
        self._plain.close()

    async def _make(self):
        async with self._connection.transaction():
            number = await reserve_arena_number(self._connection)
            return (await add_arena(self._connection, number, self.name, "A yard", self.settings)).arena

    def append(self, *deeds):
        """One batch; what each deed returned, and the last position."""

        async def write():
            async with append_batch(self._connection, self.arena) as log:
                self.horizon = log.horizon
                return [deed(log) for deed in deeds], log.head

        done, self.head = self._runner.run(write())
        return done

    def sql(self, text, values=()):
        found = self._plain.execute(text, values)
        return found.fetchall() if found.description else []

    def age(self, by=timedelta(hours=1)):
        """Everything since the last time happened earlier, unless it is folded already."""
        self.sql(
            "UPDATE events SET at = at - %s WHERE arena = %s AND position > %s "
            "AND position > (SELECT position FROM raters r WHERE r.arena = events.arena)",
            (by, self.arena, self.aged),
        )
        self.aged = self.head

    # What happens

    def grow(self, models=(), prompts=()):
        """More models and prompts; everybody has answered everything and may be served."""
        for name in models:
            values = (self.arena, len(self.models), name)
            self.sql("INSERT INTO models (arena, model, name) VALUES (%s, %s, %s)", values)
            self.models.append(name)
        for name in prompts:
            values = (self.arena, len(self.prompts), name, b"")
            self.sql("INSERT INTO prompts (arena, prompt, name, sha256) VALUES (%s, %s, %s, %s)", values)
            self.prompts.append(name)

        def add(log):
            log.add(LogKind.WIDEN, a=len(self.models), prompt=len(self.prompts))
            new_model, new_prompt = len(self.models) - len(models), len(self.prompts) - len(prompts)
            for model in range(len(self.models)):
                for prompt in range(len(self.prompts)):
                    if model >= new_model or prompt >= new_prompt:
                        log.add(LogKind.RESPOND, a=model, prompt=prompt, serial=1)
            for model in range(new_model, len(self.models)):
                log.add(LogKind.ENABLE, a=model)

        self.append(add)

    def serve(self, a, b, prompt, *, source=HUMAN, session=1):
        return self.append(self.serving(a, b, prompt, source=source, session=session))[0]

    def prefetch(self, a, b, prompt, *, source=HUMAN, session=1):
        return self.append(self.serving(a, b, prompt, source=source, session=session, unseen=True))[0]

    def show(self, matchup):
        """A prefetched matchup is shown."""

        def add(log):
            self.unseen.remove(matchup)
            self.open.append(matchup)
            return log.show(self._opened(matchup, log), log.now + timedelta(hours=2))

        return self.append(add)[0]

    def release(self, matchup):
        """A prefetched matchup ends without having been shown."""
        self.unseen.remove(matchup)
        return self.append(lambda log: log.end(LogKind.RELEASED, *matchup, session=1))[0]

    def _opened(self, matchup, log):
        source, serial = matchup
        a, b, prompt = self.served[source][serial]
        return OpenMatchup(
            matchup=uuid4(), source=source, serial=serial, session=self.sessions[matchup], a=a, b=b, prompt=prompt, response_a=1,
            response_b=2, nominal=serial % 4, lane=(serial + a) % 4, served_at=log.now, expires_at=log.now,
            ballot=self.ballots[matchup],
        )  # fmt: skip

    def serving(self, a, b, prompt, *, source=HUMAN, session=1, unseen=False):
        def add(log):
            serial = len(self.served[source])
            self.served[source].append((a, b, prompt))
            self.sessions[source, serial] = session
            (self.unseen if unseen else self.open).append((source, serial))
            log.serve(
                OpenMatchup(
                    source=source, serial=serial, matchup=uuid4(), session=session, a=a, b=b, prompt=prompt,
                    response_a=1, response_b=2, nominal=serial % 4, lane=(serial + a) % 4, served_at=log.now,
                    expires_at=log.now + timedelta(hours=2), unseen=unseen,
                ),
                reason="told",
                propensity=0.5,
            )  # fmt: skip
            return source, serial

        return add

    def vote(self, matchup, outcome=0, *, mark=NO_MARK):
        return self.append(self.voting(matchup, outcome, mark=mark))[0]

    def voting(self, matchup, outcome=0, *, mark=NO_MARK):
        def add(log):
            self.open.remove(matchup)
            self.voted.append(matchup)
            return log.vote(self._opened(matchup, log), outcome, blind=True, mark=mark)

        return add

    def played(self, a, b, prompt=0, outcome=0, *, source=HUMAN, session=1, mark=NO_MARK):
        """A matchup and its vote in one batch."""
        matchup = (source, len(self.served[source]))
        self.append(
            self.serving(a, b, prompt, source=source, session=session),
            self.voting_later(outcome, source, mark=mark),
        )
        return matchup

    def voting_later(self, outcome, source, *, mark=NO_MARK):
        def add(log):
            return self.voting((source, len(self.served[source]) - 1), outcome, mark=mark)(log)

        return add

    def ended(self, matchup, kind):
        def add(log):
            self.open.remove(matchup)
            return log.end(kind, *matchup, session=1, ballot=self.ballots[matchup])

        return self.append(add)[0]

    def undo(self, matchup):
        """Undo a vote, so that its matchup is open again; whether it was still possible."""
        ((position,),) = self.sql(
            "SELECT position FROM endings WHERE arena = %s AND source = %s AND serial = %s",
            (self.arena, *matchup),
        )

        def add(log):
            if position > self.horizon:
                self.ballots[matchup] += 1
                log.undo(
                    *matchup, 1, vote=position, ballot=self.ballots[matchup],
                    expires_at=log.now + timedelta(hours=2),
                )  # fmt: skip
                self.voted.remove(matchup)
                self.open.append(matchup)
            return position > self.horizon

        return self.append(add)[0]

    def waiting(self):
        """The final votes that wait to be rated, oldest first."""
        rows = self.sql(
            "SELECT e.source, e.serial, m.session, m.a, m.b, m.prompt, vote_kind(e.outcome, e.both_bad) "
            "FROM endings e JOIN matchups m USING (arena, source, serial) JOIN raters r USING (arena) "
            "WHERE arena = %s AND e.mark = 3 AND e.admitted IS NULL AND e.undone IS NULL AND e.position <= r.horizon "
            "ORDER BY e.position",
            (self.arena,),
        )
        return [WaitingVote(*row) for row in rows]

    def admit(self, votes):
        """Votes that waited count from now on."""
        return self.append(*((lambda log, vote=vote: log.admit(vote)) for vote in votes))

    def reveal(self, matchup):
        self.revealed.add(matchup)
        return self.append(lambda log: log.reveal(*matchup, 1))[0]

    def exclude(self, matchups):
        ((number,),) = self.sql(
            "INSERT INTO exclusions (arena, reason, excluded) VALUES (%s, 'told', %s) RETURNING exclusion",
            (self.arena, self.head + 1),
        )
        for source, serial in matchups:
            self.sql(
                "INSERT INTO excluded_votes VALUES (%s, %s, %s, %s)", (number, self.arena, source, serial)
            )
        self.exclusions.append(number)
        self.append(lambda log: log.add(LogKind.EXCLUDE, detail={"exclusion": number}))
        return number

    def restore(self, number):
        self.exclusions.remove(number)
        self.sql("UPDATE exclusions SET restored = %s WHERE exclusion = %s", (self.head + 1, number))
        self.append(lambda log: log.add(LogKind.RESTORE, detail={"exclusion": number}))

    def change(self, **changes):
        self.policy = replace(self.policy, **changes)
        self.append(lambda log: log.add(LogKind.POLICY, detail=method_to_dict(self.policy)))

    def mark(self, kind, model, prompt=None):
        self.append(lambda log: log.add(kind, a=model, prompt=prompt))


def tell_all(yard, rng):
    """Let everything happen that can happen in an arena."""
    _play(yard, rng)
    for deed in rng.permutation(len(_DEEDS)).tolist():
        _DEEDS[deed](yard, rng)
        _serve(yard, rng)


def tell(yard, rng, n):
    """Let ``n`` things happen that could happen in an arena."""
    for deed in rng.choice(len(_DEEDS), n, p=np.array(_WEIGHTS) / sum(_WEIGHTS)).tolist():
        _DEEDS[deed](yard, rng)


def _play(yard, rng):
    deeds = []
    for _ in range(int(rng.integers(1, 7))):
        source = JUDGE if rng.random() < 0.25 else HUMAN
        a, b, prompt = _pair(yard, rng)
        deeds += [
            yard.serving(a, b, prompt, source=source, session=int(rng.integers(1, 9))),
            yard.voting_later(int(rng.integers(7)), source, mark=_vote_mark(rng, source)),
        ]
    yard.append(*deeds)


def _pair(yard, rng):
    a, b = rng.choice(len(yard.models), 2, replace=False).tolist()
    return a, b, int(rng.integers(len(yard.prompts)))


def _serve(yard, rng):
    yard.serve(*_pair(yard, rng), source=int(rng.integers(2)), session=int(rng.integers(1, 9)))


def _prefetch(yard, rng):
    yard.prefetch(*_pair(yard, rng), source=int(rng.integers(2)), session=int(rng.integers(1, 9)))


def _show(yard, rng):
    if yard.unseen:
        matchup = yard.unseen[int(rng.integers(len(yard.unseen)))]
        yard.release(matchup) if rng.random() < 0.3 else yard.show(matchup)


def _end(yard, rng):
    if yard.open:
        matchup = yard.open[int(rng.integers(len(yard.open)))]
        kind = rng.choice([LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE])
        if kind == LogKind.VOTE:
            yard.vote(matchup, int(rng.integers(7)), mark=_vote_mark(rng, matchup[0]))
        else:
            yard.ended(matchup, LogKind(kind))


def _vote_mark(rng, source):
    """Now and then a person's vote is marked: unseen, early or waiting."""
    marks = [NO_MARK, VoteMark.UNSEEN, VoteMark.EARLY, VoteMark.WAITING]
    return int(rng.choice(marks, p=[0.8, 0.03, 0.03, 0.14])) if source == HUMAN else NO_MARK


def _admit(yard, rng):
    """Some voters are no longer new; or everybody."""
    waiting = yard.waiting()
    sessions = {vote.session for vote in waiting if rng.random() < 0.7}
    if sessions:
        yard.admit([vote for vote in waiting if vote.session in sessions])


def _undo(yard, rng):
    fresh = [one for one in yard.voted[-6:] if one not in yard.revealed]
    if fresh:
        yard.undo(fresh[int(rng.integers(len(fresh)))])


def _reveal(yard, rng):
    hidden = [one for one in yard.voted if one not in yard.revealed]
    if hidden:
        yard.reveal(hidden[int(rng.integers(len(hidden)))])


def _exclude(yard, rng):
    if yard.voted:
        places = rng.choice(len(yard.voted), int(rng.integers(1, 5)))
        yard.exclude({yard.voted[place] for place in places.tolist()})


def _restore(yard, rng):
    if yard.exclusions:
        yard.restore(yard.exclusions[int(rng.integers(len(yard.exclusions)))])


def _mark(yard, rng):
    kind = LogKind(int(rng.integers(4, 8)))
    model, prompt = int(rng.integers(len(yard.models))), int(rng.integers(len(yard.prompts)))
    yard.mark(kind, model, prompt if kind >= LogKind.RESPOND else None)


def _grow(yard, rng):
    models = [f"m{len(yard.models)}"] if rng.random() < 0.7 and len(yard.models) < 8 else []
    yard.grow(models, [f"p{len(yard.prompts)}"] if rng.random() < 0.5 else [])


def _change(yard, rng):
    yard.change(
        **{
            0: {"evaluated_every": int(rng.integers(2, 8))},
            1: {"phase": int(rng.integers(1, 5))},
            2: {"fairness": str(rng.choice(["strict", "scoped"])), "evaluations": int(rng.integers(1, 4))},
            3: {"prompt_floor": int(rng.integers(1, 4)), "contenders": int(rng.integers(1, 5))},
        }[int(rng.integers(4))]
    )


_DEEDS = (
    _play,
    _serve,
    _end,
    _undo,
    _reveal,
    _exclude,
    _restore,
    _mark,
    _grow,
    _change,
    _prefetch,
    _show,
    _admit,
)
_WEIGHTS = (30, 6, 8, 5, 5, 2, 2, 3, 2, 2, 6, 6, 5)


def naive(url, arena, upto, generation):
    """Each source by its own plain fold, one event at a time: what a rater must have come to."""
    with connect(url) as connection:
        rows = connection.execute(
            "SELECT position, at, kind, source, serial, session, a, b, prompt, vote_kind(outcome, both_bad), nominal, lane, detail, mark "
            "FROM events WHERE arena = %s ORDER BY position",
            (arena,),
        ).fetchall()
        votes = connection.execute(
            "SELECT exclusion, source, serial FROM excluded_votes WHERE arena = %s", (arena,)
        ).fetchall()
        names = [
            [
                name
                for (name,) in connection.execute(
                    f"SELECT name FROM {table}s WHERE arena = %s ORDER BY {table}", (arena,)
                )
            ]
            for table in ("model", "prompt")
        ]
    changes = [row for row in rows if row[2] in (LogKind.EXCLUDE, LogKind.RESTORE)][:generation]
    active = set()
    for row in changes:
        (active.add if row[2] == LogKind.EXCLUDE else active.discard)(row[12]["exclusion"])
    dropped = {(source, serial) for exclusion, source, serial in votes if exclusion in active}
    undone = {row[12]["vote"] for row in rows if row[2] == LogKind.UNDO}
    found = []
    for source in (HUMAN, JUDGE):
        following = None
        for row in [row for row in rows[:upto] if row[0] not in undone]:
            following = _naive_step(following, row, source, dropped, names)
        found.append(following)
    return found


def _naive_step(following, row, source, dropped, names):
    _, at, kind, of, serial, session, a, b, prompt, outcome, nominal, lane, detail, mark = row
    if kind == LogKind.POLICY:
        policy, settings = method_from_dict(detail)
        if following is None:
            return ArenaFold(policy, settings, whole=400)
        following.under(policy)
    elif kind == LogKind.WIDEN:
        following.widen(names[0][:a], names[1][:prompt])
    elif (kind <= LogKind.WITHDRAW or kind in (LogKind.SHOWN, LogKind.ADMIT)) and of in (None, source):
        if kind == LogKind.SHOWN:
            kind = Event.SERVED
        if kind == LogKind.ADMIT:
            kind = Event.VOTE
        if kind == LogKind.VOTE and ((of, serial) in dropped or mark is not None):
            kind = Event.SKIP
        event = {
            "event": kind,
            "a": a,
            "b": b,
            "prompt": prompt,
            "serial": serial,
            "time": int(at.timestamp()),
        }
        if kind == Event.SERVED:
            event |= {"lane": lane, "nominal": nominal, "session": session}
        if kind == Event.VOTE:
            event["kind"] = outcome
            event["session"] = session if source == HUMAN else NO_SESSION
        following.fold(Events.of([{name: value or 0 for name, value in event.items()}]))
    return following
