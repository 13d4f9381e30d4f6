"""Writes a static site of verified runs: completely or not at all, and the same bytes for the same runs."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tiltyard.errors import BadOption, BrokenArtifact
from tiltyard.files import open_battles
from tiltyard.foundation.local_files import open_regular, read_regular, replace_folder
from tiltyard.report.site_boards import SiteRun
from tiltyard.report.site_page import SitePage, render_site_page
from tiltyard.report.svg_badge import render_badge
from tiltyard.report.svg_card import card_png, render_card
from tiltyard.runs.json_files import json_bytes
from tiltyard.runs.manifest import BATTLES, MANIFEST, MANIFEST_HASH, file_hash, locate_run
from tiltyard.runs.plain_names import plain_names
from tiltyard.runs.published_run import RunFields, read_run_content, run_files
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.tournament_documents import ZIP_EPOCH

SITE_INDEX = "site.json"
_PAGE = "index.html"
_BADGES, _CARDS = "badges", "cards"
#: Runs of more battles are published after a check of their hashes; recomputing them takes minutes and gigabytes.
MAX_RECOMPUTED_BATTLES = 1_000_000
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:/[A-Za-z0-9._~%-]*)*")


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """What was published, from which folder, and what its readers can see."""

    folder: Path
    run: SiteRun
    fields: RunFields
    #: What the verification found.
    verified: str


@dataclass(frozen=True, slots=True)
class PublishedSite:
    """A finished site."""

    runs: tuple[PublishedRun, ...]
    files: int
    size_bytes: int


class _SiteIndex(BaseModel):
    """The fields of an earlier site that matter for replacing it."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    schema_: Literal["tiltyard-site/1"] = Field(alias="schema")
    files: list[str]


def publish_site(
    folders: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    url: str | None = None,
    watch: Callable[[PublishedRun], None] = lambda _run: None,
) -> PublishedSite:
    """Verify runs, and write a site of them to ``out``. ``watch`` is called with each run that was verified.

    An earlier site in ``out`` is replaced; a folder with any other content is rejected.
    """
    address = None if url is None else _checked_url(url)
    sources = [_run_folder(folder) for folder in folders]
    names = plain_names([named for named, _folder in sources], otherwise="run", taken=(_BADGES, _CARDS))
    try:
        _refuse_foreign(out, [folder for _named, folder in sources])
        with replace_folder(out) as draft:
            runs = []
            for (_named, folder), name in zip(sources, names, strict=True):
                runs.append(_copy_run(folder, draft, name))
                watch(runs[-1])
            _write_pages(draft, [one.run for one in runs], title, address)
            files = sorted(path for path in draft.rglob("*") if path.is_file())
            return PublishedSite(tuple(runs), len(files), sum(path.stat().st_size for path in files))
    except OSError as error:
        raise BadOption(f"cannot write {out}: {error.strerror or error}") from None


def _checked_url(url: str) -> str:
    if _URL.fullmatch(url) is None:
        raise BadOption(
            f"--url is {url!r}; expected an address such as https://example.org/board, without a query"
        )
    return url.rstrip("/")


def _run_folder(folder: Path) -> tuple[str, Path]:
    """The name of a run and its folder."""
    place = folder.resolve()
    return place.name, locate_run(place)


def _refuse_foreign(out: Path, folders: Sequence[Path]) -> None:
    """Reject a place that holds anything but an earlier site, or that lies inside a run."""
    for folder in folders:
        if out.resolve().is_relative_to(folder):
            raise BadOption(
                f"{out} is inside the run {folder}, which would not verify any more; name another folder"
            )
    if out.exists() and not out.is_dir():
        raise BadOption(f"{out} is a file; name a folder")
    if not out.is_dir() or not any(out.iterdir()):
        return
    known = _earlier_files(out / SITE_INDEX)
    present = {path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()}
    foreign = sorted(present if known is None else present - known)
    if foreign:
        raise BadOption(
            f"{out} contains files that `tiltyard publish` did not write, such as {foreign[0]}; "
            "move them, or name a new folder"
        )


def _earlier_files(path: Path) -> set[str] | None:
    try:
        index = _SiteIndex.model_validate_json(read_regular(path))
    except (OSError, ValidationError):
        return None
    return {*index.files, SITE_INDEX}


def _copy_run(folder: Path, draft: Path, name: str) -> PublishedRun:
    """Copy the files that the manifest lists, and verify the copy: what is published is what was checked."""
    _refuse_failed(folder, folder, recompute=False)
    copy = draft / name
    for file in _listed(folder):
        target = copy / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(folder / file) as source, target.open("xb") as written:
            shutil.copyfileobj(source, written)
    recompute = (open_battles(copy / BATTLES).rows or 0) <= MAX_RECOMPUTED_BATTLES
    verified = _refuse_failed(copy, folder, recompute=recompute)
    _write_archive(draft / f"{name}.zip", copy, name)
    content = read_run_content(copy)
    run = SiteRun(
        name=name,
        title=content.title,
        method=content.method,
        boards=content.boards,
        battles=content.battles,
        models=len({row.model for board in content.boards for row in board.rows}),
        prompts=content.prompts,
        date=content.date,
        manifest_sha256=file_hash(copy / MANIFEST),
        archive_bytes=(draft / f"{name}.zip").stat().st_size,
        by=content.by,
        overall=content.overall,
        recomputed=recompute,
        comparison=content.comparison,
    )
    return PublishedRun(folder, run, content.fields, verified)


def _refuse_failed(folder: Path, named: Path, *, recompute: bool) -> str:
    """What was verified, as a sentence; raises `BrokenArtifact` with the first check that failed."""
    result = verify_run(folder, recompute=recompute)
    failed = next((check for check in result.checks if not check.passed), None)
    if failed is not None:
        raise BrokenArtifact(
            f"{named} is not published: {failed.name}: {failed.detail}. "
            f"`tiltyard verify` shows every check; publish the folder as it was written, or write it again"
        )
    if recompute:
        return result.summary
    return (
        f"Only hashes were checked: more than {MAX_RECOMPUTED_BATTLES:,} battles. "
        "`tiltyard verify` recomputes every number."
    )


def _listed(folder: Path) -> Iterator[str]:
    yield from sorted(run_files(folder))
    yield from (MANIFEST, MANIFEST_HASH)


def _write_archive(path: Path, folder: Path, name: str) -> None:
    """The folder as a zip archive without times, so that equal runs make equal bytes."""
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        for file in _listed(folder):
            entry = zipfile.ZipInfo(f"{name}/{file}", ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            entry.file_size = (folder / file).stat().st_size
            with (folder / file).open("rb") as source, archive.open(entry, "w") as written:
                shutil.copyfileobj(source, written)


def _write_pages(draft: Path, runs: Sequence[SiteRun], title: str | None, url: str | None) -> None:
    (draft / _BADGES).mkdir()
    (draft / _CARDS).mkdir()
    card = None
    for number, run in enumerate(runs):
        (draft / _BADGES / f"{run.name}.svg").write_bytes(render_badge(run).encode())
        svg = render_card(run)
        (draft / _CARDS / f"{run.name}.svg").write_bytes(svg.encode())
        png = None if url is None else card_png(svg)
        if png is not None:
            (draft / _CARDS / f"{run.name}.png").write_bytes(png)
            card = f"{_CARDS}/{run.name}.png" if number == 0 else card
    shown = title or (runs[0].title if len(runs) == 1 else "Boards")
    page = render_site_page(SitePage(shown, url, card), runs)
    (draft / _PAGE).write_bytes(page.encode())
    index = _index(draft, runs, shown, url)
    (draft / SITE_INDEX).write_bytes(json_bytes(index))


def _index(draft: Path, runs: Sequence[SiteRun], title: str, url: str | None) -> dict[str, object]:
    """`site.json`: the runs for programs, and every file, so that a later site replaces no others."""
    return {
        "schema": "tiltyard-site/1",
        "title": title,
        "url": url,
        "runs": [
            {
                "name": run.name,
                "title": run.title,
                "manifest_sha256": run.manifest_sha256,
                "archive_sha256": file_hash(draft / f"{run.name}.zip"),
                "recomputed": run.recomputed,
            }
            for run in runs
        ],
        "files": sorted(path.relative_to(draft).as_posix() for path in draft.rglob("*") if path.is_file()),
    }
