"""Small pieces of pages, rendered alone: figures of panels, why two models were matched, whether a board takes votes."""

import ast
import gettext
import inspect
import re
from types import SimpleNamespace

import pytest
from babel import Locale

from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.arena.voting.arena_state import PANEL_REASON
from tiltyard.core.judging.diagnostics.rater_agreement import AgreementFigure, AgreementGap
from tiltyard.core.policy.matchmaking import lanes
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.assets import load_assets
from tiltyard.web.pages.layout import PageTemplates
from tiltyard.web.pages.localization import Localization

DEFAULT = "Drawn from all possible pairs."


@pytest.fixture(scope="module")
def environment():
    english = Localization("en", gettext.NullTranslations(), Locale.parse("en"), ".", ",")
    return PageTemplates(load_assets())._made(english)


@pytest.fixture(scope="module")
def pieces(environment):
    def of(template, **values):
        return environment.get_template(template).make_module(values)

    return of


def words(markup):
    return " ".join(str(markup).split())


# Panels


def test_a_figure_without_an_interval_is_marked_and_says_why_to_readers_that_cannot_see_the_mark(pieces):
    figure = pieces("panel_pieces.html").figure
    few = AgreementFigure(0.5, gap=AgreementGap.FEW_PROMPTS)
    assert words(figure(few)).startswith("0.50 (too few prompts")
    marked = words(figure(few, mark=True))
    assert marked.startswith('0.50<span aria-hidden="true">*')
    assert '"visually-hidden"> (too few' in marked
    assert words(figure(AgreementFigure(-0.25, -0.5, 0.125), mark=True)) == "−0.25 (−0.50 to 0.12)"


@pytest.mark.parametrize("gap", [one for one in AgreementGap if one is not AgreementGap.FEW_PROMPTS])
def test_a_figure_that_does_not_exist_says_why_and_has_no_mark(pieces, gap):
    panel = pieces("panel_pieces.html")
    told = words(panel.figure(AgreementFigure(None, gap=gap), mark=True))
    assert told == f"– ({words(panel.gap(gap.value))})"
    assert words(panel.gap(gap.value)) != words(panel.gap(AgreementGap.FEW_PROMPTS.value))


# Why these two


def reasons(module):
    """The reasons that a lane can log: texts that it passes on, or gives the name ``reason``."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call):
            found |= {one.value for one in node.args if isinstance(one, ast.Constant)}
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["reason"]:
            found.add(node.value.value)
    return {one for one in found if (isinstance(one, str) and " " in one) or one == "under-exposed"}


def test_every_reason_of_the_matchmaker_has_a_sentence_of_its_own(pieces):
    arena = SimpleNamespace(name="arena", settings=ArenaSettings())
    say = pieces("vote/pieces.html", arena=arena).reason_word
    logged = list(reasons(lanes))
    assert sorted(logged) == [
        "adjacent pair short of its floor",
        "covers most",
        "most to learn",
        "rivals at the top",
        "under-exposed",
    ]
    told = [words(say(reason, "")) for reason in (*logged, PANEL_REASON)]
    told.append(words(say("chance", "exploration")))
    assert len(set(told)) == len(told)
    assert DEFAULT not in told
    assert all(one.endswith(".") for one in told)
    assert words(say("v1", "v1")) == DEFAULT


def test_why_two_models_were_matched_stands_below_what_the_vote_has_brought(pieces):
    arena = SimpleNamespace(name="arena", settings=ArenaSettings())
    names = SimpleNamespace(
        blind=True, unrated=None, missing=3, model_a="a", model_b="b", reason="under-exposed", lane="coverage"
    )
    told = words(pieces("vote/pieces.html", arena=arena).effect(names, None))
    assert 0 < told.index("about 3 more") < told.index("shown too rarely")


def test_a_name_that_is_shown_says_what_the_operator_says_about_the_model(pieces):
    about = {
        "a": ModelDetails(maker="Oak <Labs>", licence="MIT", open_weights=True),
        "b": ModelDetails(link="https://oak.example"),
    }
    arena = SimpleNamespace(name="arena")
    shown = pieces("vote/pieces.html", arena=arena, about=about)
    told = re.sub("</?bdi[^>]*>", "", words(shown.side_name("a", None, won=False)))
    assert ">Oak &lt;Labs&gt; · MIT · open" in told
    assert "named-about" not in words(shown.side_name("b", None, won=False))
    assert "named-about" not in words(pieces("vote/pieces.html", arena=arena).side_name("a", None, won=False))


# Boards


@pytest.mark.parametrize(
    ("stage", "told"),
    [("open", None), ("paused", "Voting is paused"), ("archived", "Voting has ended")],
)
def test_a_board_invites_to_vote_only_where_votes_are_taken(pieces, stage, told):
    arena = SimpleNamespace(name="arena", title="Arena", settings=ArenaSettings(stage=stage))
    invitation = words(pieces("board/pieces.html", arena=arena).invitation())
    if told is None:
        assert 'action="/arenas/arena/vote"' in invitation
    else:
        assert invitation == f'<span class="badge badge-quiet">{told}</span>'
