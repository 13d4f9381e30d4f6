"""What an operator changes, by HTTP: every change is one line of the audit, and texts stay texts."""

import html
import re

import pytest

from support.operating import (
    HOSTILE,
    audited,
    lines,
    located,
    row,
    sent,
    signed,
)
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect
from tiltyard.web.pages.operator.policy import constants, read_constants

# Arenas, models, prompts


def test_an_arena_is_created_or_the_form_shows_what_is_wrong(running):
    client = signed(running)
    form = {"name": "poems", "title": f"Poems {HOSTILE}", "entry": "closed", "timezone": "Europe/Berlin"}
    form["volatility"] = "0.06"
    located(client.post("/operator/arenas", data=form), "created", "arenas", "poems")
    page = client.get("/operator/arenas/poems").text
    assert "<script>alert" not in page
    assert "volatility of 0.06" in client.get("/operator/arenas/poems/policy").text
    for changed, status, told in (
        ({}, 409, "poems exists already"),
        ({"name": "No Good"}, 422, "expected 1 to 64"),
        ({"name": "x", "timezone": "Nowhere/Land"}, 422, "timezone is"),
        ({"name": "x", "entry": "ajar"}, 422, "entry is"),
        ({"name": "x", "volatility": "0"}, 422, "volatility is"),
        ({"name": "x", "volatility": HOSTILE}, 422, "volatility is"),
        ({"name": HOSTILE}, 422, "expected 1 to 64"),
    ):
        answer = client.post("/operator/arenas", data=form | changed)
        assert answer.status_code == status
        assert told in html.unescape(answer.text)
        assert "<script>alert" not in answer.text
    assert [(actor, action) for actor, action, _ in audited(running)] == [("operator:Ada", "create arena")]
    assert running.client().get("/api/v1/arenas/poems").status_code == 404


def test_models_are_retired_and_enabled_and_never_deleted(running):
    client = signed(running)
    model = {"model": "model-1"}
    assert "battles still count" in client.get("/operator/arenas/arena/models/retire", params=model).text
    assert audited(running) == []
    for act, said in (("retire", "retired"), ("retire", "unchanged"), ("enable", "enabled")):
        located(
            client.post(f"/operator/arenas/arena/models/{act}", data=model), said, "arenas", "arena", "models"
        )
    assert [action for _, action, _ in audited(running)] == ["retire model", "enable model"]
    assert client.post("/operator/arenas/arena/models/retire", data={"model": "none"}).status_code == 404
    assert client.post("/operator/arenas/arena/models/retire", data={"model": "a\0b"}).status_code == 422
    assert client.get("/operator/arenas/none/models").status_code == 404


def test_a_prompt_and_a_response_are_withdrawn_with_a_reason(running):
    client = signed(running)
    where = "/operator/arenas/arena/prompts/withdraw"
    assert client.get(where, params={"prompt": "none"}).status_code == 404
    bare = client.post(where, data={"prompt": "prompt-1", "model": "model-1"})
    assert (bare.status_code, "characters is required" in bare.text) == (422, True)
    for form in ({"prompt": "prompt-1", "model": "model-1"}, {"prompt": "prompt-1"}):
        located(
            client.post(where, data=form | {"reason": HOSTILE}), "withdrawn", "arenas", "arena", "prompts"
        )
        again = client.post(where, data=form | {"reason": "r"})
        assert (again.status_code, "withdrawn already" in again.text) == (409, True)
    assert [action for _, action, _ in audited(running)] == ["withdraw", "withdraw"]
    assert "<script>alert" not in client.get("/operator/arenas/arena/audit").text


# Uploads


def test_a_file_is_looked_over_and_let_in_once(running):
    client = signed(running)
    answer = sent(client, lines(row(), row(prompt_id="p2")))
    assert answer.status_code == 303
    where = answer.headers["location"]
    page = client.get(where).text
    assert "Import all 2 rows" in page
    assert audited(running) == []
    form = {"expected": "2", "enable": "true"}
    located(client.post(f"{where}/let-in", data=form), "imported", "arenas", "arena", "models")
    assert [(action, detail["responses"]) for _, action, detail in audited(running)] == [
        ("import answers", 2)
    ]
    assert client.get(where).status_code == 404
    assert client.post(f"{where}/let-in", data=form).status_code == 404


def test_a_file_with_mistakes_is_not_let_in_by_accident(running):
    client = signed(running)
    where = sent(client, lines(row(), row(model=" "), row(prompt="other"))).headers["location"]
    page = client.get(where).text
    assert "1 valid row" in page
    assert "Import all" not in page
    refused = client.post(f"{where}/let-in", data={"expected": "1"})
    assert (refused.status_code, "invalid" in refused.text) == (409, True)
    assert audited(running) == []
    form = {"expected": "1", "partly": "true"}
    located(client.post(f"{where}/let-in", data=form), "imported", "arenas", "arena", "models")
    assert [detail["enabled"] for _, _, detail in audited(running)] == [False]


# Policy, phase, settings


def test_a_form_that_was_not_touched_changes_nothing():
    policy = Policy()
    given = {
        name: text
        for group in constants(policy, {}).values()
        for _, inputs in group
        for name, _, text in inputs
    }
    assert read_constants(policy, given) == {}


def test_the_policy_is_reviewed_and_then_changed(running):
    client = signed(running)
    form = {"contenders": "5", "lane_weights_0": "0.5", "lane_weights_1": "0.2", "lane_weights_2": "0.2"}
    form |= {"lane_weights_3": "0.1", "window": "1", "phase": "1", "nonsense": "1"}
    page = client.get("/operator/arenas/arena/policy/review", params=form).text
    assert "0.4, 0.3, 0.2, 0.1" in page
    assert "0.5, 0.2, 0.2, 0.1" in page
    assert audited(running) == []
    located(client.post("/operator/arenas/arena/policy", data=form), "policy", "arenas", "arena", "policy")
    assert [(action, detail) for _, action, detail in audited(running)] == [
        (
            "change policy",
            {"contenders": [8, 5], "lane_weights": [[0.4, 0.3, 0.2, 0.1], [0.5, 0.2, 0.2, 0.1]]},
        )
    ]
    located(client.post("/operator/arenas/arena/policy", data=form), "unchanged", "arenas", "arena", "policy")
    assert len(audited(running)) == 1


@pytest.mark.parametrize(
    "form",
    [
        {"contenders": "many"},
        {"contenders": "1.5"},
        {"contenders": "0"},
        {"tolerance": "nan"},
        {"tolerance": "inf"},
        {"tolerance": ""},
        {"fairness": HOSTILE},
        {"contenders": "9" * 400},
        {"contenders": "9" * 5000},
        {"tolerance": "9" * 5000},
        {f"lane_weights_{k}": "0.5" for k in range(4)},
        {"top_prompt_floor": "1"},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(seen, form):
    client = signed(seen)
    review = client.get("/operator/arenas/arena/policy/review", params=form)
    saved = client.post("/operator/arenas/arena/policy", data=form)
    for answer in (review, saved):
        assert answer.status_code == 422
        assert next(iter(form)).removesuffix("_0") in answer.text.partition("notice-bad")[2][:200]
        assert "<script>alert" not in answer.text
    assert audited(seen) == []


def test_the_phase_is_confirmed_and_then_changed(running):
    client = signed(running)
    assert (
        "Change to phase 2?" in client.get("/operator/arenas/arena/phase/confirm", params={"phase": 2}).text
    )
    assert client.get("/operator/arenas/arena/phase/confirm", params={"phase": 5}).status_code == 422
    for value, said in (("2", "phase"), ("2", "unchanged")):
        answer = client.post("/operator/arenas/arena/phase", data={"phase": value})
        located(answer, said, "arenas", "arena", "phase")
    for value in ("0", "9", "x", "", "²", "9" * 5000):
        assert client.post("/operator/arenas/arena/phase", data={"phase": value}).status_code == 422
    assert [(action, detail) for _, action, detail in audited(running)] == [
        ("change policy", {"phase": [4, 2]})
    ]


def test_settings_are_reviewed_and_then_saved(running):
    client = signed(running)
    form = {"title": f"New {HOSTILE}", "undo_seconds": "5", "settled_family": "100", "visibility": "closed"}
    page = client.get("/operator/arenas/arena/settings/review", params=form).text
    assert "<script>alert" not in page
    assert audited(running) == []
    located(
        client.post("/operator/arenas/arena/settings", data=form), "settings", "arenas", "arena", "settings"
    )
    (change,) = audited(running)
    assert change[2]["title"] == f"New {HOSTILE}"
    assert change[2]["settings"]["undo_seconds"] == 5.0
    assert running.client().get("/api/v1/arenas/arena/board").status_code == 404
    located(
        client.post("/operator/arenas/arena/settings", data=form), "unchanged", "arenas", "arena", "settings"
    )
    for wrong in ({"undo_seconds": "x"}, {"undo_seconds": "-1"}, {"settled_family": "-1"}, {"title": "\n"}):
        for answer in (
            client.get("/operator/arenas/arena/settings/review", params=wrong),
            client.post("/operator/arenas/arena/settings", data=wrong),
        ):
            assert answer.status_code == 422
    assert len(audited(running)) == 1
    client.post("/operator/arenas/arena/settings", data={"settled_family": ""})
    assert audited(running)[-1][2]["settings"]["settled_family"] is None


# Voters


def test_votes_are_excluded_after_a_preview_and_restored(running):
    client = signed(running)
    where, voter = "/operator/arenas/arena/exclude", {"session": "2"}
    for reason in ("", " ", "x" * 1001):
        assert client.get(where, params=voter | {"reason": reason}).status_code == 422
        assert client.post(where, data=voter | {"reason": reason}).status_code == 422
    preview = client.get(where, params=voter | {"reason": HOSTILE})
    assert "Bradley–Terry" in preview.text
    assert "<script>alert" not in preview.text
    assert audited(running) == []
    located(client.post(where, data=voter | {"reason": HOSTILE}), "excluded", "arenas", "arena", "exclusions")
    assert client.get(where, params=voter | {"reason": "r"}).status_code == 404
    located(client.post(where, data=voter | {"reason": "r"}), "unchanged", "arenas", "arena", "exclusions")
    page = client.get("/operator/arenas/arena/exclusions").text
    assert "<script>alert" not in page
    (number,) = set(re.findall(r"exclusions/(\d+)/restore", page))
    back = f"/operator/arenas/arena/exclusions/{number}/restore"
    assert client.get(back).status_code == 200
    located(client.post(back), "restored", "arenas", "arena", "exclusions")
    located(client.post(back), "unchanged", "arenas", "arena", "exclusions")
    assert [action for _, action, _ in audited(running)] == ["exclude votes", "restore votes"]
    for none in ("/operator/arenas/arena/exclusions/99/restore", "/operator/arenas/arena/voters/99"):
        assert client.get(none).status_code == 404


# Oversight and tokens


def test_complaints_and_remarks_are_shown_as_text_and_settled(running):
    with connect(running.database) as connection:
        for table, columns in (("complaints", "reason, note"), ("remarks", "tags, comment")):
            said = "'other'" if table == "complaints" else "ARRAY[%(text)s]"
            connection.execute(
                f"INSERT INTO {table} (arena, source, serial, session, {columns}) "
                f"SELECT arena, source, serial, session, {said}, %(text)s FROM matchups WHERE serial < 60",
                {"text": HOSTILE},
            )
    client = signed(running)
    for path in ("complaints", "remarks", "voters/1"):
        page = client.get(f"/operator/arenas/arena/{path}").text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
    (first, *_) = re.findall(
        r"/complaints/(\d+)/settle", client.get("/operator/arenas/arena/complaints").text
    )
    settle = f"/operator/arenas/arena/complaints/{first}/settle"
    located(client.post(settle), "settled", "arenas", "arena", "complaints")
    assert settle not in client.get("/operator/arenas/arena/complaints").text
    assert "settled" in client.get("/operator/arenas/arena/complaints?settled=true").text
    assert client.post("/operator/arenas/arena/complaints/999/settle").status_code == 404
    assert [action for _, action, _ in audited(running)] == ["settle complaint"]


def test_a_token_is_shown_once_and_revoked(running):
    client = signed(running)
    form = {"name": f"ci {HOSTILE}", "scopes": ["read", "import"], "arena": "arena", "days": "30"}
    made = client.post("/operator/tokens", data=form)
    assert made.headers["cache-control"] == "no-store"
    token = re.search(r"tyt_[\w-]+", made.text)[0]
    assert "<script>alert" not in made.text
    listed = client.get("/operator/tokens").text
    assert token not in listed
    program = running.client(token)
    assert program.get("/api/v1/me").json()["scopes"] == ["import", "read"]
    (number,) = re.findall(r"/operator/tokens/(\d+)/revoke", listed)
    located(client.post(f"/operator/tokens/{number}/revoke"), "revoked", "tokens")
    assert program.get("/api/v1/me").status_code == 401
    for wrong in (
        {"name": ""},
        {"scopes": []},
        {"scopes": ["all"]},
        {"days": "0"},
        {"days": "x"},
    ):
        assert client.post("/operator/tokens", data=form | wrong).status_code == 422
    assert client.post("/operator/tokens", data=form | {"arena": "no"}).status_code == 404
    assert [action for _, action, _ in audited(running, arena=False)] == ["make token", "revoke token"]


def test_what_a_page_says_after_a_form_is_one_of_its_own_sentences(seen):
    client = signed(seen)
    assert "model is retired" in client.get("/operator/arenas/arena/models?said=retired").text
    for said in (HOSTILE, "nothing", ""):
        page = client.get("/operator/arenas/arena/models", params={"said": said}).text
        assert 'class="notice' not in page


def test_visibility_and_entry_are_one_question(running):
    client, page = signed(running), "/operator/arenas/arena/settings"

    def chosen():
        select = re.search(r'<select id="field-entry".*?</select>', client.get(page).text, re.DOTALL)[0]
        return re.findall(r'value="([\w-]+)" selected', select)

    assert chosen() == ["open"]
    for answer in ("closed", "passcode", "closed", "open"):
        client.post(page, data={"entry": answer})
        assert chosen() == [answer]
    assert audited(running)[-1][2]["changed"] == {
        "visibility": ["closed", "open"],
        "entry": ["passcode", "open"],
    }
    review = client.get(f"{page}/review", params={"entry": "closed"}).text
    assert '<input type="hidden" name="visibility" value="closed">' in review
