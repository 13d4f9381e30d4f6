"""Words about which model answers: names and phrases that reveal it in a response, and questions for it in a prompt."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, TypeVar

from tiltyard.settings.config_section import ConfigSection, Many, Name, Text, validate_section
from tiltyard.settings.yaml_file import parse_yaml

Names = Annotated[tuple[Name, ...], Many]
S = TypeVar("S", bound=ConfigSection)


class ModelFamily(ConfigSection):
    """The names of a family and of its maker."""

    #: Unambiguous names.
    names: Names = ()
    #: Names that are also ordinary words.
    words: Names = ()
    #: Phrases in which one of ``names`` means something else.
    exceptions: Names = ()


class SelfReference(ConfigSection):
    """Phrases by which a response refers to itself, in many languages."""

    openings: Names
    #: Openings that need one of ``nouns``, or one of ``speakers`` after the name.
    openings_with_noun: Names
    #: Words allowed between an opening and a name.
    fillers: Names
    nouns: Names
    #: Fillers that also need one of ``nouns``: "I am a Gemini" is a sign of the zodiac.
    fillers_with_noun: Names
    #: Words that may follow a name directly after an opening.
    closings: Names
    #: Pronouns that continue after "as NAME".
    speakers: Names


class FamilyTable(ConfigSection):
    """The built-in table and its date."""

    as_of: Text
    families: Mapping[Name, ModelFamily]
    self_reference: SelfReference


class IdentityQuestions(ConfigSection):
    """Phrases by which a prompt asks which model answers it, in many languages."""

    #: Words that ``…`` stands for in a phrase.
    nouns: Names
    phrases: Names
    #: Phrases that count only at the end of a sentence.
    final_phrases: Names
    #: What may stand between one of these and the end.
    closings: Names
    #: Phrases that count if the name of a model, a family or a maker follows.
    before_names: Names


@functools.cache
def load_families() -> FamilyTable:
    return _load(FamilyTable, "model_families.yaml")


@functools.cache
def load_identity_questions() -> IdentityQuestions:
    """Load the built-in phrases."""
    return _load(IdentityQuestions, "identity_questions.yaml")


def _load(model: type[S], name: str) -> S:
    text = files("tiltyard.settings").joinpath(name).read_text(encoding="utf-8")
    return validate_section(model, parse_yaml(text, name), {})
