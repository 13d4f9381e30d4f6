"""Conversations of several turns, system prompts, calls of tools: read from answers, shown blind and side by side."""

import re

import pytest
from playwright.sync_api import expect

from support.ballots import stage, start
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import fill_arena
from tiltyard.settings.arena_settings import ArenaSettings

HOSTILE = "<script>window.tripwire = 1</script><img src=x onerror='window.tripwire = 1'>"


def answer(prompt, model):
    """Two turns and a call of a tool, in a conversation with the same questions for every model."""
    return {
        "prompt_id": f"p{prompt}",
        "model": f"model-{model}",
        "messages": [
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": f"What of {prompt}?"},
            {"role": "assistant", "content": f"**First** of {'much ' * 60 * model}{model}."},
            {"role": "user", "content": "And then?"},
            {"role": "assistant", "tool_calls": [{"name": "search", "arguments": '{"q": "then"}'}]},
            {"role": "tool", "name": "search", "content": HOSTILE},
            {"role": "assistant", "content": f"Last of {model}."},
        ],
    }


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        rows = [answer(prompt, model) for prompt in range(3) for model in range(3)]
        fill_arena(database, store, "arena", rows, {}, settings=ArenaSettings(reveal="vote"))
        with served(database, folder=store) as running:
            yield running


def test_turns_are_aligned_and_steps_are_folded(visit):
    opened = visit("/arenas/arena/vote", js=False)
    page = opened.page
    start(page)
    prompt = stage(page).locator(".prompt")
    expect(prompt.get_by_text("And then?")).to_be_visible()
    expect(prompt.get_by_text(re.compile("What of [0-9]"))).to_be_visible()
    expect(prompt.get_by_text("Answer in one sentence.")).to_be_hidden()
    prompt.get_by_text("System prompt").first.click()
    expect(prompt.get_by_text("Answer in one sentence.")).to_be_visible()
    turns = [stage(page).locator(f".side-{side} .turn") for side in "ab"]
    for row in range(2):
        tops = {round(side.nth(row).bounding_box()["y"]) for side in turns}
        assert len(tops) == 1
    for side in turns:
        expect(side.first.locator("strong")).to_have_text("First")
        expect(side.nth(1).get_by_text("2 steps")).to_be_visible()
        expect(side.nth(1).get_by_text("window.tripwire")).to_be_hidden()
        side.nth(1).get_by_text("2 steps").click()
        expect(side.nth(1).get_by_text("window.tripwire")).to_be_visible()
        expect(side.nth(1).get_by_text("search {")).to_be_visible()
    assert stage(page).locator("img, script").count() == 0
    opened.check()


def test_both_sides_have_the_same_form_and_the_same_headers(site):
    client = site.client()
    matchup = client.post("/api/v1/arenas/arena/matchups").json()
    page = client.get("/arenas/arena/vote").text
    columns = re.findall(r'<section class="side side-[ab]".*?</section>', page, re.DOTALL)
    letters = r"side-[ab]|name-[ab]|(?<=data-side=\")[ab]|[Rr]esponse [AB]|/[ab](?=\")"
    plain = [re.sub(rf"(?:much )*\d\.|{letters}", "…", one) for one in columns]
    assert plain[0] == plain[1]
    answers = [client.get(matchup["responses"][side]["url"]) for side in "ab"]
    assert {one.headers["content-type"] for one in answers} == {"text/plain; charset=utf-8"}
    for one in answers:
        assert one.text.startswith("System:\nAnswer in one sentence.\n\nUser:\nWhat of ")
        assert "Tool call:\nsearch" in one.text
        assert "model-" not in one.text
