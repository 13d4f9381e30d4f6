"""Verifies a run, a release or a published site, in a folder or at an address: every byte that its readers see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from tiltyard.errors import BadOption, BrokenArtifact, TiltyardError, UnreadableFile
from tiltyard.files.input_address import address_of
from tiltyard.files.web_files import fetch_web_file
from tiltyard.foundation.local_files import read_regular
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, file_hash, parse_document
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.site_folder import (
    SITE_INDEX,
    SITE_PAGE,
    SiteEntry,
    SiteIndex,
    drawing_versions,
    is_recomputed,
    redraw_site,
)
from tiltyard.runs.verification_checks import RunCheck, Verification, hash_check


def verify(place: str | os.PathLike[str]) -> Verification:
    """Check a run, an arena's release or a published site: the hash of every file, then every number and page.

    ``place`` is a folder or the ``https://`` address of one. Numbers are recomputed from the battles, and pages,
    pictures and archives are made again. The result has ``passed``, ``exact`` (to the last bit), ``summary`` and
    ``checks``.
    """
    address = address_of(place)
    if address is None:
        return _verify_folder(Path(place))
    with TemporaryDirectory(prefix="tiltyard-") as fetched:
        checks = tuple(_fetch_folder(address.rstrip("/"), Path(fetched)))
        return Verification((*checks, *_verify_folder(Path(fetched)).checks))


def _verify_folder(folder: Path) -> Verification:
    if (folder / SITE_INDEX).is_file():
        return Verification(tuple(_site_checks(folder)))
    return verify_run(folder)


def _site_checks(folder: Path) -> Iterator[RunCheck]:
    """Hashes first; then each run, and at last the pages, which are made again from the runs."""
    path = folder / SITE_INDEX
    try:
        index = SiteIndex.model_validate_json(read_regular(path))
    except (OSError, ValidationError) as error:
        raise BrokenArtifact(f"{path}: is not the index of a site: {str(error).splitlines()[0]}") from None
    hashes = list(_hash_checks(folder, index.files))
    runs = [check for entry in index.runs for check in _run_checks(folder, entry)]
    yield from (check for check in hashes if not check.passed)
    if all(check.passed for check in hashes):
        yield RunCheck("files", passed=True, detail=f"{len(hashes):,} hashes match")
    yield from runs
    if all(check.passed for check in (*hashes, *runs)):
        yield from _redrawn_checks(folder, index)


def _hash_checks(folder: Path, listed: Mapping[str, str]) -> Iterator[RunCheck]:
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    for name in sorted((present | set(listed)) - {SITE_INDEX}):
        if name not in listed:
            yield RunCheck(name, passed=False, detail="is not a file of this site")
        elif name not in present:
            yield RunCheck(name, passed=False, detail="missing")
        else:
            yield hash_check(folder, name, listed[name])


def _run_checks(folder: Path, entry: SiteEntry) -> Iterator[RunCheck]:
    """What is wrong with a run of the site, or one check that sums it up."""
    run = folder / entry.name
    try:
        recompute = is_recomputed(run)
        found = verify_run(run, recompute=recompute)
    except TiltyardError as error:
        yield RunCheck(entry.name, passed=False, detail=str(error))
        return
    if not found.passed:
        failed = (check for check in found.checks if not check.passed)
        yield from (RunCheck(f"{entry.name}/{one.name}", passed=False, detail=one.detail) for one in failed)
        return
    unchecked = [one.unchecked for one in found.checks if one.unchecked]
    unchecked += (
        [] if recompute else [f"the numbers of {entry.name}, which `tiltyard verify {run}` recomputes"]
    )
    detail = found.summary.removeprefix("Verified: ") if recompute else "hashes match"
    yield RunCheck(entry.name, passed=True, detail=detail, exact=found.exact, unchecked="; ".join(unchecked))


def _redrawn_checks(folder: Path, index: SiteIndex) -> Iterator[RunCheck]:
    """Whether the site's own runs make the same pages, pictures, archives and index."""
    if index.drawn_with != drawing_versions():
        versions = ", ".join(f"{name} {version}" for name, version in index.drawn_with.items())
        unchecked = (
            f"{SITE_PAGE}, badges, cards and archives; with {versions} they are drawn again and compared"
        )
        detail = "not compared: drawn with other versions"
        yield RunCheck(SITE_PAGE, passed=True, detail=detail, exact=False, unchecked=unchecked)
        return
    with TemporaryDirectory(prefix="tiltyard-") as made:
        draft = Path(made)
        redraw_site(folder, index, draft)
        drawn = {
            path.relative_to(draft).as_posix(): file_hash(path) for path in draft.rglob("*") if path.is_file()
        }
    given = {**index.files, SITE_INDEX: file_hash(folder / SITE_INDEX)}
    different = sorted(name for name in {*drawn, *given} if drawn.get(name) != given.get(name))
    for name in different:
        yield RunCheck(name, passed=False, detail="differs from what the runs give")
    if not different:
        yield RunCheck(SITE_PAGE, passed=True, detail="redrawn with badges, cards and archives, equal")


def _fetch_folder(address: str, folder: Path) -> Iterator[RunCheck]:
    """Fetch what the folder's index lists; of a site, also what its address itself shows."""
    parts = urlsplit(address)
    if parts.query or parts.fragment or not parts.scheme.lower().startswith("http"):
        raise BadOption(f"{address}: expected https://, and no query: the address of a site or a run folder")
    try:
        names = _fetch_index(address, folder, SITE_INDEX)
    except UnreadableFile as missing:
        try:
            names = [*_fetch_index(address, folder, MANIFEST), MANIFEST_HASH]
        except UnreadableFile:
            raise missing from None
    for name in names:
        _fetch(address, name, folder)
    if (folder / SITE_INDEX).is_file():
        shown = fetch_web_file(f"{address}/")
        same = file_hash(shown.files[0].path) == file_hash(folder / SITE_PAGE)
        yield RunCheck("/", same, f"{'is' if same else 'is not'} {SITE_PAGE}")


def _fetch_index(address: str, folder: Path, name: str) -> list[str]:
    """Fetch a list of files, and give their names."""
    document = parse_document(name, read_regular(_fetch(address, name, folder)))
    listed = document.get("files") if isinstance(document, dict) else None
    return list(listed) if isinstance(listed, dict) else []


def _fetch(address: str, name: str, folder: Path) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or {"..", "/"} & set(parts) or "\\" in name or "\x00" in name:
        raise BrokenArtifact(f"{address}: lists the file {name!r}, which is outside of it")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    fetched = fetch_web_file(f"{address}/{quote(name)}")
    shutil.copyfile(fetched.files[0].path, target)
    return target
