"""Checks ID tokens: who signed them, for whom, when, and in answer to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.errors import IdentityFault

#: Signatures with a private key. Never ``none``, and never HMAC: whoever knows the client's secret, or mistakes a public
#: key for one, could sign.
SIGNATURE_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
#: Seconds by which the provider's clock may differ from ours.
_LEEWAY_SECONDS = 60
_MAX_TOKEN_CHARACTERS = 64 * 1024


class UntrustedSignature(IdentityFault):
    """No known key has signed the token. The provider may have new keys."""


@dataclass(frozen=True, slots=True)
class ExpectedToken:
    """What a token must say to be the answer to one request."""

    issuer: str
    client_id: str
    nonce: str
    #: Those of the provider's discovery document.
    algorithms: Sequence[str]
    #: The access token that came with it.
    access_token: str | None
    now: float


def read_id_token(
    token: str, keys: Sequence[Mapping[str, Any]], expected: ExpectedToken
) -> Mapping[str, Any]:
    """The claims of a token that is what was expected; else `IdentityFault`."""
    from authlib.oidc.core import CodeIDToken
    from joserfc.errors import JoseError

    if len(token) > _MAX_TOKEN_CHARACTERS or not token.isascii():
        raise IdentityFault("the provider's ID token is too long, or no token")
    header, claims = _verify(token, keys, expected.algorithms)
    # A list is checked here: Authlib looks for one value only.
    options = {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "sub": {"essential": True},
        "exp": {"essential": True},
        "iat": {"essential": True},
        "nonce": {"essential": True, "value": expected.nonce},
    }
    params = {
        "client_id": expected.client_id,
        "nonce": expected.nonce,
        "access_token": expected.access_token,
    }
    checked = CodeIDToken(claims, header, options, params)
    try:
        checked.validate(now=int(expected.now), leeway=_LEEWAY_SECONDS)
    except JoseError as error:
        raise IdentityFault(f"the provider's ID token is refused: {_said(error)}") from None
    except (TypeError, ValueError, KeyError, AttributeError):
        raise IdentityFault("the provider's ID token has a claim of a wrong type") from None
    return dict(checked)


def _verify(
    token: str, keys: Sequence[Mapping[str, Any]], algorithms: Sequence[str]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Header and claims of a token that one of the keys has signed."""
    from joserfc import jws, jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    allowed = [one for one in SIGNATURE_ALGORITHMS if one in algorithms]
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError):
        raise IdentityFault("the provider's ID token is no signed token") from None
    if header.get("alg") not in allowed:
        raise IdentityFault(
            f"the provider's ID token is signed with {str(header.get('alg'))[:20]!r}; expected"
            f" {', '.join(allowed) or 'an algorithm that its discovery document names'}"
        )
    kid = header.get("kid")
    for key in keys:
        if kid is not None and key.get("kid") not in {None, kid}:
            continue
        if key.get("kty") == "oct" or key.get("use", "sig") != "sig":
            continue
        if key.get("alg", header["alg"]) != header["alg"]:
            continue
        try:
            decoded = jwt.decode(token, JWKRegistry.import_key(dict(key)), algorithms=allowed)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        return decoded.header, dict(decoded.claims)
    raise UntrustedSignature("the provider's ID token is signed by no key of the provider")


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
