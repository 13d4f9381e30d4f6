"""What an identity provider or a gateway says of a person."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from tiltyard.errors import IdentityFault

#: The issuer of those whom a gateway names. No provider has it: it is no URL.
PROXY_ISSUER = "proxy"

#: OpenID Connect Core, section 2: a subject has at most 255 ASCII characters; gateways send other names, too.
_MAX_SUBJECT_CHARACTERS = 255
_MAX_NAME_CHARACTERS = 100
_MAX_GROUP_CHARACTERS = 256
_GROUP_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class PersonIdentity:
    """A person: the subject is unique and stays the same at its issuer."""

    issuer: str
    subject: str
    #: How the person is called, for people to read; empty if nobody said it.
    name: str
    groups: frozenset[str]


def check_subject(subject: object) -> str:
    """The subject, if it is one."""
    if (
        not isinstance(subject, str)
        or not 1 <= len(subject) <= _MAX_SUBJECT_CHARACTERS
        or not subject.isprintable()
        or subject != subject.strip()
    ):
        raise IdentityFault("the provider did not say who signed in")
    return subject


def check_groups(groups: Iterable[object]) -> frozenset[str]:
    """The names of groups. One that is no name is an error: a group that is dropped could be the one that counts."""
    found = frozenset(groups)
    if len(found) > _GROUP_LIMIT:
        raise IdentityFault(
            f"the provider named {len(found):,} groups; let it send only those of this application,"
            f" at most {_GROUP_LIMIT:,}"
        )
    names = frozenset(
        one
        for one in found
        if isinstance(one, str) and one and len(one) <= _MAX_GROUP_CHARACTERS and "\0" not in one
    )
    if len(names) != len(found):
        raise IdentityFault("the provider sent groups that are no names; check its claim of groups")
    return names


def clean_name(*names: object) -> str:
    """The first of these that is a name, without characters that are not seen."""
    for one in names:
        if isinstance(one, str):
            seen = "".join(each for each in one if unicodedata.category(each)[0] != "C").strip()
            if seen:
                return seen[:_MAX_NAME_CHARACTERS]
    return ""
