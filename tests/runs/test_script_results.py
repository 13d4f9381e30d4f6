"""Elo, its traces, the sweep of K and the counts of pairs, once more by a script that shares no code."""

import io
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

from support import script_results
from support.judged_runs import document, failed, made_run, written
from support.paper_tournament import DIMENSIONS, ENTRANTS, make_paper_tournament
from tiltyard.cli.run import show_elo
from tiltyard.core.judging.matches import Prompt
from tiltyard.files.answer import Answer
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.verdict_pass import (
    HumanVotes,
    ResponseIndex,
    VerdictPass,
    answers_of,
    elo_archive,
    elo_document,
)


def same(found, expected):
    """Equal to 1e-9, and NaN where null is written."""
    assert found.keys() >= expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert list(found[name]) == list(value)
            same(found[name], value)
        elif isinstance(value, float):
            assert (np.nan if found[name] is None else found[name]) == pytest.approx(
                value, abs=1e-9, rel=0, nan_ok=True
            )
        else:
            assert found[name] == value


def same_arrays(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        if name.endswith("__entrants"):
            assert found[name].tolist() == values.tolist()
        else:
            assert found[name].dtype == np.float64
            np.testing.assert_allclose(found[name], values, atol=1e-9, rtol=0)


@pytest.fixture(scope="module")
def paper_run(tmp_path_factory):
    """The folder of a tournament in the paper's shape: three rubrics, four entrants."""
    root = tmp_path_factory.mktemp("paper")
    paper = make_paper_tournament(root)
    bank = [
        Prompt(
            one["prompt_id"],
            one["text"],
            one["source"],
            gold=one["gold_answer"],
            expected_behavior=one["expected_behavior"],
        )
        for one in paper.prompts
    ]
    texts = {prompt.prompt_id: prompt.text for prompt in bank}
    answers = [
        Answer(prompt_id=prompt_id, prompt=texts[prompt_id], model=model, response=response)
        for (model, prompt_id), response in paper.responses.items()
    ]
    elo = paper.document["elo"]
    run = made_run(
        prompts=bank,
        answers=answers,
        models=ENTRANTS,
        dimensions=DIMENSIONS,
        n_bootstraps=0,
        n_perms=100,
        shuffle_seed=elo["shuffle_seed"],
        k_sweep=tuple(elo["k_factor_sweep"]),
    )
    return paper, written(root, run)


def test_the_fixture_has_the_results_of_the_script(paper_run, capsys):
    paper, folder = paper_run
    judgments = script_results.read_judgments(folder, DIMENSIONS)
    elo = paper.document["elo"]
    results, arrays = script_results.elo(
        judgments, 16.0, elo["k_factor_sweep"], 1400.0, 100, elo["shuffle_seed"]
    )
    same(document(folder, "elo_results.json"), results)
    with np.load(folder / "elo_per_perm.npz", allow_pickle=False) as archive:
        same_arrays(archive, arrays)
    text = (folder / "pairwise_winrates.csv").read_text(encoding="utf-8")
    assert script_results.read_winrates(text) == script_results.winrates(judgments)
    show_elo(SimpleNamespace(out=folder))
    assert capsys.readouterr().out.startswith(f"{script_results.table(results)}\n\n")
    assert sum(results["n_decisive_matches"].values()) > 2 * len(paper.prompts)
    assert failed(verify_run(folder)) == []


def settled(run):
    """The manifest, and the tally of the run's judgments with its rows."""
    manifest = run.draft
    responses = ResponseIndex(answers_of(run), manifest.entrants, manifest.families)
    gathering = VerdictPass(manifest, responses, HumanVotes((), manifest.entrants))
    return manifest, gathering


def random_tournament(draw):
    """A run with models in any order, now and then without responses, ties or verdicts."""
    models = draw.sample(["ash", "birch", "Cedar", "dill,9", "élan"], draw.randint(2, 5))
    missing = [(name, f"p{draw.randrange(4):05d}") for name in models if draw.random() < 0.3]
    judges = draw.choice([("one",), ("one",), ("one", "two", "three")])
    return made_run(
        prompts=draw.randint(1, 4),
        models=models,
        dimensions=draw.sample(["tone", "facts", "a rubric"], draw.randint(1, 3)),
        judges=judges,
        missing=missing,
        checks=draw.randint(0, 1),
        limit_pairs=draw.choice([None, None, 1, 5]),
        n_perms=draw.randint(1, 6),
        shuffle_seed=draw.randrange(2**32),
        initial_rating=draw.choice([None, 1000.0, 1500]),
        default_k=draw.choice([16, 24.0, 1]),
        k_sweep=draw.choice([(1, 4, 8, 16, 32), (0.5, 20)]),
    )


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("seed", range(20))
def test_ten_random_tournaments_have_the_results_of_the_script(seed):
    draw = random.Random(seed)
    for _ in range(10):
        run = random_tournament(draw)
        manifest, gathering = settled(run)
        judgments = {}
        for name in run.dimensions:
            matches = [match for match in run.matches.matches if match.dimension == name]
            rows = [gathering.judgment_row(*pair) for pair in gathering.settle(matches, run.judged(name))]
            judgments[name] = json.loads(json.dumps(rows))
            if len(manifest.judges) == 1:
                assert [(row["winner"], row["inconsistent"]) for row in rows] == [
                    script_results.reconciled(row["raw"]) for row in rows
                ]
            places = [
                manifest.entrants.index(row["entrant_a"]) - manifest.entrants.index(row["entrant_b"])
                for row in rows
            ]
            assert all(place < 0 for place in places)
        elo = run.config["elo"]
        start = 1400.0 if elo["initial_rating"] is None else float(elo["initial_rating"])
        results, arrays = script_results.elo(
            judgments,
            float(elo["default_k"]),
            elo["k_factor_sweep"],
            start,
            elo["n_perms"],
            elo["shuffle_seed"],
        )
        method, tally = manifest.elo_method(), gathering.judgments
        rated = tally.rate(method)
        same(elo_document(method, rated, tally.decisive_counts()), results)
        with np.load(io.BytesIO(elo_archive(rated)), allow_pickle=False) as archive:
            same_arrays(archive, arrays)
        assert script_results.read_winrates(tally.winrates()) == script_results.winrates(judgments)
