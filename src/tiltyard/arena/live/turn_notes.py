"""What is noted about a turn of a live battle: language, identity talk, private data, and rules that only flag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from tiltyard.arena.live.identity_talk import EntrantNames, IdentityTalk
from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.arena.live.name_mask import NameMask
from tiltyard.core.live.private_data import find_private_data
from tiltyard.core.live.prompt_texts import detect_language
from tiltyard.settings.arena_settings import LiveIdentity


class TurnFlags(TypedDict, total=False):
    """The flags of a turn, as they are stored. What was not found is not there."""

    #: The language of the prompt: an ISO 639-1 code, or ``unknown``.
    language: str
    #: Where the turn talks about who answers: ``prompt``, ``a``, ``b``.
    identity: list[str]
    #: Kinds of private data in the prompt or the answers.
    private: list[str]
    #: Names of moderation rules that only flag, and ``unchecked``.
    rules: list[str]


class TurnNotes:
    """The checks of an arena's turns. Make new ones when its entrants or its settings change."""

    def __init__(self, entrants: Iterable[StoredEntrant], identity: LiveIdentity = "flag") -> None:
        names = [EntrantNames(one.name, str(one.config.get("model", one.name))) for one in entrants]
        self._talk = IdentityTalk(names)
        self._mask = NameMask(names) if identity == "mask" else None

    def flags(
        self, prompt: str, answers: tuple[str, str], models: tuple[str, str], rules: Sequence[str] = ()
    ) -> TurnFlags:
        """The flags of a turn that ended. ``models``: the names of the entrants on the left and on the right."""
        noted: TurnFlags = {"language": detect_language(prompt)}
        identity = self._talk.places(prompt, answers, models)
        private = find_private_data("\n".join((prompt, *answers)))
        if identity:
            noted["identity"] = list(identity)
        if private:
            noted["private"] = list(private)
        if rules:
            noted["rules"] = list(dict.fromkeys(rules))
        return noted

    def shown(self, text: str, *, complete: bool) -> str:
        """What may be shown of an answer that has come so far, on either side.

        With a mask, the last sentence of an incomplete answer is held back; what was shown once does not change.
        """
        return text if self._mask is None else self._mask.mask(text, complete=complete)


def note_turn(
    entrants: Sequence[StoredEntrant], prompt: str, answers: tuple[str, str], models: tuple[int, int]
) -> TurnFlags:
    """The flags of a turn between two of these entrants, given by their numbers."""
    names = {one.model: one.name for one in entrants}
    left, right = (names.get(model, "") for model in models)
    return TurnNotes(entrants).flags(prompt, answers, (left, right))
