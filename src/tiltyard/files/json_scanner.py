"""Scans the text of a JSON document, with one value in memory at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from tiltyard.errors import UnreadableFile
from tiltyard.files.json_values import DECODER, check_depth, check_parts
from tiltyard.files.read_limits import JSON_VALUE_BYTES, format_bytes

_CHUNK_CHARACTERS = 1 << 16
#: An error that near to the end of what was read may be the end of a chunk, in the middle of a word.
_WORD_CHARACTERS = 16
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass
class JsonScanner:
    """A position in the text of a JSON document.

    `elements` and `members` yield before each element of a list and each value of an object; the
    caller then reads it by `value`, or by `elements` or `members` again.
    """

    name: str
    stream: TextIO
    text: str = ""
    at: int = 0
    #: How many elements of the last list have been found.
    number: int = field(default=0, init=False)

    def peek(self) -> str:
        """The next non-blank character; empty at the end of the file."""
        while True:
            found = _BLANK.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            self.text, self.at = self.stream.read(_CHUNK_CHARACTERS), 0
            if not self.text:
                return ""

    def take(self, character: str) -> None:
        found = self.peek()
        if found != character:
            seen = repr(found) if found else "the end of the file"
            raise UnreadableFile(
                f"{self.name}, after record {self.number}: expected {character!r}, found {seen}"
            )
        self.at += 1

    def elements(self) -> Iterator[str]:
        """The location of each element of the list that is next."""
        self.take("[")
        self.number = 0
        if self.peek() != "]":
            while True:
                self.number += 1
                yield f"{self.name}, record {self.number}"
                if self.peek() != ",":
                    break
                self.take(",")
        self.take("]")

    def members(self) -> Iterator[str]:
        """The name of each member of the object that is next."""
        self.take("{")
        if self.peek() != "}":
            while True:
                _, name = self.value(self.name)
                if not isinstance(name, str):
                    raise UnreadableFile(f"{self.name}: not JSON (a name is not text)")
                self.take(":")
                yield name
                if self.peek() != ",":
                    break
                self.take(",")
        self.take("}")

    def value(self, where: str) -> tuple[str, Any]:
        """The text and the value that are next; errors name ``where``."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self._is_broken(error) or not self._lengthen(where):
                    raise UnreadableFile(f"{where}: not JSON ({error.msg})") from None
                continue
            except RecursionError:
                raise UnreadableFile(f"{where}: nested too deeply to be read") from None
            except ValueError as error:
                raise UnreadableFile(f"{where}: cannot be read ({error})") from None
            # A number may have been cut in two.
            if end == len(self.text) and self._lengthen(where):
                continue
            text, self.at = self.text[self.at : end], end
            check_depth(where, value)
            return text, value

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        """Whether more text cannot mend it."""
        return not error.msg.startswith("Unterminated") and error.pos < len(self.text) - _WORD_CHARACTERS

    def _lengthen(self, where: str) -> bool:
        """Read as much again as there is of the value; false at the end of the file."""
        rest = self.text[self.at :]
        more = self.stream.read(max(_CHUNK_CHARACTERS, len(rest)))
        self.text, self.at = rest + more, 0
        if len(self.text) > JSON_VALUE_BYTES:
            raise UnreadableFile(f"{where}: longer than {format_bytes(JSON_VALUE_BYTES)}; split it")
        check_parts(where, self.text.count("[") + self.text.count("{"))
        return bool(more)
