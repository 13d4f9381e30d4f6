"""Parses the remark form of the voting pages."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.voting.remarks import Remark
from tiltyard.errors import BadOption
from tiltyard.wire.vocabulary import MAX_COMMENT_CHARACTERS, REMARK_TAG_LIMIT, TAGS, Tag

#: Tags for the better response, and for two bad ones.
POSITIVE_TAGS: tuple[Tag, ...] = TAGS[:8]
NEGATIVE_TAGS: tuple[Tag, ...] = TAGS[8:]
#: Reasons for a complaint about a matchup.
COMPLAINTS = ("broken", "identifies-model", "harmful", "personal-data", "copyright", "other")


def read_remark(tags: Sequence[str] | None, comment: str) -> Remark:
    """Parse the tags and the comment of a form; raise `BadOption` if they are invalid."""
    chosen = tuple(dict.fromkeys(tags or ()))
    text = comment.replace("\r\n", "\n").strip()
    unknown = [tag for tag in chosen if tag not in TAGS]
    if unknown or len(chosen) > REMARK_TAG_LIMIT:
        raise BadOption(f"expected at most {REMARK_TAG_LIMIT} tags, each one of {', '.join(TAGS)}")
    if len(text) > MAX_COMMENT_CHARACTERS or "\0" in text:
        raise BadOption(
            f"the comment is longer than {MAX_COMMENT_CHARACTERS} characters, or contains a null character"
        )
    return Remark(chosen, text or None)
