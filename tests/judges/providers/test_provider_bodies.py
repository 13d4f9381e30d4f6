"""Bodies: what an ask becomes for each provider, and what a user may add to it."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.asking import SDKS, anthropic, ask, openai, opened, run
from support.servers.paid_llm import paid_llm
from support.servers.scripted import http, overheard
from tiltyard.core.judging.question import TOOL_NAME, VERDICT_SCHEMA
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.errors import BadOption, MissingExtra, ProviderFault, UnreadableFile
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.settings.model_endpoints import PROVIDERS

SCHEMA = dict(VERDICT_SCHEMA)
TEXTS = st.text(st.characters(codec=None), max_size=40)


def test_anthropic_schema_is_an_output_format():
    body = anthropic().body("m", ask(form=VerdictForm.SCHEMA), {})
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert body["system"] == "End with VERDICT."
    assert body["messages"] == [{"role": "user", "content": "Which?"}]
    assert "tools" not in body


def test_anthropic_tool_is_forced():
    body = anthropic().body("m", ask(form=VerdictForm.TOOL), {})
    assert body["tools"][0]["input_schema"] == SCHEMA
    assert body["tool_choice"] == {"type": "tool", "name": TOOL_NAME}
    assert "output_config" not in body


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_anthropic_marks_the_system_text_for_the_prompt_cache(ttl):
    body = anthropic().body("m", ask(), {"prompt_cache": ttl})
    mark = {"type": "ephemeral", "ttl": ttl}
    assert body["system"] == [{"type": "text", "text": "End with VERDICT.", "cache_control": mark}]
    assert "prompt_cache" not in body


@pytest.mark.parametrize("off", [None, False, "off"])
def test_no_prompt_cache_no_mark(off):
    assert anthropic().body("m", ask(), {"prompt_cache": off}) == anthropic().body("m", ask(), {})


def test_openai_schema_is_strict():
    body = openai().body("m", ask(form=VerdictForm.SCHEMA), {"prompt_cache": "5m"})
    asked = {"name": TOOL_NAME, "strict": True, "schema": SCHEMA}
    assert body["response_format"] == {"type": "json_schema", "json_schema": asked}
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert "prompt_cache" not in body


def test_openai_tool_is_forced():
    body = openai().body("m", ask(form=VerdictForm.TOOL), {})
    assert body["tools"][0]["function"]["parameters"] == SCHEMA
    assert body["tool_choice"] == {"type": "function", "function": {"name": TOOL_NAME}}


def test_the_limit_has_the_name_that_the_server_knows():
    own = open_provider("openai", None, "key")
    assert own.body("m", ask(limit=7), {})["max_completion_tokens"] == 7
    assert openai().body("m", ask(limit=7), {})["max_tokens"] == 7
    named = openai().body("m", ask(limit=7), {"max_tokens_field": "max_completion_tokens"})
    assert named["max_completion_tokens"] == 7
    assert "max_tokens" not in named
    with pytest.raises(BadOption, match="max_tokens_field"):
        openai().body("m", ask(), {"max_tokens_field": "n"})


def test_no_system_text_no_system_field():
    assert "system" not in anthropic().body("m", ask(system=""), {})
    assert len(openai().body("m", ask(system=""), {})["messages"]) == 1


def test_options_are_added_as_they_are():
    options = {"temperature": 0, "thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}
    body = anthropic().body("m", ask(form=VerdictForm.SCHEMA), options)
    assert body["temperature"] == 0
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["schema"] == SCHEMA
    assert options["output_config"] == {"effort": "low"}
    assert openai().body("m", ask(), {"seed": 3})["seed"] == 3


@pytest.mark.parametrize("field", ["model", "messages", "max_tokens", "tools", "tool_choice", "stream"])
@pytest.mark.parametrize("provider", [anthropic, openai], ids=SDKS)
def test_fields_that_the_budget_or_the_verdict_rests_on_are_refused(provider, field):
    with pytest.raises(BadOption, match=field):
        provider().body("m", ask(), {field: 1})


@pytest.mark.parametrize(
    "options", [{"output_config": {"format": {}}}, {"output_config": 3}, {"prompt_cache": "2h"}]
)
def test_anthropic_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        anthropic().body("m", ask(), options)


@pytest.mark.parametrize("n", [2, 1])
def test_openai_never_asks_for_several_choices(n):
    with pytest.raises(BadOption):
        openai().body("m", ask(), {"n": n})


@given(TEXTS, TEXTS, st.sampled_from(VerdictForm))
def test_a_body_is_a_pure_function_of_the_ask(system, user, form):
    for provider in (anthropic(), openai()):
        first, second = (provider.body("m", ask(user, form, system), {}) for _ in range(2))
        assert json.dumps(first) == json.dumps(second)
        assert user in json.dumps(first, ensure_ascii=False) or json.dumps(user)[1:-1] in json.dumps(first)


@pytest.mark.parametrize("name", SDKS)
def test_the_body_on_the_wire_is_the_body_that_was_made(name):
    hostile = 'é\u2028\x00 \ud83d lone, \U0001f600 whole, {"type": "base64", "data": "x"}'

    async def go(url):
        async with opened(name, url) as provider:
            made = [
                provider.body("m", ask(hostile, form), {"temperature": 0.5, "x": None})
                for form in VerdictForm
            ]
            for body in made:
                await provider.complete(body)
            return made

    with paid_llm(keep_bodies=True) as server:
        made = run(go(server.base_url(name)))
        assert [json.dumps(body) for body in server.bodies()] == [json.dumps(body) for body in made]


def test_what_is_not_json_cannot_be_sent():
    async def go():
        async with opened("openai", "http://127.0.0.1:9/v1") as provider:
            with pytest.raises(BadOption, match=r"options"):
                await provider.complete(provider.body("m", ask(), {"temperature": float("nan")}))

    run(go())


def test_base_urls_are_resolved_and_without_a_last_slash():
    assert open_provider("anthropic", None, "key").base_url == "https://api.anthropic.com"
    assert open_provider("openai", None, "key").base_url == "https://api.openai.com/v1"
    assert open_provider("openai", "http://h:1/v1/", "key").base_url == "http://h:1/v1"


@pytest.mark.parametrize("url", ["localhost:8080/v1", "ftp://x/", "http://", "http://[::1", "", "/v1"])
@pytest.mark.parametrize("name", SDKS)
def test_an_address_that_is_none_is_refused(name, url):
    with pytest.raises(BadOption, match="base_url"):
        open_provider(name, url, "key")


def test_names_of_providers_are_checked():
    assert set(SDKS) <= set(PROVIDERS)
    with pytest.raises(BadOption, match=", ".join(PROVIDERS)):
        open_provider("litellm", None, None)
    with pytest.raises(BadOption, match="recorded replies"):
        open_provider("replay", None, None)
    with pytest.raises(UnreadableFile):
        open_provider("replay", "no/such/file.jsonl", None)


@pytest.mark.parametrize("name", SDKS)
def test_a_missing_http_library_names_the_extra(name, monkeypatch):
    for module in [module for module in sys.modules if module.startswith("tiltyard.judges.providers.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"tiltyard\[judges\]"):
        open_provider(name, None, "key")


@pytest.mark.parametrize("name", SDKS)
def test_without_a_key_the_providers_own_address_is_never_asked(name, monkeypatch):
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "of-the-environment")

    async def go():
        async with opened(name, None, key=None) as provider:
            with pytest.raises(ProviderFault, match=f"{name.upper()}_API_KEY") as caught:
                await provider.complete(provider.body("m", ask(), {}))
            assert not caught.value.retryable
            assert not caught.value.billed

    run(go())


@pytest.mark.parametrize("name", SDKS)
def test_a_key_of_the_environment_does_not_reach_other_addresses(name, monkeypatch):
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "secret")

    async def go():
        async with overheard(http(200, b"{}")) as (url, heads), opened(name, url, key=None) as provider:
            await provider.complete(provider.body("m", ask(), {}))
            return heads

    (head,) = run(go())
    assert "secret" not in head
    assert "no-key" in head


@pytest.mark.parametrize("name", SDKS)
def test_variables_that_the_providers_sdks_know_redirect_nothing_and_add_nothing(name, monkeypatch):
    for sdk in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{sdk}_BASE_URL", "http://127.0.0.1:9/elsewhere")
        monkeypatch.setenv(f"{sdk}_CUSTOM_HEADERS", "x-behind-our-back: yes\nauthorization: Bearer theirs")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "theirs")
    monkeypatch.setenv("OPENAI_ORG_ID", "theirs")
    assert open_provider(name, None, "key").base_url == PROVIDERS[name].base_url

    async def go():
        async with overheard(http(400, b"{}")) as (url, heads), opened(name, url) as provider:
            with pytest.raises(ProviderFault, match="400"):
                await provider.complete(provider.body("m", ask(), {}))
            return heads

    (head,) = run(go())
    assert "behind-our-back" not in head
    assert "theirs" not in head
    assert "key" in head
