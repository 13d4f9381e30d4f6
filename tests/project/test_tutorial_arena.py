"""The tutorial's arena: served for real, voted in, and read."""

import json
import time

import httpx2
import pytest

from support.tutorial_pages import tutorial


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The page, and its server once it has a board."""
    with tutorial("first-arena", tmp_path_factory.mktemp("tutorial")) as page:
        page.run(["tiltyard", "init", "first"])
        with page.serving() as (address, said):
            await_board(address)
            yield page, address, said


def await_board(address):
    deadline = time.monotonic() + 60
    while httpx2.get(f"{address}/api/v1/arenas/answers/board").status_code != 200:
        assert time.monotonic() < deadline, "there is no board"
        time.sleep(0.1)


@pytest.mark.slow
def test_the_server_says_what_the_page_shows(served):
    page, address, said = served
    page.check_greeting(address, said)


@pytest.mark.slow
def test_the_pieces_of_python_run(served, tmp_path, monkeypatch, capsys):
    page, address, _ = served
    monkeypatch.chdir(tmp_path)
    known = {"__name__": "tutorial"}
    for number, block in enumerate(page.blocks("py")):
        exec(compile(block.replace("http://127.0.0.1:8420", address), f"piece {number}", "exec"), known)
    known["voter"].close()
    printed = capsys.readouterr().out
    assert " met " in printed
    assert "calibrating" in printed
    battles = [json.loads(line) for line in (tmp_path / "battles.jsonl").read_text().splitlines()]
    assert len(battles) == 41
    assert {battle["source"] for battle in battles} == {"human"}
