"""The gate of open arenas: challenges that cost a browser some computation, and proofs that they were solved.

It follows ALTCHA's protocol. A challenge is the SHA-256 of a salt and a secret number; whoever finds the number by trying
has spent the time. The server keeps nothing: the challenge is signed, its salt has the time when it expires, and the
session that a proof begins is derived from it, so that the same proof begins no second one, in whichever process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs

from tiltyard.arena.accounts import session_number_from
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.wire.gate import ALGORITHM, GateChallenge

#: Where a proof is sent: by the scripts of our pages, and by programs.
PROOF_COOKIE = "tiltyard_proof"
PROOF_HEADER = "tiltyard-proof"
#: What a browser sends that could compute no proof.
UNAVAILABLE_PROOF = "unavailable"

#: The largest number: half as many hashes are tried on average. A phone tries 100,000 a second or more.
_EASY_NUMBER_LIMIT = 100_000
_HARD_NUMBER_LIMIT = 1_000_000
_LIFETIME_SECONDS = 1200
_NONCE_BYTES = 8
_SESSION_BYTES = 8
_MAX_PROOF_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """What a proof is worth. An old one is no failure: its challenge may be asked for again."""

    result: Literal["passed", "failed", "old"]
    #: The session that begins with it, if none was there.
    session: int = 0


class GateProofs:
    """Makes challenges and checks proofs."""

    def __init__(self, keys: SecretKeys) -> None:
        self._keys = keys

    def challenge(self, now: float, session: int | None = None, *, hard: bool = False) -> GateChallenge:
        """A new challenge. With a session that there is already, its proof is worth something for that one only."""
        most = _HARD_NUMBER_LIMIT if hard else _EASY_NUMBER_LIMIT
        bound = "" if session is None else f"session={self._session_hash(session)}&"
        # The salt ends with a delimiter: otherwise digits of the number could be read as digits of the time.
        salt = f"{secrets.token_hex(_NONCE_BYTES)}?expires={int(now) + _LIFETIME_SECONDS}&{bound}"
        found = _hashed(salt, secrets.randbelow(most + 1))
        return GateChallenge(
            algorithm=ALGORITHM,
            challenge=found,
            maxnumber=most,
            salt=salt,
            signature=self._keys.sign("gate challenge", found.encode()).hex(),
        )

    def check(self, text: str, now: float, session: int | None = None) -> ProofCheck:
        """What a proof is worth for a session, or for a new one."""
        proof = _read(text)
        if proof is None:
            return ProofCheck("failed")
        salt, number, challenge, signature = proof
        signed = self._keys.verify("gate challenge", challenge.encode(), signature, shortest=32)
        if not signed or _hashed(salt, number) != challenge:
            return ProofCheck("failed")
        stated = parse_qs(salt.partition("?")[2])
        if now >= int(stated["expires"][0]):
            return ProofCheck("old")
        expected = None if session is None else [self._session_hash(session)]
        if stated.get("session") != expected:
            # The session has changed since the challenge was made.
            return ProofCheck("old")
        return ProofCheck("passed", session_number_from(self._keys.sign("gate session", challenge.encode())))

    def _session_hash(self, session: int) -> str:
        return self._keys.sign("gate of a session", str(session).encode())[:_SESSION_BYTES].hex()


def _hashed(salt: str, number: int) -> str:
    return hashlib.sha256(f"{salt}{number}".encode()).hexdigest()


def _read(text: str) -> tuple[str, int, str, bytes] | None:
    """Salt, number, challenge and signature of a proof; ``None`` if it is none."""
    if len(text) > _MAX_PROOF_CHARACTERS or not text.isascii():
        return None
    try:
        found: Any = json.loads(base64.b64decode(text, validate=True))
        salt, number, challenge = found["salt"], found["number"], found["challenge"]
        signature = bytes.fromhex(found["signature"])
    except (ValueError, binascii.Error, KeyError, TypeError, RecursionError):
        return None
    whole = isinstance(number, int) and 0 <= number <= _HARD_NUMBER_LIMIT
    texts = isinstance(salt, str) and isinstance(challenge, str)
    known = whole and texts and salt.isascii() and challenge.isascii() and found.get("algorithm") == ALGORITHM
    return (salt, number, challenge, signature) if known else None
