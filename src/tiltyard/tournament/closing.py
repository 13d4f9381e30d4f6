"""When a provider will serve none of the calls: a key that is wrong, an account without credit, no such model."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tiltyard.errors import ProviderFault
from tiltyard.judges.limits import Gate
from tiltyard.providers.provider import Body, Provider

__all__ = ["ClosingGate", "watched"]

#: What a provider answers to a wrong key, an empty account, a key without the right, an unknown model.
_HOPELESS = frozenset({401, 402, 403, 404})
#: So many of them, and nothing served in between, are no accident of single requests.
_ENOUGH = 8


class ClosingGate(Gate):
    """A gate that closes when it is pointless to ask on; whoever then wants to enter hears why."""

    def __init__(self, concurrency: int, **limits: Any) -> None:
        super().__init__(concurrency, **limits)
        self.closed: ProviderFault | None = None
        self._in_a_row = 0
        self._empty = asyncio.Event()

    def tell(self, fault: ProviderFault | None) -> None:
        """How a call ended."""
        self._in_a_row = self._in_a_row + 1 if fault is not None and fault.status in _HOPELESS else 0
        if self._in_a_row >= _ENOUGH:
            self.closed = fault

    async def enter(self) -> None:
        await super().enter()
        if self.closed is not None:
            self.leave(well=False)
            # Raising stops everybody: not before the calls under way have come back.
            await self._empty.wait()
            raise ProviderFault(str(self.closed), status=self.closed.status)

    def leave(self, *, well: bool) -> None:
        super().leave(well=well)
        if not self.in_flight:
            self._empty.set()
        else:
            self._empty.clear()


def watched(provider: Provider, gate: ClosingGate) -> Provider:
    """The same provider; the gate hears how its calls end."""
    return cast("Provider", _Watched(provider, gate))


class _Watched:
    def __init__(self, provider: Provider, gate: ClosingGate) -> None:
        self._provider = provider
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def complete(self, body: Body) -> Body:
        try:
            reply = await self._provider.complete(body)
        except ProviderFault as fault:
            self._gate.tell(fault)
            raise
        self._gate.tell(None)
        return reply
