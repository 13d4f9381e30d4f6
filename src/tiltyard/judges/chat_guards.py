"""What is asked of a moderation endpoint or a guard model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["ChatGuard", "ChatMessage"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


class ChatGuard(Protocol):
    """Says whether a conversation is harmful."""

    async def harm(self, conversation: Sequence[ChatMessage]) -> tuple[str, ...] | None:
        """The categories of the harm, perhaps none of them named; ``None`` if there is no harm.

        Raises `ProviderFault` if it cannot be said.
        """
        ...

    async def close(self) -> None: ...
