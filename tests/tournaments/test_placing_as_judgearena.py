"""A model placed into JudgeArena's human battles: what comes out is read by its own tools."""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
import yaml

from support.arranged import NO_CHECKS, PRICES, Arranged, write_lines
from support.judgearena import ARENA, CANDIDATE, JUDGE, PEOPLE, human_rows, rated_again, read_strictly
from support.run_folders import copied, edit_json, failed, rehash
from tiltyard.runs.run_verification import verify_run

PROMPTS = 42


@pytest.fixture
def yard(tmp_path, billed):
    answers = [
        {
            "prompt_id": row["question_id"],
            "prompt": row["prompt"],
            "model": CANDIDATE,
            "response": f"It is {k}.",
        }
        for k, row in enumerate(human_rows(PROMPTS))
    ]
    write_lines(tmp_path / "mine.jsonl", answers)
    sections = {
        "judge": {"provider": "openai", "base_url": billed.server.openai, "headline_model": JUDGE},
        "checks": NO_CHECKS,
        "elo": {"n_perms": 2, "k_factor_sweep": [16]},
        "ratings": {"n_bootstraps": 5},
        "prices": {JUDGE: PRICES},
    }
    (tmp_path / "place.yaml").write_text(yaml.safe_dump(sections))
    return Arranged(tmp_path)


def placed(yard, *options, both_bad="tie (bothbad)"):
    write_lines(yard.folder / "human.jsonl", human_rows(PROMPTS, both_bad))
    named = ("--model", CANDIDATE, "--arena", ARENA, "--config", "place.yaml", "--answers", "mine.jsonl")
    yard.done("place", "human.jsonl", *named, "--n", 12, "--output-dir", "out", *options)
    folder = yard.folder / "out"
    assert verify_run(folder).passed
    return folder, *read_strictly(folder)


def test_a_placed_run_is_written_as_it_was_read(yard):
    folder, battles, report = placed(yard)
    human = [battle for battle in battles if battle["source"] == "human"]
    assert [battle["winner"] for battle in human] == [row["winner"] for row in human_rows(PROMPTS)]
    assert Counter(battle["source"] for battle in battles) == {"human": PROMPTS, "llm-judge": 12}
    assert (report["arena"], report["model"], report["judge_model"]) == (ARENA, CANDIDATE, JUDGE)
    assert report["n_bootstraps"] == 5
    sources = {entry["model"]: entry["source"] for entry in report["ratings"]}
    assert sources == {CANDIDATE: "evaluated", **dict.fromkeys(PEOPLE, "human")}
    ours = yard.document("dimension_ratings.json")
    assert list(ours["groups"]) == ["preference", "overall"]
    assert ours["groups"]["overall"]["ratings"] == report["ratings"]
    for name in ("elo_ratings.json", "dimension_ratings.json"):
        forged = copied(folder, yard.folder / name)
        raise_first(forged / name)
        rehash(forged)
        assert name in failed(verify_run(forged))


def raise_first(path):
    def change(document):
        board = document.get("groups", {}).get("overall", document)
        board["ratings"][0]["rating"] += 1

    edit_json(path, change)


@pytest.mark.slow
def test_a_placed_run_is_written_as_judgearena_does(yard):
    folder, battles, report = placed(yard, "--write-as", "judgearena", both_bad="both_bad")
    human = [battle for battle in battles if battle["source"] == "human"]
    assert Counter(battle["winner"] for battle in human)["tie (bothbad)"] == 6
    expected = rated_again(human)
    ratings = {entry["model"]: entry["rating"] for entry in report["ratings"]}
    assert {name: ratings[name] for name in PEOPLE} == pytest.approx(expected, abs=1e-6)
    counted = {entry["model"]: entry["n_battles"] for entry in report["ratings"]}
    assert sum(counted[name] for name in PEOPLE) == 2 * PROMPTS
    assert counted[CANDIDATE] == 12
    forged = copied(folder, yard.folder / "forged")
    raise_first(forged / "elo_ratings.json")
    rehash(forged)
    assert "elo_ratings.json" in failed(verify_run(forged))


@pytest.mark.slow
@pytest.mark.parametrize(("options", "counted"), [((), 36), (("--both-bad", "tie"), 42)])
def test_both_bad_counts_as_it_does_in_rate(yard, options, counted):
    _, _, report = placed(yard, *options)
    yard.done("rate", "human.jsonl", "--out", "people", *options)
    people = {entry["model"]: entry for entry in yard.document("elo_ratings.json", "people")["ratings"]}
    for entry in report["ratings"]:
        if entry["model"] in PEOPLE:
            for field in ("rating", "ci_low", "ci_high", "n_battles", "ties", "both_bad"):
                assert entry[field] == people[entry["model"]][field]
    assert sum(entry["n_battles"] for entry in people.values()) == 2 * counted


def test_the_commands_of_the_page_that_call_a_judge(tmp_path, billed, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "from-a-folder-of-battles.md"
    text = page.read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page.name, "exec"), {"__name__": "example"})
    (block,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    yard = Arranged(tmp_path, {"OPENAI_API_KEY": ""})
    for line in block.splitlines():
        words = shlex.split(line.replace("http://localhost:8000/v1", billed.server.openai))
        ran = yard.call(*words[1:])
        # Planted questions and repeats: the local judge chooses by position.
        assert ran.code in (0, 4), ran.err
    pooled, drawn = read_strictly(tmp_path / "pooled")
    assert (drawn["model"], drawn["n_bootstraps"]) == ("newcomer-2b", 100)
    assert sum(entry["n_battles"] for entry in drawn["ratings"]) == 2 * len(pooled)
    battles, report = read_strictly(tmp_path / "placed")
    assert [battle["winner"] for battle in battles] == [battle["winner"] for battle in pooled]
    for document in (report, drawn):
        evaluated = {entry["model"] for entry in document["ratings"] if entry["source"] == "evaluated"}
        assert evaluated == {"newcomer-2b"}
    assert sum(battle["winner"] == "tie (bothbad)" for battle in battles) == 20
    # A model that a judge has rated before is not lost without a word.
    (told,) = [one for one in report["findings"] if one["name"] == "judged-earlier"]
    assert told["values"]["models"] == ["candidate-1b"]
