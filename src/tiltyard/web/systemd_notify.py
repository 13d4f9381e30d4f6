"""Tells systemd that the service is ready, and that it still works: the protocol of ``sd_notify(3)``."""

from __future__ import annotations

import contextlib
import os
import socket

__all__ = ["notify_systemd", "watchdog_seconds"]


def notify_systemd(state: str) -> None:
    """Send a state such as ``READY=1``; does nothing if systemd does not ask for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)


def watchdog_seconds() -> float | None:
    """The time within which systemd wants to hear ``WATCHDOG=1``; ``None`` if it does not."""
    stated = os.environ.get("WATCHDOG_USEC", "")
    return int(stated) / 1e6 if stated.isdigit() and int(stated) > 0 else None
