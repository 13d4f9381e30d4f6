"""Sending calls: one connection pool, cookies kept, failures that pass waited out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tiltyard.client import voter_calls
from tiltyard.client.api_call import (
    Call,
    RetrySchedule,
    error_from_problem,
    gate_ahead,
    http_options,
    load_http_library,
    unreachable_error,
)
from tiltyard.wire.gate import solve_challenge

if TYPE_CHECKING:
    import httpx2

__all__ = ["AsyncTransport", "Transport"]

T = TypeVar("T")


class Transport:
    """Sends calls and waits for their answers."""

    def __init__(self, base_url: str, token: str | None, timeout: float, patience: float) -> None:
        self._library = load_http_library()
        self._http: httpx2.Client = self._library.Client(**http_options(base_url, token, timeout))
        self._base_url = base_url
        self._patience = patience

    def call(self, call: Call[T]) -> T:
        """What the server answers; a refusal is an error of the `Refused` tree."""
        patience, tries, proof = RetrySchedule(self._patience), 0, None
        while True:
            failed: Exception | httpx2.Response
            try:
                answer = self._http.send(call.request(self._http, proof))
                if answer.is_success:
                    return call.value(answer)
                gate = gate_ahead(answer) if proof is None else None
                if gate is not None:
                    asked = self.call(voter_calls.gate(gate)).challenge
                    proof = None if asked is None else solve_challenge(asked)
                    if proof is not None:
                        continue
                failed = answer
            except self._library.TransportError as error:
                failed = error
            wait = patience.wait(call, failed, tries)
            if wait is None:
                raise _fault(call, self._base_url, failed) from None
            tries += 1
            time.sleep(wait)

    @contextmanager
    def stream(self, call: Call[Any]) -> Iterator[Iterator[bytes]]:
        """The answer's bytes as they come. What breaks off is an error, never a short answer."""
        try:
            answer = self._http.send(call.request(self._http), stream=True)
            try:
                if not answer.is_success:
                    answer.read()
                    raise error_from_problem(answer)
                yield answer.iter_bytes()
            finally:
                answer.close()
        except self._library.TransportError as error:
            raise unreachable_error(call, self._base_url, error) from None

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTransport:
    """The same for asynchronous code."""

    def __init__(self, base_url: str, token: str | None, timeout: float, patience: float) -> None:
        self._library = load_http_library()
        self._http: httpx2.AsyncClient = self._library.AsyncClient(**http_options(base_url, token, timeout))
        self._base_url = base_url
        self._patience = patience

    async def call(self, call: Call[T]) -> T:
        """What the server answers; a refusal is an error of the `Refused` tree."""
        patience, tries, proof = RetrySchedule(self._patience), 0, None
        while True:
            failed: Exception | httpx2.Response
            try:
                answer = await self._http.send(call.request(self._http, proof))
                if answer.is_success:
                    return call.value(answer)
                gate = gate_ahead(answer) if proof is None else None
                if gate is not None:
                    asked = (await self.call(voter_calls.gate(gate))).challenge
                    proof = None if asked is None else await asyncio.to_thread(solve_challenge, asked)
                    if proof is not None:
                        continue
                failed = answer
            except self._library.TransportError as error:
                failed = error
            wait = patience.wait(call, failed, tries)
            if wait is None:
                raise _fault(call, self._base_url, failed) from None
            tries += 1
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(self, call: Call[Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's bytes as they come. What breaks off is an error, never a short answer."""
        try:
            answer = await self._http.send(call.request(self._http), stream=True)
            try:
                if not answer.is_success:
                    await answer.aread()
                    raise error_from_problem(answer)
                yield answer.aiter_bytes()
            finally:
                await answer.aclose()
        except self._library.TransportError as error:
            raise unreachable_error(call, self._base_url, error) from None

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _fault(call: Call[Any], base_url: str, failed: Exception | httpx2.Response) -> Exception:
    return (
        unreachable_error(call, base_url, failed)
        if isinstance(failed, Exception)
        else error_from_problem(failed)
    )
