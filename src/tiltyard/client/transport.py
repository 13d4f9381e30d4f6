"""Sending calls, waiting or in asynchronous code: one connection pool, cookies kept, passing failures waited out."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from tiltyard.client.api_call import (
    Call,
    Exchange,
    LineStream,
    error_from_problem,
    gate_call,
    http_options,
    load_http_library,
    unreachable_error,
)
from tiltyard.foundation.local_files import atomic_write

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
T = TypeVar("T")
Now_co = TypeVar("Now_co", covariant=True)
Later_co = TypeVar("Later_co", covariant=True)


class Transport:
    """Sends calls and waits for their answers."""

    def __init__(
        self, base_url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 10.0
    ) -> None:
        self._library = load_http_library()
        self._http: httpx2.Client = self._library.Client(**http_options(base_url, token, timeout))
        self._base_url = base_url
        self._patience = patience

    def call(self, call: Call[T]) -> T:
        """What the server answers; a refusal is an error of the `Refused` tree."""
        if call.save_to is not None:
            with self.stream(call) as pieces, atomic_write(call.save_to) as file:
                file.writelines(pieces)
            return call.read(call.save_to)
        exchange = Exchange(call, self._base_url, self._patience)
        while True:
            try:
                answer = self._http.send(exchange.request(self._http))
            except self._library.TransportError as error:
                time.sleep(exchange.wait(error))
                continue
            if answer.is_success:
                return call.value(answer)
            gate = exchange.gate_ahead(answer)
            if gate is None or not exchange.solve(self.call(gate_call(gate))):
                time.sleep(exchange.wait(answer))

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

    def stream_lines(self, lines: LineStream[T]) -> Iterator[T]:
        """The values of an answer's lines as they come."""
        read = lines.reader()
        with self.stream(lines.call) as pieces:
            for piece in pieces:
                yield from read(piece)
            yield from read(b"\n")

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTransport:
    """The same for asynchronous code."""

    def __init__(
        self, base_url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 30.0
    ) -> None:
        self._library = load_http_library()
        self._http: httpx2.AsyncClient = self._library.AsyncClient(**http_options(base_url, token, timeout))
        self._base_url = base_url
        self._patience = patience

    async def call(self, call: Call[T]) -> T:
        """What the server answers; a refusal is an error of the `Refused` tree."""
        if call.save_to is not None:
            async with self.stream(call) as pieces:
                with atomic_write(call.save_to) as file:
                    async for piece in pieces:
                        file.write(piece)
            return call.read(call.save_to)
        exchange = Exchange(call, self._base_url, self._patience)
        while True:
            try:
                answer = await self._http.send(exchange.request(self._http))
            except self._library.TransportError as error:
                await asyncio.sleep(exchange.wait(error))
                continue
            if answer.is_success:
                return call.value(answer)
            gate = exchange.gate_ahead(answer)
            if gate is None or not await asyncio.to_thread(exchange.solve, await self.call(gate_call(gate))):
                await asyncio.sleep(exchange.wait(answer))

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

    async def stream_lines(self, lines: LineStream[T]) -> AsyncIterator[T]:
        """The values of an answer's lines as they come."""
        read = lines.reader()
        async with self.stream(lines.call) as pieces:
            async for piece in pieces:
                for value in read(piece):
                    yield value
            for value in read(b"\n"):
                yield value

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ClientMethod(Protocol[P, Now_co, Later_co]):
    """A method of both clients, as the type checker sees it: what one returns, and what the asynchronous one does."""

    @overload
    def __get__(self, client: Transport, owner: object = None) -> Callable[P, Now_co]: ...
    @overload
    def __get__(self, client: AsyncTransport, owner: object = None) -> Callable[P, Later_co]: ...


def sends(
    build: Callable[Concatenate[Any, P], Call[T]],
) -> ClientMethod[P, T, Coroutine[Any, Any, T]]:
    """Make a method of both clients from one that builds a call."""

    def send(client: Any, *args: P.args, **options: P.kwargs) -> Any:
        return client.call(build(client, *args, **options))

    method: ClientMethod[P, T, Coroutine[Any, Any, T]] = _shown_as(build, send, "{}")
    return method


def streams(
    build: Callable[Concatenate[Any, P], LineStream[T]],
) -> ClientMethod[P, Iterator[T], AsyncIterator[T]]:
    """Make a method of both clients from one that builds a stream of lines."""

    def send(client: Any, *args: P.args, **options: P.kwargs) -> Any:
        return client.stream_lines(build(client, *args, **options))

    method: ClientMethod[P, Iterator[T], AsyncIterator[T]] = _shown_as(build, send, "Iterator[{}]")
    return method


def _shown_as(build: Callable[..., Any], send: Callable[..., Any], returned: str) -> Any:
    """Name, parameters and docstring of ``build`` for ``help``, with the value that a caller gets."""
    signature = inspect.signature(build)
    value = str(signature.return_annotation).partition("[")[2].removesuffix("]")
    method: Any = wraps(build)(send)
    method.__signature__ = signature.replace(return_annotation=returned.format(value))
    return method
