"""Finds private data in texts by rules: addresses, numbers and keys whose form can be checked.

It errs on the side of silence: what looks like a number but fails its checksum, or like an example, is not reported.
Names, places and stories about people are not found at all.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Literal

PrivateDataKind = Literal["e-mail", "phone", "card", "key", "iban", "ip-address"]

_LOCAL_CHARACTERS = 64
_DOMAIN_CHARACTERS = 253
_LOCAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-")
_DOMAIN = _LOCAL - frozenset("_%+")
#: Addresses of documentation, and the user of Git over SSH.
_EXAMPLE_DOMAINS = frozenset(
    {"example.com", "example.org", "example.net", "domain.com", "email.com", "test.com"}
)
_EXAMPLE_SUFFIXES = (".example", ".test", ".invalid", ".localhost", ".local")

#: With a country code; national numbers of North America; national numbers that begin with 0.
_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9][0-9 ().-]{6,20}")
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.-])(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-. ])[2-9][0-9]{2}[-. ][0-9]{4}(?![\w-])"
)
_NATIONAL = re.compile(
    r"(?<![\w.,+/-])(?<![0-9] )0[1-9][0-9]{0,3}[ /-][0-9]{2,8}(?:[ -][0-9]{2,8}){0,5}(?!\w)"
)
_DAY = re.compile(r"0[1-9][ /-][0-9]{2}[ /-](?:19|20)[0-9]{2}")
_INTERNATIONAL_DIGITS = range(8, 16)
_NATIONAL_DIGITS = range(9, 13)

_CARD = re.compile(r"(?<![\w.-])[2-6][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}(?![\w-])")
_AMEX_OR_DINERS = re.compile(r"(?<![\w.-])3[04678][0-9]{2}([ -]?)[0-9]{6}\1[0-9]{4,5}(?![\w-])")

_KEYS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[A-Za-z0-9_-]{35}|xox[abeoprs]-[A-Za-z0-9-]{10,}|glpat-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}"
    r"|npm_[A-Za-z0-9]{36}|pypi-AgEI[A-Za-z0-9_-]{40,}|[sr]k_live_[A-Za-z0-9]{16,}|shpat_[a-f0-9]{32}"
    r"|dop_v1_[a-f0-9]{64}|ya29\.[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{20,30}\.[A-Za-z0-9_-]{40,50}|gsk_[A-Za-z0-9]{40,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}"
    r")"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----")

_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")
#: The length of an IBAN by country.
_IBAN_LENGTHS = MappingProxyType(
    {
        country: length
        for length, countries in (
            (15, "NO"),
            (16, "BE"),
            (18, "DK FI FK FO GL NL SD"),
            (19, "MK SI"),
            (20, "AT BA EE KZ LT LU MN XK"),
            (21, "CH CR HR LI LV"),
            (22, "BG BH DE GB GE IE ME RS VA"),
            (23, "AE GI IL IQ OM SO TL"),
            (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
            (25, "LY PT ST"),
            (26, "IS TR"),
            (27, "BI DJ FR GR IT MC MR SM"),
            (28, "AL AZ BY CY DO GT HN HU LB NI PL SV"),
            (29, "BR EG PS QA UA"),
            (30, "JO KW MU YE"),
            (31, "MT SC"),
            (32, "LC"),
            (33, "RU"),
        )
        for country in countries.split()
    }
)

_IP_V4 = re.compile(r"(?<![\w.-])[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?!\w|\.[0-9])")
_IP_V6 = re.compile(r"(?<![\w:.])[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{4,34}(?![\w:])")
#: Public services that everybody names.
_KNOWN_ADDRESSES = frozenset({"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "1.2.3.4"})


def find_private_data(text: str) -> tuple[PrivateDataKind, ...]:
    """The kinds of private data that a text has, in a fixed order. The time is proportional to its length."""
    return tuple(kind for kind, found in _RULES.items() if found(text))


def _has_email(text: str) -> bool:
    place = text.find("@")
    while place >= 0:
        if _is_email(text, place):
            return True
        place = text.find("@", place + 1)
    return False


def _is_email(text: str, at: int) -> bool:
    """Whether the ``@`` at a place stands in an address that is no example."""
    start, end = at, at + 1
    while start > 0 and at - start <= _LOCAL_CHARACTERS and text[start - 1] in _LOCAL:
        start -= 1
    while end < len(text) and end - at <= _DOMAIN_CHARACTERS and text[end] in _DOMAIN:
        end += 1
    local, domain = text[start:at].strip("."), text[at + 1 : end].strip(".-").lower()
    labels = domain.split(".")
    written = 0 < len(local) <= _LOCAL_CHARACTERS and len(labels) > 1 and all(labels)
    if not written or not labels[-1].isalpha() or len(labels[-1]) == 1:
        return False
    example = ".".join(labels[-2:]) in _EXAMPLE_DOMAINS or domain.endswith(_EXAMPLE_SUFFIXES)
    return not example and local != "git"


def _has_phone(text: str) -> bool:
    if any(_digit_count(match[0]) in _INTERNATIONAL_DIGITS for match in _INTERNATIONAL.finditer(text)):
        return True
    if _NORTH_AMERICAN.search(text) is not None:
        return True
    return any(
        _digit_count(match[0]) in _NATIONAL_DIGITS and _DAY.match(match[0]) is None
        for match in _NATIONAL.finditer(text)
    )


def _digit_count(text: str) -> int:
    return sum(character.isdigit() for character in text)


def _has_card(text: str) -> bool:
    return any(_is_card("".join(filter(str.isdigit, found))) for found in _card_candidates(text))


def _card_candidates(text: str) -> Iterator[str]:
    for pattern in (_CARD, _AMEX_OR_DINERS):
        yield from (match[0] for match in pattern.finditer(text))


def _is_card(digits: str) -> bool:
    """Whether these digits begin as an issuer's do, are as many, and have the right check digit."""
    two, three, four = int(digits[:2]), int(digits[:3]), int(digits[:4])
    size = len(digits)
    if digits[0] == "4":
        known = size in (13, 16, 19)
    elif 51 <= two <= 55 or 2221 <= four <= 2720 or two == 35:
        known = size == 16
    elif two in (34, 37):
        known = size == 15
    elif two in (30, 36, 38):
        known = size == 14
    else:
        known = (four == 6011 or two in (62, 65) or 644 <= three <= 649) and 16 <= size <= 19
    return known and _luhn(digits) and len(set(digits)) > 1


def _luhn(digits: str) -> bool:
    """Luhn's checksum: every second digit from the right counts twice, as the sum of its own digits."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _has_key(text: str) -> bool:
    if _PRIVATE_KEY.search(text) is not None:
        return True
    return any(_is_random(match[0]) for match in _KEYS.finditer(text))


def _is_random(key: str) -> bool:
    """Whether it is no placeholder, such as ``sk-xxxxxxxx`` or ``sk-your-key-goes-here``."""
    return any(character.isdigit() for character in key[4:]) and len(set(key[4:].lower())) > 6


def _has_iban(text: str) -> bool:
    return any(_is_iban(match[0].replace(" ", "")) for match in _IBAN.finditer(text))


def _is_iban(compact: str) -> bool:
    """ISO 13616: the length of its country, and 1 as the remainder of 97 with the first four characters at the end."""
    size = _IBAN_LENGTHS.get(compact[:2])
    if size is None or len(compact) < size:
        return False
    iban = compact[:size]
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


def _has_address(text: str) -> bool:
    found = [match[0] for pattern in (_IP_V4, _IP_V6) for match in pattern.finditer(text)]
    return any(_is_address(address) for address in found if address not in _KNOWN_ADDRESSES)


def _is_address(text: str) -> bool:
    """Whether it is an address of the internet: neither private nor reserved for documentation."""
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


_RULES: MappingProxyType[PrivateDataKind, Callable[[str], bool]] = MappingProxyType(
    {
        "e-mail": _has_email,
        "phone": _has_phone,
        "card": _has_card,
        "key": _has_key,
        "iban": _has_iban,
        "ip-address": _has_address,
    }
)
