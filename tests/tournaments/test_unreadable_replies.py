"""Replies as models write them: read where they say one thing, shown where they cannot be read."""

from __future__ import annotations

import re

import pytest

from support.arranged import PRICES, arrange


def judged(folder, billed, model, **judge):
    """A tournament whose judge has the manners that its name says."""
    return arrange(
        folder,
        dimensions=1,
        prompts=8,
        judge=billed.judge(pilot_model=model, max_tokens=1000, **judge),
        prices={model: PRICES},
    )


@pytest.mark.slow(but=("chatty-schema", "think-text"))
@pytest.mark.parametrize(
    ("model", "form"),
    [
        *((model, form) for model in ("fence", "tilde", "think", "template") for form in ("schema", "text")),
        # Nothing may follow a verdict that is asked for as the last line.
        ("chatty", "schema"),
    ],
)
def test_what_models_put_around_a_verdict_does_not_matter(tmp_path, billed, model, form):
    arranged = judged(tmp_path, billed, model, form=form)
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    # Nothing had to be asked twice.
    assert billed.since() == len(arranged.verdicts())
    arranged.done("verify", "out")


@pytest.mark.parametrize("form", ["schema", "text"])
def test_the_first_reply_that_cannot_be_read_is_shown_with_why(tmp_path, billed, form):
    arranged = judged(tmp_path, billed, "ramble", form=form)
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
