"""Families of models and their makers, by the names under which a response may give itself away."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated

from tiltyard.settings.config_section import ConfigSection, Many, Name, Text, validate_section
from tiltyard.settings.yaml_file import parse_yaml

__all__ = ["FamilyTable", "ModelFamily", "SelfReference", "load_families"]

Names = Annotated[tuple[Name, ...], Many]


class ModelFamily(ConfigSection):
    """The names of a family and of its maker."""

    #: Never anything else.
    names: Names = ()
    #: Ordinary words too.
    words: Names = ()
    #: Phrases in which one of ``names`` is something else.
    exceptions: Names = ()


class SelfReference(ConfigSection):
    """Phrases by which a response speaks of itself, in many languages."""

    openings: Names
    #: Those that need one of ``nouns``, or one of ``speakers`` after the name.
    openings_with_noun: Names
    #: What may stand between an opening and a name.
    fillers: Names
    nouns: Names
    #: Fillers that need one of ``nouns`` as well: "I am a Gemini" is a sign of the zodiac.
    fillers_with_noun: Names
    #: What may follow a name that stands directly after an opening.
    closings: Names
    #: Who speaks on after "as NAME".
    speakers: Names


class FamilyTable(ConfigSection):
    """The table as it is shipped, and of which day it is."""

    as_of: Text
    families: Mapping[Name, ModelFamily]
    self_reference: SelfReference


@functools.cache
def load_families() -> FamilyTable:
    """The table that comes with Tiltyard."""
    text = files("tiltyard.settings").joinpath("model_families.yaml").read_text(encoding="utf-8")
    return validate_section(FamilyTable, parse_yaml(text, "model_families.yaml"), {})
