"""The tutorial of a private arena: every step of the page, by HTTP as a browser without scripts does it."""

import re

import httpx2
import pytest

from support.tutorial_pages import submitted, tutorial


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The page, its server and what it says."""
    with (
        tutorial("first-private-arena", tmp_path_factory.mktemp("tutorial")) as page,
        page.serving() as (address, said),
    ):
        yield page, address, said


@pytest.mark.slow
def test_from_the_installation_to_the_first_vote_of_a_colleague(started):
    page, address, said = started
    page.check_greeting(address, said)
    (claim,) = re.findall(rf"{address}(/claim/\S+)", said)
    operator, colleague = (httpx2.Client(base_url=address, timeout=60) for _ in range(2))
    with operator, colleague:
        account = {"name": "Ada", "password": "correct horse battery"}
        assert "You are signed in" in operator.post(claim, data=account).text
        submitted(operator, "/operator/arenas", name="haiku", title="Haiku of the week", entry="invitation")
        arena = "/operator/arenas/haiku"
        assert "Until the first vote" in operator.get(arena).text

        (answers,) = page.blocks("json")
        files = {"file": ("haiku.jsonl", answers.encode())}
        where = operator.post(f"{arena}/uploads", files=files).headers["location"]
        preview = operator.get(where).text
        assert "Import all 4 rows" in preview
        assert "Empty, cut off or incomplete" not in preview
        submitted(operator, f"{where}/let-in", expected="4", enable="true")
        (rules,) = page.blocks("markdown")
        submitted(operator, f"{arena}/texts", instructions=rules, consent="Votes are stored without names.")
        made = operator.post(f"{arena}/invitations", data={"people": "Anna\nBen"}).text
        link, _ = re.findall(r"/join/[\w-]+", made)
        assert "Response A" in operator.get(f"{arena}/preview").text
        submitted(operator, f"{arena}/stage", act="open")

        assert colleague.get("/arenas/haiku").status_code == 403
        assert "Haiku of the week" in colleague.get(link).text
        welcome = submitted(colleague, link)
        asked = colleague.get(welcome).text
        assert "<strong>pin to the wall</strong>" in asked
        (consent,) = re.findall(r'name="consent" value="(\w+)"', asked)
        shown = colleague.get(submitted(colleague, "/arenas/haiku/vote", consent=consent)).text
        (matchup,) = set(re.findall(r'data-matchup="([^"]+)"', shown))
        submitted(colleague, f"/matchups/{matchup}/vote", winner="model_a", ballot="0")
        invited = operator.get(f"{arena}/invitations").text
        assert re.findall(r"(Anna|Ben)</bdi></th><td[^>]*>(\d) of 2<", invited) == [
            ("Ben", "0"),
            ("Anna", "1"),
        ]
