"""What an operator does in a day, by HTTP: stages, texts, preview, search, hiding, and many votes at once."""

import html
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
from tiltyard.postgres.connections import connect

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
