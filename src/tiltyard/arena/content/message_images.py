"""The images in the messages of a conversation: which are kept, and why another file is not shown."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiltyard.arena.content.answer_files import is_network_address, read_answer_file
from tiltyard.arena.content.blinding import strip_metadata
from tiltyard.arena.content.blinding.image_sizes import check_image_size
from tiltyard.arena.content.media_types import detect_media_type
from tiltyard.core.judging.conversation import ContentPart, Message
from tiltyard.errors import InputError

#: Images of one response that are kept.
_IMAGE_LIMIT = 100

#: Why a file is not shown: it is elsewhere in the network; it is no image that can be shown; it did not come with the
#: answers; the response has too many; it is no image.
UNSHOWN_REASONS = ("linked", "unreadable", "missing", "many", "other")

#: How a stored part refers to an image of its document, or says why it has none.
_IMAGE, _UNSHOWN = "sha256:", "unshown:"


@dataclass(slots=True)
class ImageCollector:
    """Collects the images of one response's messages. ``folder`` has files that they name, if they may name any."""

    folder: Path | None = None
    #: By hash, in base64.
    images: dict[str, str] = field(default_factory=dict)

    def keep(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with references in place of images, and without addresses and bytes of other files."""
        return [replace(one, parts=tuple(self._part(part) for part in one.parts)) for one in messages]

    def _part(self, part: ContentPart) -> ContentPart:
        return replace(part, url=None if part.kind == "text" else self._reference(part))

    def _reference(self, part: ContentPart) -> str:
        if part.kind != "image":
            return f"{_UNSHOWN}other"
        data = self._read(part.url)
        if isinstance(data, str):
            return f"{_UNSHOWN}{data}"
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self.images and len(self.images) >= _IMAGE_LIMIT:
            return f"{_UNSHOWN}many"
        self.images.setdefault(sha256, base64.b64encode(data).decode())
        return f"{_IMAGE}{sha256}"

    def _read(self, url: str | None) -> bytes | str:
        """The bytes of an image, or why there are none."""
        if url is None:
            return "missing"
        if is_network_address(url):
            return "linked"
        try:
            data = read_answer_file(url, self.folder)
        except InputError:
            return "unreadable" if url.startswith("data:") else "missing"
        try:
            media = detect_media_type("image", data)
            check_image_size(media, data)
            strip_metadata(media, data)
        except InputError:
            return "unreadable"
        return data


def image_hashes(message: Message) -> tuple[str, ...]:
    """The hashes of a stored message's images."""
    urls = (part.url for part in message.parts if part.kind == "image" and part.url is not None)
    return tuple(url.removeprefix(_IMAGE) for url in urls if url.startswith(_IMAGE))


def unshown_files(message: Message) -> tuple[tuple[str, int], ...]:
    """The reasons why files of a stored message are not shown, each with how many."""
    counted = Counter(
        _reason(part.url)
        for part in message.parts
        if part.kind != "text" and not (part.url or "").startswith(_IMAGE)
    )
    return tuple((reason, counted[reason]) for reason in UNSHOWN_REASONS if counted[reason])


def count_unshown(messages: Sequence[Message]) -> int:
    """How many files of stored messages are not shown."""
    return sum(count for one in messages for _, count in unshown_files(one))


def _reason(url: str | None) -> str:
    """Responses that were stored before images were kept have no reason: the arena does not have their files."""
    stated = (url or "").removeprefix(_UNSHOWN)
    return stated if stated in UNSHOWN_REASONS else "missing"
