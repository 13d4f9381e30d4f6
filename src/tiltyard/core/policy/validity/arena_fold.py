"""`ArenaFold`: all that is known of one source of an arena's votes, followed from event to event.

A standing, its ratings and its evaluations belong together: the rules are looked at after certain
votes, exactly there, however the log is cut into pieces on its way here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from tiltyard.core.battles import CodedBattles
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.evaluation import EvaluationHistory, look, votes_between_evaluations
from tiltyard.core.policy.validity.fold_state import decode_fold, encode_fold, state_digest
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools

#: Of evaluations that are further back, one in so many stays whole; of those still further, one in its square.
_THINNING_RATIO = 16


class ArenaFold:
    """Standing, ratings and evaluations after so many events.

    Folding in any pieces gives the same bits, on every machine. ``whole`` is how many of the last evaluations keep all
    that they saw: older ones keep it ever more rarely, and always when they were and whether the rules
    held. Without it every evaluation is kept whole, which for millions of votes is much.
    """

    def __init__(
        self,
        policy: Policy,
        settings: RaterSettings | None = None,
        models: Sequence[str] = (),
        prompts: Sequence[str] = (),
        *,
        answered: Bools | None = None,
        whole: int | None = None,
    ) -> None:
        if whole is not None and whole < 1:
            raise BadOption(f"whole is {whole}; expected at least 1 evaluation")
        self.settings = RaterSettings() if settings is None else settings
        self.standing = Standing(policy, models, prompts, answered)
        self.rater = Rater(self.settings, len(models))
        self.history = EvaluationHistory.under(policy)
        self.whole = whole
        self._ranked = False

    @property
    def policy(self) -> Policy:
        return self.standing.policy

    @property
    def votes(self) -> int:
        return self.standing.votes

    def fold(self, events: Events) -> None:
        """The next events. After certain votes the rules are looked at (`look`)."""
        for _ in self.fold_evaluations(events):
            pass

    def fold_evaluations(self, events: Events) -> Iterator[tuple[int, bool]]:
        """The next events, stopping at each evaluation: after how many of them, and whether it is the last of them."""
        votes, before, start = np.flatnonzero(events.event == Event.VOTE) + 1, self.votes, 0
        while (ahead := self.history.next_votes - before) <= len(votes):
            stop, known = int(votes[ahead - 1]), len(self.history.evaluations)
            self._take(events[start:stop])
            self.rank()
            self.history = look(self.standing, self.history, time=int(events.time[stop - 1]))
            start = stop
            if len(self.history.evaluations) > known:
                self._thin_out()
                yield stop, self.history.next_votes - before > len(votes)
        if start < len(events):
            self._take(events[start:])

    def rank(self) -> None:
        """Bring the order up to the last vote. What later folds give does not depend on it."""
        if not self._ranked:
            self.standing.rank(self.rater.strengths(self.standing.enabled))
            self._ranked = True

    def widen(self, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Make room for more models and prompts: the names so far, and new ones after them."""
        self.standing.widen(models, prompts)
        self.rater.widen(len(models))
        self._ranked = False

    def under(self, policy: Policy) -> None:
        """From now on this policy holds; see `Standing.under` for what of it cannot change."""
        self.rank()
        self.standing.under(policy)
        known = self.history.evaluations
        every = (
            votes_between_evaluations(self.standing) if known else EvaluationHistory.under(policy).next_votes
        )
        self.history = EvaluationHistory(known, policy.evaluations, (self.votes // every + 1) * every)

    def save(self) -> bytes:
        """Everything, as few bytes: equal states have equal bytes."""
        self.rank()
        return encode_fold(self.standing, self.rater, self.history, self.whole)

    @classmethod
    def restore(cls, saved: bytes) -> ArenaFold:
        """What was saved; it goes on as if it had never stopped."""
        standing, rater, history, whole = decode_fold(saved)
        following = cls(standing.policy, rater.settings, whole=whole)
        following.standing, following.rater, following.history = standing, rater, history
        following._ranked = True
        return following

    @staticmethod
    def save_all(followings: Sequence[ArenaFold]) -> bytes:
        """Several, one after another."""
        saved = [following.save() for following in followings]
        return b"".join(len(one).to_bytes(8, "little") + one for one in saved)

    @classmethod
    def restore_all(cls, saved: bytes) -> list[ArenaFold]:
        """What `save_all` saved."""
        return [cls.restore(each) for each in _parts(saved)]

    @staticmethod
    def digest_all(saved: bytes) -> bytes:
        """One hash of what `save_all` saved: of the contents, whatever the machine's zlib made of them."""
        return sha256(b"".join(state_digest(each) for each in _parts(saved))).digest()

    def digest(self) -> str:
        """One hash of everything."""
        return state_digest(self.save()).hex()

    def _take(self, events: Events) -> None:
        self.standing.fold(events)
        votes = events[events.event == Event.VOTE]
        self.rater.fold(CodedBattles(votes.a, votes.b, votes.kind))
        self._ranked = False

    def _thin_out(self) -> None:
        known = [*self.history.evaluations]
        if self.whole is not None:
            for number in _outline_numbers(len(known), self.whole):
                # When it was, and whether the rules held: nothing of the models.
                nothing = np.empty(0)
                known[number - 1] = replace(
                    known[number - 1],
                    order=np.empty(0, dtype=np.int64),
                    rating=nothing,
                    rd=nothing,
                    coverage=nothing,
                    rules=(),
                )
        self.history = replace(self.history, evaluations=tuple(known))


def _parts(saved: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(saved):
        stop = start + 8 + int.from_bytes(saved[start : start + 8], "little")
        yield saved[start + 8 : stop]
        start = stop


def _outline_numbers(n: int, whole: int) -> list[int]:
    """Numbers of the evaluations that keep only their outline from the ``n``-th on.

    Number k stays whole while fewer than ``whole``·16^j have come after it, for some j with 16^j | k.
    """
    found = []
    step = 1
    while (number := n - whole * step) >= 1:
        if number % step == 0 and number % (step * _THINNING_RATIO):
            found.append(number)
        step *= _THINNING_RATIO
    return found
