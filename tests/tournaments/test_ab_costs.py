"""What the answers of two models cost: a ratio with an interval that holds, and never a price that nobody knows."""

import numpy as np
import pytest

from support.sizes import sized
from tiltyard import ab
from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.settings.prices import read_prices
from tiltyard.tournaments.ab_scores import MIN_SAMPLE_COUNT, cost_ratios


def answers(model, dollars=(), *, usage=AnswerUsage, field="cost_usd", score=1.0, **more):
    return [
        Answer(
            prompt_id=f"p{k}",
            prompt=f"Question {k}",
            model=model,
            response="yes",
            usage=usage(**{field: value}),
            scores={"score": score},
            **{name: values[k] for name, values in more.items()},
        )
        for k, value in enumerate(dollars)
    ]


def dollars(first, second, **options):
    return next(one for one in cost_ratios(first, second, **options) if one.name == "dollars")


def costly_prompts(rng, samples, *, spread, passage_spread=0.0, per_passage=1):
    """Costs of two models to the same prompts: long ones are long for both, and the second costs half."""
    prompt = rng.normal(0.0, spread, samples)
    passages = np.repeat(np.arange(-(-samples // per_passage)), per_passage)[:samples]
    shift = rng.normal(0.0, passage_spread, passages.max() + 1)[passages]
    one = np.exp(prompt + rng.normal(0.0, spread / 2, samples))
    # The mean of the second is half of the first's, whatever the spread.
    other = 0.5 * np.exp(prompt + rng.normal(0.0, spread / 2, samples) + shift - passage_spread**2 / 2)
    return one, other, [f"passage {k}" for k in passages]


def least_share(worlds):
    """Monte-Carlo errors below 95 %: two at full size, more where few worlds only look for a mistake."""
    return 0.95 - sized(4, 2) * np.sqrt(0.95 * 0.05 / worlds)


@pytest.mark.parametrize(
    ("samples", "spread"),
    [(MIN_SAMPLE_COUNT, 0.3), (MIN_SAMPLE_COUNT, 0.8), (100, 0.3), (100, 1.0), (1000, 1.0)],
)
def test_the_ratio_of_costs_is_in_its_interval(samples, spread):
    rng, worlds = np.random.default_rng(samples), sized(40, 1000)
    held = 0
    for _ in range(worlds):
        one, other, _ = costly_prompts(rng, samples, spread=spread)
        found = dollars(answers("a", one), answers("b", other), cluster="prompt")
        held += found.low <= 0.5 <= found.high
    assert held / worlds >= least_share(worlds)


def test_costs_that_come_in_passages_have_wider_intervals():
    rng, worlds = np.random.default_rng(5), sized(50, 1000)
    held = [0, 0]
    for _ in range(worlds):
        one, other, passages = costly_prompts(rng, 200, spread=0.3, passage_spread=0.3, per_passage=10)
        sides = answers("a", one, source=passages), answers("b", other, source=passages)
        for k, cluster in enumerate(("prompt", "source")):
            found = dollars(*sides, cluster=cluster)
            held[k] += found.low <= 0.5 <= found.high
    assert held[0] / worlds < 0.88
    assert held[1] / worlds >= least_share(worlds)


def test_the_verdict_says_what_the_better_one_costs():
    rng = np.random.default_rng(0)
    one, other, _ = costly_prompts(rng, 200, spread=0.3)
    found = ab(answers("a", one), answers("b", other), margin=0.1)
    assert found.decision == "same"
    assert "b costs 5" in found.verdict
    assert found.to_dict()["costs"][0]["high"] < 1.0
    worse = ab(answers("a", one), answers("b", other, score=0.0), margin=0.1)
    assert "costs" not in worse.verdict
    dearer = ab(answers("a", other), answers("b", one), margin=0.1)
    assert " % more (" in dearer.verdict
    assert "costs" not in ab(answers("a", one), answers("b", one[::-1]), margin=0.1).verdict


def test_dollars_follow_from_tokens_at_known_prices_alone():
    def used(tokens):
        return AnswerUsage(input_tokens=1000, output_tokens=tokens)

    a = answers("mine", range(100, 130), usage=used, field="tokens")
    b = answers("provider/theirs", range(200, 230), usage=used, field="tokens")
    assert [one.name for one in cost_ratios(a, b)] == ["output tokens"]
    prices = read_prices({"mine": {"input": 1, "output": 10}, "theirs": {"input": 2, "output": 10}})
    found = dollars(a, b, prices=prices)
    assert found.mean_a == pytest.approx(1000e-6 + np.mean(range(100, 130)) * 10e-6)
    assert found.mean_b == pytest.approx(2000e-6 + np.mean(range(200, 230)) * 10e-6)


def test_what_is_not_known_of_both_is_not_compared():
    many = [0.1] * 40
    assert cost_ratios(answers("a", many), answers("b", [None] * 40)) == ()
    assert cost_ratios(answers("a", many[: MIN_SAMPLE_COUNT - 1]), answers("b", many)) == ()
    assert cost_ratios(answers("a", [0.0] * 40), answers("b", many)) == ()
    some = dollars(answers("a", [0.1, None] * 20 + [0.2] * 20), answers("b", [0.1] * 60))
    assert some.samples == 40
    same = dollars(answers("a", many), answers("b", many))
    assert same.change is None
