"""Model families and their makers: the names by which a response may reveal its model."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated

from tiltyard.settings.config_section import ConfigSection, Many, Name, Text, validate_section
from tiltyard.settings.yaml_file import parse_yaml

Names = Annotated[tuple[Name, ...], Many]


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


@functools.cache
def load_families() -> FamilyTable:
    """Load the built-in table."""
    text = files("tiltyard.settings").joinpath("model_families.yaml").read_text(encoding="utf-8")
    return validate_section(FamilyTable, parse_yaml(text, "model_families.yaml"), {})
