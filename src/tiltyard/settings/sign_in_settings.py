"""How people sign in to this installation: by its identity provider, or by a gateway before it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tiltyard.errors import BadOption
from tiltyard.settings.serving_settings import is_loopback

#: Roles of operators, from the one that may do everything to the one that may do least.
OPERATOR_ROLE_NAMES: Final = ("owner", "operator", "moderator", "analyst")
_MAX_HOURS = 24 * 30
_HEADER_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
#: Headers that say something else to the server, or that anybody may send.
_TAKEN_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "cookie", "host", "origin", "x-forwarded-for"}
)


@dataclass(frozen=True, slots=True)
class GroupRole:
    """A role that the members of a group have, in one arena or, without one, in the installation."""

    group: str
    role: str
    arena: str | None = None


@dataclass(frozen=True)
class SignInSettings:
    """How people sign in. Each field has a variable ``TILTYARD_…``."""

    #: The issuer of the OpenID Connect provider, exactly as in its discovery document; https, except on this machine.
    #: Unset: there is no provider.
    issuer: str | None = None
    #: The client's name at the provider; needed with the issuer.
    client_id: str | None = None
    #: Its secret; unset for a public client, which PKCE alone protects.
    client_secret: str | None = field(default=None, repr=False)
    #: What is asked for, separated by spaces; ``openid`` is always added.
    scopes: tuple[str, ...] = ("openid", "profile")
    #: The claim with a person's groups: a list of names, or one name. If the ID token lacks it, userinfo is asked.
    groups_claim: str = "groups"
    #: Roles that groups give to operators, separated by commas: ``GROUP=ROLE``, or ``GROUP=ROLE@ARENA`` for one arena.
    roles: tuple[GroupRole, ...] = ()
    #: Hours after which people sign in again, so that the groups that they have left are known; 1 to 720.
    hours: int = 12
    #: Addresses or networks of gateways, separated by commas, whose headers say who somebody is; unset: none is believed.
    proxy_networks: tuple[str, ...] = ()
    #: The header with the person's name.
    proxy_user_header: str = "X-Forwarded-User"
    #: The header with the person's groups, separated by commas.
    proxy_groups_header: str = "X-Forwarded-Groups"

    def __post_init__(self) -> None:
        if (self.issuer is None) != (self.client_id is None):
            raise BadOption(
                "TILTYARD_OIDC_ISSUER and TILTYARD_OIDC_CLIENT_ID belong together; set both, or neither"
            )
        if self.issuer is not None:
            _check_issuer(self.issuer)
        if not 1 <= self.hours <= _MAX_HOURS:
            raise BadOption(f"TILTYARD_SIGN_IN_HOURS is {self.hours}; expected 1 to {_MAX_HOURS}")
        for network in self.proxy_networks:
            try:
                known = ipaddress.ip_network(network, strict=False)
            except ValueError:
                raise BadOption(
                    f"TILTYARD_SIGN_IN_PROXIES has {network[:100]!r}; expected addresses or networks such as 10.0.0.7 or 10.0.0.0/8"
                ) from None
            if known.prefixlen == 0:
                raise BadOption(
                    f"TILTYARD_SIGN_IN_PROXIES has {network}, which is everybody: anybody could say to be anybody; name the"
                    " addresses of your gateway"
                )
        _check_header("TILTYARD_SIGN_IN_PROXY_USER_HEADER", self.proxy_user_header)
        _check_header("TILTYARD_SIGN_IN_PROXY_GROUPS_HEADER", self.proxy_groups_header)
        if self.proxy_user_header.lower() == self.proxy_groups_header.lower():
            raise BadOption(
                f"the headers of user and groups are both {self.proxy_user_header}; name two headers"
            )

    @property
    def by_provider(self) -> bool:
        """Whether people can sign in at an identity provider."""
        return self.issuer is not None

    @property
    def by_proxy(self) -> bool:
        """Whether a gateway may say who somebody is."""
        return bool(self.proxy_networks)


def read_sign_in(variables: Mapping[str, str]) -> SignInSettings:
    """Read the variables; those that are empty or missing have their defaults."""
    values: dict[str, Any] = {}
    for name, (variable, parse) in SIGN_IN_VARIABLES.items():
        stated = variables.get(variable, "").strip()
        if stated:
            values[name] = parse(variable, stated)
    return SignInSettings(**values)


def _text(_: str, stated: str) -> str:
    return stated


def _hours(variable: str, stated: str) -> int:
    if not (stated.isascii() and stated.isdigit() and len(stated) < 9):
        raise BadOption(f"{variable} is {stated[:100]!r}; expected a whole number of hours")
    return int(stated)


def _scopes(variable: str, stated: str) -> tuple[str, ...]:
    found = stated.split()
    if not all(one.isascii() and one.isprintable() and not set(one) & set('"\\,') for one in found):
        raise BadOption(f"{variable} is {stated[:100]!r}; expected names with spaces between them")
    return tuple(dict.fromkeys(("openid", *found)))


def _networks(_: str, stated: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in stated.split(",") if part.strip())


def _roles(variable: str, stated: str) -> tuple[GroupRole, ...]:
    return tuple(_role(variable, part.strip()) for part in stated.split(",") if part.strip())


def _role(variable: str, stated: str) -> GroupRole:
    group, _, given = stated.rpartition("=")
    role, at, arena = given.strip().partition("@")
    if not group.strip() or not role.strip() or (at and not arena.strip()):
        raise BadOption(
            f"{variable} has {stated[:100]!r}; expected GROUP=ROLE or GROUP=ROLE@ARENA, with commas between them"
        )
    if role.strip() not in OPERATOR_ROLE_NAMES:
        raise BadOption(
            f"{variable} has the role {role.strip()[:100]!r}; expected {', '.join(OPERATOR_ROLE_NAMES)}"
        )
    return GroupRole(group.strip(), role.strip(), arena.strip() or None)


#: The environment variable of each setting, and the parser of its text.
SIGN_IN_VARIABLES: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "issuer": ("TILTYARD_OIDC_ISSUER", _text),
    "client_id": ("TILTYARD_OIDC_CLIENT_ID", _text),
    "client_secret": ("TILTYARD_OIDC_CLIENT_SECRET", _text),
    "scopes": ("TILTYARD_OIDC_SCOPES", _scopes),
    "groups_claim": ("TILTYARD_OIDC_GROUPS_CLAIM", _text),
    "roles": ("TILTYARD_SIGN_IN_ROLES", _roles),
    "hours": ("TILTYARD_SIGN_IN_HOURS", _hours),
    "proxy_networks": ("TILTYARD_SIGN_IN_PROXIES", _networks),
    "proxy_user_header": ("TILTYARD_SIGN_IN_PROXY_USER_HEADER", _text),
    "proxy_groups_header": ("TILTYARD_SIGN_IN_PROXY_GROUPS_HEADER", _text),
}


def _check_issuer(issuer: str) -> None:
    try:
        parts = urlsplit(issuer)
        host = parts.hostname or ""
        known = bool(host) and parts.port != 0 and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        known = False
    if not known or parts.scheme not in {"http", "https"}:
        raise BadOption(
            f"TILTYARD_OIDC_ISSUER is {issuer.rsplit('@', 1)[-1][:200]!r}; expected the provider's address, such as"
            " https://id.example.org/realms/staff"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise BadOption(
            f"TILTYARD_OIDC_ISSUER is {issuer[:200]!r}, without https: others could read and change what it says;"
            " use its https address"
        )


def _check_header(variable: str, name: str) -> None:
    lowered = name.lower()
    if not lowered or len(name) > 100 or not set(lowered) <= _HEADER_CHARACTERS or lowered in _TAKEN_HEADERS:
        raise BadOption(
            f"{variable} is {name[:100]!r}; expected the name of a header of its own, of letters, digits and hyphens"
        )
