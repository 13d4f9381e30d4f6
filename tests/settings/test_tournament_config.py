"""Configurations: defaults, flags, modes, judges, and what is said of each mistake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tournament_texts import LEAST, config_of
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.settings.tournament_config import (
    SHIPPED,
    PlacementConfig,
    load_config,
    load_placement,
    load_rubric,
    resolve_config,
    with_absolute_paths,
)
from tiltyard.settings.yaml_file import write_yaml

FULL = """\
entrants:
  - entrant_id: heron
    family: ardea
  - {entrant_id: wren, generate: {provider: openai, model: w-1, base_url: "http://localhost:1/v1", options: {top_k: 3}}}
prompts: {bank_path: data/prompts.jsonl}
answers: [a.jsonl, ../b.jsonl]
rubrics: {factuality: {path: rubrics/f.txt}, calibration: }
judge: {provider: anthropic, pilot_model: c-1, prompt_cache: off, max_tokens: 99, family: claude, options: {top_p: 0.5}}
modes:
  pilot: {seed: 3}
  panel:
    judges:
      - c-2
      - {model: c-2, name: again, timeout_seconds: 5, family: other}
      - {model: g-1, provider: openai, api_key_env: MY_KEY}
      - {model: old, provider: replay, base_url: replies.jsonl}
    quorum: 2
    prompts: {sizes: {general: 2, medical: 1}}
checks: {identical: 0}
elo: {n_perms: 7, k_factor_sweep: [4, 8.5]}
overall: {factuality: 2}
anchors: human.jsonl
caches: {responses_dir: answers, judgments_dir: /var/judged}
budget_usd: 2.5
prices: {c-1: {input: 3, output: 15}}
"""


def test_the_least_configuration_has_every_default(tmp_path):
    config = config_of(tmp_path)
    assert config.answers == ("answers.jsonl",)
    assert config.dimensions == ("factuality", "calibration")
    assert list(config.modes) == ["pilot", "headline"]
    assert (config.modes["pilot"].prompts.n, config.modes["pilot"].prewarm) == (50, False)
    assert (config.modes["headline"].prompts.all, config.modes["headline"].prewarm) == (True, True)
    assert config.checks.model_dump() == {
        "identical": 2,
        "truncated": 2,
        "garbage": 2,
        "repeats": 4,
        "planted": 16,
    }
    assert (config.elo.k_factor_sweep, config.elo.default_k) == ((1, 4, 8, 16, 32), 16)
    assert (config.ratings.lean, config.shard_size, config.budget_usd, config.overall) == (
        0.75,
        500,
        None,
        None,
    )
    assert config.at("prompts.jsonl") == tmp_path / "prompts.jsonl"
    assert config.at(os.fspath(tmp_path.parent)) == tmp_path.parent


def test_sections_that_are_named_and_left_empty_have_their_defaults(tmp_path):
    empty = config_of(
        tmp_path, "judge:\nmodes:\nchecks:\nelo:\nratings:\ncaches:\nanchors:\noverall:\nprices:\n"
    )
    assert empty.model_dump() == config_of(tmp_path).model_dump()


def test_flags_go_before_the_file_and_the_file_before_defaults(tmp_path):
    more = "elo: {n_perms: 7}\nbudget_usd: 4\n"
    config = config_of(
        tmp_path, more, elo__n_perms=3, budget_usd=None, elo__default_k=8, caches__judgments_dir="x"
    )
    assert (config.elo.n_perms, config.budget_usd, config.elo.default_k) == (3, 4.0, 8)
    assert config.caches.judgments_dir == "x"


def test_a_flag_that_makes_no_sense_is_named_as_one(tmp_path):
    with pytest.raises(BadConfig, match="number above 0"):
        config_of(tmp_path, "elo: {n_perms: 7}\n", elo__n_perms=0)
    with pytest.raises(BadConfig, match=r"line 5, elo"):
        config_of(tmp_path, "elo: 5\n", elo__n_perms=2)


def test_numbers_that_were_written_whole_stay_whole(tmp_path):
    config = config_of(tmp_path, "elo: {k_factor_sweep: [4, 8.5]}\n")
    assert [str(k) for k in config.elo.k_factor_sweep] == ["4", "8.5"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("judge:\n  max_tokens: x\n", "line 6, judge.max_tokens: expected a whole number above 0, found 'x'"),
        ("judge:\n  max_tokens: 1.5\n", "expected a whole number above 0, found 1.5"),
        ("judge:\n  max_tokens: true\n", "expected a whole number above 0, found true"),
        ("judge:\n  retries: -1\n", "expected a whole number, 0 or more, found -1"),
        ("judge:\n  max_tokns: 5\n", "line 6, judge.max_tokns: unknown field; did you mean max_tokens?"),
        ("judge:\n  batch: yes\n", "judge.batch: expected true or false, found 'yes'"),
        ("judge:\n  form: json\n", "judge.form: expected auto, schema, tool or text, found 'json'"),
        ("judge:\n  prompt_cache: 5\n", "judge.prompt_cache: expected off, 5m or 1h, found 5"),
        ("judge:\n  pilot_model: 5\n", "judge.pilot_model: expected a name"),
        ("judge:\n  timeout_seconds: 0\n", "judge.timeout_seconds: expected a number above 0, found 0"),
        ("judge:\n  options: 3\n", "judge.options: expected fields (name: value), found 3"),
        ("judge:\n  use_batch_apis: true\n", "line 6, judge.use_batch_apis: unknown field; did you mean use_batch_api?"),
        ("judge:\n  use_batch_api: 1\n", "line 6, judge.use_batch_api: expected true or false, found 1"),
        ("judge:\n  batch: true\n  use_batch_api: true\n", "line 7, judge.use_batch_api: says the same as batch"),
        ("judge:\n  position_swap: false\n", "line 6, judge.position_swap: set it to true, or leave it out; orders: random"),
        ("judge: [1, 2]\n", "line 5, judge: expected fields (name: value), found a list of 2"),
        ("Judge: {}\n", "line 5, Judge: unknown field; did you mean judge?"),
        ("<<: {}\n", "line 5, <<: merge keys are not supported"),
        ("modes: {pilot: {judges: 7}}\n", "modes.pilot.judges: expected a list, found 7"),
        ("modes: {pilot: {judges: [{name: a}]}}\n", "line 5, modes.pilot.judges.0.model: missing"),
        ("modes: {x: {judges: [7]}}\n", "modes.x.judges.0: expected fields (name: value), found 7"),
        ("modes: {seed: {sed: 1}}\n", "modes.seed.sed: unknown field; did you mean seed?"),
        ("modes: {pilot: {judges: [{model: a, fmaily: b}]}}\n", "judges.0.fmaily: unknown field; did you mean family?"),
        ("modes: {pilot: {prompts: {n: 0}}}\n", "modes.pilot.prompts.n: expected a whole number above 0, found 0"),
        ("modes: {pilot: {prompts: {n: 1, sizes: {a: 1}}}}\n", "modes.pilot.prompts: expected all, n: a number"),
        ("modes: {pilot: {prompts: some}}\n", "modes.pilot.prompts: expected all, n: a number"),
        ("modes: {pilot: {prompts: {sizes: {}}}}\n", "modes.pilot.prompts.sizes: expected at least 1, found none"),
        ("modes: {pilot: {prompts: {sizes: {a: x}}}}\n", "modes.pilot.prompts.sizes.a: expected a whole number"),
        ("modes: {a b: {}}\n", "modes.a b: expected a name of letters"),
        ("modes: {pilot: 5}\n", "modes.pilot: expected fields (name: value), found 5"),
        ("modes: 5\n", "modes: expected fields (name: value), found 5"),
        ("elo: {k_factor_sweep: []}\n", "elo.k_factor_sweep: expected at least 1, found none"),
        ("elo: {initial_rating: high}\n", "elo.initial_rating: expected a number, found 'high'"),
        ("ratings: {lean: 0.4}\n", "ratings.lean: expected a number from 0.5 to 1, found 0.4"),
        ("ratings: {inconsistent: 2}\n", "ratings.inconsistent: expected half or drop, found 2"),
        ("overall: {style: 1}\n", "line 5, overall.style: no such dimension; known: factuality, calibration"),
        ("overall: {factuality: 0}\n", "overall.factuality: expected a number above 0, found 0"),
        ("budget_usd: -3\n", "budget_usd: expected dollars: a number, 0 or more, found -3"),
        ("prices: {x: {input: -1}}\n", "prices.x.input: expected dollars for a million tokens"),
        ("prices: {x: {input: 0.0000001}}\n", "of at most 6 decimals, found 1e-07"),
        ("prices: {table: {outpt: 1}}\n", "prices.table.outpt: unknown field; did you mean output?"),
        ("prices: 5\n", "prices: expected fields (name: value), found 5"),
        ("shard_size: " + "9" * 80 + ".5\n", "shard_size: expected a whole number above 0, found 1e+80"),
        ("budget_usd: '" + "9" * 80 + "'\n", "9…"),
        ("modes: {'[key]': {}}\n", "line 5, modes.[key]: expected a name of letters"),
        ('anchors: "a\\0b"\n', "anchors.0: expected a path"),
        ("elo: {shuffle_seed: 9223372036854775808}\n", "expected a whole number from 0 to 2**63 - 1"),
        ("anchors: {}\n", "anchors: expected a list, found none"),
        ("anchors: {a: 1}\n", "anchors: expected a list, found fields"),
    ],
)  # fmt: skip
def test_each_mistake_is_said_with_file_line_and_field(tmp_path, more, said):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, more)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'tournament.yaml'}, line ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{entrant_id: wren}", "{entrant_id: heron}", "line 1, entrants: duplicate 'heron'"),
        (", {entrant_id: wren}", "", "line 1, entrants: expected at least 2, found a list of 1"),
        ("entrant_id: wren", "entrant_id: 7", "entrants.1.entrant_id: expected a name"),
        ("entrant_id: wren", "entrant_id: ' wren'", "entrants.1.entrant_id: expected a name"),
        ("entrant_id: wren", "entrant: wren", "entrants.1.entrant_id: missing"),
        ("answers: answers.jsonl\n", "", "line 1, answers: missing; name a file of answers, or caches.responses_dir"),
        ("answers: answers.jsonl\n", "answers: ''\n", "answers.0: expected a path"),
        ("{bank_path: prompts.jsonl}", "{}", "line 2, prompts.bank_path: missing"),
        ("{factuality: , calibration: {}}", "{}", "line 4, rubrics: expected at least 1, found none"),
        ("calibration:", "overall:", "line 4, rubrics.overall: this name is reserved"),
        ("calibration:", "Factuality:", "line 4, rubrics: duplicate 'factuality'"),
        ("calibration:", "../calibration:", "line 4, rubrics.../calibration: expected a name of letters"),
        ("calibration: {}", "calibration: {pth: x}", "rubrics.calibration.pth: unknown field; did you mean path?"),
        (
            "{entrant_id: wren}",
            "{entrant_id: wren, generate: {provider: replay, model: x}}",
            "entrants.1.generate.provider: expected",
        ),
        (
            "{entrant_id: wren}",
            "{entrant_id: wren, generate: {provider: openai, model: x, base_url: localhost}}",
            "entrants.1.generate.base_url: expected an address that begins with http:// or https://, found 'localhost'",
        ),
    ],
)  # fmt: skip
def test_each_mistake_in_what_is_required_is_said(tmp_path, old, new, said):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, least=LEAST.replace(old, new))
    assert said in str(caught.value)


def test_names_with_slashes_are_names(tmp_path):
    least = LEAST.replace("wren", "lab/wren")
    config = config_of(tmp_path, "caches: {responses_dir: x}\n", least=least)
    assert config.entrants[1].entrant_id == "lab/wren"


def test_the_first_three_mistakes_are_said_and_the_rest_counted(tmp_path):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, "judge: {batch: 1, retries: x, form: y, concurrency: 0, famly: 1}\n")
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0].split(", ")[-1] for line in lines[:3]] == [
        "judge." + x for x in ("batch", "concurrency", "retries")
    ]
    assert lines[3:] == ["… and 2 more"]


def test_a_key_in_the_place_of_its_variable_is_not_repeated(tmp_path):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, "judge: {api_key_env: sk-ant-secret}\n")
    assert "variable" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("headers: {Authorization: x}", "headers_env"),
        ("headers: {X-Api-Key: x}", "headers_env"),
        ("headers: {my_token: x}", "headers_env"),
        ("query: {key: x}", "query_env"),
        ("query: {sig: x}", "query_env"),
        ("headers: {Content-Length: '3'}", "it is set for each request"),
        ("headers_env: {host: MINE}", "it is set for each request"),
        ("headers: {'a b': x}", "the name of a header"),
        ('headers: {a: "x\\ny"}', "the value of a header"),
        ("headers: {a: 3}", "the value of a header"),
        ("headers: {a: x}, headers_env: {A: MINE}", "a is set twice"),
        ("query: {a: x}, query_env: {a: MINE}", "a is set twice"),
        ("headers_env: {a: sk-very-secret}", "the name of a variable"),
        ("query_env: {a: sk-very-secret}", "the name of a variable"),
        ("path: chat", "begins with '/'"),
        ("path: '/chat?key=1'", "begins with '/'"),
        ("api_key_header: 'a:b'", "the name of a header"),
    ],
)
def test_a_route_that_cannot_be_sent_or_holds_a_key_is_refused(tmp_path, more, said):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, f"judge: {{{more}}}\n")
    assert said in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_headers_that_are_no_keys_are_taken(tmp_path):
    config_of(
        tmp_path,
        "judge: {headers: {X-Title: t, anthropic-beta: b, x-monkey: c, HTTP-Referer: 'https://x'}}\n",
    )


ROUTED = """\
judge:
  provider: openai
  base_url: http://gateway/v1
  headers: {X-Team: a}
  headers_env: {X-Key: GATEWAY_KEY}
  query: {v: "1"}
  path: /chat
modes:
  x: {judges: [same, {model: elsewhere, base_url: "http://other/v1"}, {model: c, provider: anthropic}]}
"""


def test_a_route_is_inherited_with_its_address_only(tmp_path):
    same, elsewhere, other = config_of(tmp_path, ROUTED).mode("x").judges
    assert (same.headers, same.headers_env, same.path) == ({"X-Team": "a"}, {"X-Key": "GATEWAY_KEY"}, "/chat")
    for judge in (elsewhere, other):
        assert (judge.headers, judge.headers_env, judge.query, judge.path) == ({}, {}, {}, None)


def test_a_mode_has_complete_judges(tmp_path):
    mode = config_of(tmp_path, least=FULL).mode("panel")
    first, again, other, replayed = mode.judges
    assert (first.name, first.model, first.max_tokens, first.api_key_env) == (
        "c-2",
        "c-2",
        99,
        "ANTHROPIC_API_KEY",
    )
    assert (first.family, first.options, first.ttl) == ("claude", {"top_p": 0.5}, None)
    assert (again.name, again.timeout_seconds, again.family) == ("again", 5.0, "other")
    assert (other.provider, other.api_key_env, other.family, other.options) == ("openai", "MY_KEY", None, {})
    assert (replayed.base_url, replayed.api_key_env) == ("replies.jsonl", None)
    assert (mode.quorum, mode.prompts.sizes) == (2, {"general": 2, "medical": 1})


FOREIGN = """\
zzz: {}
'[key]': 1
judge: {use_batch_api: true, use_prompt_caching: true, position_swap: true, pilot_model: c-1, stars: 5}
modes: {x: {judges: [{model: a, temper: 1}, {model: b, temper: 2}], weather: fine}}
prices: {c-1: {input: 3, output: 15, colour: red}}
"""


def test_fields_of_other_tools_are_ignored_and_named(tmp_path):
    config = config_of(tmp_path, FOREIGN)
    foreign = {
        "zzz",
        "[key]",
        "judge.stars",
        "modes.x.judges.*.temper",
        "modes.x.weather",
        "prices.c-1.colour",
    }
    assert set(config.ignored) == foreign
    assert all(name in config.warning for name in foreign)
    mode = config.mode("pilot")
    assert [(judge.batch, judge.prompt_cache) for judge in mode.judges] == [(True, "1h")]
    assert config_of(tmp_path).ignored == ()
    (tmp_path / "again.yaml").write_text(write_yaml(resolve_config(config, mode)))
    assert load_config(tmp_path / "again.yaml").ignored == ()


def test_synonyms_can_be_false(tmp_path):
    judge = config_of(tmp_path, "judge: {use_batch_api: false, use_prompt_caching: false}\n").judge
    assert (judge.batch, judge.prompt_cache) == (False, "off")


def test_paths_are_relative_to_the_file_or_else_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("a/configs", "a/data", "b"):
        (tmp_path / folder).mkdir(parents=True)
    config = config_of(tmp_path / "a/configs", "caches: {judgments_dir: a/judged}\nprices: b/prices.yaml\n")
    for name in ("a/data/x", "a/configs/y", "y", "b/prices.yaml"):
        (tmp_path / name).write_text("models: {m: {input: 1, output: 2}}\n")
    assert config.at("a/data/x") == Path("a/data/x")
    assert config.at("y") == tmp_path / "a/configs/y"
    # What does not exist yet is created where more of its path exists.
    assert (config.at("a/data/new"), config.at("new")) == (Path("a/data/new"), tmp_path / "a/configs/new")
    mode = config.mode("pilot", "m")
    (tmp_path / "run").mkdir()
    moved = resolve_config(config, mode, tmp_path / "run")
    assert moved["caches"]["judgments_dir"] == "../a/judged"
    assert moved["prices"] == "../b/prices.yaml"


def test_the_seeds_keys_name_the_judges_of_the_two_modes(tmp_path):
    config = config_of(tmp_path, "judge: {pilot_model: small, headline_model: large, prompt_cache: 1h}\n")
    assert [judge.model for judge in config.mode("pilot").judges] == ["small"]
    assert [judge.model for judge in config.mode("headline").judges] == ["large"]
    assert config.mode("pilot").judges[0].ttl == "1h"
    stated = config_of(tmp_path, "judge: {pilot_model: small}\nmodes: {pilot: {judges: [other]}}\n")
    assert [judge.model for judge in stated.mode("pilot").judges] == ["other"]


def test_another_judge_may_be_named_for_one_run(tmp_path):
    config = config_of(
        tmp_path,
        "judge: {pilot_model: small, family: mine}\n"
        "modes: {one: {judges: [{model: a, name: b, family: c, max_tokens: 7}], quorum: 1},"
        " panel: {judges: [{model: a, max_tokens: 7}, b, c], quorum: 3}}\n",
    )
    assert [j.model for j in config.mode("pilot", "big").judges] == ["big"]
    assert [j.model for j in config.mode("headline", "big").judges] == ["big"]
    alone = config.mode("one", "big").judges[0]
    assert (alone.name, alone.model, alone.max_tokens, alone.family) == ("big", "big", 7, "mine")
    panel = config.mode("panel", "big")
    assert ([j.max_tokens for j in panel.judges], panel.quorum) == ([16_384], 1)


def test_a_quorum_is_a_majority_unless_it_is_stated(tmp_path):
    for n, quorum in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3)):
        judges = ", ".join(f"j{k}" for k in range(n))
        assert config_of(tmp_path, f"modes: {{x: {{judges: [{judges}]}}}}\n").mode("x").quorum == quorum


@pytest.mark.parametrize(
    ("more", "name", "said"),
    [
        ("modes: {mine: {}}\n", "theirs", "unknown mode 'theirs'; known: pilot, headline, mine"),
        ("", "pilot", "mode pilot has no judge; set judge.pilot_model or modes.pilot.judges"),
        ("modes: {mine: {}}\n", "mine", "mode mine has no judge; set modes.mine.judges"),
        ("modes: {x: {judges: [a, a]}}\n", "x", "line 5, modes.x.judges: duplicate judge name 'a'"),
        ("modes: {x: {judges: [a], quorum: 2}}\n", "x", "line 5, modes.x.quorum: expected at most the number of judges"),
        ("modes: {x: {judges: [{model: a, provider: replay}]}}\n", "x", "judge a: replay needs base_url"),
        ("judge: {base_url: here}\nmodes: {x: {judges: [a]}}\n", "x", "begins with http:// or https://, found 'here'"),
        ("judge: {base_url: 'http://u:p@h/v1'}\nmodes: {x: {judges: [a]}}\n", "x", "an address without a password"),
    ],
)  # fmt: skip
def test_a_mode_that_cannot_be_run_says_why(tmp_path, more, name, said):
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, more).mode(name)
    assert said in str(caught.value)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("name", ["pilot", "panel"])
def test_the_resolved_configuration_makes_the_same_run(tmp_path, name):
    config = config_of(tmp_path, least=FULL)
    document = resolve_config(config, config.mode(name))
    assert json.loads(json.dumps(document)) == document
    assert str(tmp_path) not in json.dumps(document)
    again = tmp_path / "again.yaml"
    again.write_text(write_yaml(document), encoding="utf-8")
    read = load_config(again)
    assert read.mode(name) == config.mode(name)
    assert resolve_config(read, read.mode(name)) == document


def test_a_resolved_configuration_keeps_the_judge_that_was_named_for_the_run(tmp_path):
    config = config_of(tmp_path, least=FULL, elo__n_perms=11)
    mode = config.mode("panel", "big")
    again = tmp_path / "again.yaml"
    again.write_text(write_yaml(resolve_config(config, mode)), encoding="utf-8")
    assert load_config(again).mode("panel") == mode
    assert load_config(again).elo.n_perms == 11


def test_a_resolved_configuration_can_be_moved_to_another_folder(tmp_path):
    config = config_of(tmp_path, least=FULL)
    folder = tmp_path / "runs" / "panel_1"
    folder.mkdir(parents=True)
    document = resolve_config(config, config.mode("panel"), beside=folder)
    (folder / "config.yaml").write_text(write_yaml(document), encoding="utf-8")
    moved = load_config(folder / "config.yaml")
    for path in ("data/prompts.jsonl", "a.jsonl"):
        assert any(
            moved.at(other).resolve() == config.at(path).resolve()
            for other in (moved.prompts.bank_path, *moved.answers)
        )
    replayed = moved.mode("panel").judges[3].base_url
    assert replayed is not None
    assert moved.at(replayed).resolve() == config.at("replies.jsonl").resolve()
    assert moved.caches.judgments_dir == "/var/judged"
    assert moved.rubrics["calibration"].path is None
    assert moved.entrants[1].generate is not None
    assert moved.entrants[1].generate.base_url == "http://localhost:1/v1"


def test_paths_of_unknown_users_stay_as_they_are(tmp_path):
    config = config_of(
        tmp_path, "prices: prices.yaml\nanchors: ~no-such-user/a.jsonl\njudge: {pilot_model: x}\n"
    )
    (tmp_path / "prices.yaml").write_text("models: {}\n")
    assert config.at(config.anchors[0]) == tmp_path / "~no-such-user/a.jsonl"
    document = resolve_config(config, config.mode("pilot"), beside=tmp_path / "runs")
    assert (document["anchors"], document["prices"]) == (["../~no-such-user/a.jsonl"], "../prices.yaml")


def test_no_key_is_part_of_a_resolved_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    config = config_of(tmp_path, least=FULL)
    text = write_yaml(resolve_config(config, config.mode("panel")))
    assert "ANTHROPIC_API_KEY" in text
    assert "sk-very-secret" not in text


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab/ é", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
known = st.sampled_from(
    ["entrants", "prompts", "answers", "rubrics", "judge", "modes", "checks", "elo", "ratings", "overall", "anchors",
     "caches", "budget_usd", "prices", "shard_size"]
)  # fmt: skip
inner_names = st.sampled_from(
    ["pilot", "judges", "model", "n", "sizes", "path", "options", "input", "k_factor_sweep"]
)


@given(
    st.dictionaries(
        known, junk | st.dictionaries(inner_names, junk | st.dictionaries(inner_names, junk)), max_size=4
    )
)
def test_whatever_stands_in_a_configuration_it_is_read_or_bad_config(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("fuzz")
    whole = {
        "entrants": [{"entrant_id": "a"}, {"entrant_id": "b"}],
        "prompts": {"bank_path": "p"},
        "answers": "a",
        "rubrics": {"factuality": None},
        **changes,
    }
    (folder / "x.yaml").write_text(write_yaml(whole), encoding="utf-8")
    try:
        config = load_config(folder / "x.yaml")
        mode = config.mode("pilot", "judge")
    except BadConfig as error:
        said = str(error)
    else:
        (folder / "y.yaml").write_text(write_yaml(resolve_config(config, mode)), encoding="utf-8")
        assert load_config(folder / "y.yaml").mode("pilot") == mode
        said = "x.yaml"
    assert "x.yaml" in said


@pytest.mark.parametrize("dimension", SHIPPED)
def test_shipped_rubrics_are_found_by_name(tmp_path, dimension):
    config = config_of(tmp_path, least=LEAST.replace("factuality: , calibration: {}", f"{dimension}: "))
    rubric = load_rubric(config, dimension)
    assert (rubric.dimension, rubric.version) == (dimension, "v1")


def test_rubrics_of_ones_own_are_read_beside_the_configuration(tmp_path):
    config = config_of(tmp_path, least=LEAST.replace("calibration: {}", "style: {path: s.txt}, plain: "))
    with pytest.raises(BadConfig, match="line 4"):
        load_rubric(config, "style")
    with pytest.raises(BadConfig, match="line 4"):
        load_rubric(config, "plain")
    (tmp_path / "s.txt").write_text("# version: v7\nWhich reads better?\n", encoding="utf-8")
    assert load_rubric(config, "style").version == "v7"
    (tmp_path / "s.txt").write_bytes(b"# version: v7\n\xff\n")
    with pytest.raises(UnreadableFile, match="not UTF-8"):
        load_rubric(config, "style")
    Path(tmp_path / "s.txt").unlink()
    (tmp_path / "s.txt").mkdir()
    with pytest.raises(UnreadableFile, match="cannot be read"):
        load_rubric(config, "style")


# The configuration of a placement.


def load_place(folder, text):
    (folder / "place.yaml").write_text(text)
    return load_placement(folder / "place.yaml")


def test_without_a_file_everything_has_its_default():
    assert load_placement(None) == PlacementConfig()


def test_an_empty_file_and_empty_sections_have_their_defaults(tmp_path):
    assert load_place(tmp_path, "judge:\nchecks:\nelo:\nratings:\ncaches:\n") == PlacementConfig()
    assert load_place(tmp_path, "{}") == PlacementConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("judge:\n  provider: nobody\n", "place.yaml, line 2, judge.provider: expected"),
        ("entrants: []\n", "unknown field"),
        ("judge: {concurency: 3}\n", "did you mean concurrency?"),
        ("checks:\n  repeats: -1\n", "line 2"),
        ("generate: {provider: openai}\n", "generate.model: missing"),
        ("generate: {provider: openai, model: x, base_url: localhost}\n", "expected an address"),
        ("judge: [\n", "place.yaml"),
    ],
)
def test_what_is_wrong_of_a_placement_is_named_with_file_line_and_field(tmp_path, text, problem):
    with pytest.raises(BadConfig) as error:
        load_place(tmp_path, text)
    assert "place.yaml" in str(error.value)
    assert problem in str(error.value)


def test_paths_still_lead_to_the_same_files_from_elsewhere(tmp_path):
    config = load_place(
        tmp_path,
        """\
judge: {provider: replay, base_url: replies.jsonl, headline_model: x}
prices: prices.yaml
caches: {judgments_dir: ../ledgers, responses_dir: /abs/responses}
""",
    )
    document = with_absolute_paths(config.model_dump(mode="json"), tmp_path)
    assert document["judge"]["base_url"] == str(tmp_path / "replies.jsonl")
    assert document["prices"] == str(tmp_path / "prices.yaml")
    assert document["caches"]["judgments_dir"] == str(tmp_path.parent / "ledgers")
    assert document["caches"]["responses_dir"] == "/abs/responses"


def test_addresses_and_tables_are_left_alone(tmp_path):
    config = load_place(
        tmp_path,
        """\
judge: {provider: openai, base_url: "http://localhost:1/v1"}
generate: {provider: openai, model: m, base_url: "http://localhost:2/v1"}
prices: {m: {input: 1, output: 2}}
""",
    )
    document = with_absolute_paths(config.model_dump(mode="json"), tmp_path)
    assert document["judge"]["base_url"] == "http://localhost:1/v1"
    assert document["generate"]["base_url"] == "http://localhost:2/v1"
    assert document["prices"]["m"]["input"] == 1
    assert document["caches"] == {"responses_dir": None, "judgments_dir": None}
