"""The groups of votes in which a change of the crowd is looked for, besides all votes.

Networks and languages are many, and each group costs evidence and memory. Networks are watched if several sessions came
from them lately, in four groups by their hash; languages are a few common ones and the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tiltyard.foundation.arrays import Array, Floats, Ints

#: New pairs before they are merged into the arrays.
_UNMERGED_COUNT = 2_048
#: By number, as the log stores them: append, never reorder. Hours are of the day, in UTC.
VOTE_GROUP_LABELS: Mapping[str, str] = {
    "all": "all votes",
    "new-voters": "the first ten votes of a voter",
    "skipping-voters": "votes of voters who mostly skip",
    "quick-votes": "votes within five seconds",
    "hours-0-6": "votes from 0 to 6 o'clock UTC",
    "hours-6-12": "votes from 6 to 12 o'clock UTC",
    "hours-12-18": "votes from 12 to 18 o'clock UTC",
    "hours-18-24": "votes from 18 to 24 o'clock UTC",
    "shared-networks-1": "votes from networks with many voters (first group)",
    "shared-networks-2": "votes from networks with many voters (second group)",
    "shared-networks-3": "votes from networks with many voters (third group)",
    "shared-networks-4": "votes from networks with many voters (fourth group)",
    "language-en": "votes with browsers in English",
    "language-zh": "votes with browsers in Chinese",
    "language-es": "votes with browsers in Spanish",
    "language-de": "votes with browsers in German",
    "language-fr": "votes with browsers in French",
    "other-languages": "votes with browsers in other languages",
}
VOTE_GROUPS = tuple(VOTE_GROUP_LABELS)
_NEW_VOTES = 10
_SKIP_COUNT = 5
_QUICK_SECONDS = 5.0
_QUARTER_SECONDS = 6 * 3600
_QUARTER_COUNT = 4
_FIRST_QUARTER = VOTE_GROUPS.index("hours-0-6")
#: Sessions from which on a network is a shared one, and the groups of shared networks.
_SHARING_SESSION_COUNT = 5
_NETWORK_GROUP_COUNT = 4
_FIRST_NETWORK = VOTE_GROUPS.index("shared-networks-1")
_OTHER_LANGUAGES = VOTE_GROUPS.index("other-languages")
#: Sessions that neither voted nor skipped while others did so often begin anew, which bounds the memory.
_REMEMBERED_DEED_COUNT = 50_000


class _SortedPairs:
    def __init__(self, keys: Ints | None = None, pairs: Floats | None = None) -> None:
        self.keys = np.empty(0, dtype=np.int64) if keys is None else keys
        self.pairs = np.empty((0, 2)) if pairs is None else pairs

    def get(self, key: int) -> tuple[float, float] | None:
        place = int(self.keys.searchsorted(key))
        if place == len(self.keys) or self.keys[place] != key:
            return None
        first, second = self.pairs[place].tolist()
        return first, second

    def merged(self, new: Mapping[int, tuple[float, float]]) -> _SortedPairs:
        """These pairs, with new ones added or in place of those of the same key."""
        keys = np.fromiter(new.keys(), np.int64, len(new))
        pairs = np.array(list(new.values()), dtype=np.float64).reshape(-1, 2)
        order = keys.argsort()
        keys, pairs = keys[order], pairs[order]
        place = self.keys.searchsorted(keys)
        known = np.zeros(len(keys), dtype=bool)
        inside = place < len(self.keys)
        known[inside] = self.keys[place[inside]] == keys[inside]
        replaced = self.pairs.copy()
        replaced[place[known]] = pairs[known]
        return _SortedPairs(
            np.insert(self.keys, place[~known], keys[~known]),
            np.insert(replaced, place[~known], pairs[~known], axis=0),
        )


class VoterOrigin(NamedTuple):
    """Where a session came from, as far as it is known: some bits of a hash of its network, and its browser's language."""

    network: int | None = None
    #: A short code, such as ``en``.
    language: str | None = None


class VoteGrouping:
    """Says to which groups each vote belongs, from what its session did before it."""

    def __init__(self) -> None:
        self._deeds = 0
        #: Votes and skips of each session.
        self._sessions = RecentTable()
        #: Sessions that voted, of each network.
        self._networks = RecentTable()

    def skip(self, session: int) -> None:
        """A session skipped a matchup."""
        self._count(session, 0, 1)

    def vote(self, session: int, at: float, seconds: float | None, origin: VoterOrigin) -> int:
        """The groups as bits of a number, the first group lowest.

        ``at`` in seconds since 1970; ``seconds`` since the matchup was shown, if known.
        """
        votes, skips = self._count(session, 1, 0)
        quarter = int(at // _QUARTER_SECONDS) % _QUARTER_COUNT
        inside = (
            True,
            votes <= _NEW_VOTES,
            skips >= _SKIP_COUNT and skips > votes,
            seconds is not None and seconds < _QUICK_SECONDS,
        )
        bits = sum(1 << group for group, is_member in enumerate(inside) if is_member)
        bits |= 1 << _FIRST_QUARTER + quarter
        if origin.language is not None:
            name = f"language-{origin.language}"
            bits |= 1 << (VOTE_GROUPS.index(name) if name in VOTE_GROUPS else _OTHER_LANGUAGES)
        return bits | self._network_bits(origin.network, is_new=votes == 1)

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays."""
        networks = {f"network_{name}": array for name, array in self._networks.saved().items()}
        return {"deeds": np.array([self._deeds]), **self._sessions.saved(), **networks}

    @classmethod
    def restored(cls, saved: Mapping[str, Array]) -> VoteGrouping:
        """What `saved` returned."""
        grouping = cls()
        grouping._deeds = int(saved["deeds"][0])
        grouping._sessions = RecentTable.restored(saved)
        prefix = "network_"
        grouping._networks = RecentTable.restored(
            {name.removeprefix(prefix): array for name, array in saved.items() if name.startswith(prefix)}
        )
        return grouping

    def _count(self, session: int, votes: int, skips: int) -> tuple[float, float]:
        self._deeds += 1
        if self._deeds % _REMEMBERED_DEED_COUNT == 0:
            self._sessions.age()
            self._networks.age()
        known = self._sessions.get(session)
        counts = known[0] + votes, known[1] + skips
        self._sessions.put(session, counts)
        return counts

    def _network_bits(self, network: int | None, *, is_new: bool) -> int:
        """The group of a network, if it is shared; ``is_new`` if the session has not voted before."""
        if network is None:
            return 0
        sessions = self._networks.get(network)[0] + is_new
        self._networks.put(network, (sessions, 0.0))
        return (
            1 << _FIRST_NETWORK + network % _NETWORK_GROUP_COUNT if sessions >= _SHARING_SESSION_COUNT else 0
        )


def group_flags(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """The groups of votes by vote and group, from their bits."""
    return (bits[:, None] >> np.arange(len(VOTE_GROUPS)) & 1).astype(bool)


class RecentTable:
    """A pair of numbers for each key that was put since the time before last that the table aged.

    It is a bounded memory of an unbounded stream. Keys are whole numbers of 63 bits. Most pairs are in sorted arrays, 24
    bytes each; new ones are in a dictionary until there are enough of them to be merged.
    """

    def __init__(self) -> None:
        self._unmerged: dict[int, tuple[float, float]] = {}
        self._lately = _SortedPairs()
        self._before = _SortedPairs()

    def get(self, key: int) -> tuple[float, float]:
        """The pair of a key; zeros if it has none."""
        return self._unmerged.get(key) or self._lately.get(key) or self._before.get(key) or (0.0, 0.0)

    def put(self, key: int, pair: tuple[float, float]) -> None:
        self._unmerged[key] = pair
        if len(self._unmerged) >= _UNMERGED_COUNT:
            self._merge()

    def age(self) -> None:
        """Forget the pairs that were not put since the table last aged."""
        self._merge()
        self._before, self._lately = self._lately, _SortedPairs()

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays."""
        self._merge()
        return {
            "lately_keys": self._lately.keys,
            "lately_pairs": self._lately.pairs,
            "before_keys": self._before.keys,
            "before_pairs": self._before.pairs,
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Array]) -> RecentTable:
        """What `saved` returned."""
        table = cls()
        table._lately = _SortedPairs(saved["lately_keys"], saved["lately_pairs"])
        table._before = _SortedPairs(saved["before_keys"], saved["before_pairs"])
        return table

    def _merge(self) -> None:
        if self._unmerged:
            self._lately = self._lately.merged(self._unmerged)
            self._unmerged = {}
