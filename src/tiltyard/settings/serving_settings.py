"""Settings of `tiltyard serve`, read once and frozen."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal
from urllib.parse import urlsplit

from tiltyard.errors import BadOption
from tiltyard.settings.minute_limits import (
    HOUR_QUOTAS,
    NETWORK_LIMITS,
    SESSION_LIMITS,
    LimitedKind,
    QuotaKind,
    read_minute_limits,
)

__all__ = [
    "HOST_ADVICE",
    "ROLES",
    "SECOND_FACTOR_ROLES",
    "SERVING_VARIABLES",
    "ServingSettings",
    "is_loopback",
    "read_serving",
]

#: The role of a machine: everything, only the web processes, or only the rater.
ROLES = ("all", "web", "rater")
#: Roles of operators of whom a second factor may be required.
SECOND_FACTOR_ROLES = ("owner", "operator")

#: The minimum and maximum of numeric settings, and those for which 0 means no limit.
_RANGES = {
    "workers": (1, 64),
    "shard": (0, 4095),
    "connections": (4, 1000),
    "live_turns": (1, 10_000),
    "header_seconds": (1, 3600),
    "body_seconds": (1, 3600),
}
_LIMITS = ("new_sessions_per_minute", "easy_sessions_per_minute", "connections_per_address")

#: What to write instead of an address that cannot be bound.
HOST_ADVICE = "write --host 127.0.0.1 for this machine only, --host 0.0.0.0 for all of its addresses, or one that it has"
_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
#: Ends of names that are used in local networks only.
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


@dataclass(frozen=True)
class ServingSettings:
    """How the arenas are served. Each field has a variable ``TILTYARD_…`` and most have an option."""

    #: Address to bind. Any address other than loopback requires a ``base_url``, and a proxy, TLS or ``plain_http``.
    host: str = "127.0.0.1"
    #: Port to bind; 0 selects a free one.
    port: int = 8420
    #: The public URL: ``https://arena.example.org``. With https, cookies are Secure and HSTS is sent.
    base_url: str | None = None
    #: Files of a certificate with its chain and of its key, if the web processes speak TLS themselves.
    tls_certificate: str | None = None
    tls_key: str | None = None
    #: Whether other machines may reach the server by plain HTTP, in a closed network.
    plain_http: bool = False
    #: Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    trusted_proxies: tuple[str, ...] = ()
    #: Web processes that share the port.
    workers: int = 1
    #: The number of this database among several behind one address. Ids of matchups begin with it.
    shard: int = 0
    #: ``all``, ``web`` or ``rater``.
    role: str = "all"
    #: A separate port for /metrics, which then needs no token there.
    metrics_port: int | None = None
    #: The address to bind for it.
    metrics_host: str = "127.0.0.1"
    #: Whether every request is logged, not only failed ones.
    log_requests: bool = False
    #: Rate limit of new voters of open arenas per network: this many in a minute, and five times as many in an hour; 0: no
    #: limit.
    new_sessions_per_minute: int = 600
    #: The gate of an open arena is harder for a network with more new voters than this in a minute; 0: never.
    easy_sessions_per_minute: int = 20
    #: What one session may do in a minute, such as ``votes=60, skips=30``; ``none``: no limits. What is not named has its
    #: default on a public address, and no limit elsewhere.
    session_limits: str = ""
    #: The same for all sessions of one network in open arenas.
    network_limits: str = ""
    #: What is kept of one arena's reports, remarks and uploads in an hour, such as ``reports=1000``; ``none``: no limits.
    arena_quotas: str = ""
    #: Database connections of one web process, besides the one that listens for new boards.
    connections: int = 12
    #: Concurrent connections from one address to one web process, except trusted proxies; 0: no limit.
    connections_per_address: int = 1000
    #: Turns of live battles that run at once in all web processes; further voters wait in line.
    live_turns: int = 100
    #: Timeout in seconds for receiving the request line and headers.
    header_seconds: int = 15
    #: Timeout in seconds between two parts of a request's body.
    body_seconds: int = 30
    #: Roles of operators who must have a second factor: ``owner``, ``operator``. They set it up at their next sign-in.
    second_factor: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_port("port", self.port, least=0)
        if self.metrics_port is not None:
            _check_port("metrics port", self.metrics_port, least=0)
        self._check_numbers()
        if self.role not in ROLES:
            raise BadOption(f"role is {self.role!r}; expected {', '.join(ROLES)}")
        if not set(self.second_factor) <= set(SECOND_FACTOR_ROLES):
            raise BadOption(
                f"second_factor is {', '.join(self.second_factor)!r}; expected some of {', '.join(SECOND_FACTOR_ROLES)}"
            )
        for proxy in self.trusted_proxies:
            _check_network(proxy)
        read_minute_limits("session_limits", self.session_limits, tuple(SESSION_LIMITS))
        read_minute_limits("network_limits", self.network_limits, tuple(NETWORK_LIMITS))
        read_minute_limits("arena_quotas", self.arena_quotas, tuple(HOUR_QUOTAS))
        if self.base_url is not None:
            _check_base_url(self.base_url)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise BadOption("tls_certificate and tls_key belong together: give both files, or none")
        if self.has_tls and self.base_url is not None and not self.base_url.startswith("https://"):
            raise BadOption(f"base_url is {self.base_url}, and there is a certificate; expected https://…")
        _check_host(self.host)
        if self.role != "rater" and not is_loopback(self.host):
            self._check_open_address()

    def _check_open_address(self) -> None:
        """An address that other machines can reach needs a URL, and somebody who encrypts what voters send."""
        if self.base_url is None:
            raise BadOption(
                f"host is {self.host}, which other machines can reach, and base_url is not set; set the address "
                "that voters will use with --base-url https://… (or TILTYARD_BASE_URL), or bind 127.0.0.1"
            )
        if not (self.secure or self.trusted_proxies or self.plain_http):
            raise BadOption(
                f"host is {self.host}, which other machines can reach, and base_url is {self.base_url}: cookies and "
                "passwords would cross the network unencrypted. Put a proxy with TLS before the server (--base-url "
                "https://…, --trusted-proxies), or give --tls-certificate and --tls-key; in a closed network, "
                "--plain-http allows it"
            )

    def _check_numbers(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise BadOption(f"{name} is {getattr(self, name)}; expected {least} to {most}")
        for name in _LIMITS:
            if getattr(self, name) < 0:
                raise BadOption(f"{name} is {getattr(self, name)}; expected 0 (no limit) or more")

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

    @property
    def secure(self) -> bool:
        """Whether voters connect by https."""
        return self.has_tls if self.base_url is None else self.base_url.startswith("https://")

    @property
    def has_tls(self) -> bool:
        """Whether the web processes speak TLS themselves."""
        return self.tls_certificate is not None

    @property
    def hides_addresses(self) -> bool:
        """Whether there must be a proxy that is not named, so that all voters seem to have its address."""
        return self.secure and not self.has_tls and not self.trusted_proxies and self.role != "rater"

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
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"


def _check_host(host: str) -> None:
    """Refuse what is neither an IP address nor a name: whether a name leads to this machine is seen when it is bound."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        numeric = bool(host) and all(part.isascii() and part.isdigit() for part in host.split("."))
        if (numeric and not _is_short_form(host)) or any(sign in host for sign in "/: "):
            raise BadOption(
                f"host is {host}, which is no IP address; {HOST_ADVICE}; the port belongs to --port"
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


def read_serving(variables: Mapping[str, str], **options: Any) -> ServingSettings:
    """Read options first, then variables, then defaults. An option that is ``None`` was not given."""
    values: dict[str, Any] = {}
    for field, (variable, parse) in SERVING_VARIABLES.items():
        stated = variables.get(variable, "").strip()
        if options.get(field) is not None:
            values[field] = options[field]
        elif stated:
            values[field] = _parsed(variable, stated, parse)
    unknown = set(options) - {field.name for field in fields(ServingSettings)}
    if unknown:
        raise BadOption(f"unknown setting of serve: {', '.join(sorted(unknown))}")
    return ServingSettings(**values)


def _parsed(variable: str, stated: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(stated)
    except ValueError:
        expected = "a whole number" if parse is _whole else "yes or no"
        raise BadOption(f"{variable} is {stated!r}; expected {expected}") from None


def _whole(text: str) -> int:
    return int(text)


def _yes(text: str) -> bool:
    known = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
    if text.lower() not in known:
        raise ValueError
    return known[text.lower()]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


#: The environment variable of each setting, and the parser of its text.
SERVING_VARIABLES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "host": ("TILTYARD_HOST", str),
    "port": ("TILTYARD_PORT", _whole),
    "base_url": ("TILTYARD_BASE_URL", lambda text: text.rstrip("/")),
    "tls_certificate": ("TILTYARD_TLS_CERTIFICATE", str),
    "tls_key": ("TILTYARD_TLS_KEY", str),
    "plain_http": ("TILTYARD_PLAIN_HTTP", _yes),
    "trusted_proxies": ("TILTYARD_TRUSTED_PROXIES", _list),
    "workers": ("TILTYARD_WORKERS", _whole),
    "shard": ("TILTYARD_SHARD", _whole),
    "role": ("TILTYARD_ROLE", str),
    "metrics_port": ("TILTYARD_METRICS_PORT", _whole),
    "metrics_host": ("TILTYARD_METRICS_HOST", str),
    "log_requests": ("TILTYARD_LOG_REQUESTS", _yes),
    "new_sessions_per_minute": ("TILTYARD_NEW_SESSIONS_PER_MINUTE", _whole),
    "easy_sessions_per_minute": ("TILTYARD_EASY_SESSIONS_PER_MINUTE", _whole),
    "session_limits": ("TILTYARD_SESSION_LIMITS", str),
    "network_limits": ("TILTYARD_NETWORK_LIMITS", str),
    "arena_quotas": ("TILTYARD_ARENA_QUOTAS", str),
    "connections": ("TILTYARD_CONNECTIONS", _whole),
    "connections_per_address": ("TILTYARD_CONNECTIONS_PER_ADDRESS", _whole),
    "live_turns": ("TILTYARD_LIVE_TURNS", _whole),
    "header_seconds": ("TILTYARD_HEADER_SECONDS", _whole),
    "body_seconds": ("TILTYARD_BODY_SECONDS", _whole),
    "second_factor": ("TILTYARD_SECOND_FACTOR", _list),
}


def _check_port(name: str, port: int, *, least: int) -> None:
    if not least <= port <= 65535:
        raise BadOption(f"{name} is {port}; expected {least} to 65535")


def _check_network(proxy: str) -> None:
    try:
        network = ipaddress.ip_network(proxy, strict=False)
    except ValueError:
        raise BadOption(
            f"trusted_proxies has {proxy!r}; expected addresses or networks such as 10.0.0.7 or 10.0.0.0/8"
        ) from None
    if not network.prefixlen:
        raise BadOption(f"trusted_proxies has {proxy!r}, which is everybody; give the address of the proxy")


def _check_base_url(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise BadOption(
            f"base_url is {_without_secrets(base_url)!r}; expected scheme and host, such as https://arena.example.org"
        )


def _without_secrets(base_url: str) -> str:
    return base_url.rsplit("@", 1)[-1]
