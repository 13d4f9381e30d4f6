"""Signing in at an OpenID Connect provider: the authorization code flow with PKCE.

The steps are those of OpenID Connect Core 1.0, section 3.1; discovery is OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from tiltyard.errors import IdentityFault
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.settings.serving_settings import SignInSettings, is_loopback

#: The issuer of those whom a gateway names. No provider has it: it is no URL.
PROXY_ISSUER = "proxy"

#: OpenID Connect Core, section 2: a subject has at most 255 ASCII characters; gateways send other names, too.
_MAX_SUBJECT_CHARACTERS = 255
_MAX_NAME_CHARACTERS = 100
_MAX_GROUP_CHARACTERS = 256
_GROUP_LIMIT = 1_000
_DOCUMENT_CACHE_SECONDS = 3600.0
_MAX_CODE_CHARACTERS = 4096
_KEY_LIMIT = 100
#: Signatures with a private key. Never ``none``, and never HMAC: whoever knows the client's secret, or mistakes a public
#: key for one, could sign.
SIGNATURE_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
#: Seconds by which the provider's clock may differ from ours.
_LEEWAY_SECONDS = 60
_MAX_TOKEN_CHARACTERS = 64 * 1024
_CALL_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PersonIdentity:
    """A person: the subject is unique and stays the same at its issuer."""

    issuer: str
    subject: str
    #: How the person is called, for people to read; empty if nobody said it.
    name: str
    groups: frozenset[str]


def check_subject(subject: object) -> str:
    """The subject, if it is one."""
    if (
        not isinstance(subject, str)
        or not 1 <= len(subject) <= _MAX_SUBJECT_CHARACTERS
        or not subject.isprintable()
        or subject != subject.strip()
    ):
        raise IdentityFault("the provider did not say who signed in")
    return subject


def check_groups(groups: Iterable[object]) -> frozenset[str]:
    """The names of groups. One that is no name is an error: a group that is dropped could be the one that counts."""
    found = frozenset(groups)
    if len(found) > _GROUP_LIMIT:
        raise IdentityFault(
            f"the provider named {len(found):,} groups; let it send only those of this application,"
            f" at most {_GROUP_LIMIT:,}"
        )
    names = frozenset(
        one
        for one in found
        if isinstance(one, str) and one and len(one) <= _MAX_GROUP_CHARACTERS and "\0" not in one
    )
    if len(names) != len(found):
        raise IdentityFault("the provider sent groups that are no names; check its claim of groups")
    return names


def clean_name(*names: object) -> str:
    """The first of these that is a name, without characters that are not seen."""
    for one in names:
        if isinstance(one, str):
            seen = "".join(each for each in one if unicodedata.category(each)[0] != "C").strip()
            if seen:
                return seen[:_MAX_NAME_CHARACTERS]
    return ""


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
        tokens = await self._calls.post(document.token_endpoint, "token", headers, form)
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


class ProviderCalls:
    """Asks one provider for JSON documents. What is no document is an `IdentityFault`."""

    def __init__(self, issuer: str) -> None:
        self._local = is_loopback(urlsplit(issuer).hostname or "")

    async def get(self, url: str, what: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The document at an address. ``what`` names it in messages."""
        return await self._call("GET", url, what, headers or {}, None)

    async def post(
        self, url: str, what: str, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> dict[str, Any]:
        """The answer to a form."""
        return await self._call("POST", url, what, headers, form)

    def check_address(self, url: object, what: str) -> str:
        """An address of the provider: https, unless the provider is on this machine."""
        if isinstance(url, str) and url.isascii() and url.isprintable():
            try:
                parts = urlsplit(url)
                secure = parts.scheme == "https" or (self._local and parts.scheme == "http")
                if secure and parts.hostname and not parts.username:
                    return url
            except ValueError:
                pass
        raise IdentityFault(f"the provider's discovery document has no usable {what}")

    async def _call(
        self, method: str, url: str, what: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> dict[str, Any]:
        import httpx2

        try:
            async with asyncio.timeout(_CALL_SECONDS):
                async with (
                    httpx2.AsyncClient(follow_redirects=False, timeout=_CALL_SECONDS) as client,
                    client.stream(
                        method, url, headers={"Accept": "application/json", **headers}, data=form
                    ) as answer,
                ):
                    body = b""
                    async for part in answer.aiter_bytes():
                        body += part
                        if len(body) > _MAX_ANSWER_BYTES:
                            raise IdentityFault(
                                f"the provider's {what} has more than {_MAX_ANSWER_BYTES:,} bytes"
                            )
                    status = answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise IdentityFault(
                f"the identity provider did not answer ({what}: {type(error).__name__})", unreachable=True
            ) from None
        return _document(body, status, what)


def _document(body: bytes, status: int, what: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status == 200 and isinstance(document, dict):
        return document
    # RFC 6749, section 5.2: error is a short code, such as invalid_client.
    code = document.get("error") if isinstance(document, dict) else None
    said = (
        f", {code}"
        if isinstance(code, str) and code.isascii() and code.isprintable() and len(code) <= 60
        else ""
    )
    raise IdentityFault(
        f"the identity provider refused ({what}: status {status}{said})",
        unreachable=status >= 500 or status == 429,
    )
