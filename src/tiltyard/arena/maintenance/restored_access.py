"""Access and visible responses after a restore, which are those at the time of the backup.

Tokens, invitations and passwords that were revoked or changed after the backup are valid again, and responses withdrawn after it
are shown again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True)
class RestoredResponses:
    """The responses of one arena: how many are shown, and how many had been withdrawn before the backup."""

    arena: str
    shown: int
    withdrawn: int


@dataclass(frozen=True)
class RestoredAccess:
    """Credentials that are valid, and responses that are shown."""

    #: Valid tokens by number, each described by its name, scopes and arena.
    tokens: dict[int, str]
    #: Names of operators who can sign in with the passwords they had.
    operators: tuple[str, ...]
    #: How many operator sessions, and links that set a password, can be used.
    operator_sessions: int
    operator_links: int
    #: How many invitations to private arenas are not revoked.
    invitations: int
    responses: tuple[RestoredResponses, ...]


def read_access(connection: psycopg.Connection) -> RestoredAccess:
    """The access that a database currently grants, and what it shows."""
    with translate_errors("list what was restored"):
        tokens = {
            number: f"{name} ({', '.join(scopes)}; {'every arena' if arena is None else f'arena {arena}'})"
            for number, name, scopes, arena in connection.execute(statement("restored_tokens"))
        }
        operators = tuple(name for (name,) in connection.execute(statement("restored_operators")))
        row = connection.execute(statement("restored_operator_sessions")).fetchone()
        invited = connection.execute(statement("restored_invitations")).fetchone()
        assert row is not None
        assert invited is not None
        responses = tuple(
            RestoredResponses(*found) for found in connection.execute(statement("restored_responses"))
        )
    return RestoredAccess(tokens, operators, row[0], row[1], invited[0], responses)


def revoke_access(connection: psycopg.Connection) -> None:
    """Revoke every token, invitation, sign-in, operator session and link, and void operators' passwords, all at once.

    Voters' sessions stay valid: a voter with a new session would count as one who knows no names.
    """
    with translate_errors("revoke what was restored"), connection.transaction():
        connection.execute(statement("end_operator_sessions"))
        for name in ("tokens", "operator_links", "invitations", "sign_ins", "passwords"):
            connection.execute(statement(f"revoke_restored_{name}"))
