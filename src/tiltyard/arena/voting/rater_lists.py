"""The work lists of an arena's expert panels in memory: which item a rater is asked about next.

Lists are read from the tables and followed vote by vote. Following the same event twice changes nothing, so that it
does not matter which events the tables had already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tiltyard.arena.log.event_log import HUMAN, OpenMatchup
from tiltyard.arena.log.panel_tasks import PanelRows
from tiltyard.core.judging.panel_assignment import PanelItem
from tiltyard.core.policy.matchmaking.matchmaker import Choice
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import NoMatchup

#: Why a panel's matchups were chosen.
PANEL_REASON = "expert panel"
#: A skipped item comes back once, after all others; skipped again, it stays without this rater's vote.
_SKIP_LIMIT = 2

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class RaterList:
    """One rater's items in order, with whether sides are exchanged; and which of them were answered."""

    is_open: bool
    tasks: dict[PanelItem, bool] = field(default_factory=dict)
    voted: set[PanelItem] = field(default_factory=set)
    #: By item, the serials of the matchups that the rater skipped.
    skipped: dict[PanelItem, set[int]] = field(default_factory=dict)

    def next_choice(self, responses: Ints, opened: Iterable[OpenMatchup]) -> Choice:
        """The next item that is neither answered nor open nor withdrawn, as a choice of matchmaking.

        It counts as exploration: nothing that is known of the models had a part in choosing it.
        """
        if not self.is_open:
            raise NoMatchup("this panel is closed; thank you for your votes")
        held = {_item_of(one) for one in opened}
        left = [
            item
            for item in self.tasks
            if item not in held and self._wants(item) and _has_responses(responses, item)
        ]
        if not left:
            raise NoMatchup("your list is finished; thank you for your votes")
        item = min(left, key=lambda item: len(self.skipped.get(item, ())))
        sides = (item.other, item.one) if self.tasks[item] else (item.one, item.other)
        return Choice(*sides, item.prompt, Lane.EXPLORATION, Lane.EXPLORATION, PANEL_REASON, 1.0)

    def _wants(self, item: PanelItem) -> bool:
        return item not in self.voted and len(self.skipped.get(item, ())) < _SKIP_LIMIT


class RaterLists:
    """The lists of all raters of an arena, by session."""

    def __init__(self, rows: PanelRows | None = None) -> None:
        self._lists: dict[int, RaterList] = {}
        if rows is None:
            return
        self._lists = {session: RaterList(is_open) for session, is_open in rows.raters.items()}
        for task in rows.tasks:
            self._lists[task.session].tasks[task.item] = task.exchanged
        for answer in rows.answers:
            item = PanelItem(answer.prompt, *sorted((answer.a, answer.b)))
            if answer.kind == 1:
                self._lists[answer.session].voted.add(item)
            else:
                self._lists[answer.session].skipped.setdefault(item, set()).add(answer.serial)

    def of(self, source: int, session: int) -> RaterList | None:
        """The list of a rater; ``None`` for a voter who is in no panel."""
        return self._lists.get(session) if source == HUMAN else None

    def vote(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.voted.add(_item_of(one))

    def undo(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.voted.discard(_item_of(one))

    def skip(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.skipped.setdefault(_item_of(one), set()).add(one.serial)


def _item_of(one: OpenMatchup) -> PanelItem:
    return PanelItem(one.prompt, *sorted((one.a, one.b)))


def _has_responses(responses: Ints, item: PanelItem) -> bool:
    return bool(responses[item.one, item.prompt] and responses[item.other, item.prompt])
