"""Judges that think, endpoints that allow less, replies that are cut off: asked again where it can help, and no further."""

from __future__ import annotations

import re

import pytest

from support.arranged import PRICES, arrange

WAYS = pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic"])


def judged(folder, billed, model, *, provider="openai", traits=None, shard_size=500, prompts=4, **judge):
    """A tournament whose judge has the manners that its name says."""
    return arrange(
        folder,
        dimensions=1,
        prompts=prompts,
        judge=billed.judge(provider, pilot_model=model, **judge),
        prices={model: PRICES | (traits or {})},
        shard_size=shard_size,
    )


def limits_of(arranged):
    """The limits by judge, as the run's own configuration states them."""
    return [one.max_tokens for one in arranged.prepared().mode.judges]


@pytest.mark.parametrize(
    ("traits", "options", "limit"),
    [
        ({}, {}, 16_384),
        ({"thinks": True}, {}, 16_384),
        ({"thinks": False}, {}, 4_096),
        ({"thinks": False}, {"reasoning_effort": "high"}, 16_384),
        ({"thinks": True, "max_output": 8_000}, {}, 8_000),
    ],
    ids=["unknown", "thinks", "does not", "is told to", "cannot write so much"],
)
def test_the_limit_is_by_the_model_unless_it_is_stated(tmp_path, billed, traits, options, limit):
    arranged = judged(tmp_path, billed, "any", traits=traits, options=options)
    assert limits_of(arranged) == [limit]
    arranged = judged(tmp_path, billed, "any", traits=traits, options=options, max_tokens=77)
    assert limits_of(arranged) == [77]


@pytest.mark.slow(but="openai-live")
@WAYS
@PROVIDERS
def test_a_reply_that_was_cut_off_is_asked_again_once_with_four_times_the_limit(
    tmp_path, billed, provider, batch
):
    model = f"needs-1800-{provider}-{batch}"
    arranged = judged(tmp_path, billed, model, provider=provider, batch=batch, max_tokens=1024)
    arranged.done("run", arranged.config, "--output-dir", "out")
    rows = arranged.verdicts()
    assert {(row["state"], row["asks"]) for row in rows} == {("ok", 2)}
    assert billed.since() == 48 == billed.since("distinct")
    arranged.done("verify", "out")
    # What was paid for is found again, whatever limit brought it.
    arranged.done("run", arranged.config, "--output-dir", "again")
    assert billed.since() == 48


@pytest.mark.slow(but="truncated-live")
@WAYS
@pytest.mark.parametrize(
    ("model", "fault", "advice"),
    [
        ("needs-99000", {}, "raise max_tokens (512 now)"),
        ("ramble", {}, "use another reply form (schema now)"),
        ("any", {"refuse": 1.0}, "check the prompts"),
    ],
    ids=["truncated", "unparseable", "refused"],
)
def test_a_judge_without_verdicts_stops_the_run(tmp_path, billed, batch, model, fault, advice):
    billed.server.change(**fault)
    arranged = judged(
        tmp_path, billed, model, batch=batch, form="schema", max_tokens=512, prompts=20, shard_size=20
    )
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 4, ran.err
    assert f"judge unusable: the last {'1' if batch else '6'}" in ran.err
    assert f"replies of {model}, on " in ran.err
    assert advice in " ".join(ran.err.split())
    questions = len(arranged.verdicts())
    # By batch, what was under way together is paid; a few of each shard are asked for again, not all.
    assert billed.since() <= (questions + 10 * (1 + questions // 20) if batch else 6)
    arranged.done("verify", "out")
    # The same again asks a few more and stops again; a judge that works goes on from there.
    # By batch every question has its refusal by then, and a refusal is not asked again: nothing is
    # left to ask, and nothing was rated.
    again = arranged.call("run", arranged.config, "--output-dir", "out")
    assert again.code == (3 if batch and fault else 4)


@pytest.mark.slow
def test_a_helping_worker_stops_for_an_unusable_judge_too(tmp_path, billed):
    """Its first replies are good: the preflight finds nothing."""
    arranged = judged(tmp_path, billed, "any", form="schema", max_tokens=512, prompts=20, shard_size=20)
    arranged.call("run", arranged.config, "--output-dir", "out", "--budget-usd", 0.05)
    assert 2 <= billed.since() < 60
    billed.server.change(garble=1.0)
    assert arranged.call("run", arranged.config, "--output-dir", "out", "--budget-usd", 50).code == 4
    assert arranged.call("run", "--join", "out").code == 4


@pytest.mark.slow
@WAYS
def test_the_budget_holds_for_raised_limits_too(tmp_path, billed, batch):
    arranged = judged(tmp_path, billed, "needs-1800", batch=batch, max_tokens=1024, prompts=8)
    spent = []
    for budget in ("0.05", "0.2", "3"):
        arranged.call("run", arranged.config, "--output-dir", "out", "--budget-usd", budget)
        spent.append(billed.since("picodollars") / 10**12)
        assert spent[-1] <= float(budget)
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    assert spent == sorted(spent)


# Replies as models write them: read where they say one thing, shown where they cannot be read.


@pytest.mark.parametrize("form", ["schema", "text"])
def test_the_first_reply_that_cannot_be_read_is_shown_with_why(tmp_path, billed, form):
    arranged = judged(tmp_path, billed, "ramble", prompts=8, max_tokens=1000, form=form)
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    why = {"schema": "holds no JSON object with a verdict", "text": "the last line is not 'VERDICT: '"}
    # After six of them the judge is called unusable.
    assert ran.code == 4
    assert re.search(
        r"6 replies could not be parsed. The first, from ramble on prompt p\d+, factuality", ran.err
    )
    assert billed.since() == 6
    assert f"form {form}" in ran.err
    assert why[form] in ran.err
    assert "merit,\\x1b[31m" in ran.err
    assert "Hm. So B?\n" in ran.err
    assert "\x1b" not in ran.err
    assert len(ran.err) < 3000
    advice = " ".join(ran.out.split()).partition("Ask for the verdict by ")[2].partition(":")[0]
    assert form not in advice.split(".")[0]
