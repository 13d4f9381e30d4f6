"""PostgreSQL's security releases known on `KNOWN_ON`, with the minor versions that contain their fixes.

Update `KNOWN_ON` and the table together; docs/how-to/use-your-own-postgresql.md shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

#: When the table below was last checked against public sources.
KNOWN_ON = date(2026, 11, 16)


@dataclass(frozen=True)
class SecurityRelease:
    """One release that fixes vulnerabilities."""

    day: date
    #: The first minor version with the fixes, by major version, where known.
    minors: Mapping[int, int]
    source: str


#: Oldest first. For a major version that a release does not list, its fixes are in some minor version after
#: those that earlier releases list.
SECURITY_RELEASES = (
    SecurityRelease(
        date(2026, 5, 14),
        {15: 18, 16: 14, 17: 10, 18: 4},
        "https://www.postgresql.org/about/news/postgresql-184-1710-1614-1518-and-1423-released-3297/",
    ),
    SecurityRelease(
        date(2026, 8, 13),
        {15: 19, 16: 15, 17: 11, 18: 6},
        "https://github.com/docker-library/official-images/pull/22048",
    ),
    SecurityRelease(
        date(2026, 11, 13),
        {15: 20},
        "https://tracker.debian.org/pkg/postgresql-15",
    ),
)


def missing_releases(server_version: int) -> list[SecurityRelease] | None:
    """The known releases that a server lacks, oldest first; ``None`` if its major version is not listed.

    ``server_version`` is libpq's number, such as 150020 for 15.20.
    """
    major, minor = divmod(server_version, 10_000)
    missing, newest = [], None
    for release in SECURITY_RELEASES:
        named = release.minors.get(major)
        if named is not None:
            newest = named
        if newest is not None and (minor < newest or (named is None and minor == newest)):
            missing.append(release)
    return None if newest is None else missing
