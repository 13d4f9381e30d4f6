"""Targets of links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tiltyard.web.texts.sanitizer import SCHEMES

#: A plain host name: without user information or percent-encoding.
_HOST = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_MAILBOX = re.compile(r"[a-z0-9.!#$&'*+/=?^_`{|}~-]+@[a-z0-9.-]+", re.IGNORECASE)
_MAX_LINK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The target of a link."""

    address: str
    #: The host or mailbox.
    place: str

    def is_named_in(self, text: str) -> bool:
        """Whether the text of the link starts with its host or mailbox."""
        said = text.strip().lower()
        scheme = self.address.partition(":")[0].lower()
        for opening in (f"{scheme}://", f"{scheme}:"):
            said = said.removeprefix(opening)
        place = self.place.lower()
        return said.startswith(place) and (len(said) == len(place) or said[len(place)] in "/?#")


def target_of(address: str) -> LinkTarget | None:
    """The target of a URL; ``None`` if it is relative or not allowed."""
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
