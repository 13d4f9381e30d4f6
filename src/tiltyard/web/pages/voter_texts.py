"""The operator's texts as voters read them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request
from markupsafe import Markup

from tiltyard.arena.content.arena_texts import TextName, give_consent, read_texts, wanted_consent
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.foundation.caches import BoundedCache
from tiltyard.web.access.access import registry_of
from tiltyard.web.pages.layout import localization_of
from tiltyard.web.texts import render_text

#: Characters of rendered texts that a process keeps.
_CACHE_CHARACTERS = 4_000_000
#: Rendered texts, by language and text: an edited text is another one.
_rendered: BoundedCache[tuple[str, str], Markup] = BoundedCache(
    _CACHE_CHARACTERS, heaviest=_CACHE_CHARACTERS // 8
)


@dataclass(frozen=True, slots=True)
class VoterTexts:
    """Texts of an arena as HTML; ``None`` where the operator has written none."""

    announcement: Markup | None = None
    instructions: Markup | None = None
    consent: Markup | None = None
    thanks: Markup | None = None
    pause: Markup | None = None
    #: The hash of the consent, which a voter sends back.
    consent_sha256: str | None = None


async def read_voter_texts(request: Request, arena: Arena) -> VoterTexts:
    """Read and render the texts of an arena."""
    found = await read_texts(registry_of(request).pool, arena)
    consent = found.get("consent")
    return await render_texts(
        request,
        {name: one.content for name, one in found.items()},
        None if consent is None else consent.sha256,
    )


async def render_texts(
    request: Request, contents: Mapping[TextName, str], consent_sha256: str | None = None
) -> VoterTexts:
    """Render texts that an operator wrote, in the way in which hostile texts are; each one once."""
    localization = localization_of(request)
    html: dict[TextName, Markup] = {}
    unknown: dict[TextName, str] = {}
    for name, text in contents.items():
        found = _rendered.get((localization.language, text))
        if found is not None:
            html[name] = found
        elif text:
            unknown[name] = text

    def render() -> None:
        for name, text in unknown.items():
            made = render_text(text, say=localization.texts.gettext)
            html[name] = _rendered.put((localization.language, text), made, len(made) + len(text))

    if unknown:
        await asyncio.to_thread(render)
    return VoterTexts(
        announcement=html.get("announcement"),
        instructions=html.get("instructions"),
        consent=html.get("consent"),
        thanks=html.get("thanks"),
        pause=html.get("pause"),
        consent_sha256=consent_sha256,
    )


async def unanswered_consent(request: Request, arena: int, voter: Voter | None) -> str | None:
    """The hash of the consent that the voter has still to give; ``None`` if there is nothing to ask."""
    session = None if voter is None else voter.session
    return await wanted_consent(registry_of(request).pool, arena, session)


async def agree(request: Request, arena: int, voter: Voter, sha256: str) -> None:
    """Record the voter's consent."""
    await give_consent(registry_of(request).pool, arena, voter.session, sha256)
