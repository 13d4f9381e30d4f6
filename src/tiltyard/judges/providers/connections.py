"""Connections to providers: certificates, keep-alive, and proxies named by the environment."""

from __future__ import annotations

import os
import platform
import socket
import ssl
from functools import cache
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

__all__ = ["open_connector", "proxy_for"]

_CONNECTION_LIMIT = 1000
#: Idle connections are closed before common servers close them (after 5 seconds): a request that is sent into a
#: closing connection may or may not have been received.
_IDLE_SECONDS = 4.0
#: A call may take minutes without traffic: keep-alive packets keep it open and detect a dead peer.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
#: Where Linux distributions keep their certificates, if not where Python's OpenSSL looks.
_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def open_connector() -> aiohttp.TCPConnector:
    """A pool of connections for the running event loop."""
    return aiohttp.TCPConnector(
        limit=_CONNECTION_LIMIT,
        keepalive_timeout=_IDLE_SECONDS,
        ssl=_certificates(),
        socket_factory=_open_socket,
        # The system's resolver, as for everything else on the machine, even where another one is installed.
        resolver=aiohttp.ThreadedResolver(),
    )


def proxy_for(url: URL) -> URL | None:
    """The proxy of the environment (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``) for a URL.

    Raises `ValueError` if it cannot be used. The message never contains its password.
    """
    proxies = getproxies()
    stated = proxies.get(url.scheme) or proxies.get("all")
    if not stated or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    try:
        proxy = URL(stated if "://" in stated else f"http://{stated}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in {"http", "https"} or not proxy.host:
        raise ValueError(f"set {url.scheme.upper()}_PROXY to an address that begins with http:// or https://")
    return proxy


@cache
def _certificates() -> ssl.SSLContext:
    """The system's certificates, or those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``. Loaded once: it takes long."""
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file or folder:
        return ssl.create_default_context(cafile=file, capath=folder)
    if platform.system() in {"Windows", "Darwin"}:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found = ssl.get_default_verify_paths()
    if not (found.cafile or found.capath):
        file = next((name for name in _CERTIFICATE_FILES if Path(name).is_file()), None)
    return ssl.create_default_context(cafile=file)


def _open_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
