"""Roles of operators: what each may do, for the installation and in single arenas.

Each role may do all that the next one may. A role for the installation holds in every arena.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, get_args

from tiltyard.wire.records import OperatorRole, Scope

#: From the one that may do everything to the one that may do least.
OPERATOR_ROLES: Final[tuple[OperatorRole, ...]] = get_args(OperatorRole)
#: What each role may do.
ROLE_MEANINGS: Final[Mapping[OperatorRole, str]] = MappingProxyType(
    {
        "owner": "everything, including other operators, deletion and the audit log of the server",
        "operator": "everything in its arenas, except operators and deleting the arena",
        "moderator": "complaints, exclusions, voters, and the audit log of its arenas",
        "analyst": "read and export",
    }
)
#: The least role whose operator's tokens may use each scope; routes may need more.
SCOPE_ROLES: Final[Mapping[Scope, OperatorRole]] = MappingProxyType(
    {"read": "analyst", "metrics": "analyst", "admin": "analyst", "import": "operator", "judge": "operator"}
)


def includes_role(held: OperatorRole | None, needed: OperatorRole) -> bool:
    """Whether somebody who holds a role may do what needs another one."""
    return held is not None and OPERATOR_ROLES.index(held) <= OPERATOR_ROLES.index(needed)


def greater_role(*roles: OperatorRole | None) -> OperatorRole | None:
    """The role that may do most, of those that are held."""
    return min((role for role in roles if role is not None), key=OPERATOR_ROLES.index, default=None)


@dataclass(frozen=True, slots=True)
class OperatorGrants:
    """The roles of one operator."""

    installation: OperatorRole | None = None
    #: By the arena's name.
    arenas: Mapping[str, OperatorRole] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str | None, OperatorRole]]) -> OperatorGrants:
        """The grants in pairs of an arena, ``None`` for the installation, and a role."""
        known = dict(pairs)
        return cls(known.get(None), {arena: role for arena, role in known.items() if arena is not None})

    def role_in(self, arena: str | None) -> OperatorRole | None:
        """The role in an arena or, without one, for the installation."""
        return greater_role(self.installation, None if arena is None else self.arenas.get(arena))

    @property
    def greatest(self) -> OperatorRole | None:
        """The greatest role anywhere."""
        return greater_role(self.installation, *self.arenas.values())

    def allow(self, needed: OperatorRole, arena: str | None) -> bool:
        """Whether they suffice in an arena or, without one, for the installation."""
        return includes_role(self.role_in(arena), needed)


#: Of an owner of the installation, and of tokens that were made on the command line.
ALL_RIGHTS: Final = OperatorGrants("owner")
