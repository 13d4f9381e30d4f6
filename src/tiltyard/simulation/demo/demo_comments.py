"""Comments of simulated voters."""

from __future__ import annotations

from typing import Final, Literal

_Tag = Literal[
    "accurate", "clear", "well-written", "follows-instructions", "concise", "wrong", "off-topic", "too-long"
]

#: Reasons for votes: tags, and an optional comment.
REMARKS: Final[tuple[tuple[tuple[_Tag, ...], str | None], ...]] = (
    (("accurate", "clear"), "It shows the steps, so I could check them."),
    (("concise",), None),
    (("well-written",), "I would send this one."),
    (("wrong",), "Both got the sum wrong."),
    (("off-topic",), "Neither did what was asked."),
    (("follows-instructions",), None),
    (("too-long",), "Nice, but nobody asked for a lecture."),
)
#: A report about a matchup.
COMPLAINT: Final = ("broken", "The second response seems to be cut off at the end.")
