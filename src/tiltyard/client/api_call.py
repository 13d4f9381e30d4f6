"""What a call is, how its answer is read, when it may be sent again, and what a refusal means."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from tiltyard import errors
from tiltyard.wire.records import Problem, reader_of
from tiltyard.wire.voting import GateAnswer, solve_challenge

if TYPE_CHECKING:
    import httpx2

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
    #: From the answer's bytes to a value; from the path of the file where they are saved.
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    #: Bytes that are sent as they are, or the file that holds them.
    content: bytes | Path | None = None
    media_type: str = "application/json"
    #: The file that the answer becomes, whole or not at all.
    save_to: Path | None = None
    #: Sent twice, it does what it does sent once.
    repeatable: bool = True

    def request(self, client: Any, proof: str | None = None) -> httpx2.Request:
        """The request as the HTTP library wants it, with the proof for a gate if there is one."""
        headers = {"content-type": self.media_type} if self.content is not None else {}
        if proof is not None:
            headers["tiltyard-proof"] = proof
        query = {name: value for name, value in self.query.items() if value is not None}
        options: dict[str, object] = {"params": query, "headers": headers}
        if self.content is not None:
            options["content"] = _sent(self.content, client)
        elif self.body is not None:
            options["json"] = self.body
        built: httpx2.Request = client.build_request(self.method, self.path, **options)
        return built

    def value(self, answer: httpx2.Response) -> T:
        """What the server said in an answer that is a success."""
        try:
            return self.read(answer.content)
        except (ValueError, KeyError, TypeError) as error:
            raise errors.TiltyardError(
                f"{self.method} {self.path}: the answer is not what this client knows ({_said(error)}); "
                "is the address that of a Tiltyard server, and is its version close to this one's?"
            ) from None


@dataclass(frozen=True, slots=True)
class LineStream(Generic[T]):
    """A call whose answer is read line by line, as it comes."""

    call: Call[bytes]
    #: From a line to a value; ``None`` where it holds none.
    read: Callable[[bytes], T | None]

    def reader(self) -> Callable[[bytes], Iterator[T]]:
        """Turns the pieces of an answer, in their order, into values. A line break is to follow the last piece."""
        rest = b""

        def read_piece(piece: bytes) -> Iterator[T]:
            nonlocal rest
            *lines, rest = (rest + piece).split(b"\n")
            return (value for value in map(self.read, lines) if value is not None)

        return read_piece


def read_value(kind: type[T]) -> Callable[[bytes], T]:
    """Reads one value: its fields are checked, and those of a newer server passed over."""
    return reader_of(kind).validate_json


def read_list(kind: type[T], field: str) -> Callable[[bytes], list[T]]:
    """Reads the list that stands under ``field``."""
    decode = reader_of(kind).validate_python
    return lambda data: [decode(value) for value in json.loads(data)[field]]


def read_nothing(_data: bytes) -> None:
    """Reads an answer that says no more than that it was done."""


def gate_call(arena: str) -> Call[GateAnswer]:
    """Asks what a new voter must do before the first matchup of an arena."""
    return Call("GET", api_path("arenas", arena, "gate"), read_value(GateAnswer))


def _sent(content: bytes | Path, client: Any) -> bytes | Iterator[bytes] | AsyncIterator[bytes]:
    if isinstance(content, bytes):
        return content
    if not content.is_file():
        raise errors.UnreadableFile(f"{content}: there is no such file; check the path")
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
            raise errors.NotFound(f"nothing is called {part!r}")
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def http_options(base_url: str, token: str | None, timeout: float) -> dict[str, object]:
    """How the HTTP library is opened, for both clients."""
    if not re.match(r"https?://[^/\s@]+(/\S*)?$", base_url):
        shown = "that has a password in it" if "@" in base_url else repr(base_url)
        raise errors.BadOption(f"cannot use {shown}; expected an address such as http://127.0.0.1:8420")
    headers = {"accept": "application/json", "user-agent": "tiltyard"}
    if token is not None:
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise errors.BadOption("the token holds characters that no token has; check how it was copied")
        headers["authorization"] = f"Bearer {token.strip()}"
    return {
        "base_url": base_url.rstrip("/"),
        "headers": headers,
        "timeout": timeout,
        "follow_redirects": False,
        "verify": _certificates(),
    }


@cache
def _certificates() -> object:
    """The machine's certificates, loaded once: that takes longer than most calls."""
    return load_http_library().create_ssl_context()


def load_http_library() -> Any:
    """The HTTP library, if it is installed."""
    try:
        import httpx2
    except ImportError:
        raise errors.MissingExtra("arena", "Talking to a Tiltyard server") from None
    return httpx2


class Exchange(Generic[T]):
    """A call on its way: it is sent ever later, for ``patience`` seconds in all, until it is answered."""

    def __init__(self, call: Call[T], base_url: str, patience: float) -> None:
        self._call = call
        self._base_url = base_url
        self._seconds_left = patience
        self._tries = 0
        self._proof: str | None = None

    def request(self, client: Any) -> httpx2.Request:
        """What is sent next."""
        return self._call.request(client, self._proof)

    def gate_ahead(self, answer: httpx2.Response) -> str | None:
        """The arena whose gate asks for a proof first, unless one was sent."""
        if self._proof is not None or answer.status_code != 403:
            return None
        problem = _problem(answer)
        return problem.gate if problem.type.endswith(":proof-needed") else None

    def solve(self, gate: GateAnswer) -> bool:
        """Compute the proof that a gate asks for, to be sent with the next request; whether there is one."""
        self._proof = None if gate.challenge is None else solve_challenge(gate.challenge)
        return self._proof is not None

    def wait(self, failed: Exception | httpx2.Response) -> float:
        """Seconds until it is sent again; raises the failure where it is not to be."""
        said = "" if isinstance(failed, Exception) else failed.headers.get("retry-after", "")
        asked = float(said) if re.fullmatch(r"\d{1,6}", said) else 0.0
        doubled = min(_FIRST_RETRY_SECONDS * 2.0 ** min(self._tries, 16), _MAX_RETRY_SECONDS)
        wait = max(asked, doubled) * random.uniform(1.0, 1.25)  # noqa: S311 - to spread calls
        if not _worth_repeating(self._call, failed) or wait > self._seconds_left:
            if isinstance(failed, Exception):
                raise unreachable_error(self._call, self._base_url, failed) from None
            raise error_from_problem(failed)
        self._seconds_left -= wait
        self._tries += 1
        return wait


def _worth_repeating(call: Call[Any], failed: Exception | httpx2.Response) -> bool:
    import httpx2

    if isinstance(failed, httpx2.Response):
        return call.repeatable and failed.status_code in _RETRY_STATUSES
    # Where there was no connection nothing was sent.
    never_sent = isinstance(failed, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
    return never_sent or (call.repeatable and isinstance(failed, httpx2.TransportError))


def unreachable_error(call: Call[Any], base_url: str, error: Exception) -> errors.StoreFault:
    """Nobody answered."""
    return errors.StoreFault(
        f"{call.method} {call.path}: cannot reach {base_url}: {_said(error)}; is tiltyard serve running there?"
    )


def error_from_problem(answer: httpx2.Response) -> errors.TiltyardError:
    """A refusal (problem+json) as the error that the server raised."""
    problem, status = _problem(answer), answer.status_code
    detail = problem.detail[:_MAX_DETAIL_CHARACTERS]
    text = f"{answer.request.method} {answer.request.url.path}: {detail}"
    name = problem.type.rpartition(":")[2]
    if name in _ENTRIES:
        return errors.NotAdmitted(text, arena=problem.arena, entry=_ENTRIES[name])
    if name == "open-battle" and problem.matchup is not None:
        return errors.OpenBattle(text, matchup=problem.matchup)
    kind = _BY_NAME.get(name) or _BY_STATUS.get(status)
    if kind is not None:
        return kind(text)
    if status in (401, 403):
        return errors.NotAllowed(text, known=status == 403)
    if status in _RETRY_STATUSES:
        return errors.StoreFault(f"{text} (status {status}); try again in a while")
    unnamed = errors.InputError if 400 <= status < 500 else errors.TiltyardError
    return unnamed(f"{text} (status {status})")


def _problem(answer: httpx2.Response) -> Problem:
    """What a refusal says; another server's page says no more than its status."""
    if "json" in answer.headers.get("content-type", ""):
        with suppress(ValueError):
            return reader_of(Problem).validate_json(answer.content)
    return Problem("", "", answer.status_code, answer.reason_phrase, "")


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MAX_DETAIL_CHARACTERS] or type(error).__name__


#: By the last part of a problem's type.
_BY_NAME: Mapping[str, type[errors.TiltyardError]] = {
    "proof-needed": errors.ProofNeeded,
    "closed": errors.Closed,
    "no-matchup": errors.NoMatchup,
    "out-of-budget": errors.OutOfBudget,
    "paused": errors.Paused,
    "too-many": errors.Busy,
}
#: What lets in to a private arena, likewise.
_ENTRIES = {f"{entry}-required": entry for entry in ("invitation", "passcode", "sign-in", "group")}
#: Where the type says no more than the status.
_BY_STATUS = {404: errors.NotFound, 409: errors.Conflict, 410: errors.Expired}
