"""Checks the quotes of CSV while it is read: Arrow's reader repairs those that stand in the wrong place."""

from __future__ import annotations

import io
from typing import BinaryIO

import numpy as np

_QUOTE = ord('"')
_LINE_ENDS = (ord("\n"), ord("\r"))


class CheckedQuotes(io.RawIOBase):
    """A stream of CSV that raises `ValueError` before it returns bytes with a misplaced quote.

    A quoted field begins after a delimiter or a line's end, and ends before one; quotes inside it are doubled.
    """

    def __init__(self, stream: BinaryIO, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._borders = np.array([ord(delimiter), *_LINE_ENDS], dtype=np.uint8)
        self._quotes = 0
        self._last = _LINE_ENDS[0]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        if data:
            self._check(np.frombuffer(data, dtype=np.uint8))
        elif self._quotes % 2:
            raise ValueError("a quoted field does not end")
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        after_closing = self._last == _QUOTE and self._quotes % 2 == 0 and self._quotes > 0
        if after_closing and data[0] != _QUOTE and data[0] not in self._borders:
            raise ValueError("text after a quoted field")
        places = np.flatnonzero(data == _QUOTE)
        opening = (np.arange(len(places)) + self._quotes) % 2 == 0
        before = np.concatenate([[self._last], data[:-1]])[places[opening]]
        closings = places[~opening]
        after = data[np.minimum(closings + 1, len(data) - 1)][closings + 1 < len(data)]
        allowed = np.append(self._borders, _QUOTE)
        if not (np.isin(before, allowed).all() and np.isin(after, allowed).all()):
            raise ValueError("a quote in the wrong place")
        self._quotes += len(places)
        self._last = int(data[-1])
