"""Links that say where they lead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tiltyard.web.texts.sanitizer import SCHEMES

__all__ = ["LinkTarget", "target_of"]

#: A host as a browser reads it: no name and password before it, nothing encoded, nothing to be guessed.
_HOST = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_MAILBOX = re.compile(r"[a-z0-9.!#$&'*+/=?^_`{|}~-]+@[a-z0-9.-]+", re.IGNORECASE)
_MAX_LINK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """Where a link leads."""

    address: str
    #: The host, or the mailbox, that it leads to.
    place: str

    def is_named_in(self, text: str) -> bool:
        """Whether the text of the link names the place itself, and no other before it."""
        said = text.strip().lower()
        scheme = self.address.partition(":")[0].lower()
        for opening in (f"{scheme}://", f"{scheme}:"):
            said = said.removeprefix(opening)
        place = self.place.lower()
        return said.startswith(place) and (len(said) == len(place) or said[len(place)] in "/?#")


def target_of(address: str) -> LinkTarget | None:
    """Where an address leads, if it is one that may be followed; relative addresses are not."""
    if len(address) > _MAX_LINK_CHARACTERS or not address.isascii() or not address.isprintable():
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in SCHEMES or "\\" in address:
        return None
    if parts.scheme == "mailto":
        mailbox = unquote(parts.path)
        return LinkTarget(address, mailbox) if _MAILBOX.fullmatch(mailbox) else None
    return LinkTarget(address, parts.netloc) if _HOST.fullmatch(parts.netloc) else None
