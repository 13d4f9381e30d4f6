"""The tutorial of a private arena: every step of the page, by HTTP as a browser without scripts does it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from support.postgres_servers import postgres
from tiltyard.postgres.schema_migrations import migrate

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-private-arena.md"


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The server that the page starts, and what it says."""
    folder = tmp_path_factory.mktemp("tutorial")
    with postgres() as url:
        migrate(url)
        environment = os.environ | {
            "DATABASE_URL": url,
            "TILTYARD_HOME": str(folder / "home"),
            "TILTYARD_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }
        (serve,) = (block.split() for block in blocks("sh") if block.startswith("tiltyard serve"))
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


def submitted(client, path, **data):
    answer = client.post(path, data=data)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def test_from_the_installation_to_the_first_vote_of_a_colleague(started):
    (shown,) = (block for block in blocks("text") if "is ready" in block)
    (address,) = re.findall(r"is ready: (\S+)", started)
    pattern = re.escape(shown.replace("http://127.0.0.1:8420", address)).replace("…", ".+")
    assert re.fullmatch(pattern, started), started
    (claim,) = re.findall(rf"{address}(/claim/\S+)", started)
    operator, colleague = (httpx2.Client(base_url=address, timeout=60) for _ in range(2))
    with operator, colleague:
        account = {"name": "Ada", "password": "correct horse battery"}
        assert "You are signed in" in operator.post(claim, data=account).text
        submitted(operator, "/operator/arenas", name="haiku", title="Haiku of the week", entry="invitation")
        arena = "/operator/arenas/haiku"
        assert "Until the first vote" in operator.get(arena).text

        (answers,) = blocks("json")
        files = {"file": ("haiku.jsonl", answers.encode())}
        where = operator.post(f"{arena}/uploads", files=files).headers["location"]
        preview = operator.get(where).text
        assert "Import all 4 rows" in preview
        assert "Empty, cut off or incomplete" not in preview
        submitted(operator, f"{where}/let-in", expected="4", enable="true")
        (rules,) = blocks("markdown")
        submitted(operator, f"{arena}/texts", instructions=rules, consent="Votes are stored without names.")
        made = operator.post(
            f"{arena}/invitations", data={"batch": "pilot team", "uses": "5", "days": "14"}
        ).text
        (link,) = set(re.findall(r"/join/[\w-]+", made))
        assert "Response A" in operator.get(f"{arena}/preview").text
        submitted(operator, f"{arena}/stage", act="open")

        assert colleague.get("/arenas/haiku").status_code == 403
        assert "Haiku of the week" in colleague.get(link).text
        welcome = submitted(colleague, link)
        page = colleague.get(welcome).text
        assert "<strong>pin to the wall</strong>" in page
        (consent,) = re.findall(r'name="consent" value="(\w+)"', page)
        page = colleague.get(submitted(colleague, "/arenas/haiku/vote", consent=consent)).text
        (matchup,) = set(re.findall(r'data-matchup="([^"]+)"', page))
        submitted(colleague, f"/matchups/{matchup}/vote", winner="model_a", ballot="0")
        assert re.search(r"<td class=\"n\">1</td>", operator.get(arena).text)
