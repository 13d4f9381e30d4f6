"""The tutorial's expert panel: opened, voted in by its raters, and measured, by the commands of the page."""

import csv
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

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-expert-panel.md"
TILTYARD = [sys.executable, "-m", "tiltyard"]


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lines():
    return [line.split() for block in blocks("sh") for line in block.splitlines()]


def finish(address, link, number):
    """Vote on a rater's whole list, by the forms of the pages; return how many votes that took."""
    with httpx2.Client(base_url=address, follow_redirects=True) as client:
        assert client.post("/join/" + link.partition("/join/")[2]).url.path == "/arenas/answers/panel"
        page = client.post("/arenas/answers/vote")
        votes = 0
        while found := re.search(r'data-matchup="([^"]+)"', page.text):
            winner = ("model_a", "model_b", "tie")[(votes + number) % 3]
            page = client.post(f"/matchups/{found[1]}/vote", data={"winner": winner})
            votes += 1
    assert "Your list is finished" in page.text
    return votes


@pytest.fixture
def tutorial(tmp_path):
    """The page's server, and a way to run its other commands."""
    with postgres() as url:
        migrate(url)
        environment = os.environ | {
            "DATABASE_URL": url,
            "TILTYARD_HOME": str(tmp_path / "home"),
            "TILTYARD_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }

        def run(words):
            assert words[0] == "tiltyard"
            done = subprocess.run(
                [*TILTYARD, *words[1:]],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done

        _, init, serve, *others = lines()
        run(init)
        with (tmp_path / "out").open("w+") as out, (tmp_path / "log").open("w+") as log:
            process = subprocess.Popen(
                [*TILTYARD, *serve[1:]], cwd=tmp_path, env=environment, stdout=out, stderr=log
            )
            try:
                while "to stop" not in (said := (tmp_path / "out").read_text()):
                    assert process.poll() is None, (tmp_path / "log").read_text()
                    time.sleep(0.05)
                yield re.search(r"is ready: (\S+)", said)[1], run, others
            finally:
                process.terminate()
                process.wait(60)


@pytest.mark.slow
def test_the_page_leads_to_an_agreement_table(tutorial, tmp_path):
    address, run, (opening, progress, agreement, disagreements, close, board, export) = tutorial
    opened = run(opening)
    shown_links, shown_progress = blocks("text")
    pattern = (
        re.escape(shown_links).replace(re.escape("http://127.0.0.1:8420"), r"http://\S+").replace("…", r"\S+")
    )
    assert re.fullmatch(pattern, opened.stdout + opened.stderr), opened
    links = [line.split("\t")[1] for line in opened.stdout.splitlines()]
    assert [finish(address, link, number) for number, link in enumerate(links)] == [10, 10, 10]
    assert run(progress).stdout == shown_progress
    table = run(agreement).stdout
    assert re.search(r"^all +\S+ \(\S+ to \S+\) +0\.\d\d \(\S+ to \S+\) +15$", table, re.MULTILINE), table
    assert "Ada" in table
    assert "heron" in run(disagreements).stdout
    assert "closed" in run(close).stdout
    assert "wren" in run(board).stdout
    run(export)
    with (tmp_path / "experts.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 30
