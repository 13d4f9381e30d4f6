"""The numbers that voters have in an archive: random, and known only to one file.

Nothing about a session can be computed from its number. Once the file is deleted, nobody can.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.errors import BadOption
from tiltyard.files.parquet_tables import ArrayKind, read_arrays, write_arrays
from tiltyard.foundation.local_files import replace_file

Ints = npt.NDArray[np.int64]

_KINDS: dict[str, ArrayKind] = {"numbering": "text", "session": "integer", "voter": "integer"}
_VOTER_BITS = 63


@dataclass(frozen=True, slots=True)
class VoterNumbers:
    """The number of each session; ``numbering`` identifies this assignment, and says nothing about it."""

    numbering: str
    numbers: dict[int, int]

    def extend(self, sessions: Ints) -> VoterNumbers:
        """Give every session that has none a random number that nobody has."""
        numbers, taken = dict(self.numbers), set(self.numbers.values())
        for session in np.unique(sessions).tolist():
            if session != NO_SESSION and session not in numbers:
                numbers[session] = _unused(taken)
        return VoterNumbers(self.numbering, numbers)

    def of(self, sessions: Ints) -> Ints:
        """The numbers of these sessions; where there is none, `NO_SESSION`."""
        known, places = np.unique(sessions, return_inverse=True)
        voters = [NO_SESSION if one == NO_SESSION else self.numbers[one] for one in known.tolist()]
        found: Ints = np.array(voters, dtype=np.int64)[places]
        return found

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner only; it is on disk before anything refers to it."""
        columns: dict[str, list[str] | list[int]] = {
            "numbering": [self.numbering] * len(self.numbers),
            "session": list(self.numbers),
            "voter": list(self.numbers.values()),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replace_file(path, durable=True, private=True) as file:
                write_arrays(file, _KINDS, columns)
        except OSError as error:
            raise BadOption(f"cannot write {path}: {error.strerror or error}; choose another path") from None


def read_voter_numbers(path: Path) -> VoterNumbers:
    """Read the numbers; a file that does not exist is a new assignment without any."""
    if not path.exists():
        return VoterNumbers(secrets.token_hex(16), {})
    columns = read_arrays(path, _KINDS)
    named = set(columns["numbering"].tolist())
    numbers = dict(zip(columns["session"].tolist(), columns["voter"].tolist(), strict=True))
    if len(named) != 1 or len(set(numbers.values())) != len(columns["voter"]):
        raise BadOption(f"{path}: not the numbers of one archive's voters, or damaged; restore a copy")
    return VoterNumbers(named.pop(), numbers)


def _unused(taken: set[int]) -> int:
    while (voter := secrets.randbits(_VOTER_BITS)) in taken:
        pass
    taken.add(voter)
    return voter
