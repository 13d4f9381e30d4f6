"""What is written in a tournament's folder is described in the reference."""

import json
import re
from pathlib import Path

import pytest

from tiltyard.runs.tournament_files import expected_files
from tiltyard.runs.tournament_manifest import ATTEMPT_COLUMNS, TournamentManifest
from tiltyard.runs.verdict_pass import PAIR_COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "artifacts.md"

#: Fields whose keys are names from the data, or whose content is described elsewhere.
NAMED = {"groups", "primary", "k_sensitivity", "n_decisive_matches", "choices", "overall_weights"}
NAMED |= {"matches", "missing_responses"}
ELSEWHERE = {"values", "parameters", "estimate", "states", "labels"}


@pytest.fixture(scope="module")
def documented():
    text = PAGE.read_text(encoding="utf-8").partition("## The folder of a tournament")[2]
    earlier = PAGE.read_text(encoding="utf-8")
    found = set(re.findall(r"`([^`\n]+)`", text + earlier))
    return found | {name.split(".")[-1] for name in found}


def fields(document, *, named=False):
    """The names of all fields; where ``named``, the keys are names from the data instead."""
    for key, value in document.items():
        if not named:
            yield key
        inside = [] if key in ELSEWHERE else value if isinstance(value, list) else [value]
        for one in inside:
            if isinstance(one, dict):
                still = named and all(isinstance(inner, dict | list) for inner in one.values())
                yield from fields(one, named=key in NAMED or still)


@pytest.mark.parametrize(
    "name", ["dimension_ratings.json", "elo_results.json", "diagnostics.json", "costs.json"]
)
def test_every_field_of_a_document_is_described(name, original, documented):
    document = json.loads((original / name).read_text())
    missing = {field for field in fields(document) if field not in documented}
    assert missing == set()


@pytest.mark.parametrize(
    "name",
    ["matches/matches.jsonl", "questions/factuality.jsonl", "verdicts/factuality.jsonl", "battles.jsonl"],
)
def test_every_field_of_a_row_is_described(name, original, documented):
    (first, *_) = (original / name).read_text().splitlines()
    battles = PAGE.with_name("battles.md").read_text(encoding="utf-8")
    known = documented | set(re.findall(r"`([^`\n]+)`", battles))
    assert set(json.loads(first)) - known == set()


def test_every_column_is_described(documented):
    assert {*ATTEMPT_COLUMNS, *PAIR_COLUMNS} - documented == set()


def test_every_file_is_described(original, documented):
    manifest = TournamentManifest.model_validate_json((original / "manifest.json").read_bytes())
    names = {
        re.sub(r"-\d{4}\.", "-<n>.", re.sub(r"factuality|calibration", "<dimension>", name))
        for name in expected_files(manifest)
    }
    assert names - documented == set()
