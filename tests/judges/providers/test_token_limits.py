"""What endpoints say when they refuse a limit, in their own words, and what is understood of it."""

from __future__ import annotations

import pytest

from tiltyard.judges.providers.provider import (
    allowed_tokens,
    alternative_limit_field,
    token_limit,
    with_token_limit,
)

#: What was said of a limit of 16,384, and how many tokens it allows.
SAID = [
    (
        "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, whereas you provided 16384.",
        4096,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 17000 tokens (616 in the messages, 16384 in the completion). Please reduce the length of the messages or completion.",
        7576,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 8192 tokens and your request has 900 input tokens (16384 > 8192 - 900).",
        7292,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 16384 output tokens and your prompt contains at least 900 input tokens, for a total of at least 17284 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
        7292,
    ),
    (
        "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
        8192,
    ),
    (
        "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku-20240307",
        4096,
    ),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length or `max_tokens` and try again",
        10000,
    ),
    (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
        8192,
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 900 `inputs` tokens and 16384 `max_new_tokens`",
        7293,
    ),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
    (
        "Unable to submit request because it has a maxOutputTokens value of 16384 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
        8192,
    ),
    (
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
        4095,
    ),
    ("max_tokens must be at most 4,096 for gpt-4-0613", 4096),
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9120 tokens.",
        None,
    ),
    ("request (9120 tokens) exceeds the available context size (8192 tokens), try increasing it", None),
    (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None,
    ),
    ("max_tokens must be at least 1, got -928", None),
    (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        None,
    ),
    ("Unsupported value: 'temperature' does not support 0 with this model.", None),
    ("messages: text content blocks must be 100 characters", None),
    ("", None),
]


@pytest.mark.parametrize(("said", "output"), SAID, ids=lambda value: str(value)[:40])
def test_what_an_endpoint_allows_is_read_from_its_refusal(said, output):
    allowed = allowed_tokens(said, 16_384)
    assert (allowed and allowed.output) == output
    if allowed is not None and allowed.context is not None:
        assert allowed.context - allowed.input == output


def test_room_for_no_verdict_is_no_offer():
    assert allowed_tokens("max_tokens must be at most 12", 16_384) is None
    said = "maximum context length is 8192 tokens. However, you requested 16384 output tokens and your prompt contains 8150 input tokens"
    assert allowed_tokens(said, 16_384) is None


def test_a_limit_that_is_allowed_already_teaches_nothing():
    assert allowed_tokens("max_tokens must be at most 4096", 1000) is None
    said = "maximum context length is 8192 tokens. However, you requested 100 output tokens and your prompt contains 900 input tokens"
    assert allowed_tokens(said, 100) is None


def test_the_limit_of_a_request_is_replaced_where_it_stands():
    body = {"model": "m", "max_tokens": 5, "messages": []}
    assert token_limit(body) == 5
    assert list(with_token_limit(body, 7).items()) == [("model", "m"), ("max_tokens", 7), ("messages", [])]
    renamed = with_token_limit(body, 7, "max_completion_tokens")
    assert list(renamed) == ["model", "max_completion_tokens", "messages"]
    assert token_limit(renamed) == 7
    assert token_limit({"model": "m"}) == 0


@pytest.mark.parametrize(
    ("said", "field", "wanted"),
    [
        (SAID[-4][0], "max_tokens", "max_completion_tokens"),
        (
            "Unrecognized request argument supplied: max_completion_tokens",
            "max_completion_tokens",
            "max_tokens",
        ),
        ("Unsupported parameter: 'temperature'", "max_tokens", None),
        ("max_tokens: 16384 > 8192", "max_tokens", None),
        ("unknown field max_tokens", "max_tokens", None),
        ("Unsupported parameter: 'max_tokens'", "other", None),
    ],
)
def test_an_endpoint_that_knows_the_limit_by_another_name(said, field, wanted):
    assert alternative_limit_field(said, {"model": "m", field: 5}) == wanted
