"""HTTP calls through the clients of both SDKs, with raw bodies.

Uses the SDKs' low-level methods, which take bytes and return the HTTP response, so that the bytes that were
hashed are the bytes that are sent, and replies are cached unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

import httpx2

from tiltyard.errors import BadOption, ProviderFault
from tiltyard.judges.providers.faults import to_provider_fault, unreadable_reply
from tiltyard.judges.providers.json_bodies import parse_body
from tiltyard.judges.providers.provider import Body
from tiltyard.settings.prices import OWN_ADDRESSES

__all__ = ["HttpClient", "checked_base_url"]

_JSON = {"Content-Type": "application/json"}


class HttpClient:
    """The client of an SDK for one base URL. Raises all errors as `ProviderFault`."""

    def __init__(self, client: Any, stream: type, name: str, *, keyless: str | None = None) -> None:
        self._client = client
        # Remove headers set by environment variables: they could change the request or its destination.
        client._custom_headers = {}  # noqa: SLF001  the SDKs have no public API for it
        self._stream = stream
        self.base_url = str(client.base_url).rstrip("/")
        self.where = f"{name} at {self.base_url}"
        #: Error message if the key is missing at a URL that needs one.
        self._keyless = keyless

    async def post(self, path: str, content: bytes, *, billable: bool = False, creates: bool = False) -> Body:
        """Post a JSON document and return the JSON reply."""
        options = {"headers": dict(_JSON)}
        return await self._call(
            "post", path, billable=billable, creates=creates, content=content, options=options
        )

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes]) -> Body:
        """Post a file as a multipart form."""
        options = {"headers": {"Content-Type": "multipart/form-data"}}
        return await self._call("post", path, body=dict(fields), files=[("file", file)], options=options)

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Body:
        return await self._call("get", path, options={"params": dict(query or {})})

    async def lines(self, path: str) -> AsyncGenerator[Body, None]:
        """Stream JSON Lines, without loading the whole file."""
        with self._translated(billable=False):
            response = await self._client.get(
                path, cast_to=httpx2.Response, stream=True, stream_cls=self._stream
            )
        try:
            with self._translated(billable=False):
                async with aclosing(_split(response)) as lines:
                    async for line in lines:
                        yield self._document(line, billable=False)
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.close()

    async def _call(
        self, verb: str, path: str, *, billable: bool = False, creates: bool = False, **given: Any
    ) -> Body:
        with self._translated(billable=billable, creates=creates):
            response = await getattr(self._client, verb)(path, cast_to=httpx2.Response, **given)
        return self._document(response.content, billable=billable)

    @contextmanager
    def _translated(self, *, billable: bool, creates: bool = False) -> Iterator[None]:
        if self._keyless is not None:
            raise ProviderFault(f"{self.where}: {self._keyless}", status=401)
        try:
            yield
        except ProviderFault:
            raise
        except Exception as error:  # noqa: BLE001  SDK and HTTP client have no common base class
            raise to_provider_fault(error, self.where, billable=billable, creates=creates) from None

    def _document(self, data: bytes, *, billable: bool) -> Body:
        try:
            document = parse_body(data)
        except ValueError as error:
            raise unreadable_reply(
                self.where, f"the reply is not JSON ({error})", billable=billable
            ) from None
        if not isinstance(document, dict):
            raise unreadable_reply(self.where, "the reply is not a JSON object", billable=billable)
        return document


async def _split(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Split at newlines only: the client's own line iterator also splits at U+2028 inside a string."""
    rest = bytearray()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            rest += chunk
            if b"\n" not in chunk:
                continue
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            for line in lines:
                if line.strip():
                    yield line
    if rest.strip():
        yield bytes(rest)


def checked_base_url(base_url: str | None, provider: str) -> str:
    """A checked base URL; ``None`` is the provider's default, regardless of environment variables."""
    if base_url is None:
        return OWN_ADDRESSES[provider]
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadOption(f"base_url {base_url!r} is not a valid URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadOption(f"base_url {base_url!r} must start with http:// or https:// and have a host")
    return base_url
