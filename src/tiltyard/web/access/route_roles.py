"""Which role each route for operators needs: pages and API. A route that is not here does not start.

Routes of voters and readers are not here: what they show depends on the arena's settings (`tiltyard.web.access.route_access`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tiltyard.arena.operator_roles import OperatorRole

RoleScope = Literal["arena", "installation", "anywhere", "own"]


@dataclass(frozen=True, slots=True)
class RouteNeed:
    """The least role that a route needs, and where.

    In the arena of its path, for the installation, or in any arena. ``own``: it is about the operator itself and needs
    no role.
    """

    role: OperatorRole
    where: RoleScope


def _needs(role: OperatorRole, routes: str, where: RoleScope | None = None) -> Mapping[str, RouteNeed]:
    """The same role for several routes, one on each line: in the arena of the path if it has one."""
    found: dict[str, RouteNeed] = {}
    for line in routes.split("\n"):
        if route := line.strip():
            found[route] = RouteNeed(role, where or ("arena" if "{arena}" in route else "installation"))
    return found


ROUTE_NEEDS: Final[Mapping[str, RouteNeed]] = {
    # Every operator: its own account.
    **_needs(
        "analyst",
        """
        GET /operator/account
        POST /operator/account/second-factor
        POST /operator/account/second-factor/confirm
        POST /operator/account/second-factor/off
        POST /operator/account/sessions/{session}/end
        POST /operator/account/sessions/end-others
        """,
        "own",
    ),
    # Whoever has a role somewhere: its own tokens, its arenas.
    **_needs(
        "analyst",
        """
        GET /operator
        GET /operator/tokens
        POST /operator/tokens
        GET /operator/tokens/{api_token}/revoke
        POST /operator/tokens/{api_token}/revoke
        GET /api/v1/tokens
        POST /api/v1/tokens
        DELETE /api/v1/tokens/{api_token}
        """,
        "anywhere",
    ),
    **_needs(
        "analyst",
        """
        GET /metrics
        GET /operator/arenas/{arena}
        GET /operator/arenas/{arena}/models
        GET /operator/arenas/{arena}/live
        GET /operator/arenas/{arena}/prompts
        GET /operator/arenas/{arena}/prompts/view
        GET /operator/arenas/{arena}/preview
        GET /operator/arenas/{arena}/crowd
        GET /operator/arenas/{arena}/exclusions
        GET /operator/arenas/{arena}/exports
        GET /api/v1/arenas/{arena}/models
        GET /api/v1/arenas/{arena}/prompts
        GET /api/v1/arenas/{arena}/responses
        GET /api/v1/arenas/{arena}/exclusions
        """,
    ),
    **_needs(
        "moderator",
        """
        GET /operator/arenas/{arena}/voters
        GET /operator/arenas/{arena}/voters/{session}
        GET /operator/arenas/{arena}/voters/{session}/exclude
        POST /operator/arenas/{arena}/voters/{session}/exclude
        POST /operator/arenas/{arena}/crowd/{change}/explain
        GET /operator/arenas/{arena}/exclude
        POST /operator/arenas/{arena}/exclude
        GET /operator/arenas/{arena}/exclusions/{exclusion}/restore
        POST /operator/arenas/{arena}/exclusions/{exclusion}/restore
        GET /operator/arenas/{arena}/remarks
        GET /operator/arenas/{arena}/complaints
        GET /operator/arenas/{arena}/complaints/{complaint}
        POST /operator/arenas/{arena}/complaints/{complaint}/settle
        GET /operator/arenas/{arena}/audit
        POST /api/v1/arenas/{arena}/exclusions
        POST /api/v1/arenas/{arena}/exclusions/{exclusion}/restore
        GET /api/v1/arenas/{arena}/complaints
        POST /api/v1/arenas/{arena}/complaints/{complaint}/settle
        GET /api/v1/arenas/{arena}/audit
        GET /api/v1/arenas/{arena}/battles/exact
        """,
    ),
    **_needs(
        "operator",
        """
        POST /operator/arenas
        GET /operator/arenas/{arena}/conversations.parquet
        GET /operator/arenas/{arena}/prompts.jsonl
        GET /operator/arenas/{arena}/stage
        GET /operator/arenas/{arena}/stage/confirm
        POST /operator/arenas/{arena}/stage
        GET /operator/arenas/{arena}/answers
        GET /operator/arenas/{arena}/answers/write
        POST /operator/arenas/{arena}/answers/write
        POST /operator/arenas/{arena}/uploads
        GET /operator/arenas/{arena}/uploads/{upload}
        POST /operator/arenas/{arena}/uploads/{upload}/let-in
        POST /operator/arenas/{arena}/uploads/{upload}/discard
        GET /operator/arenas/{arena}/models/details
        POST /operator/arenas/{arena}/models/details
        POST /operator/arenas/{arena}/models/details-file
        GET /operator/arenas/{arena}/models/retire
        POST /operator/arenas/{arena}/models/retire
        POST /operator/arenas/{arena}/models/enable
        POST /operator/arenas/{arena}/prompts/hide
        POST /operator/arenas/{arena}/prompts/show
        GET /operator/arenas/{arena}/prompts/withdraw
        POST /operator/arenas/{arena}/prompts/withdraw
        GET /operator/arenas/{arena}/erase
        POST /operator/arenas/{arena}/erase
        GET /operator/arenas/{arena}/policy
        GET /operator/arenas/{arena}/policy/review
        POST /operator/arenas/{arena}/policy
        GET /operator/arenas/{arena}/phase
        GET /operator/arenas/{arena}/phase/confirm
        POST /operator/arenas/{arena}/phase
        GET /operator/arenas/{arena}/settings
        GET /operator/arenas/{arena}/settings/review
        POST /operator/arenas/{arena}/settings
        GET /operator/arenas/{arena}/invitations
        POST /operator/arenas/{arena}/invitations
        POST /operator/arenas/{arena}/invitations/passcode
        GET /operator/arenas/{arena}/invitations/{invitation}/revoke
        POST /operator/arenas/{arena}/invitations/{invitation}/revoke
        GET /operator/arenas/{arena}/panels
        GET /operator/arenas/{arena}/panels/{panel}
        GET /operator/arenas/{arena}/panels/{panel}/table.{form}
        POST /operator/arenas/{arena}/panels
        POST /operator/arenas/{arena}/panels/{panel}/adjudicate
        POST /operator/arenas/{arena}/panels/{panel}/close
        GET /operator/arenas/{arena}/texts
        POST /operator/arenas/{arena}/texts
        POST /api/v1/arenas
        PATCH /api/v1/arenas/{arena}
        POST /api/v1/arenas/{arena}/responses
        POST /api/v1/arenas/{arena}/models/{model:path}/enable
        POST /api/v1/arenas/{arena}/models/{model:path}/retire
        POST /api/v1/arenas/{arena}/withdrawals
        PATCH /api/v1/arenas/{arena}/policy
        PUT /api/v1/arenas/{arena}/phase
        """,
    ),
    **_needs(
        "owner",
        """
        GET /operator/audit
        GET /operator/operators
        POST /operator/operators
        POST /operator/operators/invitations/{link}/revoke
        GET /operator/operators/{operator}
        POST /operator/operators/{operator}/role
        POST /operator/operators/{operator}/sign-out
        GET /operator/operators/{operator}/remove
        POST /operator/operators/{operator}/remove
        GET /operator/arenas/{arena}/stage/delete
        POST /operator/arenas/{arena}/stage/delete
        POST /operator/arenas/{arena}/stage/keep
        GET /operator/arenas/{arena}/operators
        POST /operator/arenas/{arena}/operators
        POST /operator/arenas/{arena}/operators/invitations/{link}/revoke
        POST /operator/arenas/{arena}/operators/{operator}/role
        """,
    ),
}


def route_need(method: str, path: str) -> RouteNeed:
    """What a route needs; ``path`` has its parameters in braces."""
    return ROUTE_NEEDS[f"{method} {path}"]


def check_route_table(guarded: Iterable[str], table: Collection[str] = ROUTE_NEEDS.keys()) -> None:
    """Raise unless the routes that are guarded, such as ``GET /operator``, are those of the table."""
    known = set(guarded)
    missing, unknown = sorted(known - set(table)), sorted(set(table) - known)
    if missing:
        raise RuntimeError(
            f"no role is named for {', '.join(missing)}; add it to tiltyard/web/access/route_roles.py, with the least role"
        )
    if unknown:
        raise RuntimeError(
            f"tiltyard/web/access/route_roles.py names routes that do not exist: {', '.join(unknown)}"
        )
