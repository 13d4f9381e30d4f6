"""How people sign in, from the environment: whole, checked, and without secrets in messages."""

import pytest

from tiltyard.arena.accounts import OPERATOR_ROLES
from tiltyard.errors import BadOption
from tiltyard.settings.serving_settings import (
    OPERATOR_ROLE_NAMES,
    SIGN_IN_VARIABLES,
    GroupRole,
    SignInSettings,
    read_sign_in,
)


def test_roles_are_those_of_operators():
    assert OPERATOR_ROLE_NAMES == OPERATOR_ROLES


OIDC = {"TILTYARD_OIDC_ISSUER": "https://id.example.org", "TILTYARD_OIDC_CLIENT_ID": "tiltyard"}


def test_nobody_signs_in_by_default():
    settings = read_sign_in({})
    assert settings == SignInSettings()
    assert not settings.by_provider
    assert not settings.by_proxy


def test_everything_is_read():
    settings = read_sign_in(
        OIDC
        | {
            "TILTYARD_OIDC_CLIENT_SECRET": "very secret",
            "TILTYARD_OIDC_SCOPES": "profile groups openid",
            "TILTYARD_OIDC_GROUPS_CLAIM": "roles",
            "TILTYARD_SIGN_IN_ROLES": "staff=analyst, /a=b = owner@poems ,",
            "TILTYARD_SIGN_IN_HOURS": "8",
            "TILTYARD_SIGN_IN_PROXIES": "10.0.0.7, fd00::/8",
            "TILTYARD_SIGN_IN_PROXY_USER_HEADER": "Remote-User",
            "TILTYARD_SIGN_IN_PROXY_GROUPS_HEADER": "Remote-Groups",
        }
    )
    assert settings.scopes == ("openid", "profile", "groups")
    assert settings.roles == (GroupRole("staff", "analyst"), GroupRole("/a=b", "owner", "poems"))
    assert (settings.hours, settings.groups_claim) == (8, "roles")
    assert settings.proxy_networks == ("10.0.0.7", "fd00::/8")
    assert settings.by_provider
    assert settings.by_proxy
    assert "very secret" not in repr(settings)
    assert set(SIGN_IN_VARIABLES) == set(SignInSettings.__dataclass_fields__)


def test_a_provider_on_this_machine_needs_no_https():
    assert read_sign_in(OIDC | {"TILTYARD_OIDC_ISSUER": "http://127.0.0.1:9000"}).by_provider


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TILTYARD_OIDC_ISSUER": "https://id.example.org"}, "belong together"),
        ({"TILTYARD_OIDC_CLIENT_ID": "x"}, "belong together"),
        (OIDC | {"TILTYARD_OIDC_ISSUER": "http://id.example.org"}, "without https"),
        (OIDC | {"TILTYARD_OIDC_ISSUER": "id.example.org"}, "expected the provider's address"),
        (OIDC | {"TILTYARD_OIDC_ISSUER": "https://id.example.org?x=1"}, "expected the provider's address"),
        (
            OIDC | {"TILTYARD_OIDC_ISSUER": "https://a:hunter2@id.example.org"},
            "expected the provider's address",
        ),
        (OIDC | {"TILTYARD_OIDC_ISSUER": "https://["}, "expected the provider's address"),
        (OIDC | {"TILTYARD_OIDC_SCOPES": 'a"b'}, "SCOPES"),
        ({"TILTYARD_SIGN_IN_ROLES": "staff"}, "GROUP=ROLE"),
        ({"TILTYARD_SIGN_IN_ROLES": "=owner"}, "GROUP=ROLE"),
        ({"TILTYARD_SIGN_IN_ROLES": "staff=owner@"}, "GROUP=ROLE"),
        ({"TILTYARD_SIGN_IN_ROLES": "staff=king"}, "king"),
        ({"TILTYARD_SIGN_IN_HOURS": "0"}, "HOURS"),
        ({"TILTYARD_SIGN_IN_HOURS": "-1"}, "HOURS"),
        ({"TILTYARD_SIGN_IN_HOURS": "9999999999999"}, "HOURS"),
        ({"TILTYARD_SIGN_IN_PROXIES": "gateway.example.org"}, "networks such as"),
        ({"TILTYARD_SIGN_IN_PROXIES": "0.0.0.0/0"}, "everybody"),
        ({"TILTYARD_SIGN_IN_PROXIES": "::/0"}, "everybody"),
        ({"TILTYARD_SIGN_IN_PROXY_USER_HEADER": "X_User"}, "letters, digits and hyphens"),
        ({"TILTYARD_SIGN_IN_PROXY_USER_HEADER": "X-Forwarded-For"}, "header of its own"),
        ({"TILTYARD_SIGN_IN_PROXY_USER_HEADER": "Cookie"}, "header of its own"),
        ({"TILTYARD_SIGN_IN_PROXY_USER_HEADER": "a:b"}, "header of its own"),
        ({"TILTYARD_SIGN_IN_PROXY_USER_HEADER": "x-forwarded-groups"}, "name two headers"),
    ],
)
def test_nonsense_is_refused_by_name(variables, said):
    with pytest.raises(BadOption, match=said) as refused:
        read_sign_in(variables)
    assert "hunter2" not in str(refused.value)
