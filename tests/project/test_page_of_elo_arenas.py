"""The page for somebody with an arena that ranks by Elo: its commands, in order, beside a running server."""

import csv
import io
import os
import re
import subprocess
import time

import httpx2
import pytest

from support.tutorial_pages import tutorial


def elo_of(path):
    """Elo of the votes, as the page describes it."""
    ratings = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            a, b = row["modelA"], row["modelB"]
            old_a, old_b = ratings.get(a, 1500.0), ratings.get(b, 1500.0)
            if row["outcome"] == "BOTH_BAD":
                against_a = against_b = 1500.0
                points_a = points_b = 0.0
            else:
                against_a, against_b = old_b, old_a
                points_a = {"A": 1.0, "B": 0.0, "TIE": 0.5}[row["outcome"]]
                points_b = 1.0 - points_a
            ratings[a] = old_a + 16.0 * (points_a - 1.0 / (1.0 + 10.0 ** ((against_a - old_a) / 400.0)))
            ratings[b] = old_b + 16.0 * (points_b - 1.0 / (1.0 + 10.0 ** ((against_b - old_b) / 400.0)))
    return ratings


def shadow_of(address, page, said):
    """What the page's request for the shadow board gives, once it has all votes."""
    (request,) = (line for block in page.blocks("sh") for line in block.splitlines() if "curl" in line)
    command = request.replace("http://127.0.0.1:8420", address)
    environment = os.environ | {"TOKEN": said.split()[-1]}
    whole = f"{address}/api/v1/arenas/builds/shadow"
    headers = {"Authorization": f"Bearer {environment['TOKEN']}"}
    deadline = time.monotonic() + 120
    while (got := httpx2.get(whole, headers=headers)).status_code != 200 or got.json()["votes"] < 600:
        assert time.monotonic() < deadline, got.text
        time.sleep(0.2)
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    return list(csv.DictReader(io.StringIO(done.stdout)))


def order_of(address, phase):
    """The models of the readers' board, once it is of this phase."""
    deadline = time.monotonic() + 120
    while (board := httpx2.get(f"{address}/api/v1/arenas/builds/board").json())["phase"] != phase:
        assert time.monotonic() < deadline, board["phase"]
        time.sleep(0.2)
    return [row["model"] for row in board["rows"]]


@pytest.mark.slow
def test_an_arena_adopts_the_policy_phase_by_phase(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tutorial("from-an-arena-with-elo", tmp_path, "how-to") as page:
        (code,) = page.blocks("py")
        exec(compile(code, "sample", "exec"), {})
        with page.serving() as (address, _):
            tiltyard = [words for words in page.commands() if words[0] == "tiltyard"][1:]
            begin, bring, look, token, *advance = tiltyard
            page.run(begin)
            assert re.search(r"\b600 of 600\b", page.run(bring).stdout)
            assert re.search(r"\b0 of 600\b", page.run(bring).stdout)
            rows = shadow_of(address, page, page.run(token).stdout)
            found = {row["model"]: float(row["legacy_elo"]) for row in rows}
            assert found == pytest.approx(elo_of(tmp_path / "votes.csv"), abs=1e-6)
            by_elo = sorted(found, key=found.__getitem__, reverse=True)
            by_policy = [row["model"] for row in sorted(rows, key=lambda row: int(row["policy_rank"]))]
            assert by_elo != by_policy
            assert all(row["why"] for row in rows if row["legacy_rank"] != row["policy_rank"])
            assert order_of(address, 1) == by_elo
            said = page.run(look).stdout
            assert [said.find(name) for name in by_elo] == sorted(said.find(name) for name in found)
            for words, expected in zip(advance, (by_elo, by_policy, by_policy), strict=True):
                page.run(words)
                assert order_of(address, int(words[4])) == expected
