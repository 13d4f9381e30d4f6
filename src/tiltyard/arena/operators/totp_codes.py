"""Codes of a second factor that depend on the time: TOTP (RFC 6238) over HOTP (RFC 4226).

Six digits, steps of 30 seconds, SHA-1: what every authenticator app can do. SHA-1 is sound in an HMAC.
"""

from __future__ import annotations

import base64
import hmac
import struct
from urllib.parse import quote

STEP_SECONDS = 30
_DIGIT_COUNT = 6
#: Steps before and after the current one whose codes are accepted, because clocks differ (RFC 6238, section 5.2).
_TOLERATED_STEP_COUNT = 1


def code_at(key: bytes, step: int) -> str:
    """The code of a step: dynamic truncation (RFC 4226, section 5.3)."""
    digest = hmac.digest(key, struct.pack(">Q", step), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**_DIGIT_COUNT).zfill(_DIGIT_COUNT)


def matching_step(key: bytes, code: str, now: float, last: int) -> int | None:
    """The step of a code that is right now; ``None`` if it is wrong, or its step is not after the ``last`` one used."""
    current = int(now) // STEP_SECONDS
    found = None
    for step in range(current - _TOLERATED_STEP_COUNT, current + _TOLERATED_STEP_COUNT + 1):
        right = hmac.compare_digest(code_at(key, max(step, 0)).encode(), code.encode())
        if right and step > last and found is None:
            found = step
    return found


def key_text(key: bytes) -> str:
    """A key as authenticator apps take it: Base32 without padding."""
    return base64.b32encode(key).decode().rstrip("=")


def otpauth_link(key: bytes, name: str, issuer: str) -> str:
    """A link that authenticator apps open."""
    label = quote(f"{issuer}:{name}", safe="")
    return f"otpauth://totp/{label}?secret={key_text(key)}&issuer={quote(issuer, safe='')}"
