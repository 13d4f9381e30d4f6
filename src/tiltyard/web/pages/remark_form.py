"""What a voter may say beside the vote, as forms send it."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.voting.remarks import Remark
from tiltyard.errors import BadOption
from tiltyard.wire.vocabulary import MAX_COMMENT_CHARACTERS, REMARK_TAG_LIMIT, TAGS, Tag

__all__ = ["COMPLAINTS", "NEGATIVE_TAGS", "POSITIVE_TAGS", "read_remark"]

#: For the response that was better, and for two that were not.
POSITIVE_TAGS: tuple[Tag, ...] = TAGS[:8]
NEGATIVE_TAGS: tuple[Tag, ...] = TAGS[8:]
#: What can be wrong with a matchup.
COMPLAINTS = ("broken", "identifies-model", "harmful", "personal-data", "copyright", "other")


def read_remark(tags: Sequence[str] | None, comment: str) -> Remark:
    """Tags and comment of a form; what no page of ours could have sent is refused."""
    told = tuple(dict.fromkeys(tags or ()))
    text = comment.replace("\r\n", "\n").strip()
    unknown = [tag for tag in told if tag not in TAGS]
    if unknown or len(told) > REMARK_TAG_LIMIT:
        raise BadOption(f"the tags are not {REMARK_TAG_LIMIT} at most of {', '.join(TAGS)}")
    if len(text) > MAX_COMMENT_CHARACTERS or "\0" in text:
        raise BadOption(
            f"the comment is longer than {MAX_COMMENT_CHARACTERS} characters, or holds one that cannot be kept"
        )
    return Remark(told, text or None)
