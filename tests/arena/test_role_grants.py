"""Roles are in a line, and one for the installation holds in every arena."""

import pytest

from tiltyard.arena.accounts import (
    ALL_RIGHTS,
    OPERATOR_ROLES,
    SCOPE_ROLES,
    SCOPES,
    OperatorGrants,
    greater_role,
    includes_role,
)


def test_each_role_includes_itself_and_those_after_it():
    assert OPERATOR_ROLES == ("owner", "operator", "moderator", "analyst")
    for place, held in enumerate(OPERATOR_ROLES):
        assert [includes_role(held, one) for one in OPERATOR_ROLES] == [k >= place for k in range(4)]
    assert not any(includes_role(None, one) for one in OPERATOR_ROLES)


def test_the_greater_role_counts():
    assert greater_role("analyst", None, "moderator") == "moderator"
    assert greater_role(None) is None
    grants = OperatorGrants.of([(None, "moderator"), ("poems", "owner"), ("code", "analyst")])
    assert [grants.role_in(arena) for arena in (None, "poems", "code", "else")] == [
        "moderator",
        "owner",
        "moderator",
        "moderator",
    ]
    assert grants.greatest == "owner"


@pytest.mark.parametrize(("arena", "allowed"), [("poems", True), ("code", False), (None, False)])
def test_a_role_in_an_arena_holds_there_alone(arena, allowed):
    assert OperatorGrants.of([("poems", "operator")]).allow("moderator", arena) == allowed
    assert ALL_RIGHTS.allow("owner", arena)
    assert not OperatorGrants().allow("analyst", arena)
    assert OperatorGrants().greatest is None


def test_every_scope_names_a_role():
    assert set(SCOPE_ROLES) == set(SCOPES)
