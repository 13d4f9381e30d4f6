"""`Standing`: the ranking policy's state of an arena, folded from its log."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_SESSION, Event, Events
from tiltyard.core.policy.state.exposure_window import ExposureWindow
from tiltyard.core.policy.state.pair_counts import FREE_PROMPT_LIMIT, PairCounts
from tiltyard.core.policy.state.policy import KEPT_SHAPES, Lane, Policy
from tiltyard.core.policy.state.prompt_cells import (
    BOTH_BAD,
    BOTH_BAD_FLAG_OFFSET,
    FLAGGED_KINDS,
    LEFT_RESULTS,
    LOSS,
    TIE,
    WIN,
    PromptCells,
)
from tiltyard.core.policy.state.session_memory import SessionMemories
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.state.vote_log import RecentVotes, VoteLog
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Ints

_MIRROR = np.array([LOSS, WIN, TIE, BOTH_BAD])
#: The result of each kind of vote for either side, and what is added to both in the recent votes.
_SIDES = {
    kind: (left, int(_MIRROR[left]), BOTH_BAD_FLAG_OFFSET * flagged)
    for kind, (left, flagged) in enumerate(zip(LEFT_RESULTS.tolist(), FLAGGED_KINDS.tolist(), strict=True))
}
#: Fewer events than this are folded one by one. So are fewer than the cells, and cells of pairs, that
#: would have to be recomputed after a bulk fold, at this many in the time of one event.
_BULK_EVENTS = 64
_CELLS_PER_EVENT = 500
_PAIR_CELLS_PER_EVENT = 150
_DAY_SECONDS = 86_400
_VOTE_FIELDS = ("a", "b", "prompt", "kind", "session", "free_prompt", "time")
#: A small arena is one of so many people, until more have voted.
SMALL_ARENA_PEOPLE_COUNT = 12
#: The arrival of a model that was never enabled.
NEVER_ARRIVED_VOTES = -1


class Standing:
    """Counts, exposures, meetings and session memories of one arena and one source of votes.

    Events can be folded one at a time (`serve`, `vote`, `expire`, …) or in bulk (`fold`): the state is
    the same, bit for bit. Ratings are computed elsewhere: `rank` sets them, and with them the order,
    the contender band and its higher floors.

    ``vote_log`` is what batch ratings are made of. Whoever makes none saves its memory with `forget_votes`.

    Where prompts are free (``policy.free_prompts``), ``prompts`` are categories, and so are those of ``cells`` and
    ``meetings``; ``prompt_meetings`` and ``vote_log`` have the prompts that voters wrote.
    """

    def __init__(
        self, policy: Policy, models: Sequence[str], prompts: Sequence[str], answered: Bools | None = None
    ) -> None:
        m, p = len(models), len(prompts)
        if answered is None:
            answered = np.ones((m, p), dtype=bool)
        if answered.shape != (m, p):
            raise BadOption(f"answered has shape {answered.shape}; expected ({m}, {p})")
        self.policy = policy
        self.models = tuple(models)
        self.prompts = tuple(prompts)
        self.cells = PromptCells(policy, answered)
        self.meetings = PairCounts(policy, m, p)
        #: Votes of pairs by the prompt that was compared on: the same as ``meetings``, unless prompts are free.
        self.prompt_meetings = (
            PairCounts(policy, m, FREE_PROMPT_LIMIT) if policy.free_prompts else self.meetings
        )
        self.window = ExposureWindow(policy, m)
        self.sessions = SessionMemories(policy)
        self.model_votes = RecentVotes(m, policy.both_bad_over)
        self.prompt_votes = RecentVotes(p, policy.both_bad_over)
        #: Wins, losses, ties and both_bad of each model.
        self.record = np.zeros((m, 4), dtype=np.int64)
        #: Exposures since the log began, and how many of them were on the left.
        self.shown = np.zeros((m, 2), dtype=np.int64)
        #: Matchups by the lane drawn and the lane that chose.
        self.lanes = np.zeros((len(Lane), len(Lane)), dtype=np.int64)
        self.votes = self.skipped = self.expired = 0
        self.vote_log: VoteLog | None = VoteLog()
        #: Votes cast before each model was first enabled; −1 if it never was.
        self.arrived: Ints = np.full(m, NEVER_ARRIVED_VOTES)
        self.strengths = Strengths.unknown(m)
        #: Enabled models, best conservative score first; and which of them are in the contender band.
        self.order: Ints = np.empty(0, dtype=np.int64)
        self.in_band: Bools = np.zeros(m, dtype=bool)
        self._roster_changed()

    @property
    def enabled(self) -> Bools:
        """Which models may be served."""
        return self.cells.enabled

    @property
    def n_enabled(self) -> int:
        return len(self.order)

    @property
    def collectable_votes(self) -> float:
        """Votes of twelve people who judge every pair on every prompt once: what a small arena can collect."""
        if self.policy.free_prompts:
            return math.inf
        shared = self.cells.shared
        return float(SMALL_ARENA_PEOPLE_COUNT * (int(shared.sum()) - int(np.trace(shared))) / 2)

    @property
    def compared_prompts(self) -> tuple[str, ...] | None:
        """The names of the prompts of ``vote_log``; ``None`` if prompts are free, which have numbers only."""
        return None if self.policy.free_prompts else self.prompts

    def serve(
        self,
        a: int,
        b: int,
        prompt: int,
        *,
        lane: Lane = Lane.EXPLORATION,
        nominal: Lane | None = None,
        session: int = NO_SESSION,
        serial: int | None = None,
    ) -> int:
        """Record a matchup that is shown, with ``a`` on the left and ``b`` on the right; return its serial.

        By default the serial is the number of matchups shown before: then none may have been prefetched.
        """
        serial = self.window.serve(a, b, contender=lane == Lane.CONTENDER, serial=serial)
        self.meetings.serve(a, b, prompt)
        self.shown[a, 0] += 1
        self.shown[a, 1] += 1
        self.shown[b, 0] += 1
        self.lanes[lane if nominal is None else nominal, lane] += 1
        if session != NO_SESSION:
            self.sessions.serve(session, a, b, prompt)
        return serial

    def reserve(self, a: int, b: int, prompt: int, lane: Lane) -> None:
        """Expect a prefetched matchup to be shown. It is no exposure yet, but choices take it into account."""
        self.window.reserve(a, b, contender=lane == Lane.CONTENDER)
        self.meetings.reserve(a, b, prompt)

    def unreserve(self, a: int, b: int, prompt: int, lane: Lane) -> None:
        """Expect a reserved matchup no longer: it is shown now, or never will be."""
        self.window.reserve(a, b, contender=lane == Lane.CONTENDER, matchups=-1)
        self.meetings.unreserve(a, b, prompt)

    def vote(
        self,
        a: int,
        b: int,
        prompt: int,
        kind: int,
        session: int = NO_SESSION,
        free_prompt: int = NO_FREE_PROMPT,
        time: int = 0,
    ) -> None:
        """Record the vote that ended a matchup with ``a`` on the left, the session that cast it, and when, if known."""
        left, right, flag = _SIDES[kind]
        compared_on = self._free_prompt(free_prompt) if self.policy.free_prompts else prompt
        self.meetings.vote(a, b, prompt, left)
        if self.policy.free_prompts:
            self.prompt_meetings.vote(a, b, compared_on, left)
        met = left <= LOSS and self.meetings.decisive[a, b] == self.policy.pair_floor
        if met and self.enabled[a] and self.enabled[b]:
            self.thin[a] -= 1
            self.thin[b] -= 1
        for model, result in ((a, left), (b, right)):
            self.cells.vote(model, prompt, result)
            self.record[model, result] += 1
            self.model_votes.add(model, result + flag)
        self.prompt_votes.add(prompt, left + flag)
        if self.vote_log is not None:
            self.vote_log.add(a, b, compared_on, session, kind, time // _DAY_SECONDS)
        self.votes += 1

    def forget_votes(self) -> None:
        """Keep no log of votes from now on: there will be no batch ratings."""
        self.vote_log = None

    def skip(self) -> None:
        """Record a skipped matchup: an exposure, but not an attempt."""
        self.skipped += 1

    def expire(self, serial: int) -> None:
        """Record that a matchup was not answered in time: its exposures leave the window."""
        self.window.expire(serial)
        self.expired += 1

    def enable(self, model: int) -> None:
        self._enable(model, now=True)

    def retire(self, model: int) -> None:
        """Stop serving this model; its results are kept."""
        self._enable(model, now=False)

    def respond(self, model: int, prompt: int, *, present: bool = True) -> None:
        """Record the model's response to this prompt, or its withdrawal."""
        self.cells.respond(model, prompt, present=present)

    def prompts_needed(self, one: int, other: int) -> int:
        """The number of prompts on which adjacent models need a decisive vote; 0 if they share none now.

        ``policy.adjacent_prompts``, or as many as they share now or already have a decisive vote on.
        If only the current prompts limited this number, twelve votes on a withdrawn prompt would
        satisfy the floor of a pair that never met on the one prompt it still shares.

        =====================================================  ======
        share 8 prompts                                        6
        share 3, met on these or on none                       3
        share 1; met on another one, since withdrawn           2
        share 1; met on 7 others, since withdrawn              6
        prompts are free, share a category                     6
        =====================================================  ======
        """
        most, cells = self.policy.adjacent_prompts, self.cells
        shared, met = int(cells.shared[one, other]), self.meetings.cells(one, other)
        if self.policy.free_prompts:
            return most if shared else 0
        if shared == 0 or shared >= most or met is None:
            return min(most, shared)
        decided = met.prompts[met.tally[:, : LOSS + 1].any(axis=1)]
        gone = ~(cells.answered[one, decided] & cells.answered[other, decided])
        return min(most, shared + int(np.count_nonzero(gone)))

    def rank(self, strengths: Strengths) -> None:
        """Set new strengths, and update the order, contender band and floors."""
        self.strengths = strengths
        self.order = strengths.order(self.enabled)
        band = self.order[: self.policy.contenders]
        changed = np.zeros(len(self.models), dtype=bool)
        changed[band] = True
        for model in np.flatnonzero(changed != self.in_band).tolist():
            floor = self.policy.top_prompt_floor if changed[model] else self.policy.prompt_floor
            self.cells.set_floor(model, floor)
        self.in_band = changed

    def fold(self, events: Events) -> None:
        """Fold many events at once."""
        if self.policy.free_prompts:
            written = events.free_prompt[events.event == Event.VOTE]
            self._free_prompt(int(written.min(initial=1)))
            self._free_prompt(int(written.max(initial=1)))
        cells = len(self.models) * len(self.prompts)
        met = int(self.prompt_meetings.prompts.sum()) // 2
        if len(events) < max(_BULK_EVENTS, cells // _CELLS_PER_EVENT, met // _PAIR_CELLS_PER_EVENT):
            self._fold_each(events)
            return
        # Fold shown and expired matchups with roster changes, the only events whose order matters.
        window, enabled = self.window, self.cells.enabled
        is_vote = events.event == Event.VOTE
        roster = (events.event == Event.ENABLE) | (events.event == Event.RETIRE)
        start = 0
        for stop in [*np.flatnonzero(roster).tolist(), len(events)]:
            self._fold_exposures(events[start:stop])
            for row in range(stop, min(stop + 1, len(events))):
                model, now = int(events.a[row]), bool(events.event[row] == Event.ENABLE)
                if enabled[model] != now:
                    self._arrive(model, self.votes + int(np.count_nonzero(is_vote[:row])))
                    enabled[model] = now
                    window.open_epoch(enabled)
            start = stop + 1
        responses = np.flatnonzero(events.event >= Event.RESPOND)
        self.cells.set_answered(
            events.a[responses], events.prompt[responses], events.event[responses] == Event.RESPOND
        )
        self._serve_many(np.flatnonzero(events.event == Event.SERVED), events)
        self._vote_many(np.flatnonzero(events.event == Event.VOTE), events)
        self.skipped += int(np.count_nonzero(events.event == Event.SKIP))
        self.expired += int(np.count_nonzero(events.event == Event.EXPIRE))
        self.cells.refresh()
        self._roster_changed()

    def widen(self, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Add more models and prompts: the existing names must come first."""
        if (
            tuple(models[: len(self.models)]) != self.models
            or tuple(prompts[: len(self.prompts)]) != self.prompts
        ):
            raise BadOption("a standing can only grow: existing models and prompts must keep their positions")
        m, p = len(models), len(prompts)
        more = m - len(self.models)
        self.models, self.prompts = tuple(models), tuple(prompts)
        self.cells.widen(m, p)
        self.meetings.widen(m, p)
        if self.policy.free_prompts:
            self.prompt_meetings.widen(m, FREE_PROMPT_LIMIT)
        self.window.widen(m)
        self.model_votes.widen(m)
        self.prompt_votes.widen(p)
        self.record = np.pad(self.record, ((0, more), (0, 0)))
        self.shown = np.pad(self.shown, ((0, more), (0, 0)))
        self.arrived = np.pad(self.arrived, (0, more), constant_values=NEVER_ARRIVED_VOTES)
        self.strengths = self.strengths.widened(m)
        self._roster_changed()

    def under(self, policy: Policy) -> None:
        """Switch to another policy; stored data is kept, derived values are recomputed.

        Constants that determine what is remembered cannot change: a longer window cannot be filled
        with matchups that have already left it.
        """
        fixed = [name for name in KEPT_SHAPES if getattr(policy, name) != getattr(self.policy, name)]
        if fixed:
            raise BadOption(
                f"{', '.join(fixed)} cannot change while an arena runs, because stored data depends on it; "
                "keep the value, or create another arena"
            )
        self.policy = policy
        for part in (self.cells, self.meetings, self.window, self.sessions):
            part.under(policy)
        self.in_band[:] = False
        self._roster_changed()

    def _enable(self, model: int, *, now: bool) -> None:
        if self.cells.enabled[model] != now:
            self._arrive(model, self.votes)
            self.cells.enable(model, now=now)
            self.window.open_epoch(self.cells.enabled)
            self._roster_changed()

    def _arrive(self, model: int, votes: int) -> None:
        """Record when a model was first enabled. One that is retired has been enabled before."""
        if self.arrived[model] == NEVER_ARRIVED_VOTES:
            self.arrived[model] = votes

    def _roster_changed(self) -> None:
        met = self.meetings.decisive >= self.policy.pair_floor
        np.fill_diagonal(met, val=True)
        #: Enabled opponents against whom a model has too few decisive votes.
        self.thin = np.where(self.enabled, (~met & self.enabled[None, :]).sum(axis=1), 0)
        self.in_band = np.pad(self.in_band, (0, len(self.models) - len(self.in_band)))
        self.rank(self.strengths)

    def _fold_each(self, events: Events) -> None:
        for row in events.rows():
            event = Event(row["event"])
            if event is Event.SERVED:
                self.serve(
                    row["a"],
                    row["b"],
                    row["prompt"],
                    lane=Lane(row["lane"]),
                    nominal=Lane(row["nominal"]),
                    session=row["session"],
                    serial=row["serial"],
                )
            elif event is Event.VOTE:
                self.vote(*(row[name] for name in _VOTE_FIELDS))
            elif event is Event.SKIP:
                self.skip()
            elif event is Event.EXPIRE:
                self.expire(row["serial"])
            elif event in (Event.ENABLE, Event.RETIRE):
                self._enable(row["a"], now=event is Event.ENABLE)
            else:
                self.respond(row["a"], row["prompt"], present=event is Event.RESPOND)

    def _fold_exposures(self, events: Events) -> None:
        """Fold shown and expired matchups; of many, only those that are still in the window at the end."""
        shown = np.flatnonzero(events.event == Event.SERVED)
        passed = len(shown) - self.policy.window
        if passed > 0:
            self.window.pass_over(passed)
            events = events[shown[passed] :]
        for row in events[(events.event == Event.SERVED) | (events.event == Event.EXPIRE)].rows():
            if row["event"] == Event.SERVED:
                contender = row["lane"] == Lane.CONTENDER
                self.window.serve(row["a"], row["b"], contender=contender, serial=row["serial"])
            else:
                self.window.expire(row["serial"])

    def _serve_many(self, rows: Ints, events: Events) -> None:
        a, b, prompt, session = events.a[rows], events.b[rows], events.prompt[rows], events.session[rows]
        self.meetings.serve_many(a, b, prompt)
        left = np.bincount(a, minlength=len(self.models))
        self.shown[:, 0] += left + np.bincount(b, minlength=len(self.models))
        self.shown[:, 1] += left
        np.add.at(self.lanes, (events.nominal[rows], events.lane[rows]), 1)
        known = np.flatnonzero(session != NO_SESSION)
        for one in zip(*(column[known].tolist() for column in (session, a, b, prompt)), strict=True):
            self.sessions.serve(*one)

    def _vote_many(self, rows: Ints, events: Events) -> None:
        a, b, prompt = events.a[rows], events.b[rows], events.prompt[rows]
        left = LEFT_RESULTS[events.kind[rows]]
        right = _MIRROR[left]
        self.meetings.vote_many(a, b, prompt, left)
        compared_on = prompt
        if self.policy.free_prompts:
            compared_on = events.free_prompt[rows]
            self.prompt_meetings.vote_many(a, b, compared_on, left)
        for model, result in ((a, left), (b, right)):
            self.cells.add(model, prompt, result)
            counts = np.bincount(model * 4 + result, minlength=self.record.size)
            self.record += counts.reshape(self.record.shape)
        both = np.stack([a, b], axis=1).reshape(-1)
        flag = BOTH_BAD_FLAG_OFFSET * FLAGGED_KINDS[events.kind[rows]]
        self.model_votes.add_many(both, np.stack([left + flag, right + flag], axis=1).reshape(-1))
        self.prompt_votes.add_many(prompt, left + flag)
        if self.vote_log is not None:
            day = events.time[rows] // _DAY_SECONDS
            self.vote_log.add_many(a, b, compared_on, events.session[rows], events.kind[rows], day)
        self.votes += len(rows)

    @staticmethod
    def _free_prompt(number: int) -> int:
        """The number of a free prompt. With votes on unknown prompts, claims of prompts like these would be too bold."""
        if not NO_FREE_PROMPT < number < FREE_PROMPT_LIMIT:
            raise BadOption(
                f"a vote names the free prompt {number}; where prompts are free, each vote needs the number of its own, "
                "from 1 up"
            )
        return number
