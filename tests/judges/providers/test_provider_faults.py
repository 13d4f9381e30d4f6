"""Faults: every way in which a call can go wrong is a `ProviderFault` that says what may help and what was paid."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.asking import SDKS, ask, items, opened, run
from support.servers.paid_llm import paid_llm
from support.servers.scripted import http, scripted
from support.sizes import sized
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.faults import is_retryable, retry_after

GOOD = json.dumps({"content": [], "choices": []}).encode()
VERBS = ("complete", "poll", "submit", "list", "results")
VALUES = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
FIELDS = [
    "id",
    "created_at",
    "processing_status",
    "status",
    "request_counts",
    "metadata",
    "errors",
    "data",
    "has_more",
    "last_id",
    "custom_id",
    "result",
    "response",
    "error",
    "output_file_id",
]
DOCUMENTS = st.dictionaries(
    st.sampled_from(FIELDS),
    VALUES
    | st.dictionaries(
        st.sampled_from(["data", "type", "status_code", "body", "message"]), VALUES, max_size=3
    ),
)
#: Whoever says this may have let the work be done.
UNHEARD = {408, 502, 504, 520, 521, 522, 523, 524}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def server():
    with paid_llm() as running:
        yield running


def paths(name):
    """Base URL of a provider whose server is at a root."""
    return "" if name == "anthropic" else "/v1"


async def drained(stream):
    async for _ in stream:
        pass


def fault(name, answer, *, verb="complete", seconds=5.0):
    """What a call raises when the server answers like this; ``None`` if nothing."""

    async def go():
        async with scripted(answer) as url, opened(name, url + paths(name), seconds) as provider:
            body = provider.body("m", ask(), {})
            try:
                if verb == "complete":
                    await provider.complete(body)
                elif verb == "submit":
                    await provider.submit_batch(items(provider, 2), "mark")
                elif verb == "list":
                    await drained(provider.list_batches(NOW))
                elif verb == "results":
                    await drained(provider.results("batch"))
                else:
                    await provider.poll("batch")
            except ProviderFault as error:
                return error
            return None

    return run(go())


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize(
    ("status", "retryable", "throttled"),
    [
        (429, True, True),
        (529, True, True),
        (503, True, True),
        (500, True, False),
        (502, True, False),
        (504, True, False),
        (524, True, False),
        (408, True, False),
        (409, True, False),
        (400, False, False),
        (401, False, False),
        (402, False, False),
        (403, False, False),
        (404, False, False),
        (410, False, False),
        (413, False, False),
        (422, False, False),
        (418, False, False),
        (501, False, False),
        (300, False, False),
    ],
)
def test_statuses(name, status, retryable, throttled):
    error = fault(name, http(status, b'{"error": {"type": "t", "message": "said so"}}', "retry-after: 3\r\n"))
    assert (error.status, error.retryable, error.throttled) == (status, retryable, throttled)
    assert error.billed == (status in UNHEARD)
    assert error.retry_after == 3.0
    assert ", model m: status" in str(error)
    assert "said so" in str(error)
    assert retryable or ";" in str(error)
    # Every other call would meet the same.
    assert error.fatal == (status in {401, 402, 403, 404, 410})
    assert (status == 401) == ("api_key_env" in str(error))


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("status", [*sorted(UNHEARD), 400, 429, 500, 501, 503, 529])
def test_only_a_refusal_proves_that_no_batch_was_created_and_looking_costs_nothing(name, status):
    answer = http(status, b"{}")
    # The upload of the items comes first at OpenAI, and creates nothing that costs money.
    created = name == "anthropic" and status not in {400, 429}
    assert fault(name, answer, verb="submit").billed == created
    for verb in ("poll", "list", "results"):
        assert not fault(name, answer, verb=verb).billed


@pytest.mark.parametrize(
    ("status", "document", "said"),
    [
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access this API.",
            },
            "the account has no credit",
        ),
        (400, {"code": "model_decommissioned", "message": "It is gone."}, "or the model was retired"),
        (403, {"code": "model_not_found", "message": "No such model."}, "or the model was retired"),
    ],
)
def test_the_same_in_the_words_of_other_providers(status, document, said):
    error = fault("openai", http(status, json.dumps({"error": document}).encode()))
    assert error.fatal
    assert not error.retryable
    assert said in str(error)


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_wait_of_an_hour_is_for_the_user_to_wait(name, status):
    error = fault(name, http(status, b"{}", "retry-after: 3600\r\n"))
    assert (error.fatal, error.retryable, error.throttled) == (True, False, False)
    assert "60 minutes: run" in str(error)


def test_an_empty_account_is_not_a_crowd():
    body = (
        b'{"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "You are out"}}'
    )
    error = fault("openai", http(429, body))
    assert not error.retryable
    assert not error.throttled
    assert "credit" in str(error)


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        GOOD[:-3],
        b"[]",
        b"null",
        b"7",
        b'"x"',
        b"\xff\xfe",
        b'{"a": NaN}',
        b"[" * 50_000,
    ],
)
def test_a_reply_that_is_no_object_may_have_been_paid(name, body):
    error = fault(name, http(200, body))
    assert error.retryable
    assert error.billed


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("body", [b"<html>login</html>", b"\n <!DOCTYPE html>"])
def test_a_page_of_a_website_costs_nothing_and_is_not_asked_for_again(name, body):
    error = fault(name, http(200, body))
    assert "check base_url" in str(error)
    assert (error.retryable, error.billed, error.fatal) == (False, False, True)


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize(
    "answer", [b"", http(200, GOOD, length=500), b"HTTP/1.1 200 OK\r\ncontent-le", b"SSH-2.0-hello\r\n\r\n"]
)
def test_a_connection_lost_after_sending_may_have_been_paid(name, answer):
    error = fault(name, answer)
    assert error.retryable
    assert error.billed
    assert error.status is None


@pytest.mark.parametrize("name", SDKS)
def test_no_answer_in_time_may_have_been_paid(name):
    error = fault(name, None, seconds=0.2)
    assert error.retryable
    assert error.billed
    assert "timeout_seconds" in str(error)


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_server_that_was_not_reached_was_not_paid(name, host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def go():
        async with opened(name, f"http://{host}:{port}{paths(name)}", 5.0) as provider:
            with pytest.raises(ProviderFault) as caught:
                await provider.complete(provider.body("m", ask(), {}))
            assert caught.value.retryable
            assert not caught.value.billed

    run(go())


@pytest.mark.parametrize("name", SDKS)
def test_a_poll_is_never_billed_and_a_lost_creation_may_be(name):
    assert not fault(name, b"", verb="poll").billed
    assert not fault(name, http(200, b"{}"), verb="poll").billed
    if name == "anthropic":
        assert fault(name, b"", verb="submit").billed
        assert fault(name, http(200, b"{}"), verb="submit").billed
    else:
        assert not fault(name, b"", verb="submit").billed, "only the upload was lost"


@pytest.mark.parametrize(
    ("code", "retryable"), [(502, True), (429, True), (400, False), (402, False), ("x", True)]
)
def test_an_error_in_the_place_of_a_reply_is_a_fault(code, retryable):
    error = fault("openai", http(200, json.dumps({"error": {"code": code, "message": "behind"}}).encode()))
    assert error.retryable == retryable
    assert "behind" in str(error)


def test_an_error_in_the_place_of_a_choice_is_a_fault():
    choice = {
        "finish_reason": "error",
        "error": {"code": 502, "message": "behind"},
        "message": {"content": ""},
    }
    error = fault("openai", http(200, json.dumps({"choices": [choice]}).encode()))
    assert (error.status, error.retryable, error.billed) == (502, True, True)
    kept = {**choice, "message": {"content": "a whole answer"}}
    assert fault("openai", http(200, json.dumps({"choices": [kept]}).encode())) is None


@pytest.mark.parametrize(
    "body", [b'[{"error": {"message": "as Gemini"}}]', b'{"message": "as vLLM"}', b'{"error": "as vLLM"}']
)
def test_errors_of_other_shapes_are_told(body):
    assert "status 400, as " in str(fault("openai", http(400, body)))


@pytest.mark.parametrize("name", SDKS)
def test_a_closed_provider_raises_only_faults(name):
    async def go():
        async with opened(name, f"http://127.0.0.1:9{paths(name)}") as provider:
            pass
        with pytest.raises(ProviderFault):
            await provider.complete(provider.body("m", ask(), {}))

    run(go())


@given(
    st.sampled_from(SDKS),
    st.integers(200, 599),
    st.binary(max_size=60)
    | st.sampled_from([GOOD, b'{"error": null}', b'{"error": {"message": 5, "code": []}}']),
    st.sampled_from(["", "retry-after: x\r\n", "retry-after-ms: 1e400\r\n", "content-encoding: gzip\r\n"]),
    st.integers(0, 200),
    st.sampled_from(VERBS),
)
@settings(max_examples=sized(12, 200))
def test_nothing_but_faults_escapes(name, status, body, headers, keep, verb):
    answer = http(status, body, headers)[: keep + 1]
    error = fault(name, answer if keep < 150 else http(status, body, headers), verb=verb, seconds=3.0)
    assert error is None or error.retryable in {True, False}
    if error is not None and error.status is not None and error.status != 200:
        assert error.retryable == is_retryable(error.status)
        assert not error.billed or error.status in UNHEARD or (error.status >= 500 and verb == "submit")


@given(st.sampled_from(SDKS), st.sampled_from(VERBS), DOCUMENTS, st.booleans())
@settings(max_examples=sized(12, 200))
def test_documents_of_any_shape_raise_nothing_but_faults(name, verb, document, listed):
    whole = {"data": [document], "has_more": True} if listed else document
    error = fault(name, http(200, json.dumps(whole).encode()), verb=verb, seconds=3.0)
    assert error is None or isinstance(error, ProviderFault)


@given(st.text(max_size=30))
def test_any_retry_after_is_read_or_left(text):
    seconds = retry_after({"retry-after": text}, NOW)
    assert seconds is None or 0 <= seconds <= 86_400


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e12"}, 86_400.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, 0.0),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers, NOW) == seconds


LIVE = {
    "throttle": {"retryable": True, "throttled": True, "billed": False, "status": 429},
    "overload": {"retryable": True, "throttled": True, "billed": False, "status": 529},
    "server_error": {"retryable": True, "throttled": False, "billed": False, "status": 500},
    "drop_before": {"retryable": True, "throttled": False, "billed": True, "status": None},
    "drop_after": {"retryable": True, "throttled": False, "billed": True, "status": None},
    "truncate": {"retryable": True, "throttled": False, "billed": True, "status": 200},
}


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("kind", LIVE)
def test_faults_of_a_billing_server_and_what_it_counts(server, name, kind):
    server.change(**dict.fromkeys(LIVE, 0.0) | {kind: 1.0, "times": 1, "retry_after": 0.5})

    async def go():
        async with opened(name, server.base_url(name)) as provider:
            body = provider.body("m", ask(f"{name} {kind}"), {})
            with pytest.raises(ProviderFault) as caught:
                await provider.complete(body)
            provider.read(await provider.complete(body))
            return caught.value

    before = server.settled_tally()
    error = run(go())
    after = server.settled_tally()
    assert {field: getattr(error, field) for field in LIVE[kind]} == LIVE[kind]
    assert error.retry_after == (0.5 if error.throttled else None)
    charged = kind in {"drop_after", "truncate"}
    assert after["paid_calls"] - before["paid_calls"] == 1 + charged
    assert after["paid_and_lost"] - before["paid_and_lost"] == charged
    assert after["distinct"] - before["distinct"] == 1
    assert error.billed or not charged, "whatever was charged must be suspected"


@pytest.mark.parametrize("name", SDKS)
def test_a_cancelled_call_stays_cancelled(server, name):
    server.change(**dict.fromkeys(LIVE, 0.0), latency=5.0)

    async def go():
        async with opened(name, server.base_url(name)) as provider:
            call = asyncio.create_task(provider.complete(provider.body("m", ask("cancel"), {})))
            await asyncio.sleep(0.3)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    try:
        run(go())
    finally:
        server.change(latency=0.0)


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize("name", SDKS)
def test_hundreds_of_calls_at_once_each_get_their_own_reply(server, name):
    server.change(**dict.fromkeys(LIVE, 0.0), latency=0.02, keep_bodies=False)

    async def go():
        async with opened(name, server.base_url(name)) as provider:
            bodies = [provider.body("m", ask(f"{name} at once {n}"), {}) for n in range(300)]
            together = await asyncio.gather(*map(provider.complete, bodies))
            assert together[::50] == [await provider.complete(body) for body in bodies[::50]]
            return len({json.dumps(reply) for reply in together})

    try:
        assert run(go()) == 300
    finally:
        server.change(latency=0.0)
