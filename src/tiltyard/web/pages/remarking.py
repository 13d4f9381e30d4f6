"""What a voter may say beside the vote, as forms send it."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.voting.asking import COMMENT, TAGS, TAGS_AT_ONCE, Tag
from tiltyard.arena.voting.remarks import Remark
from tiltyard.errors import BadOption

__all__ = ["COMPLAINTS", "PRAISE", "REPROACH", "read_remark"]

#: For the response that was better, and for two that were not.
PRAISE: tuple[Tag, ...] = TAGS[:8]
REPROACH: tuple[Tag, ...] = TAGS[8:]
#: What can be wrong with a matchup.
COMPLAINTS = ("broken", "identifies-model", "harmful", "personal-data", "copyright", "other")


def read_remark(tags: Sequence[str] | None, comment: str) -> Remark:
    """Tags and comment of a form; what no page of ours could have sent is refused."""
    told = tuple(dict.fromkeys(tags or ()))
    text = comment.replace("\r\n", "\n").strip()
    unknown = [tag for tag in told if tag not in TAGS]
    if unknown or len(told) > TAGS_AT_ONCE:
        raise BadOption(f"the tags are not {TAGS_AT_ONCE} at most of {', '.join(TAGS)}")
    if len(text) > COMMENT or "\0" in text:
        raise BadOption(f"the comment is longer than {COMMENT} characters, or holds one that cannot be kept")
    return Remark(told, text or None)
