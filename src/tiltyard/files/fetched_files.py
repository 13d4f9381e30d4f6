"""Files that were fetched from an address, with names by which anybody can fetch the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors

_LISTED_COUNT = 5
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class FetchedFiles:
    """The files of an address. The name of each is its own address: ``place``, and what follows it.

    ``path`` is the address that was given, as it may be shown.
    """

    path: str
    place: str
    files: tuple[InputFile, ...]

    @property
    def note(self) -> str:
        """Which bytes were fetched: the place (of a dataset, with its commit), files and size."""
        size = sum(file.path.stat().st_size for file in self.files)
        parts = [file.name.removeprefix(self.place).lstrip("/") for file in self.files]
        names = [part for part in parts if part]
        if not names:
            return f"{self.place}: {size:,} bytes"
        shown = ", ".join(names[:_LISTED_COUNT])
        rest = f" and {len(names) - _LISTED_COUNT} more" if len(names) > _LISTED_COUNT else ""
        count = f"{len(names)} file{'s' if len(names) > 1 else ''}"
        return f"{self.place}: {count}, {size:,} bytes: {shown}{rest}"


def check_no_page(file: InputFile) -> None:
    """Raise if the file is a web page or XML: no format of battles or answers begins with ``<``."""
    with translate_read_errors(file.name), file.open() as stream:
        start = stream.read(512).removeprefix(_BOM).lstrip(_BLANK)
    if start.startswith(b"<"):
        raise UnreadableFile(
            f"{file.name}: is a web page, not a file of data; use the address of the file itself "
            "(GitHub: the button Raw; Hugging Face: hf://datasets/OWNER/NAME)"
        )
