"""Forgeries that fit together: rows that were never written, and a configuration that the run did not use."""

import json
from dataclasses import replace

from support.judged_runs import anchored_run
from support.tournament_forgeries import edit
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.runs.tournament_files import write_judged_run
from tiltyard.settings.yaml_file import write_yaml


def fewer(keep):
    """The folder of a run whose rows were left out before anything was written: all of it fits together."""

    def forge(run):
        whole = anchored_run(run.parent)
        kept = {
            one.question.id for name in whole.dimensions for one in whole.judged(name) if keep(one.question)
        }
        some = replace(
            whole,
            judged=lambda name: (one for one in whole.judged(name) if one.question.id in kept),
            attempts=lambda: (row for row in whole.attempts() if row["question_id"] in kept),
        )
        write_judged_run(run, some)

    return forge


def is_match(question, *models):
    return question.purpose is QuestionPurpose.MATCH and {question.first, question.second} >= set(models)


def configured(change):
    """Another configuration, in the manifest and beside it: the run did not use it."""

    def forge(run):
        edit("manifest.json", lambda document: change(document["config"]))(run)
        document = json.loads((run / "manifest.json").read_text())
        (run / "config.yaml").write_text(write_yaml(document["config"]))

    return forge


def setting(*place, value):
    def change(config):
        for name in place[:-1]:
            config = config[name]
        config[place[-1]] = value

    return configured(change)


LEFT_OUT = {
    "half the matches of a model": fewer(lambda question: not is_match(question, "ash") or question.prompt_id > "p00003"),
    "the matches of two models": fewer(lambda question: not is_match(question, "ash", "cedar")),
    "one order of a match": fewer(lambda question: not (is_match(question, "ash", "cedar") and question.prompt_id == "p00001" and question.order)),
    "one judge of a match": fewer(lambda question: not (is_match(question, "ash", "birch") and question.prompt_id == "p00007" and question.judge == "judge-two")),
    "all but the planted questions": fewer(lambda question: question.purpose is not QuestionPurpose.MATCH),
    "the last match": fewer(lambda question: not (is_match(question, "birch", "cedar") and question.prompt_id == "p00007")),
    "planted questions and repeats": fewer(lambda question: question.purpose is QuestionPurpose.MATCH),
    "identical responses": fewer(lambda question: question.purpose is not QuestionPurpose.IDENTICAL),
    "cut responses": fewer(lambda question: question.purpose is not QuestionPurpose.TRUNCATED),
    "shuffled responses": fewer(lambda question: question.purpose is not QuestionPurpose.GARBAGE),
    "repeats": fewer(lambda question: question.purpose is not QuestionPurpose.REPEAT),
    "the repeats of one judge": fewer(lambda question: question.purpose is not QuestionPurpose.REPEAT or question.judge != "judge-two"),
    "everything": fewer(lambda _: False),
}  # fmt: skip


CONFIGURED = {
    "a configured entrant": setting("entrants", 0, "entrant_id", value="maple"),
    "entrants in another order": configured(lambda config: config["entrants"].reverse()),
    "the configured family": setting("entrants", 1, "family", value="acme"),
    "a weight of a dimension that is not there": configured(lambda config: config["overall"].update(beauty=1.0)),
    "a configured rubric": setting("rubrics", "charm", value={"path": None}),
    "a configured judge": setting("modes", "pilot", "judges", 0, "name", value="judge-three"),
    "the configured model of a judge": setting("modes", "pilot", "judges", 0, "model", value="better"),
    "the configured family of a judge": setting("modes", "pilot", "judges", 0, "family", value=None),
    "a judge more": configured(lambda config: config["modes"]["pilot"]["judges"].append({"name": "j", "model": "j", "family": None})),
    "the configured quorum": setting("modes", "pilot", "quorum", value=1),
    "the configured limit": setting("modes", "pilot", "limit_pairs", value=3),
    "the configured sample": setting("modes", "pilot", "sample_pairs", value=3),
    "the configured seed": setting("modes", "pilot", "seed", value=7),
    "another mode": configured(lambda config: config["modes"].update(headline=config["modes"].pop("pilot"))),
    "modes that are none": setting("modes", value=[]),
    "the configured permutations": setting("elo", "n_perms", value=100),
    "the configured shuffle seed": setting("elo", "shuffle_seed", value=1),
    "the configured K": setting("elo", "default_k", value=64),
    "a K that is none": setting("elo", "default_k", value="much"),
    "the configured start": setting("elo", "initial_rating", value=1000),
    "the configured sweep": setting("elo", "k_factor_sweep", value=[4, 8, 16, 32]),
    "the configured lean": setting("ratings", "lean", value=1.0),
    "a lean of nothing": setting("ratings", "lean", value=None),
    "what inconsistent results should count": setting("ratings", "inconsistent", value="drop"),
    "the configured replicates": setting("ratings", "n_bootstraps", value=100),
    "the configured seed of the ratings": setting("ratings", "seed", value=9),
    "a setting left out": configured(lambda config: config["ratings"].pop("seed")),
    "the configured weights": setting("overall", "factuality", value=0.9),
    "weights that nobody stated": setting("overall", value=None),
    "the configured anchors": setting("anchors", value=[]),
    "more planted questions": setting("checks", "identical", value=3),
    "fewer repeats": setting("checks", "repeats", value=1),
    "no checks": setting("checks", value=dict.fromkeys(("identical", "truncated", "garbage", "repeats"), 0)),
    "checks that are none": setting("checks", value="many"),
    "half the checks": configured(lambda config: config["checks"].pop("garbage")),
}  # fmt: skip
