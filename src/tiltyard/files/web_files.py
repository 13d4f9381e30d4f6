"""Fetches one file over HTTPS, into a temporary file."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import urllib.error
import urllib.request
from email.message import Message
from typing import IO, Any, BinaryIO, cast
from urllib.parse import SplitResult, quote, urlsplit

from tiltyard._version import __version__
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.input_file import FetchedFiles, spool_input
from tiltyard.foundation.fetch_listener import FetchListener, fetch_listener
from tiltyard.settings.serving_settings import is_loopback

#: Without a byte for so long the connection is given up.
_SILENCE_SECONDS = 60
#: Characters that an address may contain as they are.
_SAFE = "%/:=&?~+!$,;'@()*[]"

#: The first that fits: some are subclasses of others.
_EXPLAINED: tuple[tuple[type[Exception], str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted; check the address, or name its authority in SSL_CERT_FILE",
    ),
    (ssl.SSLError, "no encrypted connection is possible; check the address"),
    (socket.gaierror, "no such host; check the address and the network"),
    (TimeoutError, f"nothing came for {_SILENCE_SECONDS} seconds; try again later"),
    (ConnectionRefusedError, "the server refuses connections; check the address"),
    (http.client.InvalidURL, "no valid address; check it"),
    (UnicodeError, "no valid address; check it"),
)


def fetch_web_file(text: str) -> FetchedFiles:
    """Fetch a file; it is deleted with the returned object."""
    shown = shown_address(text)
    parts = _checked(text, shown)
    address = quote(parts._replace(fragment="").geturl(), safe=_SAFE)
    request = urllib.request.Request(address, headers={"User-Agent": f"tiltyard/{__version__}"})  # noqa: S310 - its scheme is checked
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    opener = urllib.request.build_opener(secure, _CheckedRedirects())
    try:
        response = opener.open(request, timeout=_SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise UnreadableFile(f"{shown}: {_explain_status(error)}") from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise UnreadableFile(f"{shown}: {_explain(error)}") from None
    with response:
        body = cast("BinaryIO", _WebBody(shown, response, fetch_listener()))
        try:
            return FetchedFiles(shown, shown, (spool_input(shown, body),))
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise UnreadableFile(
                f"{shown}: cannot be stored: {problem}; TMPDIR names another folder"
            ) from None


def shown_address(text: str) -> str:
    """The address without its query, which may hold a key, and without a user's name and password."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return text.partition("?")[0]
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")


def _checked(text: str, shown: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadOption(f"{shown}: no valid address") from None
    if not host:
        raise BadOption(f"{shown}: no valid address; expected https://HOST/FILE")
    if "@" in parts.netloc:
        raise BadOption(
            f"{shown}: names and passwords in addresses are not sent; download the file and name it"
        )
    if parts.scheme != "https" and not is_loopback(host):
        raise BadOption(f"{shown}: anybody on the way could change it; use https://")
    return parts


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects that `check_redirect` allows."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        try:
            check_redirect(req.full_url, newurl)
        except UnreadableFile:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def check_redirect(old: str, new: str) -> None:
    """Raise if a server redirects to an address that is not encrypted, or from the internet into a private network."""
    start, end = urlsplit(old), urlsplit(new)
    problem = None
    if not end.hostname:
        problem = "which is no valid address"
    elif end.scheme != "https" and (start.scheme == "https" or not is_loopback(end.hostname)):
        problem = "which is not https"
    elif _is_public(start.hostname or "") and not _is_public(end.hostname):
        problem = "which is in a private network"
    if problem is not None:
        raise UnreadableFile(
            f"{shown_address(old)}: redirects to {shown_address(new)}, {problem}; "
            "download the file and name it, if you trust it"
        )


class _WebBody:
    """The body of a response, which must be complete."""

    def __init__(self, name: str, response: Any, listener: FetchListener) -> None:
        length = response.headers.get("Content-Length", "")
        self._name = name
        self._response = response
        self._listener = listener
        self._total = int(length) if length.isdecimal() else None
        self._size = 0

    def read(self, size: int, /) -> bytes:
        try:
            data: bytes = self._response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise UnreadableFile(f"{self._name}: {_explain(error)}") from None
        self._size += len(data)
        if not data and self._total is not None and self._size < self._total:
            raise UnreadableFile(
                f"{self._name}: the connection ended after {self._size:,} of {self._total:,} bytes; "
                "run the command again"
            )
        self._listener.receive(self._name, self._size, self._total)
        return data


def _is_public(host: str) -> bool:
    """Whether a host is on the internet. A name that only a proxy can resolve is."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return True
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in found)


def _explain(error: Exception) -> str:
    """Why there is no response, and what to do."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    for kind, sentence in _EXPLAINED:
        if isinstance(reason, kind):
            return sentence
    return f"the connection broke ({type(reason).__name__}); run the command again"


def _explain_status(error: urllib.error.HTTPError) -> str:
    match error.code:
        case 401 | 403:
            return f"access is refused ({error.code}); download the file where you are signed in, and name it"
        case 404 | 410:
            return f"there is no such file ({error.code}); check the address"
        case 429:
            wait = error.headers.get("Retry-After", "")
            how_long = f"{wait} seconds" if wait.isdecimal() else "some minutes"
            return f"the server's rate limit is reached (429); wait {how_long} and run the command again"
        case code if 300 <= code < 400:
            return f"too many redirects ({code}); check the address"
        case code if code >= 500:
            return f"the server failed ({code}); try again later"
    return f"the server answered {error.code}; check the address"
