"""Signing in at an OpenID Connect provider: the authorization code flow with PKCE.

The steps are those of OpenID Connect Core 1.0, section 3.1; discovery is OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

from tiltyard.errors import IdentityFault
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.identity.id_tokens import (
    SIGNATURE_ALGORITHMS,
    ExpectedToken,
    UntrustedSignature,
    read_id_token,
)
from tiltyard.identity.person_identity import PersonIdentity, check_groups, check_subject, clean_name
from tiltyard.identity.provider_calls import ProviderCalls
from tiltyard.settings.sign_in_settings import SignInSettings

_DOCUMENT_CACHE_SECONDS = 3600.0
_MAX_CODE_CHARACTERS = 4096
_KEY_LIMIT = 100


@dataclass(frozen=True, slots=True)
class ProviderDocument:
    """What the discovery document says, as far as it is used."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    algorithms: tuple[str, ...]
    #: Whether the client's secret goes into the header; else it goes into the form.
    secret_in_header: bool
    #: RFC 9207: whether answers name their issuer.
    names_issuer: bool


@dataclass(frozen=True, slots=True)
class CodeRequest:
    """One attempt to sign in: what is sent with it, and must come back."""

    state: str
    nonce: str
    #: The secret of PKCE (RFC 7636); the provider sees its hash first.
    verifier: str
    redirect_uri: str


class OidcClient:
    """This installation as a client of its provider."""

    def __init__(self, settings: SignInSettings) -> None:
        assert settings.issuer is not None
        assert settings.client_id is not None
        self._issuer = settings.issuer
        self._client_id = settings.client_id
        self._settings = settings
        self._calls = ProviderCalls(settings.issuer)
        self._reading = SingleFlight()
        self._documents: BoundedCache[str, ProviderDocument] = BoundedCache(
            1, seconds=_DOCUMENT_CACHE_SECONDS
        )
        self._keys: BoundedCache[str, Sequence[Mapping[str, Any]]] = BoundedCache(
            1, seconds=_DOCUMENT_CACHE_SECONDS
        )

    async def authorization_url(self, asked: CodeRequest) -> str:
        """Where a browser is sent to sign in."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        document = await self._document()
        return str(
            prepare_grant_uri(
                document.authorization_endpoint,
                self._client_id,
                "code",
                redirect_uri=asked.redirect_uri,
                scope=list(self._settings.scopes),
                state=asked.state,
                nonce=asked.nonce,
                code_challenge=create_s256_code_challenge(asked.verifier),
                code_challenge_method="S256",
            )
        )

    async def sign_in(self, asked: CodeRequest, code: str, issuer: str | None) -> PersonIdentity:
        """Who has signed in, by the code that the browser came back with. ``issuer``: whom the answer named."""
        document = await self._document()
        if issuer is None and document.names_issuer:
            raise IdentityFault("the answer does not say which provider it comes from")
        if issuer is not None and issuer != self._issuer:
            raise IdentityFault("the answer comes from another provider")
        if not 1 <= len(code) <= _MAX_CODE_CHARACTERS:
            raise IdentityFault("the answer has no usable code")
        tokens = await self._exchange(document, asked, code)
        id_token, access_token = tokens.get("id_token"), tokens.get("access_token")
        if not isinstance(id_token, str):
            raise IdentityFault("the provider sent no ID token; its client must be one of OpenID Connect")
        bearer = access_token if isinstance(access_token, str) else None
        claims = await self._claims(document, asked, id_token, bearer)
        return await self._person(document, claims, bearer)

    async def sign_out_url(self) -> str | None:
        """Where one signs out at the provider itself; ``None`` if it does not say, or does not answer."""
        try:
            document = await self._document()
        except IdentityFault:
            return None
        if document.end_session_endpoint is None:
            return None
        glue = "&" if "?" in document.end_session_endpoint else "?"
        return f"{document.end_session_endpoint}{glue}{urlencode({'client_id': self._client_id})}"

    async def _exchange(self, document: ProviderDocument, asked: CodeRequest, code: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": asked.redirect_uri,
            "code_verifier": asked.verifier,
        }
        headers = {}
        secret = self._settings.client_secret
        if secret is not None and document.secret_in_header:
            # RFC 6749, section 2.3.1: both are form-encoded first.
            pair = f"{quote_plus(self._client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form["client_id"] = self._client_id
            if secret is not None:
                form["client_secret"] = secret
        return await self._calls.post(document.token_endpoint, "token", headers, form)

    async def _claims(
        self, document: ProviderDocument, asked: CodeRequest, id_token: str, access_token: str | None
    ) -> Mapping[str, Any]:
        expected = ExpectedToken(
            issuer=self._issuer,
            client_id=self._client_id,
            nonce=asked.nonce,
            algorithms=document.algorithms,
            access_token=access_token,
            now=time.time(),
        )
        keys = self._keys.get("all")
        if keys is not None:
            try:
                return read_id_token(id_token, keys, expected)
            except UntrustedSignature:
                pass  # The provider may have new keys since these were read.
        return read_id_token(
            id_token, await self._reading("keys", lambda: self._read_keys(document)), expected
        )

    async def _person(
        self, document: ProviderDocument, claims: Mapping[str, Any], access_token: str | None
    ) -> PersonIdentity:
        subject = check_subject(claims["sub"])
        groups = claims.get(self._settings.groups_claim)
        if groups is None and document.userinfo_endpoint is not None and access_token is not None:
            more = await self._calls.get(
                document.userinfo_endpoint, "userinfo", {"Authorization": f"Bearer {access_token}"}
            )
            # Section 5.3.2: claims of somebody else must not be used.
            if not hmac.compare_digest(str(more.get("sub")).encode(), subject.encode()):
                raise IdentityFault("the provider's userinfo is about another person")
            claims = {**more, **claims}
            groups = claims.get(self._settings.groups_claim)
        name = clean_name(claims.get("name"), claims.get("preferred_username"))
        return PersonIdentity(self._issuer, subject, name, check_groups(_listed(groups)))

    async def _document(self) -> ProviderDocument:
        known = self._documents.get("all")
        return known if known is not None else await self._reading("document", self._read_document)

    async def _read_document(self) -> ProviderDocument:
        from authlib.oidc.discovery import get_well_known_url

        found = await self._calls.get(get_well_known_url(self._issuer, external=True), "discovery document")
        if found.get("issuer") != self._issuer:
            raise IdentityFault(
                f"the discovery document is of the issuer {str(found.get('issuer'))[:200]!r}; set"
                " TILTYARD_OIDC_ISSUER to the provider's issuer exactly as it is spelled there"
            )
        return self._documents.put("all", self._parsed(found))

    def _parsed(self, found: Mapping[str, Any]) -> ProviderDocument:
        def optional(name: str) -> str | None:
            return None if found.get(name) is None else self._calls.check_address(found[name], name)

        stated = found.get("id_token_signing_alg_values_supported", ["RS256"])
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        challenges = found.get("code_challenge_methods_supported", ["S256"])
        if not all(isinstance(one, list) for one in (stated, methods, challenges)):
            raise IdentityFault("the provider's discovery document has a list of a wrong type")
        if "S256" not in challenges:
            raise IdentityFault("the provider does not support PKCE with S256")
        return ProviderDocument(
            self._calls.check_address(found.get("authorization_endpoint"), "authorization_endpoint"),
            self._calls.check_address(found.get("token_endpoint"), "token_endpoint"),
            self._calls.check_address(found.get("jwks_uri"), "jwks_uri"),
            optional("userinfo_endpoint"),
            optional("end_session_endpoint"),
            tuple(one for one in SIGNATURE_ALGORITHMS if one in stated),
            secret_in_header="client_secret_basic" in methods,
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _read_keys(self, document: ProviderDocument) -> Sequence[Mapping[str, Any]]:
        found = (await self._calls.get(document.jwks_uri, "keys")).get("keys")
        if not isinstance(found, list) or len(found) > _KEY_LIMIT:
            raise IdentityFault("the provider's keys are no list of keys")
        return self._keys.put("all", [one for one in found if isinstance(one, dict)])


def _listed(groups: object) -> Sequence[object]:
    """The claim of groups as a list: some providers send one group as a text."""
    if groups is None:
        return ()
    if isinstance(groups, str):
        return (groups,)
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise IdentityFault("the provider sent groups that are no names; check its claim of groups")
    return groups
