"""What an operator does in a day, by HTTP: stages, texts, preview, search, hiding, and many votes at once."""

import html
import json
import re
from itertools import pairwise

import pytest

from support.operating import (
    HOSTILE,
    audited,
    complain,
    lines,
    located,
    row,
    sent,
    signed,
    voted_database,
)
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.postgres.connections import connect
from tiltyard.web.pages.operator.answers import WrittenPrompt

ARENA = "/operator/arenas/arena"


@pytest.fixture(scope="module")
def prepared(server, template):
    with voted_database(server, template, complain) as name:
        yield name


def drafted(client, *rows, name="poems"):
    """A draft with answers, made as an operator does."""
    located(client.post("/operator/arenas", data={"name": name}), "created", "arenas", name)
    files = {"file": ("answers.jsonl", lines(*rows))}
    where = client.post(f"/operator/arenas/{name}/uploads", files=files).headers["location"]
    assert "write another prompt" not in client.get(where).text
    form = {"expected": str(len(rows)), "enable": "true"}
    # The next step of a draft stands on its overview.
    located(client.post(f"{where}/let-in", data=form), "imported", "arenas", name)


def pair(**changed):
    return row(model="m1", response="r1", **changed), row(model="m2", response="r2", **changed)


def staged(client, act, status=303, name="arena"):
    answer = client.post(f"/operator/arenas/{name}/stage", data={"act": act})
    assert answer.status_code == status, answer.text
    return answer


def deleted(client, typed, status=303):
    answer = client.post(f"{ARENA}/stage/delete", data={"typed": typed})
    assert answer.status_code == status, answer.text
    return answer


def vote(client, name):
    """One vote on the pages, without scripts."""
    assert client.post(f"/arenas/{name}/vote").status_code == 303
    page = client.get(f"/arenas/{name}/vote").text
    (matchup,) = set(re.findall(r'data-matchup="([^"]+)"', page))
    return client.post(f"/matchups/{matchup}/vote", data={"winner": "model_a", "ballot": "0"})


def rated(running, name):
    with connect(running.database) as connection:
        return connection.execute(
            "SELECT count(*) FROM battles b JOIN arenas a USING (arena) WHERE a.name = %s AND NOT b.excluded",
            (name,),
        ).fetchone()[0]


# Stages


def test_who_may_come_in_is_chosen_with_the_new_arena(running):
    client = signed(running)
    page = client.get("/operator").text
    (options,) = re.findall(r'<select id="field-entry".*?</select>', page)
    assert re.findall(r'value="([^"]+)"', options) == ["open", "invitation", "passcode", "sign-in", "closed"]
    form = {"name": "private", "entry": "invitation"}
    located(client.post("/operator/arenas", data=form), "created", "arenas", "private")
    assert "come in yet" in client.get("/operator/arenas/private").text
    wrong = client.post("/operator/arenas", data={"name": "other", "entry": "nobody"})
    assert (wrong.status_code, 'value="other"' in wrong.text) == (422, True)
    link = '<a href="/operator/arenas/arena/settings#field-entry">Change who can enter</a>'
    assert link in client.get(f"{ARENA}/invitations").text
    assert 'id="field-entry"' in client.get(f"{ARENA}/settings").text


def test_a_draft_is_the_operators_alone_until_it_is_opened(running):
    client, stranger = signed(running), running.client()
    drafted(client, *pair(), *pair(prompt_id="q"))
    overview = html.unescape(client.get("/operator/arenas/poems").text)
    assert "Until the first" in overview
    assert "2 prompts, 2 with" in overview
    for path in ("/arenas/poems", "/arenas/poems/vote", "/api/v1/arenas/poems"):
        assert stranger.get(path).status_code == 404
    assert "poems" not in stranger.get("/").text
    voted = vote(client, "poems")
    assert voted.status_code == 303
    said = client.get(voted.headers["location"]).text
    assert "Test vote saved" in said
    assert "Vote counted" not in said
    steps = client.get("/operator/arenas/poems").text.split("checklist-")
    assert any(step.startswith("done") and "/arenas/poems/vote" in after for step, after in pairwise(steps))
    assert "Clear 1 test vote" in client.get("/operator/arenas/poems/stage").text
    assert "1 test vote is" in client.get("/operator/arenas/poems/stage/confirm?act=open").text
    staged(client, "clear", name="poems")
    assert vote(client, "poems").status_code == 303
    staged(client, "open", name="poems")
    assert rated(running, "poems") == 0
    assert "Until the first" not in client.get("/operator/arenas/poems").text
    assert stranger.get("/arenas/poems/vote").status_code == 200
    assert vote(stranger, "poems").status_code == 303
    assert rated(running, "poems") == 1
    listed = client.get("/operator/arenas/poems/exclusions").text
    assert "test votes" in listed
    assert "Restore…" not in listed
    for act in ("open", "clear"):
        assert "not a draft" in staged(client, act, 409, name="poems").text


def test_a_pause_shows_the_operators_words_and_the_board_stays(running):
    client, voter = signed(running), running.client()
    assert voter.post("/arenas/arena/vote").status_code == 303
    words = {"pause": f"Back on **Monday**. {HOSTILE}"}
    located(client.post(f"{ARENA}/texts", data=words), "texts", "arenas", "arena", "texts")
    assert "Voting is paused" not in voter.get("/").text + voter.get("/arenas/arena").text
    staged(client, "pause")
    for page in ("/", "/arenas/arena"):
        assert "Voting is paused" in voter.get(page).text
        assert 'button-main"' not in voter.get(page).text
    # Who has a matchup may vote; then, and for all others, there is a page with the operator's words.
    page = voter.get("/arenas/arena/vote").text
    (matchup,) = set(re.findall(r'data-matchup="([^"]+)"', page))
    answer = voter.post(f"/matchups/{matchup}/vote", data={"winner": "tie", "ballot": "0"})
    assert answer.status_code == 303
    for one in (voter, running.client()):
        assert one.post("/arenas/arena/vote").headers["location"].startswith("/arenas/arena/vote")
        page = one.get("/arenas/arena/vote").text
        assert "<strong>Monday</strong>" in page
        assert "<script>alert" not in page
    assert voter.get("/arenas/arena").status_code == 200
    refused = voter.post("/api/v1/arenas/arena/matchups")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:tiltyard:problem:paused")
    assert "cannot become" in staged(client, "pause", 409).text
    staged(client, "resume")
    assert running.client().post("/api/v1/arenas/arena/matchups").status_code in (200, 201)


def test_an_archived_arena_leaves_the_home_page_and_keeps_its_board(running):
    client, reader = signed(running), running.client()
    assert "/arenas/arena" in reader.get("/").text
    assert client.post(f"{ARENA}/texts", data={"pause": "Back on Monday."}).status_code == 303
    assert "no more votes" in client.get(f"{ARENA}/stage/confirm?act=archive").text
    staged(client, "archive")
    assert "/arenas/arena" not in reader.get("/").text
    board = reader.get("/arenas/arena")
    assert (board.status_code, "Voting has ended" in board.text) == (200, True)
    page = reader.get("/arenas/arena/vote").text
    assert "Voting has ended" in page
    assert "Back on Monday" not in page
    page = client.get(f"{ARENA}/answers").text
    assert "cannot change" in page
    assert 'type="file"' not in page
    assert "<textarea" not in client.get(f"{ARENA}/answers/write").text
    assert "Retire…" not in client.get(f"{ARENA}/models").text
    assert client.post(f"{ARENA}/models/retire", data={"model": "model-1"}).status_code == 409
    where = sent(client, lines(row())).headers["location"]
    refused = client.post(f"{where}/let-in", data={"expected": "1", "enable": "true"})
    assert (refused.status_code, "reopen it first" in refused.text) == (409, True)
    staged(client, "reopen")
    assert "/arenas/arena" in reader.get("/").text


def test_a_deletion_needs_the_name_and_can_be_undone(running):
    client, reader = signed(running), running.client()
    page = client.get(f"{ARENA}/stage/delete").text
    assert "For 30 days" in page
    assert "type arena" in deleted(client, "poems", 422).text
    answer = deleted(client, " arena ")
    assert answer.headers["location"] == "/operator?said=stage-delete"
    assert reader.get("/arenas/arena").status_code == 404
    assert reader.get("/api/v1/arenas/arena/board").status_code == 404
    assert "deleting" in client.get("/operator").text
    assert "Restore the arena" in client.get(f"{ARENA}/stage").text
    assert client.post(f"{ARENA}/stage/keep").status_code == 303
    assert reader.get("/arenas/arena").status_code == 200
    assert [action for _, action, _ in audited(running)] == ["request deletion", "restore arena"]


def test_a_stage_cannot_be_made_up(running):
    client = signed(running)
    for act in ("", "draft", "delete", "keep", HOSTILE):
        staged(client, act, 422)
    assert client.get(f"{ARENA}/stage/confirm", params={"act": "keep"}).status_code == 422
    token = client.patch("/api/v1/arenas/arena", json={"settings": {"stage": "deleted"}})
    assert (token.status_code, "Stage" in token.text) == (422, True)


# Texts and consent


def test_consent_is_asked_once_for_each_version_and_kept_by_its_hash(running):
    client, voter = signed(running), running.client()
    form = {"consent": "Votes are **published**.", "instructions": "Be fair.", "announcement": "Welcome!"}
    client.post(f"{ARENA}/texts", data=form)
    page = voter.get("/arenas/arena/vote").text
    assert "<strong>published</strong>" in page
    (asked,) = re.findall(r'name="consent" value="([0-9a-f]{64})"', page)
    for wrong in ({}, {"consent": "0" * 64}, {"consent": HOSTILE}):
        assert voter.post("/arenas/arena/vote", data=wrong).headers["location"] == "/arenas/arena/vote"
        assert not voter.cookies
    assert voter.post("/arenas/arena/vote", data={"consent": asked}).status_code == 303
    page = voter.get("/arenas/arena/vote").text
    assert "data-matchup" in page
    with connect(running.database) as connection:
        kept = connection.execute(
            "SELECT c.sha256 = t.sha256, s.session = c.session FROM consents c, arena_texts t, "
            "(SELECT session FROM matchups ORDER BY served_at DESC LIMIT 1) s WHERE t.name = 'consent'"
        ).fetchall()
    assert kept == [(True, True)]
    # Another version is asked for again, before the next vote.
    client.post(f"{ARENA}/texts", data=form | {"consent": "Votes are sold."})
    page = voter.get("/arenas/arena/vote").text
    assert "Votes are sold." in page
    assert "data-matchup" not in page
    client.post(f"{ARENA}/texts", data=form | {"consent": ""})
    assert "data-matchup" in voter.get("/arenas/arena/vote").text


def test_texts_are_previewed_saved_and_bounded(running):
    client = signed(running)
    where = f"{ARENA}/texts"
    shown = client.post(where, data={"thanks": "**Thank you**", "act": "preview"})
    assert (shown.status_code, "<strong>Thank you" in shown.text) == (200, True)
    assert audited(running) == []
    located(client.post(where, data={"thanks": "Thank\r\nyou"}), "texts", "arenas", "arena", "texts")
    located(client.post(where, data={"thanks": "Thank\nyou"}), "unchanged", "arenas", "arena", "texts")
    long = client.post(where, data={"thanks": "x" * 20_001})
    assert (long.status_code, "at most 20000" in long.text) == (422, True)
    ((_, action, detail),) = audited(running)
    assert (action, detail["content"]) == ("change text", ["", "Thank\nyou"])


# Preview, search, hide


def test_a_preview_logs_nothing(running):
    client = signed(running)
    with connect(running.database) as connection:
        before = connection.execute("SELECT max(position) FROM events").fetchone()
        page = client.get(f"{ARENA}/preview").text
        assert "What about 0?" in page
        assert "Answer 0 of somebody" in page
        assert "What about 3?" in client.get(f"{ARENA}/preview?prompt=3").text
        assert "no more prompts" in client.get(f"{ARENA}/preview?prompt=99").text
        assert connection.execute("SELECT max(position) FROM events").fetchone() == before
    client.post("/operator/arenas", data={"name": "empty"})
    assert "nothing to vote" in client.get("/operator/arenas/empty/preview").text


def found(client, **asked):
    page = client.get(f"{ARENA}/prompts", params=asked)
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    return re.findall(r"view\?prompt=([\w-]+)", page.text)


def test_prompts_are_found_by_text_model_category_and_complaint(running):
    client = signed(running)
    odd = row(
        prompt_id="odd", prompt="100% odd_\\ ÄÖ", model="model-0", response="Zwölf \\ Affen\0!", category="x"
    )
    where = sent(client, lines(odd, row(prompt_id="two", model="model-9", category="y"))).headers["location"]
    client.post(f"{where}/let-in", data={"expected": "2", "enable": "true"})
    assert len(found(client)) == 8
    for text in ("100%", "odd_\\", "äö", "ODD", "Zwölf", "\\ affen", "affen\0!"[:5]):
        assert found(client, q=text) == ["odd"], text
    assert found(client, q="what about 3") == ["prompt-3"]
    assert found(client, q="%") == ["odd"]
    assert found(client, q=HOSTILE) == []
    assert found(client, category="y") == ["two"]
    assert found(client, model="model-9") == ["two"]
    assert found(client, model="model-9", q="Zwölf") == []
    assert len(found(client, only="flagged")) == 1
    assert found(client, only="hidden") == []
    assert client.get(f"{ARENA}/prompts", params={"model": "none"}).status_code == 404
    assert client.get(f"{ARENA}/prompts", params={"only": "none"}).status_code == 422


def test_a_search_looks_at_so_many_prompts_at_once_and_goes_on(running, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.content.prompt_browser.SEARCHED_PROMPT_LIMIT", 2)
    client = signed(running)
    page, seen = client.get(f"{ARENA}/prompts", params={"q": "what about 5"}), 1
    while not re.findall(r"view\?prompt=", page.text):
        (more,) = re.findall(r'href="([^"]*after=\d+)"', page.text)
        page, seen = client.get(html.unescape(more)), seen + 1
    assert (seen, "prompt-5" in page.text) == (3, True)


def test_a_response_is_hidden_with_one_click_and_shown_again(running):
    client = signed(running)
    form = {"prompt": "prompt-1", "model": "model-1"}
    view = f"{ARENA}/prompts/view?prompt=prompt-1"
    assert client.get(view).text.count("Answer 1 of somebody") == 4
    answer = client.post(f"{ARENA}/prompts/hide", data=form)
    assert answer.headers["location"] == f"{ARENA}/prompts/view?said=hidden&prompt=prompt-1"
    page = client.get(view).text
    # It can be read before it is shown again, as the file of another kind can.
    assert page.partition("Hidden responses")[0].count("Answer 1 of somebody") == 3
    assert page.partition("Hidden responses")[2].count("Answer 1 of somebody") == 1
    assert "Show again" in page
    kept = client.get("/api/v1/arenas/arena/responses", params=form)
    assert (kept.status_code, "Answer 1 of somebody" in kept.text) == (200, True)
    assert found(client, only="hidden") == ["prompt-1"]
    again = client.post(f"{ARENA}/prompts/hide", data=form)
    assert (again.status_code, "could be hidden" in again.text) == (409, True)
    assert client.post(f"{ARENA}/prompts/show", data=form).status_code == 303
    assert client.get(view).text.count("Answer 1 of somebody") == 4
    assert client.post(f"{ARENA}/prompts/show", data=form).status_code == 409
    # All of them; and who withdraws after that withdraws the hidden ones too.
    client.post(f"{ARENA}/prompts/hide", data={"prompt": "prompt-1"})
    located(
        client.post(f"{ARENA}/prompts/withdraw", data={"prompt": "prompt-1", "reason": "law"}),
        "withdrawn",
        *("arenas", "arena", "prompts"),
    )
    assert client.post(f"{ARENA}/prompts/show", data={"prompt": "prompt-1"}).status_code == 409
    with connect(running.database) as connection:
        assert connection.execute(
            "SELECT count(*) FROM responses WHERE hidden_at IS NOT NULL"
        ).fetchone() == (0,)
    assert [action for _, action, _ in audited(running)] == ["hide", "show again", "hide", "withdraw"]


# Many at once


def test_many_sessions_are_excluded_for_one_reason_and_restored(running):
    client = signed(running)
    page = client.get(f"{ARENA}/voters").text
    sessions = re.findall(r'name="session" value="(\d+)"', page)[:3]
    asked = {"session": sessions, "reason": f"bots {HOSTILE}"}
    effect = client.get(f"{ARENA}/exclude", params=asked)
    assert (effect.status_code, "3 voters?" in effect.text) == (200, True)
    assert "<script>alert" not in effect.text
    assert audited(running) == []
    before = rated(running, "arena")
    located(client.post(f"{ARENA}/exclude", data=asked), "excluded", "arenas", "arena", "exclusions")
    ((_, action, detail),) = audited(running)
    assert (action, detail["votes"]) == ("exclude votes", before - rated(running, "arena"))
    assert detail["votes"] == 18
    assert client.get(f"{ARENA}/exclude", params=asked).status_code == 404
    (number,) = re.findall(r"exclusions/(\d+)/restore", client.get(f"{ARENA}/exclusions").text)
    client.post(f"{ARENA}/exclusions/{number}/restore")
    assert rated(running, "arena") == before


def test_some_votes_of_one_session_are_excluded(running):
    client = signed(running)
    votes = re.findall(r'name="matchup" value="([0-9a-f-]+)"', client.get(f"{ARENA}/voters/1").text)[:2]
    asked = {"matchup": votes, "reason": "a slip"}
    assert "Exclude 2 selected votes?" in client.get(f"{ARENA}/exclude", params=asked).text
    before = rated(running, "arena")
    located(client.post(f"{ARENA}/exclude", data=asked), "excluded", "arenas", "arena", "exclusions")
    assert rated(running, "arena") == before - 2


def test_a_selection_that_is_empty_wrong_or_without_a_reason_excludes_nothing(running):
    client = signed(running)
    for method in (
        lambda form: client.get(f"{ARENA}/exclude", params=form),
        lambda form: client.post(f"{ARENA}/exclude", data=form),
    ):
        for form, status in (
            ({}, 422),
            ({"reason": "r"}, 422),
            ({"session": ["1"]}, 422),
            ({"session": ["none"], "reason": "r"}, 422),
            ({"matchup": ["1"], "reason": "r"}, 422),
            ({"session": ["1"] * 201, "reason": "r"}, 422),
            ({"session": ["77777"], "reason": "r"}, 404),
        ):
            assert method(form).status_code == status, form
    assert audited(running) == []


# Answers


def test_a_prompt_written_by_hand_is_checked_as_an_upload_is(running):
    client = signed(running)
    where = f"{ARENA}/answers/write"
    form = {
        "prompt": "Say\r\n<b>hi</b>",
        "category": "greetings",
        "model": ["m1", "m2"],
        "response": ["hi", ""],
    }
    more = client.post(where, data=form | {"act": "more"})
    assert (more.status_code, more.text.count('name="model"')) == (200, 3)
    assert "&lt;b&gt;hi" in more.text
    for wrong, told in (
        ({"prompt": " "}, "the prompt is empty"),
        ({"model": ["m1"], "response": ["hi"]}, "two responses or more"),
        ({"model": ["", ""], "response": ["", ""]}, "two responses or more"),
    ):
        answer = client.post(where, data=form | wrong)
        assert (answer.status_code, told in answer.text) == (422, True)
    preview = client.post(where, data=form)
    page = client.get(preview.headers["location"]).text
    assert "Import all 2 rows" in page
    assert "write another prompt" in page
    assert "Empty, cut off" in page
    located(
        client.post(
            f"{preview.headers['location']}/let-in", data={"expected": "2", "enable": "true", "more": "true"}
        ),
        "imported",
        *("arenas", "arena", "answers", "write"),
    )
    with connect(running.database) as connection:
        kept = connection.execute(
            "SELECT text, category, name FROM prompts ORDER BY prompt DESC LIMIT 1"
        ).fetchone()
    assert kept[:2] == ("Say\n<b>hi</b>", "greetings")
    assert re.fullmatch("say-b-hi-b-[0-9a-f]{8}", kept[2])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Which bridge is older, and by how many years?", "which-bridge-is-older-and-"),
        ("…?!\u202e", ""),
        ("橋はどこですか", "橋はどこですか-"),
        ("\u0627" * 500, "\u0627" * 60 + "-"),
    ],
)
def test_a_prompt_that_nobody_named_is_called_by_its_first_words(text, words):
    (row,) = map(json.loads, WrittenPrompt(prompt=text, answers=(("m", "r"),)).to_lines().splitlines())
    name = row["prompt_id"]
    assert name.startswith(words)
    assert re.fullmatch("[0-9a-f]{8}", name.removeprefix(words))
    assert validate_name("prompt_id", name) == name


def test_another_tools_file_says_its_format_and_what_is_left_out(running):
    client = signed(running)
    where = sent(client, b"prompt,oak-1,elm-2\nWhy?,because,so\n", "table.csv").headers["location"]
    asked = client.get(where).text
    assert "format table" in asked
    assert "Import all" not in asked
    page = client.get(f"{where}?columns=prompt=prompt&columns=responses=oak-1&columns=responses=elm-2").text
    assert "Import all 2 rows" in page
