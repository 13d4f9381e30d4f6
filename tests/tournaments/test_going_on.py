"""Runs that were cut short: which one is gone on with, and what stands in the way."""

from __future__ import annotations

import json
import os
import signal

import pytest

from support.arranged import arrange, read_lines, wait_for, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns


def unfinish(folder):
    """As if the run had been killed before its end."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "finished_at": None}))


def folders(arranged):
    return sorted(path.name for path in (arranged.folder / "runs").iterdir())


@pytest.mark.slow
def test_the_newest_unfinished_run_of_the_same_plan_is_gone_on_with(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1)
    arranged.done("run", arranged.config)
    [whole] = folders(arranged)
    for name in ("pilot_19990101_000000", "pilot_19990102_000000", "pilot_20000101_000000"):
        arranged.done("run", arranged.config, "--output-dir", f"runs/{name}")
    for name in ("pilot_19990101_000000", "pilot_19990102_000000"):
        unfinish(tmp_path / "runs" / name)
    started = arranged.document("manifest.json", "runs/pilot_19990102_000000")["started_at"]
    before = folders(arranged)
    ran = arranged.done("run", arranged.config)
    assert "Resuming runs/pilot_19990102_000000" in ran.err
    assert folders(arranged) == before
    manifest = arranged.document("manifest.json", "runs/pilot_19990102_000000")
    assert manifest["finished_at"] is not None
    assert manifest["started_at"] == started
    arranged.done("verify", "runs/pilot_19990102_000000")
    arranged.done("verify", f"runs/{whole}")


@pytest.mark.slow
def test_unfinished_runs_of_other_plans_and_modes_are_left_alone(tmp_path, billed):
    modes = {"pilot": {"prompts": "all"}, "pilot_b": {"prompts": "all", "judges": ["judge-1"]}}
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1, modes=modes)
    arranged.done("run", arranged.config, "--mode", "pilot_b", "--output-dir", "runs/pilot_b_1")
    arranged.done("run", arranged.config, "--limit-pairs", 2, "--output-dir", "runs/pilot_2")
    unfinish(tmp_path / "runs" / "pilot_b_1")
    unfinish(tmp_path / "runs" / "pilot_2")
    (tmp_path / "runs" / "pilot_3").mkdir()
    (tmp_path / "runs" / "pilot_4").mkdir()
    (tmp_path / "runs" / "pilot_4" / "manifest.json").write_text("{]")
    arranged.done("run", arranged.config)
    assert len(folders(arranged)) == 5


def test_a_folder_of_another_plan_is_refused_with_advice(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1)
    arranged.done("run", arranged.config, "--output-dir", "out")
    rows = read_lines(tmp_path / "answers.jsonl")
    rows[0]["response"] = "Something else."
    write_lines(tmp_path / "answers.jsonl", rows)
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 2
    assert "--output-dir out" in ran.err
    assert "still fit are" in ran.err
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    arranged.done("run", arranged.config, "--output-dir", "new")
    # Two pairs of three on one prompt, in two orders.
    assert billed.since() == 24 + 4


def test_a_folder_with_other_things_in_it_is_refused(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("x")
    for name in ("full", "file"):
        ran = arranged.call("run", arranged.config, "--output-dir", name)
        assert ran.code == 2
        assert f"--output-dir {name} contains other files; name a new folder" in ran.err
    ran = arranged.call("run", arranged.config, "--output-dir", "file/inside")
    assert ran.code == 2
    assert "internal error" not in ran.err
    assert billed.since() == 0


@pytest.mark.slow
def test_skipping_the_judges_does_not_end_a_run_that_is_under_way(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1)
    arranged.done("run", arranged.config)
    [name] = folders(arranged)
    unfinish(tmp_path / "runs" / name)
    arranged.done("run", arranged.config, "--skip-judging")
    assert arranged.document("manifest.json", f"runs/{name}")["finished_at"] is None
    assert len(folders(arranged)) == 2


@pytest.mark.slow(but="live")
@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_an_interrupt_ends_with_one_line_and_can_be_gone_on_with(tmp_path, batch):
    with paid_llm(latency=1.0, batch_seconds=5.0) as server:
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": 4, "batch": batch}
        arranged = arrange(tmp_path, prompts=4, dimensions=1, judge=judge, shard_size=20)
        process = arranged.piped("run", arranged.config)
        wait_for(lambda: server.tally()["batches" if batch else "paid_calls"])
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        server.change(latency=0.0)
        assert process.returncode == 130, err
        begun, *advice, stopped = err.splitlines()
        assert begun.startswith("Writing to runs/pilot_")
        assert len(advice) == batch  # There is no preflight by batch.
        assert stopped == "tiltyard: stopped"
        assert out == ""
        ran = arranged.done("run", arranged.config)
        assert "Resuming runs/pilot_" in ran.err
        paid = server.settled_tally()["paid_calls"]
    [name] = folders(arranged)
    states = read_columns(tmp_path / "runs" / name / "attempts.parquet")["state"]
    assert states.count("ok") == 24
    assert 24 <= paid <= 24 + states.count("lost") <= 24 + (0 if batch else 4)
    arranged.done("verify", f"runs/{name}")


def test_helping_with_a_run_that_this_ledger_does_not_know_is_refused(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1)
    arranged.done("run", arranged.config, "--output-dir", "out")
    ran = arranged.call("run", "--join", "out", home="elsewhere")
    assert ran.code == 2
    assert "; set TILTYARD_HOME or DATABASE_URL" in ran.err
    ran = arranged.call("run", "--join", "nothing-here")
    assert ran.code == 2
    assert "run in progress" in ran.err
    ran = arranged.done("run", "--join", "out")
    assert "Everything in out" in ran.err
