"""The tutorial's arena: served for real, voted in, and read."""

import json
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

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-arena.md"


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The server that the page starts, once it has a board, and what it says."""
    folder = tmp_path_factory.mktemp("tutorial")
    with postgres() as url:
        migrate(url)
        environment = os.environ | {
            "DATABASE_URL": url,
            "TILTYARD_HOME": str(folder / "home"),
            "TILTYARD_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "tiltyard"]
        subprocess.run([*command, "init", "first"], cwd=folder, env=environment, check=True)
        (serve,) = (block.split() for block in blocks("sh") if block.startswith("tiltyard serve"))
        with (folder / "out").open("w+") as out, (folder / "log").open("w+") as log:
            process = subprocess.Popen(
                [*command, *serve[1:]], cwd=folder, env=environment, stdout=out, stderr=log
            )
            try:
                said = greeting(process, folder)
                (address,) = re.findall(r"is ready: (\S+)", said)
                await_board(address)
                yield address, said
            finally:
                process.terminate()
                assert process.wait(60) == 0, (folder / "log").read_text()


def greeting(process, folder):
    deadline = time.monotonic() + 60
    while "to stop" not in (said := (folder / "out").read_text()):
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    return said


def await_board(address):
    deadline = time.monotonic() + 60
    while httpx2.get(f"{address}/api/v1/arenas/answers/board").status_code != 200:
        assert time.monotonic() < deadline, "there is no board"
        time.sleep(0.1)


@pytest.mark.slow
def test_the_server_says_what_the_page_shows(served):
    address, said = served
    (shown,) = (block for block in blocks("text") if "is ready" in block)
    pattern = re.escape(shown.replace("http://127.0.0.1:8420", address)).replace("…", ".+")
    assert re.fullmatch(pattern, said), said


@pytest.mark.slow
def test_the_pieces_of_python_run(served, tmp_path, monkeypatch, capsys):
    address, _ = served
    monkeypatch.chdir(tmp_path)
    known = {"__name__": "tutorial"}
    for number, block in enumerate(blocks("py")):
        exec(compile(block.replace("http://127.0.0.1:8420", address), f"piece {number}", "exec"), known)
    known["voter"].close()
    printed = capsys.readouterr().out
    assert " met " in printed
    assert "calibrating" in printed
    battles = [json.loads(line) for line in (tmp_path / "battles.jsonl").read_text().splitlines()]
    assert len(battles) == 41
    assert {battle["source"] for battle in battles} == {"human"}
