"""The name of a reply: all that decides it, nothing else."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tiltyard.core.judging.question import VERDICT_SCHEMA, ChatPrompt
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.requests import expected_tokens, request_key, token_upper_bound

TEXTS = st.text(st.characters(), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(TEXTS, VALUES, max_size=4)


@dataclass(frozen=True)
class Named:
    name: str = "openai"
    base_url: str = "http://127.0.0.1/v1"
    adapter_version: int = 1

    @property
    def address(self) -> str:
        return self.base_url


def turned(value: Any) -> Any:
    """The same document with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(one) for one in value] if isinstance(value, list) else value


@given(BODIES)
def test_the_order_of_keys_changes_nothing(body) -> None:
    assert request_key(Named(), body, 0) == request_key(Named(), turned(body), 0)


@given(BODIES, st.data())
def test_any_part_of_the_body_changes_the_key(body, data) -> None:
    other = dict(body) | {data.draw(TEXTS): data.draw(VALUES)}
    assume(json.dumps(other, sort_keys=True) != json.dumps(body, sort_keys=True))
    assert request_key(Named(), body, 0)[0] != request_key(Named(), other, 0)[0]


@given(BODIES, TEXTS, TEXTS, st.integers(2, 9), st.integers(1, 9))
def test_provider_address_adapter_and_replicate_change_the_key(body, name, url, version, replicate) -> None:
    assume(name != "openai" and url != Named.base_url)
    others = [
        (Named(), 0),
        (replace(Named(), name=name), 0),
        (replace(Named(), base_url=url), 0),
        (replace(Named(), adapter_version=version), 0),
        (Named(), replicate),
    ]
    assert len({request_key(provider, body, number)[0] for provider, number in others}) == len(others)


def test_the_key_is_the_hash_of_the_documented_canonical_json() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "é \u2028 \U0001f600"}], "max_tokens": 5}
    said = {
        "provider": "openai",
        "base_url": Named.base_url,
        "adapter_version": 1,
        "replicate": 3,
        "body": body,
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key, size = request_key(Named(), body, 3)
    assert key == hashlib.sha256(text.encode()).hexdigest()
    assert size == len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())


@given(BODIES)
def test_a_request_has_never_more_tokens_than_are_reserved_for(body) -> None:
    _, size = request_key(Named(), body, 0)
    assert expected_tokens(size) <= size < token_upper_bound(size)


@pytest.mark.parametrize(
    ("name", "url", "key"),
    [
        ("openai", None, "bedbec0f41de9d4c4170ef10f3294c3a514036f718592d82f42f474b90db7df9"),
        (
            "openai",
            "http://LOCALHOST:80/v1/",
            "df3c1747d1a09fd8645e902e9e47b13a99a67026d60de524ec2e3a8b600e644f",
        ),
        ("anthropic", None, "db6118a73b03c41e1c0c8e4badf772dbe40e02d0374e4cdf25495ae842082862"),
        (
            "anthropic",
            "https://gateway.example.org:8443/a b/",
            "b7554cad8db4d0cb844cc145ceeb93a8d4bc21ee8abfa4f12bf59d55bbcb5d94",
        ),
    ],
)
def test_replies_that_were_paid_for_through_the_sdks_are_found(name, url, key) -> None:
    """The keys were computed before the providers' SDKs were replaced: another key would be paid for again."""
    provider = open_provider(name, url, "key")
    ask = ChatPrompt("End with VERDICT.", "Which? é \u2028", 200, VerdictForm.SCHEMA, VERDICT_SCHEMA)
    assert request_key(provider, provider.body("m", ask, {"temperature": 0.5}), 0)[0] == key
