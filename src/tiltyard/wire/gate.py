"""The gate of an open arena: what a new voter is asked to compute first, and how it is computed.

A challenge follows ALTCHA's protocol: find the number whose digits, appended to the salt, have a given SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

ALGORITHM: Final = "SHA-256"
#: A server that asks for more is not obeyed: it would take minutes.
_NUMBER_LIMIT = 50_000_000


@dataclass(frozen=True, slots=True)
class GateChallenge:
    """A challenge: the number from 0 to maxnumber is wanted for which SHA-256(salt + number) is the challenge."""

    algorithm: Annotated[str, Field(description="SHA-256.")]
    challenge: Annotated[str, Field(description="The hash, in hexadecimal digits.")]
    maxnumber: Annotated[int, Field(description="The largest number that it can be.")]
    salt: Annotated[
        str, Field(description="What stands before the number's digits. It has the time of expiry.")
    ]
    signature: Annotated[str, Field(description="The server's signature, to be sent back.")]


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """What this voter must do before the first matchup."""

    gate: Annotated[str, Field(description="proof, or none if nothing is to be done.")]
    challenge: Annotated[GateChallenge | None, Field(description="For proof: what is to be solved.")]


def solve_challenge(challenge: GateChallenge) -> str | None:
    """The proof to be sent for a challenge; ``None`` if there is none, or it would take too long."""
    if challenge.algorithm != ALGORITHM or not 0 <= challenge.maxnumber <= _NUMBER_LIMIT:
        return None
    wanted = challenge.challenge.lower()
    salted = hashlib.sha256(challenge.salt.encode())
    for number in range(challenge.maxnumber + 1):
        tried = salted.copy()
        tried.update(b"%d" % number)
        if tried.hexdigest() == wanted:
            proof = {
                "algorithm": ALGORITHM,
                "challenge": challenge.challenge,
                "number": number,
                "salt": challenge.salt,
                "signature": challenge.signature,
            }
            return base64.b64encode(json.dumps(proof, separators=(",", ":")).encode()).decode()
    return None
