"""Phrases by which a prompt asks which model answers it."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Annotated

from tiltyard.settings.config_section import ConfigSection, Many, Name, validate_section
from tiltyard.settings.yaml_file import parse_yaml

Phrases = Annotated[tuple[Name, ...], Many]


class IdentityQuestions(ConfigSection):
    """The built-in phrases, in many languages."""

    #: Words that ``…`` stands for in a phrase.
    nouns: Phrases
    phrases: Phrases
    #: Phrases that count only at the end of a sentence.
    final_phrases: Phrases
    #: What may stand between one of these and the end.
    closings: Phrases
    #: Phrases that count if the name of a model, a family or a maker follows.
    before_names: Phrases


@functools.cache
def load_identity_questions() -> IdentityQuestions:
    """Load the built-in phrases."""
    text = files("tiltyard.settings").joinpath("identity_questions.yaml").read_text(encoding="utf-8")
    return validate_section(IdentityQuestions, parse_yaml(text, "identity_questions.yaml"), {})
