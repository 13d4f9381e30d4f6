"""The order in which the questions of a plan are asked, so that whatever part a budget pays for is a fair one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tiltyard.core.judging.matches import Match, spread_order


class AskingOrder:
    """Numbers the questions of all dimensions so that every beginning is spread evenly.

    Each dimension, pair of models and prompt has about the same share of any first part. The questions of one match,
    in both orders, are next to each other, so that an end leaves few matches half judged.
    """

    def __init__(self, matches: Sequence[Sequence[Match]], checks: Sequence[int], each: int) -> None:
        """``matches`` and the number of ``checks`` by dimension; ``each`` is the number of questions of a match."""
        #: Places of the matches of a dimension, in the order in which they are asked.
        self.spread = [
            spread_order([(one.prompt_id, one.model_a, one.model_b) for one in some]) for some in matches
        ]
        places, shares, sections, sizes = [], [], [], []
        for section, (order, count) in enumerate(zip(self.spread, checks, strict=True)):
            # Checks have places after the matches of their dimension.
            for part, size in ((order, each), (len(order) + np.arange(count), 1)):
                places.append(part)
                shares.append((np.arange(len(part)) + 0.5) / max(len(part), 1))
                sections.append(np.full(len(part), section))
                sizes.append(np.full(len(part), size))
        owners = np.concatenate(sections)
        line = np.lexsort((owners, np.concatenate(shares)))
        self._sections = owners[line].astype(np.int32)
        self._places = np.concatenate(places)[line].astype(np.int32)
        self._ends = np.cumsum(np.concatenate(sizes)[line])

    def units(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """The matches and checks that have the questions ``first`` (included) to ``last`` (excluded).

        Of each, the dimension and place, and which of its own questions are in the range.
        """
        unit = int(np.searchsorted(self._ends, first, side="right"))
        start = int(self._ends[unit - 1]) if unit else 0
        while unit < len(self._ends) and start < last:
            end = int(self._ends[unit])
            yield (
                int(self._sections[unit]),
                int(self._places[unit]),
                max(first - start, 0),
                min(last, end) - start,
            )
            unit, start = unit + 1, end
