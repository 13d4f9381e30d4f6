"""Documents of Every Eval Ever: what version 0.3.0 of its schema asks of the fields that we write, in our own words.

The whole schema is every_eval_ever/schemas/eval.schema.json of github.com/evaleval/every_eval_ever (MIT); its SHA-256
at commit 9bce413 begins with 215f04c9a0d7.
"""

import json

from jsonschema import Draft202012Validator

import tiltyard
from support.command import run
from tiltyard.files import write_battles
from tiltyard.simulation.demo.demo_roster import demo_battles


def required(**fields):
    """An object with all of these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": sorted(fields),
        "additionalProperties": False,
    }


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
INTERVAL = required(
    lower=NUMBER, upper=NUMBER, confidence_level={"type": "number", "minimum": 0, "maximum": 1}, method=TEXT
)
METRIC = required(metric_id=TEXT, metric_kind=TEXT, metric_unit=TEXT, lower_is_better={"type": "boolean"})
SCORE = required(
    score=NUMBER,
    details={"type": "object", "additionalProperties": TEXT},
    uncertainty=required(confidence_interval=INTERVAL),
)
RESULT = required(
    evaluation_name=TEXT,
    source_data=required(dataset_name=TEXT, source_type={"const": "other"}),
    metric_config=METRIC,
    score_details=SCORE | {"required": ["score"]},
)
DEPLOYMENT = required(
    deployment_type={"enum": ["self_deployed", "externally_managed", "unknown"]},
    model_availability={"enum": ["open_weights", "closed_weights", "unknown"]},
)
SCHEMA = required(
    schema_version={"const": "0.3.0"},
    evaluation_id=TEXT,
    retrieved_timestamp={"type": "string", "pattern": r"^\d+$"},
    source_metadata=required(
        source_type={"enum": ["documentation", "evaluation_run"]},
        source_organization_name=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
    ),
    eval_library=required(name=TEXT, version=TEXT),
    model_info=required(name=TEXT, id=TEXT, additional_details=DEPLOYMENT),
    evaluation_results={"type": "array", "items": RESULT, "minItems": 1},
)


def exported(folder, *options):
    write_battles(folder / "battles.jsonl", demo_battles(300))
    ran = run("rate", str(folder / "battles.jsonl"), "--every-eval-ever", str(folder / "logs"), *options)
    assert ran.code == 0, ran.err
    logs = [json.loads(path.read_text()) for path in (folder / "logs").glob("*.json")]
    for log in logs:
        Draft202012Validator(SCHEMA).validate(log)
    return {log["model_info"]["name"]: log for log in logs}


def test_each_model_has_a_document_with_its_rating_and_interval(tmp_path):
    logs = exported(tmp_path, "--arena", "Demo", "--by", "category")
    board = tiltyard.rate(tmp_path / "battles.jsonl")
    assert len(logs) == len(board)
    for model, log in logs.items():
        whole, *groups = log["evaluation_results"]
        assert whole["score_details"]["score"] == board[model].rating
        assert whole["score_details"]["uncertainty"]["confidence_interval"]["upper"] == board[model].high
        assert {one["evaluation_name"] for one in groups} >= {"Demo: maths"}


def test_ratings_without_intervals_say_nothing_of_their_uncertainty(tmp_path):
    logs = exported(tmp_path, "--intervals", "none")
    assert all("uncertainty" not in log["evaluation_results"][0]["score_details"] for log in logs.values())
    battles = str(tmp_path / "battles.jsonl")
    broken = run("rate", battles, "--every-eval-ever", battles)
    assert (broken.code, "cannot write" in broken.err) == (2, True)
