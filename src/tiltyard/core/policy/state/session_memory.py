"""The pairs and prompts that each voter's session has seen, so that they are not repeated too soon."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiltyard.core.policy.state.pair_counts import pair_key
from tiltyard.core.policy.state.policy import Policy
from tiltyard.foundation.arrays import Array

#: A pair and a prompt are packed in one integer: the prompt is in the lowest bits.
_PROMPT_BITS = 23
_PROMPT_MASK = (1 << _PROMPT_BITS) - 1


@dataclass(slots=True)
class SessionMemory:
    """One session: its last pairs, oldest first, and all prompts on which it saw each pair.

    Where prompts are free, no category is remembered: it may come again at once.
    """

    pairs: list[int] = field(default_factory=list)
    prompts: dict[int, list[int]] = field(default_factory=dict)


#: The memory of a new session.
UNSEEN = SessionMemory()


class _PackedMemory:
    """A compact memory: millions are kept, but few are read."""

    __slots__ = ("pairs", "seen")

    def __init__(self, pairs: bytes = b"", seen: bytes = b"") -> None:
        self.pairs = array("q", pairs)
        #: Packed pair and prompt, in the order first seen.
        self.seen = array("q", seen)


class SessionMemories:
    """Memories of the most recently served sessions, at most ``policy.sessions_kept``."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kept: dict[int, _PackedMemory] = {}

    def of(self, session: int, waiting: Sequence[tuple[int, int, int]] = ()) -> SessionMemory:
        """The memory of this session; with matchups that wait to be shown to it, as if it had seen them.

        ``waiting`` has the models and the prompt of each.
        """
        kept = self._kept.get(session)
        if kept is None and not waiting:
            return UNSEEN
        pairs, prompts = [], dict[int, list[int]]()
        if kept is not None:
            pairs = kept.pairs.tolist()
            for both in kept.seen:
                prompts.setdefault(both >> _PROMPT_BITS, []).append(both & _PROMPT_MASK)
        for a, b, prompt in waiting:
            pairs.append(pair_key(a, b))
            prompts.setdefault(pair_key(a, b), []).append(prompt)
        pairs = pairs[max(len(pairs) - self._policy.session_pairs, 0) :]
        return SessionMemory(pairs, {key: [] for key in pairs} if self._policy.free_prompts else prompts)

    def __len__(self) -> int:
        return len(self._kept)

    def serve(self, session: int, a: int, b: int, prompt: int) -> None:
        """Record that this session was shown this matchup."""
        session = int(session)
        kept = self._kept.pop(session, None) or _PackedMemory()
        self._kept[session] = kept
        key = pair_key(a, b)
        kept.pairs.append(key)
        if len(kept.pairs) > self._policy.session_pairs:
            del kept.pairs[0]
        both = key << _PROMPT_BITS | int(prompt)
        if not self._policy.free_prompts and both not in kept.seen:
            kept.seen.append(both)
        if len(self._kept) > self._policy.sessions_kept:
            del self._kept[next(iter(self._kept))]

    def under(self, policy: Policy) -> None:
        """Switch to another policy that remembers as many sessions and pairs."""
        self._policy = policy

    def saved(self) -> dict[str, Array]:
        """Columns, least recently served session first, for `restored`."""
        kept = list(self._kept.values())
        pairs, seen = (
            np.frombuffer(b"".join(getattr(one, name).tobytes() for one in kept), dtype=np.int64)
            for name in ("pairs", "seen")
        )
        return {
            "session": np.fromiter(self._kept, dtype=np.int64, count=len(kept)),
            "session.pairs": np.array([len(one.pairs) for one in kept], dtype=np.int64),
            "session.pair": pairs,
            "session.seen": np.array([len(one.seen) for one in kept], dtype=np.int64),
            "seen.pair": seen >> _PROMPT_BITS,
            "seen.prompt": seen & _PROMPT_MASK,
        }

    @classmethod
    def restored(cls, policy: Policy, saved: Mapping[str, Array]) -> SessionMemories:
        sessions = cls(policy)
        seen = (saved["seen.pair"] << _PROMPT_BITS) | saved["seen.prompt"]
        runs = zip(
            saved["session"].tolist(),
            _cut(saved["session.pair"], saved["session.pairs"]),
            _cut(seen, saved["session.seen"]),
            strict=True,
        )
        for session, pairs, both in runs:
            sessions._kept[session] = _PackedMemory(pairs, both)
        return sessions


def _cut(numbers: Array, sizes: Array) -> Iterator[bytes]:
    plain, start = numbers.astype(np.int64).tobytes(), 0
    for size in (8 * sizes).tolist():
        yield plain[start : start + size]
        start += size
