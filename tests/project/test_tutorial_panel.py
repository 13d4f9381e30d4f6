"""The tutorial's expert panel: opened, voted in by its raters, and measured, by the commands of the page."""

import csv
import re

import httpx2
import pytest

from support.tutorial_pages import tutorial


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


@pytest.mark.slow
def test_the_page_leads_to_an_agreement_table(tmp_path):
    with tutorial("first-expert-panel", tmp_path) as page:
        _, init, _, *others = page.commands()
        page.run(init)
        with page.serving() as (address, _):
            agree(page, address, others)
    with (tmp_path / "experts.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 30


def agree(page, address, commands):
    """Open the panel, vote on every list and read what the page shows."""
    opening, progress, agreement, disagreements, close, board, export = commands
    run = page.run
    opened = run(opening)
    shown_links, shown_progress = page.blocks("text")
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
