"""The section of moderation and its file of rules: what is accepted, and what a wrong file is told."""

import pytest

from tiltyard.errors import BadConfig
from tiltyard.settings.config_section import validate_section
from tiltyard.settings.live_models import ModerationSection, load_moderation_rules
from tiltyard.settings.yaml_file import parse_yaml

RULES = """
rules:
  - name: weapons
    phrases: [build a bomb, "nerve gas*"]
  - name: exam
    action: flag
    texts: prompts
    phrases: "*homework*"
"""


def section(text):
    return validate_section(ModerationSection, parse_yaml(text, "models.yaml"), {})


def test_a_file_of_rules_is_read(tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    rules = section("rules: rules.yaml").read_rules(tmp_path).rules
    assert [(rule.name, rule.action, rule.texts) for rule in rules] == [
        ("weapons", "refuse", "all"),
        ("exam", "flag", "prompts"),
    ]
    assert rules[1].phrases == ("*homework*",)


def test_no_file_means_no_rules(tmp_path):
    assert section("fail: open").read_rules(tmp_path).rules == ()


@pytest.mark.parametrize(
    ("phrase", "problem"),
    [
        ("'***'", "neither letters nor digits"),
        ("a*b", "elsewhere than at the end"),
        ("one * two", "elsewhere than at the end"),
        ("'*a*b*'", "at both ends only"),
        (" ".join(["word"] * 21), "21 words"),
        ("x" * 201, "at most 200 characters"),
    ],
)
def test_a_phrase_that_cannot_be_searched_is_refused(tmp_path, phrase, problem):
    path = tmp_path / "rules.yaml"
    path.write_text(f"rules:\n  - name: one\n    phrases: [{phrase}]\n")
    with pytest.raises(BadConfig, match=problem.replace("*", r"\*")) as caught:
        load_moderation_rules(path)
    assert "rules.yaml, line 3" in str(caught.value)


def test_names_are_unique_and_phrases_are_limited(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n  - {name: one, phrases: [a]}\n  - {name: one, phrases: [b]}\n")
    with pytest.raises(BadConfig, match="duplicate rule 'one'"):
        load_moderation_rules(path)
    many = ", ".join(f"w{number}" for number in range(10_001))
    path.write_text(f"rules:\n  - {{name: one, phrases: [{many}]}}\n")
    with pytest.raises(BadConfig, match="10,001 phrases"):
        load_moderation_rules(path)


def test_the_endpoints_are_read_with_their_defaults():
    read = section("endpoint: {}\nguard:\n  model: llama-guard\n  base_url: http://127.0.0.1:1/v1\n")
    assert (read.fail, read.timeout_seconds, read.hold_answers) == ("closed", 5.0, False)
    assert read.endpoint.path == "/moderations"
    assert read.guard.path == "/chat/completions"
    assert (read.guard.safe, read.guard.unsafe) == (("safe",), ("unsafe",))
    assert read.guard.provider == "openai"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fail: maybe", "expected closed or open"),
        ("endpoint: {base_url: example.org}", "begins with http"),
        ("endpoint: {headers: {x-api-key: abc}}", "looks like a key"),
        ("guard: {base_url: http://127.0.0.1}", "missing"),
        ("guards: {}", "did you mean guard"),
    ],
)
def test_a_wrong_section_says_what_is_wrong(text, problem):
    with pytest.raises(BadConfig, match=problem):
        section(text)
