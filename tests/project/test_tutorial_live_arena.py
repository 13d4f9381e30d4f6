"""The tutorial of a live arena: every step of the page with two real models, as a browser without scripts does it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from support.live_servers import live_servers
from support.postgres_servers import postgres
from tiltyard.postgres.schema_migrations import migrate

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-live-arena.md"


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The server that the page starts, and what it says."""
    folder = tmp_path_factory.mktemp("tutorial")
    (models,) = blocks("yaml")
    with postgres() as url, live_servers() as (kestrel, osprey):
        migrate(url)
        models = models.replace("http://127.0.0.1:8081/v1", kestrel.openai)
        (folder / "models.yaml").write_text(models.replace("http://127.0.0.1:8082/v1", osprey.openai))
        environment = os.environ | {
            "DATABASE_URL": url,
            "TILTYARD_HOME": str(folder / "home"),
            "TILTYARD_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }
        (serve,) = (
            line.split()
            for block in blocks("sh")
            for line in block.splitlines()
            if line.startswith("tiltyard")
        )
        with (folder / "out").open("w+") as out, (folder / "log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *serve], cwd=folder, env=environment, stdout=out, stderr=log
            )
            try:
                yield greeting(process, folder)
            finally:
                process.terminate()
                assert process.wait(60) == 0, (folder / "log").read_text()


def greeting(process, folder):
    deadline = time.monotonic() + 120
    while "to stop" not in (said := (folder / "out").read_text()):
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    return said


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def submitted(client, path, **data):
    answer = client.post(path, data=data)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


@pytest.mark.slow
def test_from_two_models_to_the_first_vote_and_the_board_that_it_moved(started):
    (shown,) = (block for block in blocks("text") if "is ready" in block)
    (prompt,) = (block.strip() for block in blocks("text") if "heron" in block)
    (address,) = re.findall(r"is ready: (\S+)", started)
    pattern = re.escape(shown.replace("http://127.0.0.1:8420", address)).replace("…", ".+")
    assert re.fullmatch(pattern, started), started
    (link,) = re.findall(rf"{address}(/join/\S+)", started)
    with httpx2.Client(base_url=address, timeout=60) as voter:
        assert voter.get("/arenas/live").status_code == 403
        assert "Ask two models at once" in voter.get(submitted(voter, link)).text
        battle = submitted(voter, "/arenas/live/ask", prompt=prompt).partition("#")[0]

        def complete():
            page = voter.get(battle).text
            assert "Kestrel" not in page
            assert "Osprey" not in page
            return 'http-equiv="refresh"' not in page and page

        page = until(complete)
        assert prompt in page
        assert "A is better" in page
        submitted(voter, f"{battle}/vote", winner="model_a", ballot="0")
        told = voter.get(submitted(voter, f"{battle}/reveal")).text
        assert "Kestrel" in told
        assert "Osprey" in told

        def counted():
            board = voter.get("/api/v1/arenas/live/board").json()
            return board["votes"] == 1

        until(counted)
        assert "Kestrel" in voter.get("/arenas/live").text
