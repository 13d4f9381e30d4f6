"""An OpenID Connect provider on loopback that lies when it is told to."""

import hmac
import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET_OF_CLIENT = "tiltyard", "a client's secret: 1+1=2&so on"
_KEYS: dict[str, RSAKey] = {}


def new_key(kid: str) -> RSAKey:
    """A key of this name; made once, because that is slow."""
    if kid not in _KEYS:
        _KEYS[kid] = RSAKey.generate_key(2048, {"kid": kid, "use": "sig"}, private=True)
    return _KEYS[kid]


def unsigned(claims: dict[str, Any]) -> str:
    """A token with the algorithm none."""
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def encoded(value: Any) -> str:
    """A part of a token."""
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@dataclass
class ScriptedProvider:
    """What it says. Everything can be changed between two requests."""

    url: str
    key: RSAKey = field(default_factory=lambda: new_key("first"))
    #: The keys that it shows; the one it signs with, unless others are named.
    shown_keys: list[dict[str, Any]] | None = None
    #: More or other fields of the discovery document; ``None`` removes one.
    document: dict[str, Any] = field(default_factory=dict)
    #: More or other claims of ID tokens; ``None`` removes one.
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ada", "name": "Ada Lovelace"})
    #: What it says of whoever signed in last; the subject only, unless more is named.
    userinfo: dict[str, Any] | None = None
    #: Makes another token of the claims.
    sign: Callable[[dict[str, Any]], str] | None = None
    #: Answers by path: status, headers and bytes, in place of the usual ones.
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    #: Paths that were asked for.
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def reset(self) -> None:
        """Be honest again."""
        fresh = ScriptedProvider(self.url)
        for name in (
            "key",
            "shown_keys",
            "document",
            "claims",
            "userinfo",
            "sign",
            "answers",
            "asked",
            "codes",
        ):
            setattr(self, name, getattr(fresh, name))

    def described(self) -> dict[str, Any]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "end_session_endpoint": f"{self.url}/out",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "code_challenge_methods_supported": ["S256"],
            **self.document,
        }
        return {name: value for name, value in found.items() if value is not None}

    def authorize(self, query: dict[str, str]) -> str:
        """Sign in without a question; where the browser goes next."""
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return (
            f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"
        )

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        pair = b64decode(authorization.removeprefix("Basic ")).decode().split(":")
        if [unquote_plus(one) for one in pair] != [CLIENT, SECRET_OF_CLIENT]:
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form["code"], None)
        hashed = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if (
            asked is None
            or asked["code_challenge"] != hashed
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in (usual | self.claims).items() if value is not None}
        sign = self.sign or self.signed
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": sign(claims)}

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def signed_with_public_key(self, claims: dict[str, Any]) -> str:
        """HMAC, with the public key as the secret: the classic confusion."""
        body = f"{encoded({'alg': 'HS256', 'kid': self.key.kid})}.{encoded(claims)}"
        signature = hmac.digest(self.key.as_pem(private=False), body.encode(), "sha256")
        return f"{body}.{urlsafe_b64encode(signature).decode().rstrip('=')}"

    def keys(self) -> dict[str, Any]:
        shown = self.shown_keys
        return {"keys": [self.key.as_dict(private=False)] if shown is None else shown}


class _Handler(BaseHTTPRequestHandler):
    provider: ScriptedProvider

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._answer(parts.path, query)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self._answer(urlsplit(self.path).path, form)

    def _answer(self, path: str, given: dict[str, str]) -> None:
        provider = self.provider
        provider.asked.append(path)
        if path in provider.answers:
            status, headers, body = provider.answers[path]
        elif path == "/authorize":
            status, headers, body = 302, {"location": provider.authorize(given)}, b""
        else:
            status, document = 200, {}
            if path == "/.well-known/openid-configuration":
                document = provider.described()
            elif path == "/token":
                status, document = provider.token(given, self.headers.get("authorization", ""))
            elif path == "/keys":
                document = provider.keys()
            elif path == "/userinfo":
                assert self.headers["authorization"] == "Bearer opaque"
                document = (
                    {"sub": provider.claims.get("sub")} if provider.userinfo is None else provider.userinfo
                )
            headers, body = {"content-type": "application/json"}, json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def scripted_provider() -> Iterator[ScriptedProvider]:
    """A provider that runs until the block is left."""
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    handler.provider = ScriptedProvider(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield handler.provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
