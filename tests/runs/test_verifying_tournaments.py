"""Verifying a tournament's folder: damage, forgery, and honest differences."""

import json
import random
import re
from contextlib import suppress

import pytest

from support.consistent_forgeries import CONFIGURED, LEFT_OUT
from support.judged_runs import JUDGE, failed, made_run, rehash, written
from support.run_folders import is_refused
from support.sizes import sized
from support.special_files import put_special, within_seconds
from support.tournament_forgeries import FORGERIES, UNUSABLE, edit, trace
from tiltyard.core.judging.verdict import PARSER_VERSION
from tiltyard.runs import tournament_verification
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, Platform, hash_line, manifest_kind
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.tournament_verification import ResponseTexts
from tiltyard.settings.tournament_config import load_config, resolve_config
from tiltyard.settings.yaml_file import write_yaml

FILES = [
    *("config.yaml", "answers.jsonl", "rubrics/factuality.txt", "matches/matches.jsonl"),
    *("questions/calibration.jsonl", "verdicts/factuality.jsonl", "attempts.parquet", "costs.json"),
    *("battles.jsonl", "battles.parquet"),
    *("elo_results.json", "elo_per_perm.npz", "dimension_ratings.json", "bootstrap_ratings.parquet"),
    *("pairwise_winrates.csv", "diagnostics.json", "report.html", "report_data/index-0000.js"),
    *("report_data/texts-0000.js", "report_data/verdicts-0001.js", "manifest.json", "manifest.sha256"),
]


@pytest.fixture
def hashes_alone(monkeypatch):
    """Whatever damage does to the numbers: the hashes notice it."""
    monkeypatch.setattr(tournament_verification, "_recomputed", lambda *_: iter(()))


@pytest.mark.usefixtures("hashes_alone")
@pytest.mark.parametrize("name", FILES)
def test_one_changed_byte_is_noticed(name, run):
    data = (run / name).read_bytes()
    rng = random.Random(name)
    for _ in range(sized(3, 50)):
        place, by = rng.randrange(len(data)), rng.randrange(1, 256)
        (run / name).write_bytes(data[:place] + bytes([(data[place] + by) % 256]) + data[place + 1 :])
        assert is_refused(run)


@pytest.mark.slow(but_every=10)
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_refused_at_once(name, run):
    put_special("pipe", run / name)
    with within_seconds(60):
        assert is_refused(run)


@pytest.mark.usefixtures("hashes_alone")
@pytest.mark.slow(but_every=4)
@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_truncated_file_is_noticed(name, run):
    data = (run / name).read_bytes()
    for left in (data[:-1], data[: len(data) // 2], b""):
        (run / name).write_bytes(left)
        assert is_refused(run)
    (run / name).unlink()
    assert is_refused(run)


@pytest.mark.usefixtures("hashes_alone")
@pytest.mark.parametrize(
    ("name", "listed"),
    [("verdicts/charm.jsonl", True), ("more/file", False), ("verdicts/.x.part", True), ("empty/", False)],
)
def test_an_added_file_is_noticed(name, listed, run):
    path = run / name
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if name.endswith("/") else path.write_text("more")
    if listed:
        rehash(run)
    assert any(text.startswith(name.strip("/").split("/")[0]) for text in failed(verify_run(run)))


@pytest.mark.usefixtures("hashes_alone")
@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "", "a\0b", "verdicts"])
def test_a_manifest_that_reaches_outside_is_refused(name, run):
    edit("manifest.json", lambda manifest: manifest["files"].update({name: "0" * 64}))(run)
    (run / MANIFEST_HASH).write_bytes(hash_line(run))
    assert any(text.startswith(f"{name}: ") for text in failed(verify_run(run)))


def test_damaged_verdicts_are_not_computed_with(run, monkeypatch):
    monkeypatch.setattr(tournament_verification, "_recomputed", lambda *_: pytest.fail("was called"))
    (run / "questions/factuality.jsonl").write_bytes(b"{}")
    assert [text.partition(":")[0] for text in failed(verify_run(run))] == ["questions/factuality.jsonl"]


def test_a_damaged_result_does_not_hide_that_the_rest_is_right(run):
    (run / "costs.json").write_bytes(
        (run / "costs.json").read_bytes().replace(b'"calls": ', b'"calls":  ', 1)
    )
    assert [text.partition(":")[0] for text in failed(verify_run(run))] == ["costs.json"]


@pytest.mark.slow(but_every=14)
@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_with_fitting_hashes_is_caught(forge, run):
    forge(run)
    rehash(run)
    result = verify_run(run)
    assert not result.passed
    assert "hash" not in " ".join(check.detail for check in result.checks if not check.passed).replace(
        "their hash", ""
    )
    assert all(check.detail for check in result.checks)


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("forge", LEFT_OUT.values(), ids=LEFT_OUT)
def test_questions_that_were_never_written_are_missed_in_their_file(forge, run):
    forge(run)
    (first, *rest) = failed(verify_run(run))
    assert re.match(r"questions/\w+\.jsonl: .* question \w{32} ", first)
    assert all("read further" in text for text in rest)


@pytest.mark.slow(but_every=8)
@pytest.mark.parametrize("forge", CONFIGURED.values(), ids=CONFIGURED)
def test_a_configuration_that_the_run_did_not_use_is_noticed(forge, run):
    forge(run)
    rehash(run)
    places = {"configuration", "questions/factuality.jsonl", "after matches/matches.jsonl"}
    assert places & {text.partition(":")[0] for text in failed(verify_run(run))}


@pytest.mark.parametrize("section", ["checks", "entrants", "elo"])
def test_a_configuration_that_lacks_a_section_is_refused(section, run):
    edit("manifest.json", lambda manifest: manifest["config"].pop(section))(run)
    manifest = json.loads((run / MANIFEST).read_text())
    (run / "config.yaml").write_text(write_yaml(manifest["config"]))
    rehash(run)
    assert is_refused(run)


def test_a_configuration_as_it_is_resolved_is_compared_whole(tmp_path):
    models = ("ash", "birch")
    stated = {
        "entrants": [{"entrant_id": name, "family": {"ash": "acme"}.get(name)} for name in models],
        "prompts": {"bank_path": "prompts.jsonl"},
        "answers": "answers.jsonl",
        "rubrics": {"factuality": {}, "calibration": {}},
        "judge": {"pilot_model": JUDGE, "family": "acme"},
        "checks": dict.fromkeys(("identical", "truncated", "garbage", "repeats"), 2) | {"planted": 0},
        "elo": {"n_perms": 4, "k_factor_sweep": [8, 16]},
        "ratings": {"n_bootstraps": 4, "inconsistent": "drop"},
        "overall": {"calibration": 0.5, "factuality": 0.25},
    }
    (tmp_path / "t.yaml").write_text(write_yaml(stated))
    config = load_config(tmp_path / "t.yaml")
    document = resolve_config(config, config.mode("pilot"), tmp_path / "run")
    whole = made_run(prompts=4, models=models, config=document)
    result = verify_run(written(tmp_path, whole))
    assert failed(result) == []
    assert result.exact


def test_texts_are_those_of_the_answers(original):
    answers = [json.loads(line) for line in (original / "answers.jsonl").read_text().splitlines()]
    texts = ResponseTexts(original / "answers.jsonl")
    assert dict(texts) == {(one["model"], one["prompt_id"]): one["response"] for one in answers}
    assert len(texts) == len(answers)


@pytest.mark.slow(but_every=7)
@pytest.mark.parametrize("forge", UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_is_refused(forge, run):
    forge(run)
    with suppress(ValueError, TypeError, RecursionError):
        rehash(run)
    assert is_refused(run)


def test_a_difference_is_named_with_its_place(run):
    FORGERIES["a verdict"](run)
    rehash(run)
    (first, *_) = failed(verify_run(run))
    assert "factuality.jsonl, line 1: question " in first
    assert "reply" in first


def test_the_last_bits_may_differ(run, monkeypatch):
    def drifted(document):
        for rated in document["groups"]["overall"]["ratings"]:
            rated["rating"] += 1e-9

    edit("dimension_ratings.json", drifted)(run)
    trace(lambda arrays: arrays.update(factuality__data=arrays["factuality__data"] + 1e-9))(run)
    rehash(run)
    result = verify_run(run)
    assert (result.passed, result.exact) == (True, False)


def test_a_report_that_other_versions_drew_is_not_compared(run, monkeypatch):
    here = Platform.here()
    there = here.model_copy(update={"libraries": here.libraries | {"tiltyard": "0.0.1"}})
    monkeypatch.setattr(Platform, "here", lambda: there)
    result = verify_run(run)
    assert (result.passed, result.exact) == (True, False)
    unchecked = result.summary.partition("NOT checked")[2]
    assert "report.html" in unchecked
    assert "report_data" in unchecked


@pytest.mark.slow(but="texts-0000")
@pytest.mark.parametrize("name", ["index-0000", "texts-0000", "verdicts-0001"])
def test_a_forged_part_of_the_report_is_noticed(name, run):
    path = run / "report_data" / f"{name}.js"
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    rehash(run)
    (found,) = failed(verify_run(run))
    assert found.startswith(f"report_data: report_data/{name}.js")


def test_another_number_of_parts_is_noticed(run):
    def more(manifest):
        manifest["report_data"]["texts"] += 1

    (run / "report_data" / "texts-0001.js").write_bytes(b"")
    edit(MANIFEST, more)(run)
    rehash(run)
    assert [text.partition(":")[0] for text in failed(verify_run(run))] == ["report_data"]


def test_the_script_of_the_charts_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.runs.tournament_files.charts_available", lambda: True)
    monkeypatch.setattr("tiltyard.runs.tournament_files.charts_script", lambda: "draw()")
    run = written(tmp_path, made_run(prompts=3))
    assert (run / "report_data" / "charts.js").read_text() == "draw()"
    assert failed(verify_run(run)) == []
    monkeypatch.setattr("tiltyard.runs.tournament_files.charts_script", lambda: "draw(1)")
    assert [text.partition(" differs")[0] for text in failed(verify_run(run))] == [
        "report_data: report_data/charts.js"
    ]


def test_the_configuration_may_be_spelled_otherwise(run):
    path = run / "config.yaml"
    path.write_text("# the same\n" + path.read_text())
    rehash(run)
    result = verify_run(run)
    assert (result.passed, result.exact) == (True, False)


def test_replies_that_another_parser_read_are_refused(run, monkeypatch):
    monkeypatch.setattr("tiltyard.runs.tournament_verification.PARSER_VERSION", PARSER_VERSION + 1)
    result = verify_run(run)
    assert not result.passed


def test_the_manifest_says_which_kind_of_folder_it_is(original, tmp_path):
    assert manifest_kind(original) == "tournament"
    assert manifest_kind(tmp_path) is None
    (tmp_path / MANIFEST).write_text("[" * 100_000)
    assert manifest_kind(tmp_path) is None
    (tmp_path / MANIFEST).write_text('{"kind": 3}')
    assert manifest_kind(tmp_path) is None


def test_verdicts_with_half_of_a_pair_of_surrogates_are_kept(tmp_path):
    run = written(tmp_path, made_run(prompts=8))
    assert b"\\ud800" in (run / "questions/factuality.jsonl").read_bytes()
    assert verify_run(run).exact
