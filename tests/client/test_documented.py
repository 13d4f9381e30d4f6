"""What the pages say of the client and of judges is so: every example runs."""

from __future__ import annotations

import re
from pathlib import Path

from support.live_arenas import answers_file, made_arena
from support.served import make_token, served
from tiltyard.settings.arena_judges import ArenaJudges, JudgeRound, load_judge_rounds
from tiltyard.settings.prices import open_prices

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "how-to" / "use-the-python-client.md"
JUDGES = DOCS / "how-to" / "let-judges-vote.md"


def blocks(path: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(database: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_arena(database, name="demo")
    answers_file(tmp_path / "answers.jsonl", 2, 3)
    with served(database) as site:
        token = make_token(database, "admin")
        for number, block in enumerate(blocks(GUIDE, "py")):
            example = block.replace("http://127.0.0.1:8420", site.url).replace(
                'token="…"', f'token="{token}"'
            )
            exec(compile(example, f"example {number}", "exec"), {"__name__": "example"})


def test_the_configurations_of_judges_are_valid(tmp_path: Path):
    found = blocks(JUDGES, "yml")
    assert len(found) == 3
    for number, block in enumerate(found):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        if block.startswith("rounds:"):
            assert load_judge_rounds(path)[0].matchups == 50
        else:
            config = ArenaJudges.load(path)
            prices = open_prices(config.prices)
            for judge in config.complete():
                assert prices.price(judge.provider, judge.model, judge.base_url) is not None


def test_every_field_of_the_judges_files_is_documented():
    text = JUDGES.read_text(encoding="utf-8")
    for model in (ArenaJudges, JudgeRound):
        for name, field in model.model_fields.items():
            row = re.search(rf"^\| `{name}` \| (.*?) \|", text, re.MULTILINE)
            assert row is not None, name
            if isinstance(field.default, str | int) and field.default is not None:
                assert row[1] == f"`{field.default}`", name
