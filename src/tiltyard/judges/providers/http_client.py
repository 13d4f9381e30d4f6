"""The wire: what both SDKs' clients do for us, with bodies that are sent and kept as they are.

The SDKs' low-level verbs are used, with bytes in and the HTTP response out: what was hashed is
what is sent, and no typed model stands between a reply and the cache.
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
    """One client of an SDK at one address. Whatever goes wrong is a `ProviderFault`."""

    def __init__(self, client: Any, stream: type, name: str, *, keyless: str | None = None) -> None:
        self._client = client
        # The environment may add headers to every call: they would change what is asked, or of whom.
        client._custom_headers = {}  # noqa: SLF001  the SDKs have no other door
        self._stream = stream
        self.base_url = str(client.base_url).rstrip("/")
        self.where = f"{name} at {self.base_url}"
        #: Why nothing can be asked: no key, at an address that wants one.
        self._keyless = keyless

    async def post(self, path: str, content: bytes, *, billable: bool = False, creates: bool = False) -> Body:
        """Post one JSON document; the JSON document that comes back."""
        options = {"headers": dict(_JSON)}
        return await self._call(
            "post", path, billable=billable, creates=creates, content=content, options=options
        )

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes]) -> Body:
        """Post one file, as a form."""
        options = {"headers": {"Content-Type": "multipart/form-data"}}
        return await self._call("post", path, body=dict(fields), files=[("file", file)], options=options)

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Body:
        return await self._call("get", path, options={"params": dict(query or {})})

    async def lines(self, path: str) -> AsyncGenerator[Body, None]:
        """JSON documents, one a line, each as soon as it is there; never the whole file in memory."""
        with self._translated(billable=False):
            response = await self._client.get(
                path, cast_to=httpx2.Response, stream=True, stream_cls=self._stream
            )
        try:
            with self._translated(billable=False):
                async with aclosing(_split(response)) as found:
                    async for line in found:
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
        except Exception as error:  # noqa: BLE001  SDK and HTTP client promise no common root
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
    """Lines by newline only: the client's own split would also cut at U+2028 inside a string."""
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
    """A base URL as the SDKs take it, checked; ``None`` is the provider's own, whatever the environment says."""
    if base_url is None:
        return OWN_ADDRESSES[provider]
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadOption(f"base_url {base_url!r} is not an address: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadOption(f"base_url {base_url!r} must begin with http:// or https:// and name a host")
    return base_url
