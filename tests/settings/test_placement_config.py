"""The configuration of a placement."""

from __future__ import annotations

import pytest

from tiltyard.errors import BadConfig
from tiltyard.settings.tournament_config import PlacementConfig, load_placement, with_absolute_paths


def load(folder, text):
    (folder / "place.yaml").write_text(text)
    return load_placement(folder / "place.yaml")


def test_without_a_file_everything_has_its_default():
    assert load_placement(None) == PlacementConfig()


def test_an_empty_file_and_empty_sections_have_their_defaults(tmp_path):
    assert load(tmp_path, "judge:\nchecks:\nelo:\nratings:\ncaches:\n") == PlacementConfig()
    assert load(tmp_path, "{}") == PlacementConfig()


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
def test_what_is_wrong_is_named_with_file_line_and_field(tmp_path, text, problem):
    with pytest.raises(BadConfig) as error:
        load(tmp_path, text)
    assert "place.yaml" in str(error.value)
    assert problem in str(error.value)


def test_paths_still_lead_to_the_same_files_from_elsewhere(tmp_path):
    config = load(
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
    config = load(
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
