"""HTTP calls to one provider, with raw bodies: a thin client, and what the providers over it share.

The bytes that were hashed are the bytes that are sent, and replies are returned unchanged.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from tiltyard._version import __version__
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.endpoints import Credentials, Endpoint, checked_base_url, merge_headers
from tiltyard.judges.providers.faults import (
    error_in_reply,
    status_fault,
    to_provider_fault,
    unreadable_reply,
)
from tiltyard.judges.providers.provider import (
    BatchStatus,
    Body,
    ChatRequest,
    Provider,
    StreamEnd,
    StreamPiece,
    StreamTimeouts,
    encode_body,
    parse_body,
)
from tiltyard.judges.providers.stream_readers import (
    EventParser,
    OversizedStream,
    ServerEvent,
    SilenceWatch,
    StreamDeadline,
    StreamReader,
    StreamSilent,
    read_stream,
)
from tiltyard.settings.model_endpoints import PROVIDERS, EndpointRoute

T = TypeVar("T")

_HEADERS = {"Accept": "application/json", "User-Agent": f"tiltyard/{__version__}"}
#: Compression would hold events back.
_STREAM_HEADERS = {"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"}
_DOCUMENT_STARTS = (b"{", b"[", b"<")
#: As many blanks may come before the first event.
_BLANK_HEAD_BYTES = 4096
_CONNECT_SECONDS = 10.0
#: The slowest upload that is waited for: beyond it, a server that stopped reading would hold the call forever.
_UPLOAD_BYTES_PER_SECOND = 50_000
#: A reply, or one line of a batch's results, that is larger is not a reply.
_REPLY_BYTES = 64 * 2**20
#: Larger bodies are written piece by piece, so that other calls are not delayed.
_WHOLE_BODY_BYTES = 2**20
#: Longest header of a reply. Gateways add long ones.
_HEADER_BYTES = 2**16
_REDIRECTS_LIMIT = 5
_KEEPS_METHOD = frozenset({307, 308})
_CONNECTION_LIMIT = 1000
#: Idle connections are closed before common servers close them (after 5 seconds): a request that is sent into a
#: closing connection may or may not have been received.
_IDLE_SECONDS = 4.0
#: A call may take minutes without traffic: keep-alive packets keep it open and detect a dead peer.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
#: Where Linux distributions keep their certificates, if not where Python's OpenSSL looks.
_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request: what is sent, and what it may cost."""

    method: str
    url: URL
    #: Makes the body; called again for a redirect.
    data: Callable[[], Any] = lambda: None
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    billable: bool = False
    creates: bool = False
    #: The model that is asked, for messages.
    model: str = ""


class HttpClient:
    """The calls to one base URL. Raises all errors as `ProviderFault`. Opens nothing before the first call."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        timeout_seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
        keyless: str | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.where = endpoint.where
        self._headers = merge_headers(_HEADERS, headers or {}, endpoint.route.headers, credentials.headers)
        self._query = {**endpoint.route.query, **credentials.query}
        self._credentials = credentials
        self._timeout_seconds = timeout_seconds
        #: Error message if the key is missing at a URL that needs one.
        self._keyless = keyless
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[URL, URL | None] = {}
        self._closed = False

    async def post(
        self, path: str, content: bytes, *, billable: bool = False, creates: bool = False, model: object = ""
    ) -> Body:
        """Post a JSON document and return the JSON reply. ``model`` is named if the call is refused."""
        call = self._posted(path, content, model)
        return await self._exchange(replace(call, billable=billable, creates=creates))

    async def events(
        self, path: str, content: bytes, deadline: StreamDeadline, *, model: object = ""
    ) -> AsyncGenerator[list[ServerEvent] | Body]:
        """Post a JSON document and stream the server-sent events of the reply, as many at a time as arrived together.

        A server that does not stream replies with one JSON document, which is then the only item. Closing the
        iterator closes the connection.
        """
        call = self._posted(path, content, model)
        call = replace(call, billable=True, headers={**call.headers, **_STREAM_HEADERS})
        with self._translated(call):
            response = await self._timely(deadline, self._send(call))
            watch = SilenceWatch(deadline, response.close)
            try:
                if not _succeeded(response):
                    raise self._refused(
                        call, response, await self._timely(deadline, self._content(call, response))
                    )
                chunk = await self._first_chunk(watch, response)
                if chunk.lstrip()[:1] in _DOCUMENT_STARTS:
                    rest = await self._timely(deadline, self._content(call, response))
                    yield self._document(self._credentials.redact(chunk) + rest, billable=True)
                    return
                parser = EventParser()
                while chunk:
                    if events := self._parsed(parser.feed, chunk):
                        yield events
                    chunk = await watch.read(response.content)
                if events := self._parsed(lambda _: parser.close(), b""):
                    yield events
            except StreamSilent:
                raise self._silent(deadline) from None
            finally:
                watch.stop()
                # Closes the connection unless the whole reply was read.
                response.close()

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes]) -> Body:
        """Post a file as a multipart form."""
        name, content = file

        def form() -> aiohttp.FormData:
            data = aiohttp.FormData(dict(fields), default_to_multipart=True)
            data.add_field("file", BytesIO(content), filename=name, content_type="application/octet-stream")
            return data

        return await self._exchange(_Call("POST", self._url(path), form, size=len(content)))

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Body:
        return await self._exchange(_Call("GET", self._url(path, query)))

    async def lines(self, path: str) -> AsyncGenerator[Body, None]:
        """Stream JSON Lines, without loading the whole file."""
        call = _Call("GET", self._url(path))
        with self._translated(call):
            response = await self._send(call)
            async with response:
                if not _succeeded(response):
                    raise self._refused(call, response, await self._content(call, response))
                async with aclosing(self._split(call, response)) as lines:
                    async for line in lines:
                        yield self._document(self._credentials.redact(line), billable=False)

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _posted(self, path: str, content: bytes, model: object) -> _Call:
        return _Call(
            "POST",
            self._url(path),
            (lambda: content) if len(content) < _WHOLE_BODY_BYTES else (lambda: BytesIO(content)),
            {"Content-Type": "application/json"},
            len(content),
            model=str(model),
        )

    async def _exchange(self, call: _Call) -> Body:
        with self._translated(call):
            response = await self._send(call)
            async with response:
                content = await self._content(call, response)
        if not _succeeded(response):
            raise self._refused(call, response, content)
        return self._document(content, billable=call.billable)

    async def _send(self, call: _Call) -> aiohttp.ClientResponse:
        """Send a request and return the response once its headers have arrived.

        Redirects are followed within the same origin; elsewhere only to read, and without our headers, because
        keys and questions are meant for nobody else.
        """
        session = self._opened()
        url, headers = call.url, {**self._headers, **call.headers}
        # Reads have a timeout of their own, which starts when the request has been written.
        patience = _CONNECT_SECONDS + 2 * self._timeout_seconds + call.size / _UPLOAD_BYTES_PER_SECOND
        for _ in range(_REDIRECTS_LIMIT):
            # Let the event loop see connections that the server closed, so that none of them is used for the next request.
            #
            # A request that is lost that way counts as paid, although nobody received it. The first turn of the loop
            # finds out which sockets are ready, the second reads them.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            async with asyncio.timeout(patience):
                origin = url.origin()
                if origin not in self._proxies:
                    try:
                        self._proxies[origin] = _proxy_for(origin)
                    except ValueError as error:
                        raise ProviderFault(f"{self.where}: invalid proxy: {error}") from None
                response = await session.request(
                    call.method,
                    url,
                    data=call.data(),
                    headers=headers,
                    proxy=self._proxies[origin],
                    allow_redirects=False,
                )
            target = _redirected(call.method, url, response)
            if target is None:
                return response
            response.release()
            if target.origin() != url.origin():
                headers = dict(_HEADERS)
            url = target
        raise ProviderFault(f"{self.where}: more than {_REDIRECTS_LIMIT} redirects; check base_url")

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ProviderFault(f"{self.where}: the provider was closed before this call")
        if self._session is None:
            seconds = self._timeout_seconds
            try:
                connector = aiohttp.TCPConnector(
                    limit=_CONNECTION_LIMIT,
                    keepalive_timeout=_IDLE_SECONDS,
                    ssl=_certificates(),
                    socket_factory=_open_socket,
                    # The system's resolver, as for everything else on the machine, even where another one is installed.
                    resolver=aiohttp.ThreadedResolver(),
                )
            except OSError as error:
                problem = f"cannot load certificates: {error}; check SSL_CERT_FILE and SSL_CERT_DIR"
                raise ProviderFault(f"{self.where}: {problem}") from None
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None,
                    connect=seconds + _CONNECT_SECONDS,
                    sock_connect=min(seconds, _CONNECT_SECONDS),
                    sock_read=seconds,
                ),
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )
        return self._session

    async def _content(self, call: _Call, response: aiohttp.ClientResponse) -> bytes:
        pieces = bytearray()
        async for piece in response.content.iter_any():
            pieces += piece
            if len(pieces) > _REPLY_BYTES:
                raise unreadable_reply(self.where, "the reply is too large", billable=call.billable)
        return self._credentials.redact(bytes(pieces))

    async def _split(self, call: _Call, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """Split at newlines only: other line iterators also split at U+2028 inside a string."""
        rest = bytearray()
        async for chunk in response.content.iter_any():
            rest += chunk
            if b"\n" not in chunk:
                if len(rest) > _REPLY_BYTES:
                    raise unreadable_reply(self.where, "a line is too large", billable=call.billable)
                continue
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            for line in lines:
                if line.strip():
                    yield line
        if rest.strip():
            yield bytes(rest)

    async def _first_chunk(self, watch: SilenceWatch, response: aiohttp.ClientResponse) -> bytes:
        """The first bytes that tell what the reply is: no field of an event begins like JSON or HTML."""
        head = b""
        while not head.strip() and len(head) < _BLANK_HEAD_BYTES:
            chunk = await watch.read(response.content)
            if not chunk:
                break
            head += chunk
        return head

    def _parsed(self, parse: Callable[[bytes], list[ServerEvent]], chunk: bytes) -> list[ServerEvent]:
        try:
            events = parse(chunk)
        except OversizedStream as error:
            raise unreadable_reply(self.where, f"the stream is too large: {error}", billable=True) from None
        for number, event in enumerate(events):
            clean = self._credentials.redact(event.data)
            if clean is not event.data:
                events[number] = ServerEvent(event.name, clean)
        return events

    async def _timely(self, deadline: StreamDeadline, work: Awaitable[T]) -> T:
        """Wait for a part of a reply until the deadline of its stream."""
        try:
            async with asyncio.timeout_at(deadline.at):
                return await work
        except aiohttp.ConnectionTimeoutError:
            raise
        except TimeoutError:
            raise self._silent(deadline) from None

    def _silent(self, deadline: StreamDeadline) -> ProviderFault:
        return ProviderFault(f"{self.where}: {deadline.problem}", retryable=True, billed=True)

    @contextmanager
    def _translated(self, call: _Call) -> Iterator[None]:
        if self._keyless is not None:
            raise ProviderFault(f"{self.where}: {self._keyless}", status=401, fatal=True)
        try:
            yield
        except ProviderFault:
            raise
        except Exception as error:  # noqa: BLE001  the HTTP client's errors have no common base class
            raise to_provider_fault(error, self.where, billable=call.billable) from None

    def _refused(self, call: _Call, response: aiohttp.ClientResponse, content: bytes) -> ProviderFault:
        where = f"{self.where}, model {call.model}" if call.model else self.where
        return status_fault(
            response.status,
            response.headers,
            content,
            where,
            billable=call.billable,
            creates=call.creates,
        )

    def _document(self, data: bytes, *, billable: bool) -> Body:
        if data.lstrip()[:1] == b"<":
            # A page of a website: no model has seen the question.
            problem = "the reply is HTML, not JSON: check base_url (--base-url)"
            raise ProviderFault(f"{self.where}: {problem}", status=200, fatal=True)
        try:
            document = parse_body(data)
        except ValueError as error:
            raise unreadable_reply(
                self.where, f"the reply is not JSON ({error})", billable=billable
            ) from None
        if not isinstance(document, dict):
            raise unreadable_reply(self.where, "the reply is not a JSON object", billable=billable)
        return document

    def _url(self, path: str, query: Mapping[str, object] | None = None) -> URL:
        fields = {**self._query, **(query or {})}
        asked = f"?{urlencode(fields, quote_via=quote)}" if fields else ""
        return URL(f"{self.endpoint.base_url}{path}{asked}", encoded=True)


class HttpProvider(Provider):
    """What all providers over HTTP share. Each adds how its requests are written and its replies are read."""

    #: The path of calls after the base URL, which a route may replace.
    call_path: str
    #: The header of the key, which a route may replace.
    key_header: str
    #: The domain of its own servers, which need a key.
    own_domain: str
    #: Sent with every call.
    own_headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float,
        route: EndpointRoute | None = None,
    ) -> None:
        endpoint = Endpoint(self.name, checked_base_url(base_url, self.name), route or EndpointRoute())
        self.is_at_home = (URL(endpoint.base_url).host or "").endswith(self.own_domain)
        self._path = endpoint.route.path or self.call_path
        variable = PROVIDERS[self.name].key_variable
        keyless = f"no API key: set {variable}, or the variable that api_key_env names"
        self._wire = HttpClient(
            endpoint,
            endpoint.credentials(api_key, self.key_header),
            timeout_seconds,
            headers=self.own_headers,
            keyless=keyless if self.is_at_home and not endpoint.has_credentials(api_key) else None,
        )

    @property
    def base_url(self) -> str:
        return self._wire.endpoint.base_url

    @property
    def address(self) -> str:
        return self._wire.endpoint.address

    async def complete(self, body: Body) -> Body:
        reply = await self._wire.post(
            self._path, encode_body(body), billable=True, model=body.get("model", "")
        )
        error = self._stated_error(reply)
        if error and not self.read(reply)[0].text:
            raise error_in_reply(self._wire.where, error)
        return reply

    def _stated_error(self, reply: Body) -> object:
        """The error that a reply with status 200 has instead of an answer, if any."""
        return reply.get("error")

    def chat_body(self, model: str, request: ChatRequest, options: Mapping[str, Any]) -> Body:
        """The exact request for a streamed answer. ``options`` are the user's own fields of the request."""
        raise NotImplementedError

    def stream(
        self, body: Body, timeouts: StreamTimeouts, *, thinking_open: bool = False
    ) -> AsyncGenerator[StreamPiece | StreamEnd]:
        """Send a request once. Raises only `ProviderFault`.

        ``thinking_open``: the server's template has opened the model's thinking, which only a closing tag ends.
        """
        deadline = StreamDeadline(timeouts, asyncio.get_running_loop().time())
        events = self._wire.events(self._path, encode_body(body), deadline, model=body.get("model", ""))
        return read_stream(events, self.stream_reader(thinking_open=thinking_open), deadline)

    def stream_reader(self, *, thinking_open: bool) -> StreamReader:
        """A reader of one stream in this protocol."""
        raise NotImplementedError

    async def aclose(self) -> None:
        await self._wire.close()

    def _status(self, document: object, *, billable: bool = False) -> BatchStatus:
        """The status that a document of the provider states."""
        try:
            return self._parse_batch(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable_reply(self._wire.where, f"not a batch ({error!r})", billable=billable) from None

    def _parse_batch(self, document: Any) -> BatchStatus:
        raise NotImplementedError


def _succeeded(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300


def _redirected(method: str, url: URL, response: aiohttp.ClientResponse) -> URL | None:
    """Where the request must be sent again; ``None`` if nowhere."""
    location = response.headers.get("Location")
    kept = response.status in _KEEPS_METHOD or (method == "GET" and response.status in {301, 302, 303})
    if not kept or not location:
        return None
    target = url.join(URL(location))
    elsewhere = target.origin() != url.origin()
    if elsewhere and (method != "GET" or target.scheme != "https"):
        return None
    return target


def _proxy_for(url: URL) -> URL | None:
    """The proxy of the environment (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``) for a URL.

    Raises `ValueError` if it cannot be used. The message never contains its password.
    """
    proxies = getproxies()
    stated = proxies.get(url.scheme) or proxies.get("all")
    if not stated or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    try:
        proxy = URL(stated if "://" in stated else f"http://{stated}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in {"http", "https"} or not proxy.host:
        raise ValueError(f"set {url.scheme.upper()}_PROXY to an address that begins with http:// or https://")
    return proxy


@cache
def _certificates() -> ssl.SSLContext:
    """The system's certificates, or those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``. Loaded once: it takes long."""
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file or folder:
        return ssl.create_default_context(cafile=file, capath=folder)
    if platform.system() == "Darwin":
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found = ssl.get_default_verify_paths()
    if not (found.cafile or found.capath):
        file = next((name for name in _CERTIFICATE_FILES if Path(name).is_file()), None)
    return ssl.create_default_context(cafile=file)


def _open_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
