"""Asks and providers for the tests of providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from tiltyard.core.judging.question import VERDICT_SCHEMA, ChatPrompt
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.providers.provider import BatchEntry, BatchItem, BatchStatus, Provider

SDKS = ("anthropic", "openai")


def ask(
    user: str = "Which?",
    form: VerdictForm = VerdictForm.TEXT,
    system: str = "End with VERDICT.",
    limit: int = 200,
) -> ChatPrompt:
    return ChatPrompt(system, user, limit, form, None if form is VerdictForm.TEXT else VERDICT_SCHEMA)


@asynccontextmanager
async def opened(
    name: str, url: str, seconds: float = 20.0, key: str | None = "key"
) -> AsyncIterator[Provider]:
    provider = open_provider(name, url, key, seconds)
    try:
        yield provider
    finally:
        await provider.aclose()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def items(provider: Provider, count: int, tag: str = "") -> list[BatchItem]:
    return [BatchItem(f"q{n}", provider.body("m", ask(f"{tag} {n}"), {})) for n in range(count)]


async def ended(provider: Provider, batch: str) -> BatchStatus:
    """The batch, polled until it has ended."""
    for _ in range(1000):
        status = await provider.poll(batch)
        if status.ended:
            return status
        await asyncio.sleep(0.01)
    raise AssertionError("the batch does not end")


async def entries(provider: Provider, batch: str) -> list[BatchEntry]:
    return [entry async for entry in provider.results(batch)]


@cache
def anthropic() -> Provider:
    """Opened by the first test that needs it: its library takes seconds to load."""
    return open_provider("anthropic", "http://127.0.0.1:9", None)


@cache
def openai() -> Provider:
    return open_provider("openai", "http://127.0.0.1:9/v1", None)
