"""The reader's test: ten boards, and the sentence that the product prints about each. None claims more than *settled*.

``pytest -m slow -n 0 -s tests/web/test_ten_boards.py`` prints the table of docs/evidence/data/ten-boards.md.
"""

import json
import re

import numpy as np
import pytest
from scipy.special import expit

import tiltyard
from support.command import run
from support.postgres_servers import fresh_database
from support.served import served
from support.ten_second_arenas import ten_second_arenas
from tiltyard.core.battles import Table
from tiltyard.core.board.board_rows import PlacedModel, placed_board
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.judge_placement import place_by_judge
from tiltyard.runs.battle_rating import RateSettings, rate_table

NAMES = ("alder", "birch", "cedar", "dogwood", "elder", "fir")
#: Words that would claim an order, beside the one that may.
CLAIMS = re.compile(
    r"proven|\bcertain|significant|better than|clearly|confident|confidence that|told apart|tell .* apart|official order|outrank|cite this order",
    re.IGNORECASE,
)


def draw(strengths, seed, n=1500, *, prompts=60, voters=0, taste=0.0, topics=0, topic=0.0, adaptive=False):
    """Battles of models with these strengths in logits; topics and voters have tastes of their own."""
    rng = np.random.default_rng(seed)
    m = len(strengths)
    effect = rng.normal(0.0, 0.4, (m, prompts)) + (
        rng.normal(0.0, topic, (m, topics))[:, np.arange(prompts) % topics] if topics else 0.0
    )
    tastes, elo = rng.normal(0.0, taste, (m, max(voters, 1))), np.full(m, 1500.0)
    rows = []
    for _ in range(n):
        a, b = rng.choice(m, 2, replace=False).tolist()
        if adaptive:
            near = np.abs(elo - elo[a]) + np.where(np.arange(m) == a, 1e9, 0.0)
            b = int(np.argmin(near + rng.uniform(0.0, 20.0, m)))
        prompt, voter = int(rng.integers(prompts)), int(rng.integers(max(voters, 1)))
        value = [strengths[k] + effect[k, prompt] + tastes[k, voter] for k in (a, b)]
        won = rng.random() < expit(value[0] - value[1])
        step = 16.0 * (won - expit((elo[a] - elo[b]) * np.log(10.0) / 400.0))
        elo[[a, b]] += [step, -step]
        row = {"model_a": NAMES[a], "model_b": NAMES[b], "winner": "model_a" if won else "model_b"}
        row["question_id"] = f"p{prompt}"
        rows.append(row | ({"voter": f"v{voter}"} if voters else {}))
        if topics:
            rows[-1]["category"] = f"topic-{prompt % topics}"
    return rows


FILES = {
    "settled": {"strengths": (1.2, 0.4, -0.4, -1.2), "seed": 1},
    "tied": {"strengths": (0.8, 0.8, -0.8, -0.8), "seed": 2},
    "three voters": {"strengths": (0.0,) * 4, "seed": 3, "prompts": 25, "voters": 3, "taste": 0.7},
    "topics": {"strengths": (0.0,) * 4, "seed": 4, "prompts": 120, "topics": 8, "topic": 0.4},
    "adaptive": {"strengths": (0.3, 0.2, 0.1, 0.0, -0.1, -0.2), "seed": 5, "adaptive": True},
    "categories": {"strengths": (0.8, 0.0, 0.0, -0.8), "seed": 6, "topics": 2, "topic": 0.6},
}
ARENAS = {
    "newcomer": ("newcomer", 2500, "calibrating"),
    "official but unsettled": ("noise", 1000, "officially stable"),
    "settled but calibrating": ("settled", 2500, "calibrating"),
}


def say(board, sentence):
    sentence = " ".join(sentence.split())
    print(f"\n| {board} | {sentence} |")
    assert sentence
    assert not CLAIMS.search(sentence), sentence


@pytest.mark.slow(but="settled")
@pytest.mark.parametrize("board", [pytest.param(name, marks=pytest.mark.slow(but_every=3)) for name in FILES])
def test_what_a_terminal_says_of_a_file(board, tmp_path):
    file = tmp_path / "battles.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in draw(**FILES[board])))
    ran = run("rate", file, *(("--by", "category") if board == "categories" else ()))
    assert (ran.code, ran.err) == (0, "")
    assert not CLAIMS.search(ran.out)
    parts = ran.out.split("\n\n")
    said = [part for part in parts if re.match("The order of|No order is settled|These voters|Nothing", part)]
    heads = tiltyard.rate(file, by="category").groups if board == "categories" else [""]
    say(board, " ".join(f"{name}: {one}" if name else one for name, one in zip(heads, said, strict=True)))
    print(", ".join(re.findall(r"^([a-z-]+): ", ran.out, re.MULTILINE)))


@pytest.mark.slow
def test_what_is_said_of_a_placed_model():
    human, judged = (
        [tiltyard.Battle(**row) for row in draw((1.0, 0.6, 0.2, -0.2, -0.6, -1.0)[:models], seed, n)]
        for models, seed, n in ((5, 7, 1500), (6, 8, 900))
    )
    judged = [one for one in judged if NAMES[5] in (one.model_a, one.model_b)]
    rated = rate_table(Table.from_battles(human), RateSettings(BradleyTerry()))
    table = Table.from_battles(judged)
    placed = PlacedModel(place_by_judge(rated.ratings, table, NAMES[5]), rated.table, table)
    board = placed_board(rated.board, placed)
    say("placed", board.findings[-1].text)
    assert placed.placement.label == "judge, bias added"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        for name, every, _ in ARENAS.values():
            ten_second_arenas(database, name, evaluated_every=every)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running.client()


@pytest.mark.slow
@pytest.mark.parametrize("board", ARENAS)
def test_what_a_page_says_of_an_arena(site, board):
    arena, _, status = ARENAS[board]
    html = site.get(f"/arenas/{arena}").text
    page = re.sub(r"<[^>]*>", " ", html.partition("<main")[2])
    lead = " ".join(page.partition(" votes by people")[0].rpartition("Vote ")[2].split())
    assert not CLAIMS.search(page)
    assert re.search(rf'id="status-title">{status}', html, re.IGNORECASE)
    say(board, lead.rsplit(" ", 1)[0])
