"""What a voter can judge: said in a form, kept in a cookie that anybody may have written, followed by matchmaking."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import fill_arena
from tiltyard.arena.voting.voter_requests import DeclaredSkills
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.cookies import Cookies, SkillCookies, preset_languages, primary_language
from tiltyard.web.pages.voting_values import SkillForm, skill_choice

SKILLS = SkillCookies(Cookies(None, secure=True), 3)


def asking(cookie):
    """A request with a cookie."""
    headers = [] if cookie is None else [(b"cookie", f"a=b; __Host-tiltyard_judges_3_7={cookie}".encode())]
    return SimpleNamespace(scope={"headers": headers})


@pytest.mark.parametrize(
    "declared",
    [
        DeclaredSkills(),
        DeclaredSkills(("de", "fr-CA")),
        DeclaredSkills((), ("R&D; law", "naïve=1,2", "日本語 \"'<b>")),
    ],
)
def test_what_was_kept_is_read_again(declared):
    header = SKILLS.header(7, declared)
    name, _, rest = header.partition("=")
    value, _, flags = rest.partition(";")
    assert name == "__Host-tiltyard_judges_3_7"
    assert value.isascii()
    assert not set(value) & set(' ",\\')
    assert f"Max-Age={int(timedelta(days=400).total_seconds())}; HttpOnly; SameSite=Lax; Secure" in flags
    assert SKILLS.read(asking(value), 7) == declared
    assert SKILLS.read(asking(value), 8) is None


@pytest.mark.parametrize(
    "cookie",
    [None, "", "nonsense", "l", "l=%ff%fe", "l=d&" * 401 + "l=d", "l=" + "x" * 3001, "&&&"],
)
def test_a_cookie_that_was_not_set_here_declares_nothing(cookie):
    assert SKILLS.read(asking(cookie), 7) is None


def test_unknown_parts_are_passed_over():
    assert SKILLS.read(asking("l=de&z=9"), 7) == DeclaredSkills(("de",))
    assert SKILLS.read(asking("l=de&l=de&c=a%00b&c=x"), 7) == DeclaredSkills(("de",), ("x",))


def test_more_than_a_cookie_holds_is_refused():
    with pytest.raises(BadOption, match="choose fewer"):
        SKILLS.header(7, DeclaredSkills((), tuple(f"category number {k}" for k in range(200))))


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("de-CH,de;q=0.9,en;q=0.8", ("de", "en-GB")),
        ("pt_BR", ("pt",)),
        ("ja", ("de", "en-GB", "pt")),
        ("de;q=0, pt;q=0.1", ("pt",)),
        (None, ("de", "en-GB", "pt")),
        (",;,;;q", ("de", "en-GB", "pt")),
        ("x," * 5000 + "de", ("de", "en-GB", "pt")),
    ],
)
def test_languages_are_preset_from_the_browser(accepted, chosen):
    assert preset_languages(accepted, ["de", "en-GB", "pt"]) == chosen


def test_the_form_offers_a_choice_only_where_there_is_one():
    assert not skill_choice(["en"], [], None, "en").offers_something
    choice = skill_choice(["de", "en"], ["law"], None, "en-US")
    assert [(one.name, one.chosen) for one in choice.languages] == [("de", False), ("en", True)]
    assert choice.categories == ()
    choice = skill_choice(["de", "en"], ["law", "maths"], DeclaredSkills(("de",)), "en")
    assert [one.chosen for one in choice.languages] == [True, False]
    assert all(one.chosen for one in choice.categories)
    form = SkillForm("1", ["de", "en", "xx"], ["maths", "<b>"])
    assert form.read(["law", "maths"], ["de", "en"]) == DeclaredSkills((), ("maths",))


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        rows = [
            {
                "prompt_id": f"p{p}",
                "prompt": f"What of {p}?",
                "model": f"m{m}",
                "response": f"{p} and {m}",
                "language": ("de", "en")[p % 2],
                "category": ("law", "maths")[p // 2],
            }
            for p in range(3)
            for m in range(3)
        ]
        fill_arena(database, store, "arena", rows, {}, settings=ArenaSettings(reveal="never"))
        plain = [{k: row[k] for k in ("prompt_id", "prompt", "model", "response")} for row in rows]
        fill_arena(database, store, "plain", plain, {}, settings=ArenaSettings(reveal="never"))
        with served(database, folder=store) as running:
            yield running


def declared_in_log(site, matchup):
    number = site.context.matchup_ids.parse(matchup)
    with connect(site.database) as connection:
        return connection.execute(
            "SELECT e.detail FROM events e JOIN matchups m USING (arena, position) WHERE m.matchup = %s",
            [number],
        ).fetchone()[0]


def test_a_voter_says_so_once_and_is_served_accordingly_by_page_and_api(site):
    client = site.client()
    welcome = client.get("/arenas/arena/vote", headers={"accept-language": "de"}).text
    assert 'value="de" checked' in welcome
    assert 'value="en">' in welcome
    sent = client.post("/arenas/arena/vote", data={"declared": "1", "languages": "de", "categories": "law"})
    assert sent.headers["location"] == "/arenas/arena/vote"
    for _ in range(3):
        matchup = client.post("/api/v1/arenas/arena/matchups").json()
        assert matchup["prompt"]["text"] == "What of 0?"
        assert declared_in_log(site, matchup["matchup"]) == {"languages": ["de"], "categories": ["law"]}
        ahead = client.post("/arenas/arena/vote/ahead", data={"shown": matchup["matchup"]}).text
        assert "What of 0?" in ahead
        client.post(f"/matchups/{matchup['matchup']}/skip", data={"reason": "too-long"})
    again = client.get("/arenas/arena/vote?choose=again").text
    assert 'value="law" checked' in again
    assert 'value="maths">' in again
    everything = {"declared": "1", "languages": ["de", "en"], "categories": ["law", "maths"]}
    client.post("/arenas/arena/vote", data=everything)
    client.post(f"/matchups/{client.post('/api/v1/arenas/arena/matchups').json()['matchup']}/skip")
    matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    assert declared_in_log(site, matchup) is None


def test_whichever_button_led_there_the_first_matchup_comes_after_the_welcome(site):
    client = site.client()
    client.headers.update({"accept-language": "en-US,en;q=0.9"})
    sent = client.post("/arenas/arena/vote")
    assert (sent.status_code, sent.headers["location"]) == (303, "/arenas/arena/vote")
    assert "set-cookie" not in sent.headers
    welcome = client.get("/arenas/arena/vote").text
    assert 'value="en" checked' in welcome
    assert 'value="de">' in welcome
    client.post(
        "/arenas/arena/vote", data={"declared": "1", "languages": "en", "categories": ["law", "maths"]}
    )
    shown = client.get("/arenas/arena/vote").text
    assert "What of 1?" in shown
    # From now on a button leads to the matchup at once.
    assert client.post("/arenas/arena/vote").status_code == 303
    assert "data-matchup" in client.get("/arenas/arena/vote").text


def test_an_arena_with_nothing_to_say_or_ask_has_no_page_in_between(site):
    client = site.client()
    client.post("/arenas/plain/vote")
    assert "data-matchup" in client.get("/arenas/plain/vote").text


def test_who_has_declared_nothing_is_served_the_languages_of_the_browser_first(site):
    client = site.client()
    client.headers.update({"accept-language": "de"})
    for _ in range(4):
        matchup = client.post("/api/v1/arenas/arena/matchups").json()
        assert matchup["prompt"]["text"] in ("What of 0?", "What of 2?")
        assert declared_in_log(site, matchup["matchup"]) == {"languages": ["de"]}
        client.post(f"/api/v1/matchups/{matchup['matchup']}/skip")
    unknown = site.client().post("/api/v1/arenas/arena/matchups", headers={"accept-language": "ja"}).json()
    assert declared_in_log(site, unknown["matchup"]) is None


def test_where_nothing_fits_the_page_says_so_and_offers_another_choice(site):
    client = site.client()
    sent = client.post("/arenas/arena/vote", data={"declared": "1", "languages": "en", "categories": "maths"})
    assert sent.headers["location"] == "/arenas/arena/vote?choose=none"
    told = client.get(sent.headers["location"]).text
    assert "No prompt fits" in told
    assert 'value="en" checked' in told
    refused = client.post("/api/v1/arenas/arena/matchups")
    assert refused.status_code == 409
    assert "can judge" in refused.json()["detail"]


def test_a_skip_with_a_reason_that_is_none_is_refused(site):
    client = site.client()
    matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    assert client.post(f"/matchups/{matchup}/skip", data={"reason": "<b>"}).status_code == 422
    assert client.post(f"/api/v1/matchups/{matchup}/skip", json={"reason": "bored"}).status_code == 422
    ended = client.post(f"/api/v1/matchups/{matchup}/skip", json={"reason": "broken", "recognized": True})
    assert ended.json()["kind"] == "skip"


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-CH,en;q=0.5", "de"),
        ("EN_us", "en"),
        ("gsw;q=1", "gsw"),
        ("*", None),
        ("", None),
        (None, None),
        ("é-1", None),
    ],
)
def test_the_language_that_a_browser_asks_for_first(accepted, language):
    assert primary_language(accepted) == language
