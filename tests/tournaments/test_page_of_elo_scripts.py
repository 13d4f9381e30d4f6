"""The page for somebody with an Elo script of their own: its commands, in order, on a folder of such a script."""

import json
import re
import shlex
from pathlib import Path

import pytest

from support import script_results
from support.arranged import NO_CHECKS, PRICES, Arranged
from support.paper_tournament import CONFIG, DIMENSIONS, make_paper_tournament

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-your-own-elo-script.md"
JUDGE = "judge-1"


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands():
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("tiltyard")]
    return [shlex.split(line.replace("elo/configs/tournament.yaml", CONFIG))[1:] for line in lines]


def results_of(lines, elo):
    """What the script makes of the judgments that it has paid for."""
    judgments = {}
    for dimension, rows in lines.items():
        replies = [{**row["metadata"], "verdict": row["verdict"]} for row in rows]
        pairs = zip(replies[::2], replies[1::2], strict=True)
        found = [(raw[0], *script_results.reconciled(raw)) for raw in pairs]
        judgments[dimension] = [{**asked, "winner": winner} for asked, winner, _ in found]
    k, ks = elo["default_k"], elo["k_factor_sweep"]
    return script_results.elo(judgments, k, ks, elo["initial_rating"], elo["n_perms"], elo["shuffle_seed"])[0]


@pytest.mark.slow
def test_the_commands_rate_what_the_script_has_paid_for_and_go_on(tmp_path, billed, monkeypatch):
    paper = make_paper_tournament(tmp_path)
    judge = billed.judge("anthropic", pilot_model=JUDGE, headline_model=JUDGE, use_batch_api=False)
    paper.write_config(judge=judge, checks=NO_CHECKS, prices={JUDGE: PRICES}, elo={"n_perms": 20})
    lines = {dimension: paper.pay(JUDGE, dimension) for dimension in DIMENSIONS}
    (tmp_path / "results").mkdir()
    mine = results_of(lines, paper.document["elo"])
    (tmp_path / "results/elo_results.json").write_text(json.dumps(mine), encoding="utf-8")
    arranged = Arranged(tmp_path)
    plan, rate, verify, pilot, headline = commands()
    arranged.done(*plan)
    said = arranged.done(*rate).out
    assert said.startswith(script_results.table(mine))
    arranged.done(*verify)
    assert billed.since() == 0
    monkeypatch.chdir(tmp_path)
    for code in blocks("py"):
        exec(compile(code, PAGE.name, "exec"), {})
    arranged.done(*pilot)
    assert billed.since() == 3 * 5 * 2
    arranged.done(*headline, "--limit-pairs", "10")
    # Some of the first ten may have been the pilot's.
    assert 3 * 10 * 2 <= billed.since() <= 3 * 15 * 2
