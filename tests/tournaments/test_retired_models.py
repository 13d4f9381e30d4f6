"""Models that are served no more in the middle of a run: retired, without credit, or rate limited for long."""

from __future__ import annotations

from collections import Counter

import pytest

from support.arranged import PRICES, arrange

#: What the user is told to do.
ADVICE = {
    "retired": "the model was retired: check base_url and model, or choose another model",
    "gone": "the model was retired: check base_url and model, or choose another model",
    "no credit": "the account has no credit: add some, then run again",
    "an hour": "it asks to wait for 60 minutes: run the command again after that",
}
SERVED, MOST_REFUSED = 11, 12
MODELS = ("mortal", "other", "third")


def stop(billed, how, model="mortal", after=SERVED):
    billed.server.change(stops_after=after, stops_model=model, stops_with=how)


def refused(billed) -> int:
    now, before = billed.server.settled_tally()["faults"], billed.before["faults"]
    return now.get("stopped", 0) - before.get("stopped", 0)


def judged(folder, judge, **sections):
    prices = dict.fromkeys(MODELS, PRICES)
    return arrange(folder, dimensions=1, prompts=8, judge=judge, prices=prices, **sections)


@pytest.mark.slow(but="anthropic-no credit")
@pytest.mark.parametrize("how", list(ADVICE))
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_run_stops_early_says_why_and_is_resumed(tmp_path, billed, provider, how):
    judge = billed.judge(provider, pilot_model="mortal", concurrency=4)
    arranged = judged(tmp_path, judge, shard_size=10)
    stop(billed, how)
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 3
    assert "resume. Errors" in ran.err
    assert ran.err.count(", model mortal: status ") == 1
    assert ADVICE[how] in ran.err
    assert 8 <= refused(billed) <= MOST_REFUSED
    assert Counter(row["state"] for row in arranged.verdicts())["ok"] == SERVED == billed.since()
    arranged.done("verify", "out")
    # Still so: it is found out at once, and nothing is lost.
    stop(billed, how, after=0)
    again = arranged.call("run", arranged.config, "--output-dir", "out")
    assert (again.code, ADVICE[how] in again.err) == (3, True)
    assert refused(billed) <= 2 * MOST_REFUSED
    billed.server.change(stops_after=None)
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    assert billed.since() == len(arranged.verdicts()) == 48
    arranged.done("verify", "out")


@pytest.mark.slow
def test_another_judge_judges_everything_and_the_first_folder_stays(tmp_path, billed):
    arranged = judged(tmp_path, billed.judge(pilot_model="mortal", concurrency=4))
    stop(billed, "retired")
    assert arranged.call("run", arranged.config, "--output-dir", "out").code == 3
    refusing = arranged.call("run", arranged.config, "--judge-model", "other", "--output-dir", "out")
    assert (refusing.code, "new folder" in refusing.err) == (2, True)
    arranged.done("run", arranged.config, "--judge-model", "other", "--output-dir", "new")
    assert billed.since() == SERVED + 48
    assert Counter(row["state"] for row in arranged.verdicts())["ok"] == SERVED


@pytest.mark.slow
def test_the_other_judges_of_a_panel_go_on_and_a_successor_pays_for_itself_only(tmp_path, billed):
    panel = {"pilot": {"judges": list(MODELS), "prompts": "all"}}
    arranged = judged(tmp_path, billed.judge(concurrency=4), modes=panel)
    stop(billed, "retired")
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 3
    assert ", model mortal: status 404" in ran.err
    assert refused(billed) <= MOST_REFUSED
    states = Counter((row["judge_model"], row["state"]) for row in arranged.verdicts())
    assert (states["mortal", "ok"], states["other", "ok"], states["third", "ok"]) == (SERVED, 48, 48)
    # Two of three are a quorum.
    assert len((tmp_path / "out" / "battles.jsonl").read_text().splitlines()) == 24
    arranged.done("verify", "out")
    heirs = {"pilot": {"judges": ["any", "other", "third"], "prompts": "all"}}
    arranged.change(modes=heirs).done("run", arranged.config, "--output-dir", "new")
    assert billed.since() == SERVED + 3 * 48
    arranged.done("verify", "new")
