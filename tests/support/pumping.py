"""Worst cases of a regular expression, made from its own parse tree, and whether they cost linear time.

A pattern is slow where a repeated part can match one text in several ways, or where a search starts again at
every character. Both show when whatever a pattern repeats is repeated many times and the end does not match.
"""

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from re import _constants as codes  # type: ignore
from re import _parser as parser  # type: ignore

from support.sizes import sized

_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}
_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}
_CHARACTERS = "a1 -_.\n\t\"'\\/*<>()[]{}=:;#$@!?|&~^%,+`AéZ09zefx"
#: Ends that most patterns do not match.
_ENDS = ("", "\0", "\n")

#: Characters of a first try. A quadratic pattern needs 10 ms and more for so many, most linear ones less than 0.5 ms.
_SIZE = 4_000
_QUICK_SECONDS = 0.004
#: CPU seconds after which a pattern is not waited for.
_LIMIT_SECONDS = 1.0
#: A text four times as long costs a linear pattern 4 times as much, a quadratic one 16 times.
_GROWTH, _MOST_GROWTH = 4, 9.0
_RUNS, _ROUNDS = 3, 5
#: Texts that are drawn for what is repeated; two that follow each other are tried together too.
_UNITS = sized(3, 6)


class _TooSlow(Exception):
    pass


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise after so much CPU time: the matcher of `re` looks for signals while it works."""

    def give_up(*_: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _seconds(run: Callable[[str], object], text: str, limit: float = _LIMIT_SECONDS) -> float:
    """The CPU time of a run; infinite if it reaches the limit."""
    try:
        with _limited(limit):
            start = time.thread_time()
            run(text)
            return time.thread_time() - start
    except _TooSlow:
        return float("inf")


def cost_is_linear(run: Callable[[str], object], worst: Callable[[int], str]) -> bool:
    """Whether the time of ``run(worst(size))`` grows with the size and not faster.

    One round in which the growth is linear is enough: noise makes a linear cost look worse now and then. So that it
    makes no slow one look linear, the short text is measured before the long one and again after it.
    """
    first = _seconds(run, worst(_SIZE))
    if not _QUICK_SECONDS < first < float("inf"):
        return first <= _QUICK_SECONDS
    short = first
    for _ in range(_ROUNDS):
        short = min(short, *(_seconds(run, worst(_SIZE)) for _ in range(_RUNS)))
        bound = _MOST_GROWTH * short
        long = min(_seconds(run, worst(_GROWTH * _SIZE), bound) for _ in range(_RUNS))
        if long < bound:
            short = min(short, *(_seconds(run, worst(_SIZE)) for _ in range(_RUNS)))
            if long < _MOST_GROWTH * short:
                return True
    return False


def slow_case(pattern: re.Pattern, *, anywhere: bool) -> tuple[str, str, str] | None:
    """The beginning, the repeated part and the end of a text on which a pattern is slow; ``None`` if none is found.

    ``anywhere`` says that the pattern is searched for, rather than matched at the beginning.
    """
    encoded = isinstance(pattern.pattern, bytes)

    def run(text: str) -> None:
        data = text.encode("latin-1", "replace") if encoded else text
        if anywhere:
            for _ in pattern.finditer(data):
                pass
        else:
            pattern.match(data)
            pattern.fullmatch(data)

    for case in worst_cases(pattern):
        start, unit, end = case
        if not cost_is_linear(run, lambda size: f"{start}{unit * (size // len(unit))}{end}"):  # noqa: B023
            return case
    return None


def worst_cases(pattern: re.Pattern, tries: int = sized(1, 2)) -> Iterator[tuple[str, str, str]]:
    """Beginnings, parts to be repeated, and ends."""
    draw = random.Random(0)
    source = pattern.pattern
    # Flags that bytes cannot have, and those that the source sets itself, are no argument.
    tree = parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(source, bytes) else pattern.flags)
    seen = set()
    for _ in range(tries):
        whole = _sample(tree, draw)
        cases = [("", whole), ("", whole[:-1]), ("", whole[:1])]
        for start, body in _repeats(tree, draw):
            units = [_sample(body, draw) for _ in range(_UNITS)]
            cases += [
                ("", start),
                *((start, unit) for unit in units),
                *((start, a + b) for a, b in pairwise(units)),
            ]
        for start, unit in cases:
            for end in _ENDS:
                if unit and (start, unit, end) not in seen:
                    seen.add((start, unit, end))
                    yield start, unit, end


def _repeats(tree, draw: random.Random, start: str = "") -> Iterator[tuple[str, object]]:
    """What a pattern repeats, each with a text that leads up to it."""
    for code, value in tree:
        if code in _REPEATS:
            if value[1] > 8:
                yield start, value[2]
            yield from _repeats(value[2], draw, start)
        else:
            for part in _parts(code, value):
                yield from _repeats(part, draw, start)
        start += _one(code, value, draw)


def _parts(code, value) -> list:
    if code is codes.SUBPATTERN:
        return [value[3]]
    if code is codes.BRANCH:
        return value[1]
    if code is codes.ATOMIC_GROUP:
        return [value]
    return [value[1]] if code in {codes.ASSERT, codes.ASSERT_NOT} else []


def _sample(tree, draw: random.Random) -> str:
    return "".join(_one(code, value, draw) for code, value in tree)


def _one(code, value, draw: random.Random) -> str:
    """A text that one element matches."""
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.NOT_LITERAL:
        return draw.choice([each for each in _CHARACTERS if ord(each) != value])
    if code is codes.ANY:
        return draw.choice(_CHARACTERS)
    if code is codes.IN:
        return _member(value, draw)
    if code is codes.BRANCH:
        return _sample(draw.choice(value[1]), draw)
    if code in _REPEATS:
        times = min(value[1], max(value[0], draw.choice((0, 1, 2))))
        return "".join(_sample(value[2], draw) for _ in range(times))
    return (
        ""
        if code in {codes.ASSERT, codes.ASSERT_NOT}
        else "".join(_sample(part, draw) for part in _parts(code, value))
    )


def _member(items, draw: random.Random) -> str:
    """A character of a set."""
    if items[0][0] is codes.NEGATE:
        return draw.choice(
            [each for each in _CHARACTERS if not any(_holds(item, each) for item in items[1:])] or ["一"]
        )
    code, value = draw.choice(items)
    if code is codes.CATEGORY:
        return draw.choice([each for each in _CHARACTERS if re.match(_CATEGORIES[value], each)])
    return chr(value if code is codes.LITERAL else draw.choice(value))


def _holds(item, character: str) -> bool:
    code, value = item
    if code is codes.CATEGORY:
        return re.match(_CATEGORIES[value], character) is not None
    low, high = (value, value) if code is codes.LITERAL else value
    return low <= ord(character) <= high
