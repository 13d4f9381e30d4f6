"""The form in which voters say which languages and categories they can judge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Form

from tiltyard.arena.voting.voter_requests import DeclaredSkills
from tiltyard.web.access.cookies import preset_languages


@dataclass(frozen=True, slots=True)
class Skill:
    """A language or a category, and whether the voter can judge it."""

    name: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class SkillChoice:
    """What a voter can choose from; empty where an arena has fewer than two values."""

    languages: tuple[Skill, ...]
    categories: tuple[Skill, ...]

    @property
    def offers_something(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.languages or self.categories)


class SkillForm:
    """The fields of the form, as they were sent."""

    def __init__(
        self,
        declared: Annotated[str, Form()] = "",
        languages: Annotated[list[str] | None, Form()] = None,
        categories: Annotated[list[str] | None, Form()] = None,
    ) -> None:
        #: Whether the form was sent: boxes that are not ticked are not.
        self.declared = bool(declared)
        self._languages = languages or []
        self._categories = categories or []

    def read(self, categories: Sequence[str], languages: Sequence[str]) -> DeclaredSkills:
        """What was declared of the values that the arena has. All boxes ticked, or none, is everything."""
        return DeclaredSkills(_some(self._languages, languages), _some(self._categories, categories))


def skill_choice(
    languages: Sequence[str], categories: Sequence[str], declared: DeclaredSkills | None, accepted: str | None
) -> SkillChoice:
    """The boxes of the form: as declared, or else preset from the ``accepted`` languages of the browser."""
    spoken = preset_languages(accepted, languages) if declared is None else declared.languages
    judged = () if declared is None else declared.categories
    return SkillChoice(_skills(languages, spoken), _skills(categories, judged))


def _skills(values: Sequence[str], chosen: Collection[str]) -> tuple[Skill, ...]:
    if len(values) < 2:
        return ()
    return tuple(Skill(value, not chosen or value in chosen) for value in values)


def _some(sent: Collection[str], known: Sequence[str]) -> tuple[str, ...]:
    found = tuple(value for value in known if value in sent)
    return () if len(found) == len(known) else found
