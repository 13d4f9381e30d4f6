"""The name of a reply: all that decides it, nothing else."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tiltyard.judges.requests import request_key
from tiltyard.judges.token_estimate import expected_tokens, token_upper_bound

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
