"""Pages in a pseudo-language, whose strings all stand in brackets: what stands outside is not in the catalogue."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from support.operating import complain, signed
from support.postgres_servers import fresh_database
from support.served import make_operator, make_token, served
from support.shown_boards import NAMES, PAGE, shown_board
from tiltyard.web.pages.localization import localization_for

#: It is written from right to left, and has numbers, months and plurals of its own.
LANGUAGE = "ar-XB"
ASKED = PAGE | {"accept-language": LANGUAGE}
MODEL = "/arenas/arena/models/" + quote(NAMES[0])
PUBLIC = (
    "/",
    "/arenas/arena",
    "/arenas/arena?source=both",
    "/arenas/arena?category=maths&chart=win-rates",
    "/arenas/arena?excluded=counted&chart=battle-counts",
    "/arenas/arena?source=llm-judge&chart=history",
    "/arenas/arena/categories",
    "/arenas/arena/style",
    "/arenas/arena/embed",
    MODEL,
    MODEL + "?source=llm-judge",
    "/arenas/arena/vote",
    "/arenas/arena/mine",
    "/arenas/arena/mine/data",
    "/arenas/arena/mine/delete",
    "/arenas/arena/mine/deleted",
    "/operator/sign-in",
)
OPERATOR = (
    "",
    "/tokens",
    "/tokens/1/revoke",
    "/audit",
    "/arenas/arena",
    "/arenas/arena/models",
    "/arenas/arena/models/retire?model=" + quote(NAMES[0]),
    "/arenas/arena/models/details?model=" + quote(NAMES[0]),
    "/arenas/arena/answers",
    "/arenas/arena/prompts",
    "/arenas/arena/prompts/withdraw?prompt=prompt-1",
    "/arenas/arena/policy",
    "/arenas/arena/policy/review?contenders=5&fairness=scoped",
    "/arenas/arena/phase",
    "/arenas/arena/phase/confirm?phase=2",
    "/arenas/arena/settings",
    "/arenas/arena/invitations",
    "/arenas/arena/settings/review?undo_seconds=5&visibility=closed",
    "/arenas/arena/voters",
    "/arenas/arena/voters/1",
    "/arenas/arena/voters/1/exclude?reason=r",
    "/arenas/arena/exclusions",
    "/arenas/arena/exclusions/1/restore",
    "/arenas/arena/complaints",
    "/arenas/arena/complaints/1",
    "/arenas/arena/remarks",
    "/arenas/arena/audit",
    "/arenas/arena/exports",
)
BOARD_CHARTS = [
    f"/arenas/arena/charts/{name}" for name in ("ratings", "win-rates", "battle-counts", "history")
]
MODEL_CHARTS = [
    f"/arenas/arena/model-charts/{name}" for name in ("confidence", "expected", "both-bad", "coverage")
]
#: The same in every language.
SAME = {"Tiltyard", "UTC", "RD", "CSV", "JSON", "Lines", "Parquet", "parquet", "jsonl", "csv", "A", "B"}
#: Before and after noon, in dates.
HALVES = {"ص", "م"}
#: Stands before a sentence of a rule or a finding that has no pattern.
MADE_ENGLISH = '<span lang="en"'
#: What people wrote: categories and languages of prompts.
WRITTEN = {"law", "maths", "de", "en"}
#: Classes of elements that hold what people wrote.
TEXTS = {"text", "operator-text"}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        shown_board(database, votes=600)
        make_operator(database)
        make_token(database, "judge", name="a judge")
        complain(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


@pytest.fixture(scope="module")
def voter(site):
    """A visitor with a few final votes."""
    client = site.client()
    for winner in ("model_a", "model_b", "tie"):
        matchup = client.post("/api/v1/arenas/arena/matchups").raise_for_status().json()["matchup"]
        client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": winner, "reveal": True})
    return client


@pytest.fixture(scope="module")
def operator(site):
    return signed(site)


class Outside(HTMLParser):
    """What a page says outside brackets, to eyes and to screen readers."""

    #: Names and other texts of people, code, and what is said to be English.
    SKIPPED = frozenset({"bdi", "code", "pre", "kbd", "samp", "time", "script", "style", "svg"})
    SPOKEN = ("aria-label", "title", "alt", "placeholder")

    def __init__(self, html):
        super().__init__()
        self.words = []
        self._depth, self._open = 0, []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("meta", "link", "input", "br", "img", "source", "path"):
            quiet = False
        else:
            written = not TEXTS.isdisjoint((given.get("class") or "").split())
            foreign = given.get("lang") not in (None, LANGUAGE)
            quiet = bool(self._open and self._open[-1][1]) or tag in self.SKIPPED or written or foreign
            self._open.append((tag, quiet))
        if not quiet:
            for name in self.SPOKEN:
                self.words += outside(given.get(name) or "")
            self.words += [
                word
                for text in json.loads(given.get("data-words") or "{}").values()
                for word in outside(text)
            ]

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        quiet = bool(self._open and self._open[-1][1])
        for part in re.split(r"([⟦⟧])", data):
            if part in ("⟦", "⟧"):
                self._depth += 1 if part == "⟦" else -1
            elif not self._depth and not quiet:
                self.words += outside(part)


def outside(text):
    """The words of a text that stand outside brackets."""
    while (inner := re.sub(r"⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = inner
    for name in (*NAMES, "arena"):
        text = text.replace(name, " ")
    text = re.sub(r"\d+-[A-Za-z]{3}-\d+|\b(model|prompt)-\d+", " ", text)
    return [word for word in re.findall(r"[^\W\d_][\w’'-]*", text) if word not in SAME | HALVES | WRITTEN]


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("path", PUBLIC)
def test_a_page_says_nothing_past_the_catalogue(voter, path):
    answer = voter.get(path, headers=ASKED)
    assert answer.status_code == 200
    assert f'lang="{LANGUAGE}"' in answer.text
    assert Outside(answer.text).words == []
    assert MADE_ENGLISH not in answer.text


@pytest.mark.parametrize("path", OPERATOR)
def test_a_page_of_the_operator_says_nothing_past_the_catalogue(operator, path):
    answer = operator.get(f"/operator{path}", headers=ASKED)
    assert answer.status_code == 200
    assert Outside(answer.text).words == []
    assert MADE_ENGLISH not in answer.text


@pytest.mark.parametrize("path", ["/nowhere", "/arenas/arena?order=up", "/arenas/other"])
def test_of_a_problem_only_the_sentence_of_the_error_is_english(voter, path):
    answer = voter.get(path, headers=ASKED)
    assert answer.status_code in (404, 422)
    assert Outside(answer.text).words == []
    assert '<p class="lede" lang="en">' in answer.text


def test_neither_is_anything_else_where_a_form_is_refused(site):
    answer = site.client().post("/operator/sign-in", data={"name": "Ada", "password": "?"}, headers=ASKED)
    assert answer.status_code == 401
    assert Outside(answer.text).words == []
    assert MADE_ENGLISH in answer.text


def titles(part):
    """Every title in a spec: of axes, legends and tooltips."""
    if isinstance(part, list):
        return [title for one in part for title in titles(one)]
    if not isinstance(part, dict):
        return []
    own = [part["title"]] if isinstance(part.get("title"), str) else []
    return own + [title for name, one in part.items() if name != "data" for title in titles(one)]


@pytest.mark.parametrize("path", BOARD_CHARTS + MODEL_CHARTS)
def test_a_chart_is_said_in_the_language_of_its_page(voter, path):
    query = {"model": NAMES[0]} if "model-charts" in path else {}
    answer = voter.get(f"{path}.json", params=query, headers=ASKED)
    assert "Accept-Language" in answer.headers["vary"]
    found = titles(answer.json())
    assert found
    assert all(title.startswith("⟦") and title.endswith("⟧") for title in found)
    assert answer.json()["config"]["locale"]["time"]["months"][0] == "يناير"
    plain = voter.get(f"{path}.json", params=query, headers=PAGE).json()
    assert [localization_for(LANGUAGE).texts.gettext(title) for title in titles(plain)] == found
    assert "locale" not in plain.get("config", {})


@pytest.mark.parametrize("path", [BOARD_CHARTS[0], MODEL_CHARTS[1]])
def test_a_picture_is_too(voter, path):
    query = {"model": NAMES[0]} if "model-charts" in path else {}
    texts = []
    for language in (LANGUAGE, "en", LANGUAGE):
        answer = voter.get(f"{path}.svg", params=query, headers=PAGE | {"accept-language": language})
        assert "Accept-Language" in answer.headers["vary"]
        texts.append(re.findall(r"<text[^>]*>([^<]+)</text>", answer.text))
    assert texts[0] == texts[2] != texts[1]
    assert [word for text in texts[0] for word in outside(text)] == []
