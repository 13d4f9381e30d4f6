"""Every block of the page about providers judges a question at a stand-in that enforces the provider's rules."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from support.arranged import arrange
from support.servers.quirks import QUIRKS, stand_in
from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import VerdictForm
from tiltyard.errors import ProviderFault
from tiltyard.judges.requests import open_judge, open_judges
from tiltyard.settings.arena_judges import ArenaJudges
from tiltyard.settings.environment import read_environment
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.settings.prices import open_prices
from tiltyard.settings.tournament_config import load_config

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-providers.md"
SECRET = "very-secret-0123456789"
#: The path of the base URLs that the page leaves out.
OWN_PATHS = {"openai": "/v1", "anthropic": ""}

#: What is learned from a refusal, and then done otherwise.
LEARNED = {
    "OpenAI": "max_completion_tokens",
    "Azure OpenAI": "max_completion_tokens",
    "vLLM": "maximum context length",
}
#: Settings without which the provider refuses a call. The headers of OpenRouter may be left out.
NEEDED = ("api_key_env", "api_key_header", "path", "query", "query_env", "headers", "headers_env")


def blocks():
    """The blocks of the page by their headings."""
    found = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            assert heading not in found
            found[heading] = yaml.safe_load(block)["judge"]
    return found


BLOCKS = blocks()


def arranged_at(folder, judge, url):
    """A tournament of one match whose judge is that of a block, served at ``url``."""
    judge = dict(judge)
    own = "base_url" not in judge
    path = OWN_PATHS[judge["provider"]] if own else urlsplit(judge["base_url"]).path
    judge["base_url"] = url + path
    if own:
        judge["api_key_env"] = PROVIDERS[judge["provider"]].key_variable
    arranged = arrange(folder, models=2, prompts=1, dimensions=1, judge=judge)
    variables = [judge.get("api_key_env"), *judge.get("headers_env", {}).values()]
    arranged.environment = {
        name: SECRET for name in [*variables, *judge.get("query_env", {}).values()] if name
    }
    return arranged


async def complete(seat):
    """The reply to one question."""
    ask = ChatPrompt("End with VERDICT.", "Which?", 200, VerdictForm.TEXT, None)
    try:
        return await seat.provider.complete(seat.provider.body(seat.settings.model, ask, {}))
    finally:
        await seat.provider.aclose()


def stored(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_every_provider_has_a_block():
    assert BLOCKS.keys() == QUIRKS.keys()


@pytest.mark.slow(but_every=6)
@pytest.mark.parametrize("kind", QUIRKS)
def test_a_block_of_the_page_judges_a_question(tmp_path, kind):
    with stand_in(kind, SECRET) as server:
        arranged = arranged_at(tmp_path, BLOCKS[kind], server.url)
        ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert [row["state"] for row in arranged.verdicts()] == ["ok", "ok"]
    assert LEARNED.get(kind, "") in " ".join(refused.message for refused in server.refused)
    assert bool(server.refused) == (kind in LEARNED)
    assert SECRET not in ran.out + ran.err
    assert SECRET.encode() not in stored(tmp_path)


def test_a_block_generates_answers_too(tmp_path):
    with stand_in("Another gateway", SECRET) as server:
        arranged = arranged_at(tmp_path, BLOCKS["Another gateway"], server.url)
        judge = yaml.safe_load(arranged.config.read_text())["judge"]
        models = ("pilot_model", "headline_model")
        generate = {name: value for name, value in judge.items() if name not in models} | {
            "model": "my-model"
        }
        (tmp_path / "answers.jsonl").unlink()
        arranged.change(
            entrants=[{"entrant_id": "a", "generate": generate}, {"entrant_id": "b"}],
            answers=None,
            caches={"responses_dir": "responses"},
        )
        arranged.done("generate", arranged.config)
    assert len(server.asked) == 1
    assert SECRET.encode() not in stored(tmp_path)


def test_a_block_serves_judges_of_arenas_too(tmp_path):
    block = {name: value for name, value in BLOCKS["Another gateway"].items() if name != "pilot_model"}
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump({"judges": [{**block, "model": "my-judge"}]}))
    with stand_in("Another gateway", SECRET) as server:
        (settings,) = ArenaJudges.load(tmp_path / "judge.yaml").complete()
        at = replace(settings, base_url=f"{server.url}/team")
        environment = read_environment(variables={"GATEWAY_KEY": SECRET})
        seat = open_judge(at, environment, open_prices(None, tmp_path))
        assert asyncio.run(complete(seat))["choices"]


@pytest.mark.slow(but_every=6)
@pytest.mark.parametrize("kind", [kind for kind in QUIRKS if kind != "Ollama"])
def test_a_wrong_key_is_told_without_the_key(tmp_path, kind):
    with stand_in(kind, "another") as server:
        arranged = arranged_at(tmp_path, BLOCKS[kind], server.url)
        ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code != 0
    assert server.refused
    assert SECRET not in ran.out + ran.err
    assert SECRET.encode() not in stored(tmp_path)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (kind, setting)
        for kind, block in BLOCKS.items()
        for setting in NEEDED
        if setting in block and (kind, setting) != ("OpenRouter", "headers")
    ],
)
def test_every_setting_of_a_block_is_needed(tmp_path, kind, setting):
    block = {name: value for name, value in BLOCKS[kind].items() if name != setting}
    with stand_in(kind, SECRET) as server:
        config = load_config(arranged_at(tmp_path, block, server.url).config)
        environment = read_environment(
            variables=dict.fromkeys(("GATEWAY_KEY", block.get("api_key_env")), SECRET)
        )
        (seat,) = open_judges(config, config.mode("pilot"), environment, asking=True)
        with pytest.raises(ProviderFault):
            asyncio.run(complete(seat))
