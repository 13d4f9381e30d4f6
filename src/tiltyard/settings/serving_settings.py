"""Settings of `tiltyard serve`, read once and frozen: its addresses and limits, and how people sign in."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, get_args
from urllib.parse import urlsplit

from tiltyard.errors import BadOption
from tiltyard.foundation.field_definitions import check_fields, defined, definitions

#: Roles of operators, from the one that may do everything to the one that may do least.
OPERATOR_ROLE_NAMES: Final = ("owner", "operator", "moderator", "analyst")
_MAX_HOURS = 24 * 30
_HEADER_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
#: Headers that say something else to the server, or that anybody may send.
_TAKEN_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "cookie", "host", "origin", "x-forwarded-for"}
)

#: What is limited. ``sessions``: new ones.
LimitedKind = Literal["sessions", "matchups", "votes", "skips", "reveals", "reports"]

#: What one arena keeps of people's words and files is limited too.
QuotaKind = Literal["reports", "remarks", "uploads"]
K = TypeVar("K", bound=str)

ARENA_KINDS: Final[tuple[LimitedKind, ...]] = get_args(LimitedKind)
#: Of one session. The fastest people need more than a second for a vote.
SESSION_LIMITS: Final[Mapping[LimitedKind, int]] = {
    "matchups": 120,
    "votes": 60,
    "skips": 60,
    "reveals": 60,
    "reports": 10,
}
#: Of one network: a hundred sessions at their limits, or more people than fit into a lecture hall.
NETWORK_LIMITS: Final[Mapping[LimitedKind, int]] = {
    "matchups": 12_000,
    "votes": 6_000,
    "skips": 6_000,
    "reveals": 6_000,
    "reports": 200,
}

#: Of one arena in an hour: as many remarks as a busy arena has votes, more reports than operators can read.
HOUR_QUOTAS: Final[Mapping[QuotaKind, int]] = {"reports": 1_000, "remarks": 20_000, "uploads": 200}

_MAX_LIMIT = 1_000_000_000
_MAX_LIMITS_CHARACTERS = 500

#: What to write instead of an address that cannot be bound.
HOST_ADVICE = "write --host 127.0.0.1 for this machine only, --host 0.0.0.0 for all of its addresses, or one that it has"
_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
#: Ends of names that are used in local networks only.
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


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


def limits_text(limits: Mapping[K, int]) -> str:
    """Limits as settings spell them."""
    return ", ".join(f"{kind}={limit}" for kind, limit in limits.items())


def read_minute_limits(setting: str, text: object, kinds: Collection[K]) -> dict[K, int]:
    """Limits by kind from a text such as ``votes=60, skips=30``. 0 means no limit; ``none`` means none of all."""
    if not isinstance(text, str) or len(text) > _MAX_LIMITS_CHARACTERS:
        raise BadOption(
            f"{setting} is {str(text)[:100]!r}; expected text such as votes=60, skips=30", option=setting
        )
    if text.strip() == "none":
        return dict.fromkeys(kinds, 0)
    found: dict[K, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        kind = next((kind for kind in kinds if kind == name.strip()), None)
        digits = number.strip()
        if kind is None or not (digits.isascii() and digits.isdigit() and int(digits) <= _MAX_LIMIT):
            raise BadOption(
                f"{setting} has {part[:100]!r}; expected a number for each of {', '.join(kinds)},"
                " such as votes=60, skips=30; 0 is no limit",
                option=setting,
            )
        found[kind] = int(digits)
    return found


@dataclass(frozen=True)
class ServingSettings:
    """How the arenas are served. Each setting has an option of `tiltyard serve` and a variable ``TILTYARD_…``."""

    host: str = defined(
        "127.0.0.1",
        "address to bind. One that other machines can reach needs a base URL, and a proxy or plain HTTP",
        expected="an IP address or the name of this machine",
    )
    port: int = defined(8420, "port to bind; 0 chooses a free one", bounds=(0, 65_535))
    base_url: str | None = defined(
        None,
        "the URL that voters use. Needed if others can reach the port. With https, cookies are Secure and HSTS is sent",
        expected="scheme and host, such as https://arena.example.org",
    )
    plain_http: bool = defined(
        False,
        "others may use plain HTTP, in a closed network: cookies and passwords cross it unencrypted",
    )
    trusted_proxies: tuple[str, ...] = defined(
        (),
        "proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted",
        expected="addresses or networks with commas between them, such as 10.0.0.7, 10.1.0.0/16; none: there is no proxy",
    )
    workers: int = defined(1, "web processes that share the port", bounds=(1, 64))
    shard: int = defined(
        0,
        "the number of this database among several behind one address. Ids of matchups and invitations begin with it; a "
        "matchup of another number is not found here",
        bounds=(0, 4095),
    )
    role: Literal["all", "web", "rater"] = defined(
        "all", "what this machine does: everything, only the web processes, or only the rater"
    )
    metrics_port: int | None = defined(
        None,
        "a separate port for /metrics, /healthz and /readyz of all processes, which need no token there",
        bounds=(0, 65_535),
    )
    metrics_host: str = defined("127.0.0.1", "address to bind for it", expected="an IP address")
    log_requests: bool = defined(False, "log every request, not only failed ones")
    new_sessions_per_minute: int = defined(
        600,
        "new voters from one network (an IPv4 address or an IPv6 /64; twice as many from a /56, four times from a /48) in a "
        "minute, and five times as many in an hour; more get 429. Voters with a cookie are not counted, nor who signs in or has an invitation for one person. "
        "Behind a proxy, name it: otherwise all voters have its address. 0: no limit",
        unit="voters",
        bounds=(0, math.inf),
    )
    easy_sessions_per_minute: int = defined(
        20,
        "new voters of one network in a minute for whom the gate of an open arena is easy; for more it is ten times as "
        "hard. 0: it is always easy",
        unit="voters",
        bounds=(0, math.inf),
    )
    session_limits: str = defined(
        "",
        "what one session may do in a minute; more gets 429. What is not named has its default on a public address "
        f"({limits_text(SESSION_LIMITS)}), and no limit elsewhere. Judges have no limits. none: no limits at all",
        expected="numbers such as votes=60, skips=30; 0: no limit",
    )
    network_limits: str = defined(
        "",
        f"the same for all sessions of one network in open arenas ({limits_text(NETWORK_LIMITS)})",
        expected="numbers such as votes=6000, skips=3000; 0: no limit",
    )
    arena_quotas: str = defined(
        "",
        "what is kept of one arena's reports, remarks and uploaded files of answers in an hour "
        f"({limits_text(HOUR_QUOTAS)}); more gets 429. none: no limits at all",
        expected="numbers such as reports=1000; 0: no limit",
    )
    connections: int = defined(
        12,
        "database connections of one web process, however many arenas it serves, besides the one that listens for new "
        "boards. A request that gets none within 10 seconds gets 503",
        unit="connections",
        bounds=(4, 1000),
    )
    live_turns: int = defined(
        100,
        "turns of live battles that run in one web process at once, two calls to models each; further voters wait in line",
        unit="turns",
        bounds=(1, 10_000),
    )
    boards_url: str | None = defined(
        None,
        "where boards that everybody may read are written as files, at each change, for a static server or a CDN",
        expected="s3://bucket/prefix or file:///folder",
        page="how-to/share-a-board.md#serve-boards-as-files",
    )
    second_factor: tuple[Literal["owner", "operator"], ...] = defined(
        (),
        "roles whose operators must have a second factor. Until they have set it up, they see their account only",
        expected="owner, operator or both, with a comma between them",
        page="how-to/operators.md#second-factor",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for proxy in self.trusted_proxies if self.has_proxy else ():
            _check_network(proxy)
        read_minute_limits("session_limits", self.session_limits, tuple(SESSION_LIMITS))
        read_minute_limits("network_limits", self.network_limits, tuple(NETWORK_LIMITS))
        read_minute_limits("arena_quotas", self.arena_quotas, tuple(HOUR_QUOTAS))
        if self.base_url is not None:
            _check_base_url(self.base_url)
        _check_host(self.host)
        if self.role != "rater" and not is_loopback(self.host):
            # An address that other machines can reach needs a URL, and somebody who encrypts what voters send.
            if self.base_url is None:
                raise BadOption(
                    f"host is {self.host}, which other machines can reach, and base_url is not set. In a closed network, "
                    f"such as an office: --base-url http://ADDRESS:{self.port} --plain-http, with the address that voters "
                    "type. Else put TLS before it: --base-url https://…. For this machine only, bind 127.0.0.1",
                    option="base_url",
                )
            without_proxy = self.trusted_proxies == ("none",)
            encrypted = self.secure and not without_proxy
            if not (encrypted or (self.has_proxy and not self.has_public_address) or self.plain_http):
                raise BadOption(
                    f"host is {self.host}, which other machines can reach, and base_url is {self.base_url}: cookies and "
                    "passwords would cross the network unencrypted. Put a proxy with TLS before the server and name it "
                    "(--base-url https://…, --trusted-proxies); in a closed network, --plain-http allows it",
                    option="plain_http",
                )

    @property
    def has_public_address(self) -> bool:
        """Whether the address is meant for the internet: a name or a number that is not of a machine or a local network."""
        if self.base_url is None:
            return False
        host = (urlsplit(self.base_url).hostname or "").rstrip(".")
        try:
            return ipaddress.ip_address(host).is_global
        except ValueError:
            return "." in host and not host.endswith(_LOCAL_SUFFIXES)

    def minute_limits(self, scope: Literal["session", "network"]) -> dict[LimitedKind, int]:
        """What one session or one network may do in a minute. What is not there has no limit."""
        defaults = SESSION_LIMITS if scope == "session" else NETWORK_LIMITS
        stated = self.session_limits if scope == "session" else self.network_limits
        limits = dict(defaults) if self.has_public_address else {}
        limits |= read_minute_limits(f"{scope}_limits", stated, tuple(defaults))
        return {kind: limit for kind, limit in limits.items() if limit}

    def hour_quotas(self) -> dict[QuotaKind, int]:
        """What is kept of one arena in an hour. What is not there has no limit."""
        stated = read_minute_limits("arena_quotas", self.arena_quotas, tuple(HOUR_QUOTAS))
        return {kind: limit for kind, limit in {**HOUR_QUOTAS, **stated}.items() if limit}

    def defences(self) -> dict[str, int]:
        """What holds strangers, as limits by name: a smaller one is stricter, and one that is not there holds nobody."""
        found = {f"{kind} of a session": most for kind, most in self.minute_limits("session").items()}
        found |= {f"{kind} of a network": most for kind, most in self.minute_limits("network").items()}
        found |= {f"{kind} of an arena": most for kind, most in self.hour_quotas().items()}
        found |= {f"second factor of role {role}": 0 for role in self.second_factor}
        numbers = {"new voters": self.new_sessions_per_minute, "easy gates": self.easy_sessions_per_minute}
        found |= {f"{kind} of a network": most for kind, most in numbers.items() if most}
        kinds = {"public address": self.has_public_address, "https": self.secure}
        return found | {name: 0 for name, present in kinds.items() if present}

    @property
    def secure(self) -> bool:
        """Whether voters connect by https."""
        return self.base_url is not None and self.base_url.startswith("https://")

    @property
    def has_proxy(self) -> bool:
        """Whether requests come by proxies that are named."""
        return self.trusted_proxies not in {(), ("none",)}

    def check_proxy(self) -> None:
        """Refuse to serve strangers without a word about the proxy that bounds what they cost, or that encrypts."""
        if (self.has_public_address or self.secure) and not self.trusted_proxies and self.role != "rater":
            raise BadOption(
                f"voters use {self.base_url}, and no proxy is named, which bounds connections, headers and slow requests; "
                "put one before the server (deploy/ has a configuration for Caddy) and name it with --trusted-proxies; or "
                "say --trusted-proxies none",
                option="trusted_proxies",
            )

    @property
    def origin(self) -> str | None:
        """Scheme, host and port of ``base_url``, as browsers send them in the Origin header."""
        if self.base_url is None:
            return None
        parts = urlsplit(self.base_url.lower())
        return f"{parts.scheme}://{parts.netloc}"

    def address(self) -> str:
        """The address to show: ``base_url``, or the address the server listens on."""
        if self.base_url is not None:
            return self.base_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def _check_host(host: str) -> None:
    """Refuse what is neither an IP address nor a name: whether a name leads to this machine is seen when it is bound."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        numeric = bool(host) and all(part.isascii() and part.isdigit() for part in host.split("."))
        if (numeric and not _is_short_form(host)) or any(sign in host for sign in "/: "):
            raise BadOption(
                f"host is {host}, which is no IP address; {HOST_ADVICE}; the port belongs to --port",
                option="host",
            ) from None


def _is_short_form(host: str) -> bool:
    """Whether numbers are an IPv4 address in an older spelling, such as ``127.1``."""
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serving_variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"TILTYARD_{name.upper()}"


def read_serving(variables: Mapping[str, str], **options: Any) -> ServingSettings:
    """Read options first, then variables, then defaults. An option that is ``None`` was not given."""
    known = definitions(ServingSettings)
    if unknown := options.keys() - known.keys():
        raise BadOption(f"unknown setting of serve: {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for name, definition in known.items():
        variable = serving_variable(name)
        stated = variables.get(variable, "").strip()
        if options.get(name) is not None:
            given = options[name]
            values[name] = definition.read(given) if isinstance(given, str) else given
        elif stated:
            values[name] = replace(definition, name=variable).read(stated)
    if "base_url" in values:
        values["base_url"] = values["base_url"].rstrip("/")
    return ServingSettings(**values)


def _check_network(proxy: str) -> None:
    try:
        network = ipaddress.ip_network(proxy, strict=False)
    except ValueError:
        raise BadOption(
            f"trusted_proxies has {proxy!r}; expected addresses or networks such as 10.0.0.7 or 10.0.0.0/8",
            option="trusted_proxies",
        ) from None
    if not network.prefixlen:
        raise BadOption(
            f"trusted_proxies has {proxy!r}, which is everybody; give the address of the proxy",
            option="trusted_proxies",
        )


def _check_base_url(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise BadOption(
            f"base_url is {base_url.rsplit('@', 1)[-1]!r}; expected scheme and host, such as https://arena.example.org",
            option="base_url",
        )
