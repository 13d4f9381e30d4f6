"""What a voter can judge: languages and categories, kept in a cookie of the arena, preset from the browser's languages.

The cookie is not signed: it says something about its owner alone, who may say what they like. Matchmaking follows it,
and the log keeps it with each matchup that was chosen by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlencode

from starlette.requests import HTTPConnection

from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.voting.voter_requests import DeclaredSkills, Voter
from tiltyard.errors import BadOption
from tiltyard.web.cookies import Cookies

__all__ = ["SkillCookies", "preset_languages", "primary_language"]

_LIFETIME = timedelta(days=400)
#: Values of one kind that can be declared, and characters of the cookie: browsers keep 4,096 bytes of one.
_VALUE_LIMIT = 200
_COOKIE_CHARACTERS = 3_000
#: Languages of a browser that are looked at.
_ACCEPTED_LANGUAGE_LIMIT = 20
_MAX_CODE_CHARACTERS = 3


class SkillCookies:
    """Sets and reads the cookies in which voters' declarations are kept, one for each arena."""

    def __init__(self, cookies: Cookies, shard: int) -> None:
        self._cookies = cookies
        self._shard = shard

    def header(self, arena: int, declared: DeclaredSkills) -> str:
        """The ``Set-Cookie`` header that keeps a declaration. One of everything is kept too: it was chosen."""
        value = urlencode({"l": declared.languages, "c": declared.categories}, doseq=True) or "all"
        if len(value) > _COOKIE_CHARACTERS:
            raise BadOption("these are too many languages and categories to keep; choose fewer, or all")
        return self._cookies.plain_header(self._name(arena), value, _LIFETIME)

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

    def voter(self, request: HTTPConnection, arena: int, voter: Voter) -> Voter:
        """The voter, with what was declared in this arena; judges declare nothing."""
        declared = self.read(request, arena) if voter.source == HUMAN else None
        return voter if declared is None or declared.is_everything else replace(voter, declared=declared)

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
