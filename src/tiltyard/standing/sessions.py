"""What each voter's session has seen, so that it is not shown again too soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tiltyard.standing.meetings import pair_key
from tiltyard.standing.policy import Policy

__all__ = ["UNSEEN", "Memory", "Sessions"]


@dataclass(slots=True)
class Memory:
    """One session: its last pairs, oldest first, and the prompts that it ever saw each pair on."""

    pairs: list[int] = field(default_factory=list)
    prompts: dict[int, list[int]] = field(default_factory=dict)


#: The memory of a session that has seen nothing.
UNSEEN = Memory()


class Sessions:
    """Memories of the sessions served last, at most ``policy.sessions_kept`` of them."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._memories: dict[int, Memory] = {}

    def of(self, session: int) -> Memory:
        """What this session has seen."""
        return self._memories.get(session, UNSEEN)

    def __len__(self) -> int:
        return len(self._memories)

    def serve(self, session: int, a: int, b: int, prompt: int) -> None:
        """This session was shown this matchup."""
        session, prompt = int(session), int(prompt)
        memory = self._memories.pop(session, None) or Memory()
        self._memories[session] = memory
        key = pair_key(a, b)
        memory.pairs.append(key)
        if len(memory.pairs) > self._policy.session_pairs:
            del memory.pairs[0]
        seen = memory.prompts.setdefault(key, [])
        if prompt not in seen:
            seen.append(prompt)
        if len(self._memories) > self._policy.sessions_kept:
            del self._memories[next(iter(self._memories))]

    def saved(self) -> list[list[Any]]:
        """Plain values, the session served longest ago first: what `restored` takes."""
        return [
            [session, list(memory.pairs), [[pair, list(seen)] for pair, seen in memory.prompts.items()]]
            for session, memory in self._memories.items()
        ]

    @classmethod
    def restored(cls, policy: Policy, saved: Sequence[Sequence[Any]]) -> Sessions:
        sessions = cls(policy)
        for session, pairs, prompts in saved:
            sessions._memories[session] = Memory(list(pairs), {pair: list(seen) for pair, seen in prompts})
        return sessions
