"""What a call is, when it may be sent again, and what an answer that is no success means."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from tiltyard.errors import (
    BadOption,
    Busy,
    Closed,
    Conflict,
    Expired,
    InputError,
    MissingExtra,
    NoMatchup,
    NotAdmitted,
    NotAllowed,
    NotFound,
    OpenBattle,
    OutOfBudget,
    Paused,
    ProofNeeded,
    StoreFault,
    TiltyardError,
    UnreadableFile,
)

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "Call",
    "RetrySchedule",
    "api_path",
    "error_from_problem",
    "gate_ahead",
    "http_options",
    "load_http_library",
    "unreachable_error",
]

T = TypeVar("T")

#: Answers that say "not now".
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 5.0
_MAX_DETAIL_CHARACTERS = 300
_UPLOAD_CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request of the API, and how its answer is read."""

    method: str
    path: str
    #: From the answer's JSON, or from its bytes where ``raw``, to a value.
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    #: Bytes that are sent as they are, or the file that holds them.
    content: bytes | Path | None = None
    media_type: str = "application/json"
    raw: bool = False
    #: Sent twice, it does what it does sent once.
    repeatable: bool = True

    def request(self, client: Any, proof: str | None = None) -> httpx2.Request:
        """The request as the HTTP library wants it, with the proof for a gate if there is one."""
        headers = {"content-type": self.media_type} if self.content is not None else {}
        if proof is not None:
            headers["tiltyard-proof"] = proof
        query = {name: _text(value) for name, value in self.query.items() if value is not None}
        options: dict[str, object] = {"params": query, "headers": headers}
        if self.content is not None:
            options["content"] = _sent(self.content, client)
        elif self.body is not None:
            options["json"] = self.body
        built: httpx2.Request = client.build_request(self.method, self.path, **options)
        return built

    def value(self, answer: httpx2.Response) -> T:
        """What the server said in an answer that is a success."""
        if self.raw:
            return self.read(answer.content)
        try:
            return self.read(answer.json() if answer.content else None)
        except (ValueError, KeyError, TypeError) as error:
            raise TiltyardError(
                f"{self.method} {self.path}: the answer is not what this client knows ({_said(error)}); "
                "is the address that of a Tiltyard server, and is its version close to this one's?"
            ) from None


def _sent(content: bytes | Path, client: Any) -> bytes | Iterator[bytes] | AsyncIterator[bytes]:
    if isinstance(content, bytes):
        return content
    if not content.is_file():
        raise UnreadableFile(f"{content}: there is no such file; check the path")
    return _read_async(content) if isinstance(client, load_http_library().AsyncClient) else _read(content)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_UPLOAD_CHUNK_BYTES):
            yield part


async def _read_async(path: Path) -> AsyncIterator[bytes]:
    for part in _read(path):
        yield part


def api_path(*parts: str) -> str:
    """A path of the API, whatever the names in it hold."""
    for part in parts:
        if part.strip(".") == "":
            raise NotFound(f"nothing is called {part!r}")
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def http_options(base_url: str, token: str | None, timeout: float) -> dict[str, object]:
    """How the HTTP library is opened, for both clients."""
    address = _checked_address(base_url)
    headers = {
        "accept": "application/json",
        "user-agent": "tiltyard",
    }
    if token is not None:
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise BadOption("the token holds characters that no token has; check how it was copied")
        headers["authorization"] = f"Bearer {token.strip()}"
    return {
        "base_url": address,
        "headers": headers,
        "timeout": timeout,
        "follow_redirects": False,
        "verify": _certificates(),
    }


@cache
def _certificates() -> object:
    """The machine's certificates, loaded once: that takes longer than most calls."""
    return load_http_library().create_ssl_context()


def _checked_address(base_url: str) -> str:
    """The server's address, without a slash at its end."""
    if not re.match(r"https?://[^/\s@]+(/\S*)?$", base_url):
        shown = "that has a password in it" if "@" in base_url else repr(base_url)
        raise BadOption(f"cannot use {shown}; expected an address such as http://127.0.0.1:8420")
    return base_url.rstrip("/")


def load_http_library() -> Any:
    """The HTTP library, if it is installed."""
    try:
        import httpx2
    except ImportError:
        raise MissingExtra("arena", "Talking to a Tiltyard server") from None
    return httpx2


class RetrySchedule:
    """When a call that failed is sent again: ever later, for so many seconds in all."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def wait(self, call: Call[Any], failed: Exception | httpx2.Response, tries: int) -> float | None:
        """Seconds until it is sent again; ``None`` where it is not to be."""
        if not _worth_repeating(call, failed):
            return None
        asked = 0.0 if isinstance(failed, Exception) else _retry_after(failed)
        doubled = min(_FIRST_RETRY_SECONDS * 2.0 ** min(tries, 16), _MAX_RETRY_SECONDS)
        wait = max(asked, doubled) * random.uniform(1.0, 1.25)  # noqa: S311 - to spread calls
        if wait > self._left:
            return None
        self._left -= wait
        return wait


def _worth_repeating(call: Call[Any], failed: Exception | httpx2.Response) -> bool:
    import httpx2

    if isinstance(failed, httpx2.Response):
        return call.repeatable and failed.status_code in _RETRY_STATUSES
    # Where there was no connection nothing was sent.
    never_sent = isinstance(failed, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
    return never_sent or (call.repeatable and isinstance(failed, httpx2.TransportError))


def _retry_after(answer: httpx2.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"\d{1,6}", text) else 0.0


def unreachable_error(call: Call[Any], base_url: str, error: Exception) -> StoreFault:
    """Nobody answered."""
    return StoreFault(
        f"{call.method} {call.path}: cannot reach {base_url}: {_said(error)}; is tiltyard serve running there?"
    )


def gate_ahead(answer: httpx2.Response) -> str | None:
    """The arena whose gate asks for a proof before this call; ``None`` for every other answer."""
    if answer.status_code != 403:
        return None
    told = _told(answer)
    return told["gate"] or None if told["type"].endswith(":proof-needed") else None


def error_from_problem(answer: httpx2.Response) -> TiltyardError:
    """A refusal (problem+json) as the error that the server raised."""
    told = _told(answer)
    where = f"{answer.request.method} {answer.request.url.path}"
    text = f"{where}: {told['detail'] or told['title'] or answer.reason_phrase}"
    name = told["type"].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    named = _BY_NAME.get(name)
    if named is not None and named is not NotAllowed:
        return named(text)
    status = answer.status_code
    if status in (401, 403):
        return _not_allowed(text, name, told["arena"], known=status == 403)
    if status in _BY_STATUS:
        is_open = name == "open-battle"
        return OpenBattle(text, matchup=told["matchup"]) if is_open else _BY_STATUS[status](text)
    if status in _RETRY_STATUSES:
        return StoreFault(f"{text} (status {status}); try again in a while")
    if 400 <= status < 500:
        return InputError(f"{text} (status {status})")
    return TiltyardError(f"{text} (status {status})")


def _not_allowed(text: str, name: str, arena: str, *, known: bool) -> NotAllowed:
    if name == "proof-needed":
        return ProofNeeded(text)
    if name in _ENTRIES:
        return NotAdmitted(text, arena=arena or None, entry=_ENTRIES[name])
    return NotAllowed(text, known=known)


def _told(answer: httpx2.Response) -> dict[str, str]:
    """Type, title, detail, arena, gate and matchup, as far as there are any; another server's page is no detail."""
    try:
        document = json.loads(answer.content) if "json" in answer.headers.get("content-type", "") else {}
    except ValueError:
        document = {}
    said = document if isinstance(document, dict) else {}
    return {
        name: str(said.get(name) or "")[:_MAX_DETAIL_CHARACTERS]
        for name in ("type", "title", "detail", "arena", "gate", "matchup")
    }


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MAX_DETAIL_CHARACTERS] or type(error).__name__


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


#: By the last part of a problem's type.
_BY_NAME: Mapping[str, type[TiltyardError]] = {
    "not-found": NotFound,
    "not-allowed": NotAllowed,
    "closed": Closed,
    "expired": Expired,
    "conflict": Conflict,
    "no-matchup": NoMatchup,
    "out-of-budget": OutOfBudget,
    "paused": Paused,
    "too-many": Busy,
}
#: What lets in to a private arena, likewise.
_ENTRIES = {f"{entry}-required": entry for entry in ("invitation", "passcode", "sign-in", "group")}
#: Where the type says nothing.
_BY_STATUS: Mapping[int, type[TiltyardError]] = {404: NotFound, 409: Conflict, 410: Expired}
