"""Cookies of voters and the operator, and of entry to private arenas: a token and its signature.

Cookies without a valid signature are rejected without a database query. An operator's token is random, and its hash
has a row in the database. A voter's token is the number of the session and the time when it was issued; it has no row,
so that a visit costs no query, and is valid for every database that is served with the same key. A token of entry is the
number of an invitation, the time, and the session of whoever came in, who needs no other cookie; shard and arena are in
the name of its cookie, and thereby in what is signed.

By https, names on the wire begin with ``__Host-``; signatures are of the names without it.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from urllib.parse import parse_qs, urlencode

from starlette.requests import HTTPConnection

from tiltyard.arena.accounts import GateResult
from tiltyard.arena.operators.invitations import EntryGrant
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import DeclaredSkills
from tiltyard.errors import BadOption

#: By https, browsers accept a cookie whose name begins so from this host alone, Secure and for all paths: no other
#: site of the domain can set it.
_HOST_PREFIX = "__Host-"
VOTER_COOKIE = "tiltyard_session"
OPERATOR_COOKIE = "tiltyard_operator"

VOTER_COOKIE_LIFETIME = timedelta(days=400)
ENTRY_COOKIE_LIFETIME = timedelta(days=400)
_SIGNATURE_BYTES = 16
_MAX_COOKIE_CHARACTERS = 200
#: A voter's token: what came of the gate, which needs no query this way, the number of the session, and the second in
#: which it was issued.
_VOTER_TOKEN = struct.Struct(">BQI")
_VOTER_TOKEN_CHARACTERS = 18
_GATE_RESULTS = {1: GateResult.NONE, 2: GateResult.PASSED, 3: GateResult.UNAVAILABLE}
_GATE_NUMBERS = {gate: number for number, gate in _GATE_RESULTS.items()}
#: A token of entry: version, number of the invitation, the second, and the session.
_ENTRY_TOKEN = struct.Struct(">BQIQ")
_ENTRY_TOKEN_VERSION = 1
_ENTRY_TOKEN_CHARACTERS = 28


def make_voter_token(session: int, issued: float, gate: GateResult = GateResult.NONE) -> str:
    """The token of a voter's session, to be signed by `Cookies`. ``issued`` is a Unix time."""
    return _shown(_VOTER_TOKEN.pack(_GATE_NUMBERS[gate], session, int(issued)))


def read_voter_token(token: str, now: float) -> tuple[int, GateResult] | None:
    """The session's number in a token and what came of the gate.

    ``None`` if it is no such token or older than a cookie may be.
    """
    if len(token) != _VOTER_TOKEN_CHARACTERS:
        return None
    number, session, issued = _VOTER_TOKEN.unpack(base64.urlsafe_b64decode(token + "=="))
    gate = _GATE_RESULTS.get(number)
    if gate is None or now - issued >= VOTER_COOKIE_LIFETIME.total_seconds():
        return None
    return session, gate


def entry_cookie(shard: int, arena: int | Literal[""]) -> str:
    """The name of the cookie of those who came in to a private arena, or how all such names begin."""
    return f"tiltyard_entry_{shard}_{arena}"


def make_entry_token(grant: EntryGrant) -> str:
    """The token of a grant, to be signed by `Cookies` for the cookie of its arena."""
    return _shown(_ENTRY_TOKEN.pack(_ENTRY_TOKEN_VERSION, grant.invitation, grant.issued, grant.session))


def read_entry_token(token: str, now: float) -> EntryGrant | None:
    """The grant in a token; ``None`` if it is no such token or older than a cookie may be."""
    if len(token) != _ENTRY_TOKEN_CHARACTERS:
        return None
    version, invitation, issued, session = _ENTRY_TOKEN.unpack(base64.urlsafe_b64decode(token))
    valid = version == _ENTRY_TOKEN_VERSION and now - issued < ENTRY_COOKIE_LIFETIME.total_seconds()
    return EntryGrant(invitation, issued, session) if valid else None


class Cookies:
    """Signs tokens for cookies, and verifies them."""

    def __init__(self, keys: SecretKeys, *, secure: bool) -> None:
        self._keys = keys
        self._secure = secure
        self._prefix = _HOST_PREFIX if secure else ""

    def seal(self, name: str, token: str) -> str:
        """The value of the cookie with this name for a token."""
        signature = self._keys.sign(f"cookie {name}", token.encode())[:_SIGNATURE_BYTES]
        return f"{token}.{_shown(signature)}"

    def unseal(self, name: str, value: str, *, longest: int = _MAX_COOKIE_CHARACTERS) -> str | None:
        """The token in the cookie with this name; ``None`` if the signature is invalid."""
        token, dot, signed = value.partition(".")
        if not dot or len(value) > longest or not value.isascii():
            return None
        try:
            signature = base64.urlsafe_b64decode(signed + "==")
        except (ValueError, binascii.Error):
            return None
        # Accept only the canonical encoding of as many bytes as `seal` writes: a cookie has one spelling.
        if len(signature) != _SIGNATURE_BYTES or _shown(signature) != signed:
            return None
        return token if self._keys.verify(f"cookie {name}", token.encode(), signature) else None

    def names(self, request: HTTPConnection, beginning: str) -> list[str]:
        """The names of the cookies of a request that begin so."""
        wanted = self._prefix + beginning
        return [name.removeprefix(self._prefix) for name in request.cookies if name.startswith(wanted)]

    def read(self, request: HTTPConnection, name: str) -> str | None:
        """The raw value of a cookie."""
        return read_cookie(request, self._prefix + name)

    def token(self, request: HTTPConnection, name: str) -> str | None:
        """The token in a cookie of the request; ``None`` without a valid one."""
        cookie = self.read(request, name)
        return None if cookie is None else self.unseal(name, cookie)

    def header(self, name: str, token: str, life: timedelta) -> str:
        """The ``Set-Cookie`` header that sets a token."""
        return self._text(name, self.seal(name, token), int(life.total_seconds()))

    def plain_header(self, name: str, value: str, life: timedelta) -> str:
        """The ``Set-Cookie`` header for a value that needs no signature, because it gives no access."""
        return self._text(name, value, int(life.total_seconds()))

    def clear_header(self, name: str) -> str:
        """The ``Set-Cookie`` header that deletes the cookie."""
        return self._text(name, "", 0)

    def _text(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{self._prefix}{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def _shown(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def read_cookie(request: HTTPConnection, name: str) -> str | None:
    """The raw value of the first cookie with this name."""
    wanted = name + "="
    for key, value in request.scope["headers"]:
        if key == b"cookie":
            for part in value.decode("latin-1").split(";"):
                pair = part.strip()
                if pair.startswith(wanted):
                    return str(pair[len(wanted) :])
    return None


#: Values of one kind that can be declared, and characters of the cookie: browsers keep 4,096 bytes of one.
_VALUE_LIMIT = 200
_COOKIE_CHARACTERS = 3_000
#: Languages of a browser that are looked at.
_ACCEPTED_LANGUAGE_LIMIT = 20
_MAX_CODE_CHARACTERS = 3


class SkillCookies:
    """The cookies in which voters say which languages and categories they can judge, one for each arena.

    They are not signed: they say something about their owner alone, who may say what they like.
    """

    def __init__(self, cookies: Cookies, shard: int) -> None:
        self._cookies = cookies
        self._shard = shard

    def header(self, arena: int, declared: DeclaredSkills) -> str:
        """The ``Set-Cookie`` header that keeps a declaration. One of everything is kept too: it was chosen."""
        value = urlencode({"l": declared.languages, "c": declared.categories}, doseq=True) or "all"
        if len(value) > _COOKIE_CHARACTERS:
            raise BadOption("these are too many languages and categories to keep; choose fewer, or all")
        return self._cookies.plain_header(self._name(arena), value, VOTER_COOKIE_LIFETIME)

    def clear_header(self, arena: int) -> str:
        """The ``Set-Cookie`` header that deletes a declaration."""
        return self._cookies.clear_header(self._name(arena))

    def read(self, request: HTTPConnection, arena: int) -> DeclaredSkills | None:
        """What a voter has declared; ``None`` if nothing yet, or if the cookie is not one that was set here."""
        value = self._cookies.read(request, self._name(arena))
        if not value or len(value) > _COOKIE_CHARACTERS:
            return None
        if value == "all":
            return DeclaredSkills()
        try:
            found = parse_qs(value, strict_parsing=True, errors="strict", max_num_fields=2 * _VALUE_LIMIT)
        except ValueError:
            return None
        return DeclaredSkills(_values(found.get("l", ())), _values(found.get("c", ())))

    def _name(self, arena: int) -> str:
        return f"tiltyard_judges_{self._shard}_{arena}"


def preset_languages(accepted: str | None, languages: Sequence[str]) -> tuple[str, ...]:
    """Those of an arena's languages that a browser prefers, by its ``Accept-Language``; all of them if none matches."""
    parts = (accepted or "").split(",")[:_ACCEPTED_LANGUAGE_LIMIT]
    wanted = {_primary(part.partition(";")[0]) for part in parts if not part.strip().endswith(";q=0")}
    found = tuple(language for language in languages if _primary(language) in wanted)
    return found or tuple(languages)


def primary_language(accepted: str | None) -> str | None:
    """The language that a browser asks for first, as a short code; ``None`` if it names none."""
    found = _primary((accepted or "").partition(",")[0].partition(";")[0])
    return found if found.isascii() and found.isalpha() and 1 < len(found) <= _MAX_CODE_CHARACTERS else None


def _values(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in given[:_VALUE_LIMIT] if "\0" not in value))


def _primary(language: str) -> str:
    """The language of a tag without its region: ``de`` of ``de-CH``."""
    return language.strip().replace("_", "-").partition("-")[0].lower()
