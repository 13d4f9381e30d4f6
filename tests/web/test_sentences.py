"""Sentences of rules and findings in other languages: names and numbers come through unharmed."""

import gettext
import re

import numpy as np
import pytest
from babel import Locale

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.publication import established_rules, publication_rules, stable_rules
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.web.pages.localization import Localization, translate_exactly, translate_sentence
from tiltyard.web.texts import plain_text


class Bracketed(gettext.NullTranslations):
    def gettext(self, message):
        return f"⟦{message}⟧"


STRANGE = Localization("eo", Bracketed(), Locale.parse("eo"), ",", ".")
ENGLISH = Localization("en", gettext.NullTranslations(), Locale.parse("en"), ".", ",")


def arena(models, prompts, votes=(), *, answered=None, rd=200.0):
    """A small arena of so many models, the first the strongest; votes are (a, b, prompt, kind)."""
    policy = Policy(adjacent_votes=6, adjacent_attempts=8)
    names = [f"m{k}" for k in range(models)]
    standing = Standing(policy, names, [f"p{k}" for k in range(prompts)], answered)
    for model in range(models):
        standing.enable(model)
    for a, b, prompt, kind in votes:
        standing.serve(a, b, prompt)
        standing.vote(a, b, prompt, kind)
    spread = np.full(models, rd)
    standing.rank(Strengths(2000.0 - 10.0 * np.arange(models), spread, spread, np.full(models, 0.5)))
    return standing


APART = np.array([[True, False], [False, True]])
ARENAS = {
    "nobody": arena(1, 2),
    "no votes": arena(12, 3),
    "one prompt seen": arena(3, 5, [(0, 1, 0, Kind.WIN_A)] * 6),
    "some votes": arena(3, 2, [(0, 1, k % 2, Kind.WIN_A) for k in range(4)]),
    "not told apart": arena(3, 2, [(0, 1, k % 2, Kind.TIE) for k in range(8)]),
    "told apart on one": arena(2, 4, [(0, 1, 0, Kind.WIN_A)] * 9),
    "nothing shared": arena(2, 2, answered=APART),
}


@pytest.mark.parametrize("name", ARENAS)
def test_every_rule_of_an_arena_is_said(name):
    standing = ARENAS[name]
    rules = [*publication_rules(standing)]
    for model in range(len(standing.models)):
        rules += [*established_rules(standing, model), *stable_rules(standing, model)]
    for rule in rules:
        for part in ("text", "detail") if rule.detail else ("text",):
            found = translate_exactly(STRANGE, rule, part)
            assert found.startswith("⟦")
            assert found.endswith("⟧")
            plain = re.sub(r"[⟦⟧]", "", found).replace(",", ".")
            assert plain == getattr(rule, part).replace(",", ".")
            assert translate_sentence(ENGLISH, rule, part) == plain_text(getattr(rule, part))


def test_names_and_numbers_stay_what_they_are():
    pair = {"above": "a, b 1.5", "below": "%(c)s"}
    finding = Finding("orders-disagree", first_of("pairs", [pair]))
    assert translate_exactly(STRANGE, finding).endswith(": ⟦a, b 1.5 above %(c)s⟧.⟧")
    assert translate_exactly(STRANGE, finding, "advice").startswith("⟦Do not claim")
    finding = Finding("self-battles", {"battles": 1234})
    assert translate_sentence(STRANGE, finding).startswith("⟦1.234 battles")


def test_readers_of_an_arena_are_not_told_of_options_of_the_command_line():
    values = {"share": 0.58, "most": 0.1, "limited": 1, "case": "voter"}
    stored = Finding("weight-limited", values, "One voter.", "Change the limit with --max-share.")
    told = translate_sentence(ENGLISH, stored, "advice")
    assert "--max-share" not in told
    assert translate_sentence(STRANGE, stored, "advice") == f"⟦{told}⟧"
    assert translate_sentence(ENGLISH, stored) == "One voter."


FOREIGN = {
    "a new name": Finding("new", {}, "Some <b>.", "Do."),
    "a value that is missing": Finding("self-battles", {}, "Some <b>.", "Do."),
    "a value of another kind": Finding("self-battles", {"battles": "many"}, "Some <b>.", "Do."),
    "no number": Finding("self-battles", {"battles": None}, "Some <b>.", "Do."),
    "an item of another kind": Finding("orders-disagree", {"pairs": ({"case": "new"},)}, "Some <b>.", "Do."),
}


@pytest.mark.parametrize("finding", FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_translated_is_marked_as_english(finding):
    assert translate_exactly(STRANGE, finding) is None
    assert translate_sentence(STRANGE, finding) == '<span lang="en" dir="ltr">Some &lt;b&gt;.</span>'
    assert translate_sentence(ENGLISH, finding) == "Some &lt;b&gt;."
    assert translate_sentence(ENGLISH, finding, "text", 5) == "Some…"
