"""The tutorial of a live arena: every step of the page with two real models, as a browser without scripts does it."""

import re
import time

import httpx2
import pytest

from support.live_servers import live_servers
from support.tutorial_pages import submitted, tutorial


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The page, its server and what it says."""
    folder = tmp_path_factory.mktemp("tutorial")
    with tutorial("first-live-arena", folder) as page, live_servers() as (kestrel, osprey):
        (models,) = page.blocks("yaml")
        models = models.replace("http://127.0.0.1:8081/v1", kestrel.openai)
        (folder / "models.yaml").write_text(models.replace("http://127.0.0.1:8082/v1", osprey.openai))
        with page.serving() as (address, said):
            yield page, address, said


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


@pytest.mark.slow
def test_from_two_models_to_the_first_vote_and_the_board_that_it_moved(started):
    page, address, said = started
    page.check_greeting(address, said)
    (prompt,) = (block.strip() for block in page.blocks("text") if "heron" in block)
    (link,) = re.findall(rf"{address}(/join/\S+)", said)
    with httpx2.Client(base_url=address, timeout=60) as voter:
        assert voter.get("/arenas/live").status_code == 403
        assert "Ask two models at once" in voter.get(submitted(voter, link)).text
        battle = submitted(voter, "/arenas/live/ask", prompt=prompt).partition("#")[0]

        def complete():
            shown = voter.get(battle).text
            assert "Kestrel" not in shown
            assert "Osprey" not in shown
            return 'http-equiv="refresh"' not in shown and shown

        answered = until(complete)
        assert prompt in answered
        assert "A is better" in answered
        submitted(voter, f"{battle}/vote", winner="model_a", ballot="0")
        told = voter.get(submitted(voter, f"{battle}/reveal")).text
        assert "Kestrel" in told
        assert "Osprey" in told

        def counted():
            board = voter.get("/api/v1/arenas/live/board").json()
            return board["votes"] == 1

        until(counted)
        assert "Kestrel" in voter.get("/arenas/live").text
