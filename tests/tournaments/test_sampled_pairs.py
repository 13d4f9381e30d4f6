"""A sample of the pairs: spread, nested, recomputed from the folder."""

from __future__ import annotations

from collections import Counter

import yaml

from support.arranged import arrange, read_lines


def pairs(folder):
    rows = read_lines(folder / "matches" / "matches.jsonl")
    return {(row["dimension"], row["prompt_id"], row["entrant_a"], row["entrant_b"]) for row in rows}


def test_a_larger_sample_pays_only_for_what_is_new(tmp_path, billed):
    arranged = arrange(tmp_path, models=4, prompts=6, judge=billed.judge())
    arranged.done("run", arranged.config, "--sample-pairs", 6, "--output-dir", "six")
    assert billed.since() == 2 * 2 * 6
    six = pairs(tmp_path / "six")
    for name in ("factuality", "calibration"):
        own = [pair[1:] for pair in six if pair[0] == name]
        assert set(Counter(pair[0] for pair in own).values()) == {1}
        assert len({pair[1:] for pair in own}) == 6
    arranged.done("run", arranged.config, "--sample-pairs", 9, "--output-dir", "nine")
    assert six < pairs(tmp_path / "nine")
    assert billed.since() == 2 * 2 * 9
    assert arranged.document("manifest.json", "nine")["sample_pairs"] == 9
    arranged.done("verify", "nine")
    # What the folder says makes the same run again, and the same command resumes it.
    config = yaml.safe_load((tmp_path / "six" / "config.yaml").read_text())
    assert config["modes"]["pilot"]["sample_pairs"] == 6
    arranged.done("run", "six/config.yaml", "--output-dir", "again")
    assert pairs(tmp_path / "again") == six
    arranged.done("run", arranged.config, "--sample-pairs", 6, "--output-dir", "six")
    assert billed.since() == 2 * 2 * 9


def test_the_plan_says_what_a_sample_shows_and_the_file_may_ask_for_it(tmp_path, billed):
    arranged = arrange(tmp_path, models=4, prompts=40, dimensions=1, judge=billed.judge())
    arranged.change(modes={"pilot": {"prompts": "all", "sample_pairs": 60}})

    def detectable(*options):
        return arranged.prepared(**dict(options)).plan, arranged.done(
            "plan", arranged.config, *(word for name, value in options for word in ("--sample-pairs", value))
        ).out

    small, said = detectable()
    assert len(small) == 120
    assert "(95% interval, 40 prompts)" in " ".join(said.split())
    large, more = detectable(("sample_pairs", 240))
    assert len(large) == 480
    points = [int(" ".join(text.split()).split("a difference of ")[1].split()[0]) for text in (said, more)]
    # The whole of 240 pairs shows differences about half as large as a quarter of them.
    assert 1.2 < points[0] / points[1] < 2.1
    first = arranged.prepared(limit_pairs=60, sample_pairs=1000).plan
    assert len({match.prompt_id for match in first.matches.matches}) == 10
