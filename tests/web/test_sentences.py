"""Sentences of rules and findings: every one has its pattern, and names and numbers come through unharmed."""

import ast
import gettext
import re
from pathlib import Path

import numpy as np
import pytest
from babel import Locale

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.badges import established_rules, stable_rules
from tiltyard.core.policy.validity.publication import publication_rules
from tiltyard.web import problem_details
from tiltyard.web.pages.finding_sentences import translate_exactly, translate_sentence
from tiltyard.web.pages.localization import Localization
from tiltyard.web.pages.message_patterns import PROBLEMS, SENTENCES

SOURCE = Path(__file__).parents[2] / "src/tiltyard"
#: Where rules and findings are made that pages show.
MADE = (
    "core/ratings/*.py",
    "core/board/*.py",
    "core/policy/validity/*.py",
    "arena/boards/filtered_boards.py",
    "arena/rating/board_publisher.py",
)
GAP = "\0"


class Bracketed(gettext.NullTranslations):
    def gettext(self, message):
        return f"⟦{message}⟧"


STRANGE = Localization("eo", Bracketed(), Locale.parse("eo"), ",", ".")
ENGLISH = Localization("en", gettext.NullTranslations(), Locale.parse("en"), ".", ",")


def assigned(scope, name):
    """What a name stands for where it is used, if that is a text."""
    found = [
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and any(getattr(one, "id", None) == name for one in node.targets)
    ]
    return found[0] if len(found) == 1 else None


def texts(node, scope):
    """The texts that an expression can be, each with gaps for what is put into it."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr():
            parts = [texts(part, scope)[0] for part in node.values]
            return ["".join(parts)]
        case ast.FormattedValue(value=ast.Name() as name):
            return texts(name, scope)
        case ast.BinOp(left=left, right=right):
            return [texts(left, scope)[0] + texts(right, scope)[0]]
        case ast.IfExp():
            return texts(node.body, scope) + texts(node.orelse, scope)
        case ast.Name(id=name) if (value := assigned(scope, name)) is not None:
            return texts(value, scope)
        case _:
            return [GAP]


def written():
    """Every sentence that is written in the code of a rule or a finding, with the name that it goes by."""
    for path in sorted(path for pattern in MADE for path in SOURCE.glob(pattern)):
        module = ast.parse(path.read_text())
        scopes = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
        for scope in [*scopes, module]:
            for call in (node for node in ast.walk(scope) if isinstance(node, ast.Call)):
                made = getattr(call.func, "id", None)
                if made not in ("Finding", "make_rule") or len(call.args) < 2:
                    continue
                said = call.args[1:3] if made == "Finding" else call.args[1:2]
                said = [*said, *(word.value for word in call.keywords if word.arg == "detail")]
                name = texts(call.args[0], scope)[0]
                for sentence in (one for part in said for one in texts(part, scope)):
                    if sentence.strip(GAP):
                        yield name, sentence


def test_every_sentence_in_the_code_has_a_pattern():
    found = set(written())
    assert len(found) > 60
    for name, sentence in found:
        form = re.compile(".+".join(map(re.escape, sentence.split(GAP))), re.DOTALL)
        known = [one for own in SENTENCES.values() for one in own] if name == GAP else SENTENCES[name]
        assert any(form.fullmatch(pattern) for pattern in known), (name, sentence)


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
        for sentence in filter(None, (rule.text, rule.detail)):
            found = translate_exactly(STRANGE, rule.name, sentence)
            assert found is not None, (rule.name, sentence)
            assert re.sub(r"[⟦⟧]", "", found).replace(",", ".") == sentence.replace(",", ".")


@pytest.mark.parametrize(
    ("name", "sentence", "translated"),
    [
        ("few-battles", "Fewer than 30 battles each: a (3), b, c (4).", "⟦Fewer than 30 battles each: a (3), b, c (4).⟧"),
        (
            "unrated",
            "a, b, c, d, e and 12 more took part in no battle that rates skill.",
            "⟦⟦a, b, c, d, e and 12 more⟧ took part in no battle that rates skill.⟧",
        ),
        ("self-battles", "1,234 battles compare a model with itself; they say nothing of skill and are left out.", "⟦1.234 battles compare a model with itself; they say nothing of skill and are left out.⟧"),
        ("only-wins", "50% %(x)s {y} won every battle: no upper limit to the rating, so none is given.", "⟦50% %(x)s {y} won every battle: no upper limit to the rating, so none is given.⟧"),
        ("orders-disagree", "By batch Bradley–Terry, beyond its uncertainty and unlike the board: a above b, c above d.", "⟦By batch Bradley–Terry, beyond its uncertainty and unlike the board: ⟦a above b⟧, ⟦c above d⟧.⟧"),
        ("orders-disagree", "By batch Bradley–Terry, beyond its uncertainty and unlike the board: a, b above c.", None),
        ("orders-disagree", "Something new.", None),
        ("something-new", "Something new.", None),
    ],
)  # fmt: skip
def test_names_and_numbers_stay_what_they_are(name, sentence, translated):
    assert translate_exactly(STRANGE, name, sentence) == translated


def test_what_has_no_pattern_is_marked_as_english():
    assert (
        translate_sentence(STRANGE, "new", "Some <b>.") == '<span lang="en" dir="ltr">Some &lt;b&gt;.</span>'
    )
    assert translate_sentence(ENGLISH, "new", "Some <b>.") == "Some &lt;b&gt;."
    assert translate_sentence(ENGLISH, "new", "Some words", 5) == "Some…"


def test_a_long_hostile_name_is_read_in_no_time():
    name = "won every battle: " * 2_000
    sentence = f"Pairs stray 2.0 times as far: {name} against {name}: scored"
    assert translate_exactly(STRANGE, "poor-fit", sentence) is None
    assert translate_exactly(
        STRANGE, "unrated", " and 1 more" * 2_000 + " took part in no battle that rates skill."
    )


def test_every_title_of_a_problem_is_in_the_catalogue():
    titles = {title for _, title in problem_details._TITLES.values()} | {
        row[3] for row in problem_details._ERRORS if row[3]
    }
    assert titles | {"The request was refused"} == set(PROBLEMS)
