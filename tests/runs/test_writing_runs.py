"""Writing a run folder."""

import json
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.run_folders import SETTINGS, failed, mixed, written
from support.worlds import battles
from tiltyard.core.battles import Battle
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadBattle, BadOption, CannotRate
from tiltyard.files import open_battles, read_battles, write_battles
from tiltyard.foundation import local_files
from tiltyard.runs import run_folder as folder_module
from tiltyard.runs.battle_rating import RateSettings, method_of, open_all, rate_files
from tiltyard.runs.manifest import file_hash, read_manifest
from tiltyard.runs.run_folder import write_run, written_files
from tiltyard.runs.run_verification import verify_run
from tiltyard.simulation.demo.demo_roster import demo_battles

BARE = RateSettings(BradleyTerry(interval="none"))

TOP = [
    *("schema", "arena", "model", "judge_model", "judge_models", "n_bootstraps", "seed", "method"),
    *("parameters", "by", "style"),
]
GROUP = ["n_battles", "interval", "ratings", "findings", "kernel"]
ENTRY = ["model", "rating", "ci_low", "ci_high", "n_battles", "source"]


def document(run: Path):
    return json.loads((run / "elo_ratings.json").read_text())


def listing(folder: Path) -> dict[str, str]:
    return {name: file_hash(folder / name) for name in written_files(folder)}


def test_charts_are_verified_too(tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.report.board_charts.find_spec", find_spec)
    run = written(tmp_path, SETTINGS["by source"])
    assert "data-spec" in (run / "report.html").read_text()
    assert verify_run(run).exact


@pytest.mark.slow(but_every=7)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_what_is_written_is_verified(settings, tmp_path):
    run = written(tmp_path, settings)
    result = verify_run(run)
    assert failed(result) == []
    assert result.exact
    assert result.summary.startswith("Verified: ")
    found = document(run)
    assert list(found)[: len(TOP)] == TOP
    groups = list(found["groups"].values()) if settings.by else [found]
    for group in groups:
        assert [name for name in group if name in GROUP] == GROUP
        for entry in group["ratings"]:
            assert list(entry)[: len(ENTRY)] == ENTRY
            assert entry["source"] in ("evaluated", "human")
        rated = [entry for entry in group["ratings"] if entry["rating"] is not None]
        assert [(entry["group"], -entry["rating"]) for entry in rated] == sorted(
            (entry["group"], -entry["rating"]) for entry in rated
        )
    names = {"battles.jsonl", "battles.parquet", "elo_ratings.json", "pairs.csv", "report.html"}
    names |= {"bootstrap_ratings.parquet"} if settings.n_bootstraps else set()
    names |= {"board.csv", "board.md", "board.tex"}
    names |= {
        "figures/intervals.svg" if name is None else f"figures/intervals-{name.lower()}.svg"
        for name in (found["groups"] if settings.by else [None])
    }
    assert set(read_manifest(run).files) == names
    assert set(written_files(run)) == names | {"manifest.json", "manifest.sha256"}


def test_the_document_says_what_was_asked(tmp_path):
    settings = RateSettings(BradleyTerry(seed=7, level=0.9), n_bootstraps=4, arena="Garden", model="ember-8b")
    found = document(written(tmp_path, settings))
    assert (found["arena"], found["model"], found["judge_model"]) == ("Garden", "ember-8b", "judge-1")
    assert (found["n_bootstraps"], found["seed"], found["method"]) == (4, 7, "bradley-terry")
    assert found["interval"]["level"] == found["parameters"]["level"] == 0.9
    assert {entry["model"] for entry in found["ratings"] if entry["source"] == "evaluated"} == {"ember-8b"}


def test_without_a_model_under_test_those_no_person_judged_are_evaluated(tmp_path):
    run = written(tmp_path, BARE)
    assert list(read_battles(run / "battles.parquet")) == mixed()
    assert list(read_battles(run / "battles.jsonl")) == mixed()
    entries = document(run)["ratings"]
    assert [entry["model"] for entry in entries if entry["source"] == "evaluated"] == ["newcomer"]
    assert read_manifest(run).evaluated == ["newcomer"]


def test_two_judges_are_no_one_judge(tmp_path):
    some = battles("a>b b>a", judge_model=["one", "two"], source=["llm-judge"] * 2)
    found = document(written(tmp_path, BARE, some))
    assert (found["judge_model"], found["judge_models"]) == (None, ["one", "two"])


def test_rank_ranges_keep_the_level_asked_for(tmp_path):
    def widths(level):
        (rated,) = rate_files([source], RateSettings(BradleyTerry(level=level)))
        assert rated.ranks.level == level
        return sum(row.rank_high - row.rank_low for row in rated.board.rows)

    write_battles(tmp_path / "battles.jsonl", demo_battles(700))
    source = open_battles(tmp_path / "battles.jsonl")
    assert widths(0.5) < widths(0.999)


def test_fields_that_turn_up_late_survive_style_control(tmp_path):
    rows = [
        {"model_a": "ab"[k % 2], "model_b": "ba"[k % 2], "winner": ("tie", "A", "B")[k % 3],
         "response_a": "x" * (1 + k % 7), "response_b": "y" * (1 + k % 5)}
        for k in range(130)
    ]  # fmt: skip
    rows[-1] |= {"remark": "late", "question_id": "q"}
    some = [Battle.from_dict(row) for row in rows]
    run = written(tmp_path, RateSettings(BradleyTerry(style=True), style=("length",)), some)
    assert list(read_battles(run / "battles.parquet")) == some
    assert verify_run(run).passed


def test_files_of_several_formats_become_one_log(tmp_path):
    some = mixed(90)
    parts = {"one.jsonl": some[:30], "two.parquet": some[30:60], "three.jsonl.gz": some[60:]}
    for name, part in parts.items():
        write_battles(tmp_path / name, part)
    write_run(tmp_path / "run", open_all([tmp_path / name for name in parts]), SETTINGS["by source"])
    assert list(read_battles(tmp_path / "run" / "battles.parquet")) == some
    assert verify_run(tmp_path / "run").passed
    inputs = read_manifest(tmp_path / "run").inputs
    assert [Path(one.path).name for one in inputs] == list(parts)
    assert [one.sha256 for one in inputs] == [file_hash(tmp_path / name) for name in parts]


def test_weighted_battles_can_be_drawn_again(tmp_path):
    some = battles("a>b*6 b>a*4 a=b*3", weight=[1.0, 2.0, 0.5, 1.5] * 3 + [3.0])
    settings = RateSettings(BradleyTerry(clusters="battle"), n_bootstraps=3)
    assert verify_run(written(tmp_path, settings, some)).passed


@pytest.mark.parametrize("story", ["a!b*3", "a>a*2", "a>b*3"], ids=["both bad", "itself", "only wins"])
def test_battles_that_rate_nobody_still_make_a_folder(story, tmp_path):
    run = written(tmp_path, RateSettings(n_bootstraps=3), battles(story))
    assert verify_run(run).passed
    assert all(entry["rating"] is None for entry in document(run)["ratings"])


def test_the_replicates_are_those_of_the_bootstrap(tmp_path):
    run = written(tmp_path, RateSettings(n_bootstraps=5))
    table = pq.read_table(run / "bootstrap_ratings.parquet").to_pydict()
    (rated,) = rate_files([open_battles(run / "battles.parquet")], RateSettings(n_bootstraps=5))
    replicates = rated.bootstrap.extras["replicates"]
    present = ~np.isnan(replicates)
    assert table["rating"] == replicates[present].tolist()
    assert set(table["replicate"]) <= set(range(5))
    assert set(table["group"]) == {None}


def test_the_same_run_twice_differs_in_its_date_alone(tmp_path):
    run = written(tmp_path, SETTINGS["bradley-terry"])
    first, manifest = listing(run), read_manifest(run)
    written(tmp_path, SETTINGS["bradley-terry"])
    changed = {name for name, hash_ in listing(run).items() if first[name] != hash_}
    assert changed <= {"manifest.json", "manifest.sha256"}
    assert read_manifest(run).model_copy(update={"created_at": manifest.created_at}) == manifest


class TestLines:
    """Battles as lines of JSON, beside those in columns."""

    def written(self, tmp_path, some, **more):
        write_battles(tmp_path / "some.parquet", some)
        return write_run(tmp_path / "run", [open_battles(tmp_path / "some.parquet")], BARE, **more)

    def test_many_battles_have_them_on_request_only(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tiltyard.runs.run_folder.MAX_BATTLE_LINES", 4)
        lines = tmp_path / "run" / "battles.jsonl"
        some = battles("a>b*3 b>a*2")
        told = self.written(tmp_path, some).without_lines
        assert "--jsonl" in told
        assert not lines.exists()
        assert verify_run(tmp_path / "run").passed
        assert self.written(tmp_path, some, lines=True).without_lines == ""
        assert list(read_battles(lines)) == some
        assert verify_run(tmp_path / "run").exact
        assert self.written(tmp_path, some[:4]).without_lines == ""

    def test_what_json_cannot_hold_is_left_out_unless_asked_for(self, tmp_path):
        """Such as the bytes of an image in a column that Tiltyard does not know."""
        table = pa.Table.from_pylist([battle.to_dict() for battle in battles("a>b*3 b>a*2")])
        pq.write_table(table.append_column("image", pa.array([b"\x89PNG"] * 5)), tmp_path / "bytes.parquet")
        source = open_battles(tmp_path / "bytes.parquet")
        told = write_run(tmp_path / "run", [source], BARE).without_lines
        assert told.startswith("row 1: ")
        assert not (tmp_path / "run" / "battles.jsonl").exists()
        assert verify_run(tmp_path / "run").passed
        with pytest.raises(BadBattle, match="row 1: "):
            write_run(tmp_path / "other", [source], BARE, lines=True)

    def test_dates_and_nested_fields_survive(self, tmp_path):
        rows = [
            battle.to_dict() | {"seen": date(2026, 1, 2), "tags": {"x": [1, None]}}
            for battle in battles("a>b*3")
        ]
        self.written(tmp_path, [Battle.from_dict(row) for row in rows])
        assert verify_run(tmp_path / "run").exact


class TestPlace:
    """Where a folder may be written."""

    @pytest.fixture
    def source(self, tmp_path):
        write_battles(tmp_path / "battles.jsonl", battles("a>b*3 b>a*2"))
        return open_battles(tmp_path / "battles.jsonl")

    def test_an_earlier_run_is_replaced(self, source, tmp_path):
        write_run(tmp_path / "new" / "run", [source], RateSettings(n_bootstraps=3))
        write_run(tmp_path / "new" / "run", [source], BARE)
        assert not (tmp_path / "new" / "run" / "bootstrap_ratings.parquet").exists()
        assert verify_run(tmp_path / "new" / "run").passed
        assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == ["figures", "new", "run"]

    def test_a_run_can_be_rated_again_in_its_own_place(self, source, tmp_path):
        write_run(tmp_path / "run", [source], BARE)
        write_run(tmp_path / "run", [open_battles(tmp_path / "run" / "battles.parquet")], BARE)
        assert verify_run(tmp_path / "run").passed

    def test_an_empty_folder_is_taken(self, source, tmp_path, monkeypatch):
        (tmp_path / "run").mkdir()
        monkeypatch.chdir(tmp_path / "run")
        write_run(Path(), [source], BARE)
        assert verify_run(tmp_path / "run").passed

    def test_a_link_leads_to_its_folder(self, source, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        write_run(tmp_path / "link", [source], BARE)
        assert verify_run(tmp_path / "real").passed
        assert (tmp_path / "link").is_symlink()

    def test_a_folder_of_other_things_is_refused(self, source, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("years of work")
        with pytest.raises(BadOption, match="contains other files"):
            write_run(tmp_path / "mine", [source], BARE)
        assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"

    def test_a_file_is_refused(self, source, tmp_path):
        with pytest.raises(BadOption, match="is a file"):
            write_run(tmp_path / "battles.jsonl", [source], BARE)

    @pytest.mark.parametrize("out", ["battles.jsonl/run", "x" * 300])
    def test_an_impossible_place_is_refused(self, out, source, tmp_path):
        with pytest.raises(BadOption, match="cannot write"):
            write_run(tmp_path / out, [source], BARE)

    @pytest.mark.parametrize(
        ("step", "error"),
        [
            ("copy_battles", KeyboardInterrupt),
            ("render_page", RuntimeError),
            ("hash_line", OSError),
            ("_put_folder", KeyboardInterrupt),
            ("_put_folder", OSError),
        ],
    )
    def test_a_failure_midway_leaves_the_old_run_and_no_draft(
        self, step, error, source, tmp_path, monkeypatch
    ):
        write_run(tmp_path / "run", [source], BARE)
        before = listing(tmp_path / "run")

        def fails(*_, **__):
            raise error("the plug")

        monkeypatch.setattr(local_files if step == "_put_folder" else folder_module, step, fails)
        with pytest.raises(BadOption if error is OSError else error, match="the plug"):
            write_run(tmp_path / "run", [source], RateSettings())
        assert listing(tmp_path / "run") == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["battles.jsonl", "run"]

    def test_a_wrong_battle_leaves_nothing(self, tmp_path):
        file = tmp_path / "battles.csv"
        file.write_text("model_a,model_b,winner\na,b,draw\n")
        with pytest.raises(BadBattle, match="line 2"):
            write_run(tmp_path / "run", [open_battles(file)], BARE)
        assert [path.name for path in tmp_path.iterdir()] == ["battles.csv"]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("trueskill", {}, "bradley-terry, elo, glicko-2"),
        ("elo", {"kay": 3}, "kay"),
        ("bradley-terry", {"level": "high"}, "level is 'high'"),
        ("bradley-terry", {"level": 2.0}, "level is 2.0"),
    ],
)
def test_a_method_needs_its_own_parameters(name, parameters, message):
    with pytest.raises(BadOption, match=message):
        method_of(name, parameters)


def test_no_files_nothing_to_rate():
    with pytest.raises(BadOption, match="file"):
        open_all([])


@pytest.mark.parametrize("by", [None, "source"])
def test_files_without_a_battle_are_refused(tmp_path, by):
    path = tmp_path / "none.csv"
    path.write_text("model_a,model_b,winner,source\n")
    with pytest.raises(CannotRate, match=r"none\.csv"):
        rate_files(open_all([path]), RateSettings(by=by))
