"""What models accept, and the request fields that settings become."""

import pytest

from tiltyard.errors import BadConfig
from tiltyard.settings.prices import ModelTraits, PriceEntry, open_prices, request_fields
from tiltyard.settings.tournament_config import load_config, resolve_config
from tiltyard.settings.yaml_file import write_yaml

LUNA = open_prices().traits("openai", "gpt-6-luna")
OPUS = open_prices().traits("anthropic", "claude-opus-5")


def fields(traits, provider="openai", **stated):
    return request_fields({"options": {}, **stated}, traits, model="m", provider=provider)


def test_settings_become_the_fields_of_each_protocol():
    assert fields(LUNA, effort="low") == {"reasoning_effort": "low"}
    assert fields(LUNA, thinking=False, temperature=0.0) == {"temperature": 0.0, "reasoning_effort": "none"}
    assert fields(OPUS, "anthropic", thinking=True, effort="max") == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "max"},
    }
    beside = {"output_config": {"task_budget": 5}}
    assert fields(OPUS, "anthropic", effort="low", options=beside) == {
        "output_config": {"task_budget": 5, "effort": "low"}
    }
    assert fields(ModelTraits(), effort="enormous") == {"reasoning_effort": "enormous"}
    assert fields(ModelTraits(thinks=True), thinking=True) == {}
    assert fields(ModelTraits(thinks=False), thinking=False) == {}


@pytest.mark.parametrize(
    ("traits", "provider", "stated", "said"),
    [
        (LUNA, "openai", {"temperature": 0.0}, "does not accept temperature: remove it"),
        (OPUS, "anthropic", {"thinking": False, "options": {"top_k": 3}}, "does not accept top_k"),
        (LUNA, "openai", {"effort": "minimal"}, "accepts one of none, low"),
        (ModelTraits(efforts=()), "openai", {"effort": "low"}, "accepts none: remove it"),
        (ModelTraits(), "openai", {"thinking": False}, "not known how its thinking is switched off"),
        (LUNA, "openai", {"effort": "low", "options": {"reasoning_effort": "high"}}, "is set already"),
        (LUNA, "openai", {"effort": "low", "thinking": False}, "is set already"),
    ],
)
def test_what_a_model_does_not_accept_is_refused_before_it_is_sent(traits, provider, stated, said):
    with pytest.raises(BadConfig, match=said):
        fields(traits, provider, **stated)


def test_a_model_told_not_to_think_needs_the_plain_limit():
    assert LUNA.default_limit({}) == 16_384
    assert LUNA.default_limit({"reasoning_effort": "none"}) == 4_096
    assert LUNA.default_limit({"reasoning_effort": "low"}) == 16_384


def test_what_a_user_states_goes_first():
    book = open_prices({"gpt-6-luna": PriceEntry(refuses_thinking=(), efforts=("tiny",), forms=("text",))})
    traits = book.traits("openai", "gpt-6-luna")
    assert fields(traits, temperature=1.0, effort="tiny") == {"temperature": 1.0, "reasoning_effort": "tiny"}
    assert (traits.forms, traits.thinking_off) == (("text",), {"reasoning_effort": "none"})
    shown = next(model for model in book.known() if model["model"] == "gpt-6-luna")
    assert (shown["efforts"], shown["input"], shown["source"]) == (
        ["tiny"],
        0.1,
        ["codexometer", "promptfuel"],
    )


def test_a_resolved_configuration_is_read_again_with_the_same_requests(tmp_path):
    document = {
        "entrants": [{"entrant_id": "a"}, {"entrant_id": "b"}],
        "prompts": {"bank_path": "p.jsonl"},
        "answers": "a.jsonl",
        "rubrics": {"factuality": None},
        "judge": {"provider": "openai", "pilot_model": "gpt-6-luna", "effort": "low"},
    }
    path = tmp_path / "t.yaml"
    path.write_text(write_yaml(document))
    config = load_config(path)
    mode = config.mode("pilot")
    assert mode.judges[0].options == {"reasoning_effort": "low"}
    again = tmp_path / "again.yaml"
    again.write_text(write_yaml(resolve_config(config, mode)))
    assert load_config(again).mode("pilot").judges == mode.judges
    # Another provider's judge inherits none of them.
    document["modes"] = {
        "both": {"judges": ["gpt-6-luna", {"model": "claude-opus-5", "provider": "anthropic"}]}
    }
    path.write_text(write_yaml(document))
    assert load_config(path).mode("both").judges[1].options == {}
