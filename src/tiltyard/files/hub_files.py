"""Files that are fetched: from the web, and of datasets on the Hugging Face Hub, into huggingface_hub's own cache."""

from __future__ import annotations

import errno
import http.client
import ipaddress
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import IO, Any, BinaryIO, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

from tiltyard._version import __version__
from tiltyard.errors import BadOption, MissingExtra, TiltyardError, UnreadableFile
from tiltyard.files.input_file import FetchedFiles, open_input, spool_input
from tiltyard.foundation.fetch_listener import FetchListener, fetch_listener
from tiltyard.settings.serving_settings import is_loopback

#: Without a byte for so long the connection is given up.
_SILENCE_SECONDS = 60
#: Characters that an address may contain as they are.
_SAFE = "%/:=&?~+!$,;'@()*[]"

#: The first that fits: some are subclasses of others.
_EXPLAINED: tuple[tuple[type[Exception], str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted; check the address, or name its authority in SSL_CERT_FILE",
    ),
    (ssl.SSLError, "no encrypted connection is possible; check the address"),
    (socket.gaierror, "no such host; check the address and the network"),
    (TimeoutError, f"nothing came for {_SILENCE_SECONDS} seconds; try again later"),
    (ConnectionRefusedError, "the server refuses connections; check the address"),
    (http.client.InvalidURL, "no valid address; check it"),
    (UnicodeError, "no valid address; check it"),
)

_FORM = "hf://datasets/OWNER/NAME, followed by @REVISION and /FILE if you like"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The branch on which the hub keeps every dataset that it could convert as Parquet.
_CONVERTED = "refs/convert/parquet"
_SIGN_IN = "set HF_TOKEN to a token that may read it, or sign in with `hf auth login`"
_STATUSES = {
    401: f"the hub refused access (401); {_SIGN_IN}",
    403: f"the hub refused access (403); {_SIGN_IN}",
    404: "the hub has nothing at this address (404); check the name",
    429: "the hub's rate limit is reached (429); wait some minutes, or set HF_TOKEN, which raises the limit",
}
#: How the client says that a file has another size than announced.
_WRONG_SIZE = "onsistency check failed"
#: The end of a shard's name: ``train-00000-of-00007``, formerly with a hash.
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?$")
_DATA_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".csv", ".csv.gz")
#: What the hub calls a split of which it converted the first gigabytes only.
_PARTIAL = "partial-"
_LISTED_COUNT = 10


def fetch_web_file(text: str) -> FetchedFiles:
    """Fetch a file; it is deleted with the returned object."""
    shown = shown_address(text)
    parts = _checked(text, shown)
    address = quote(parts._replace(fragment="").geturl(), safe=_SAFE)
    request = urllib.request.Request(address, headers={"User-Agent": f"tiltyard/{__version__}"})  # noqa: S310 - its scheme is checked
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    opener = urllib.request.build_opener(secure, _CheckedRedirects())
    try:
        response = opener.open(request, timeout=_SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise UnreadableFile(f"{shown}: {_explain_status(error)}") from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise UnreadableFile(f"{shown}: {_explain(error)}") from None
    with response:
        body = cast("BinaryIO", _WebBody(shown, response, fetch_listener()))
        try:
            return FetchedFiles(shown, shown, (spool_input(shown, body),))
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise UnreadableFile(
                f"{shown}: cannot be stored: {problem}; TMPDIR names another folder"
            ) from None


def shown_address(text: str) -> str:
    """The address without its query, which may hold a key, and without a user's name and password."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return text.partition("?")[0]
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")


def _checked(text: str, shown: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadOption(f"{shown}: no valid address") from None
    if not host:
        raise BadOption(f"{shown}: no valid address; expected https://HOST/FILE")
    if "@" in parts.netloc:
        raise BadOption(
            f"{shown}: names and passwords in addresses are not sent; download the file and name it"
        )
    if parts.scheme != "https" and not is_loopback(host):
        raise BadOption(f"{shown}: anybody on the way could change it; use https://")
    return parts


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects that `check_redirect` allows."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        try:
            check_redirect(req.full_url, newurl)
        except UnreadableFile:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def check_redirect(old: str, new: str) -> None:
    """Raise if a server redirects to an address that is not encrypted, or from the internet into a private network."""
    start, end = urlsplit(old), urlsplit(new)
    problem = None
    if not end.hostname:
        problem = "which is no valid address"
    elif end.scheme != "https" and (start.scheme == "https" or not is_loopback(end.hostname)):
        problem = "which is not https"
    elif _is_public(start.hostname or "") and not _is_public(end.hostname):
        problem = "which is in a private network"
    if problem is not None:
        raise UnreadableFile(
            f"{shown_address(old)}: redirects to {shown_address(new)}, {problem}; "
            "download the file and name it, if you trust it"
        )


class _WebBody:
    """The body of a response, which must be complete."""

    def __init__(self, name: str, response: Any, listener: FetchListener) -> None:
        length = response.headers.get("Content-Length", "")
        self._name = name
        self._response = response
        self._listener = listener
        self._total = int(length) if length.isdecimal() else None
        self._size = 0

    def read(self, size: int, /) -> bytes:
        try:
            data: bytes = self._response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise UnreadableFile(f"{self._name}: {_explain(error)}") from None
        self._size += len(data)
        if not data and self._total is not None and self._size < self._total:
            raise UnreadableFile(
                f"{self._name}: the connection ended after {self._size:,} of {self._total:,} bytes; "
                "run the command again"
            )
        self._listener.receive(self._name, self._size, self._total)
        return data


def _is_public(host: str) -> bool:
    """Whether a host is on the internet. A name that only a proxy can resolve is."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return True
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in found)


def _explain(error: Exception) -> str:
    """Why there is no response, and what to do."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    for kind, sentence in _EXPLAINED:
        if isinstance(reason, kind):
            return sentence
    return f"the connection broke ({type(reason).__name__}); run the command again"


def _explain_status(error: urllib.error.HTTPError) -> str:
    match error.code:
        case 401 | 403:
            return f"access is refused ({error.code}); download the file where you are signed in, and name it"
        case 404 | 410:
            return f"there is no such file ({error.code}); check the address"
        case 429:
            wait = error.headers.get("Retry-After", "")
            how_long = f"{wait} seconds" if wait.isdecimal() else "some minutes"
            return f"the server's rate limit is reached (429); wait {how_long} and run the command again"
        case code if 300 <= code < 400:
            return f"too many redirects ({code}); check the address"
        case code if code >= 500:
            return f"the server failed ({code}); try again later"
    return f"the server answered {error.code}; check the address"


@dataclass(frozen=True)
class DatasetAddress:
    """A dataset, a revision of it if one was named, and a file, folder or pattern in it, or nothing."""

    repo: str
    revision: str | None
    path: str

    @classmethod
    def parse(cls, text: str) -> DatasetAddress:
        """Read ``hf://datasets/OWNER/NAME[@REVISION][/PATH]``; a slash in a revision is written ``%2F``."""
        kind, *parts = text[len("hf://") :].rstrip("/").split("/")
        if kind != "datasets":
            raise BadOption(f"{text}: only datasets are read; expected {_FORM}")
        if len(parts) < 2 or not all(parts) or {".", ".."} & set(parts):
            raise BadOption(f"{text}: expected {_FORM}")
        owner, named, *rest = parts
        name, at, revision = named.partition("@")
        if at and revision == "refs" and len(rest) >= 2:
            revision, rest = "/".join(["refs", *rest[:2]]), rest[2:]
        if not name or (at and not revision):
            raise BadOption(f"{text}: expected {_FORM}")
        return cls(f"{owner}/{name}", unquote(revision) if at else None, "/".join(rest))

    def at(self, revision: str | None) -> str:
        """The address of the dataset at a revision."""
        return f"hf://datasets/{self.repo}" + (f"@{revision}" if revision else "")


def fetch_dataset(text: str) -> FetchedFiles:
    """Fetch what an address names; files that the cache has are not fetched again."""
    address = DatasetAddress.parse(text)
    try:
        import huggingface_hub as hub
    except ImportError:
        raise MissingExtra("hf", f"Reading {text}") from None
    with _translate_hub_errors(text, address.repo):
        commit, files = _cached(hub, address) or _download(hub, address)
    place = address.at(commit)
    named = ((f"{place}/{name}", path) for name, path in files.items())
    return FetchedFiles(text, place, tuple(open_input(path, name=name) for name, path in named))


def _cached(hub: Any, address: DatasetAddress) -> tuple[str, dict[str, Path]] | None:
    """A commit and a file that were named exactly and are in the cache: the hub is not asked."""
    commit = address.revision
    if commit is None or not _COMMIT.fullmatch(commit) or not address.path or has_magic(address.path):
        return None
    path = hub.try_to_load_from_cache(address.repo, address.path, revision=commit, repo_type="dataset")
    return (commit, {address.path: Path(path)}) if isinstance(path, str) else None


def _download(hub: Any, address: DatasetAddress) -> tuple[str, dict[str, Path]]:
    commit, names = _resolve(hub, address)
    files = {
        name: Path(hub.hf_hub_download(address.repo, name, repo_type="dataset", revision=commit))
        for name in names
    }
    return commit, files


def _resolve(hub: Any, address: DatasetAddress) -> tuple[str, list[str]]:
    """The commit that the revision is now, and the files that the path means in it."""
    commit, names = _listed(hub, address.repo, address.revision)
    chosen = choose_files(address.at(address.revision), names, address.path)
    if not chosen and address.revision is None:
        commit, chosen = _converted(hub, address)
    if not chosen:
        place = address.at(address.revision)
        raise UnreadableFile(f"{place}: no Parquet files; {list_files(names)}; name a file: {place}/FILE")
    return commit, chosen


def _converted(hub: Any, address: DatasetAddress) -> tuple[str, list[str]]:
    """The files to which the hub has converted the dataset, if it has."""
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        commit, names = _listed(hub, address.repo, _CONVERTED)
    except RevisionNotFoundError:
        return "", []
    return commit, choose_files(address.at(_CONVERTED), names, "")


def _listed(hub: Any, repo: str, revision: str | None) -> tuple[str, Sequence[str]]:
    api = hub.HfApi()
    commit = api.dataset_info(repo, revision=revision).sha
    if not commit:
        raise UnreadableFile(f"hf://datasets/{repo}: the hub does not say its commit; check HF_ENDPOINT")
    return commit, api.list_repo_files(repo, repo_type="dataset", revision=commit)


@contextmanager
def _translate_hub_errors(text: str, repo: str) -> Iterator[None]:
    """Translate whatever the hub's client raises; its HTTP library differs from version to version."""
    try:
        yield
    except TiltyardError:
        raise
    except Exception as error:  # noqa: BLE001
        raise UnreadableFile(f"{text}: {explain_hub_error(error, repo)}") from None


def explain_hub_error(error: BaseException, repo: str) -> str:
    """The problem and the remedy. Nothing that the server sent is repeated."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        return explain_hub_error(error.__cause__, repo)
    endpoint = constants.ENDPOINT
    # The first that fits: some are subclasses of others.
    status = getattr(getattr(error, "response", None), "status_code", None)
    explained: tuple[tuple[type[BaseException], str], ...] = (
        (
            errors.GatedRepoError,
            f"the dataset is gated; accept its conditions at {endpoint}/datasets/{repo}, then {_SIGN_IN}",
        ),
        (errors.DisabledRepoError, "the hub has disabled this dataset; use another"),
        (
            errors.RevisionNotFoundError,
            "the dataset has no such revision; check what follows @ (a slash in it is written %2F)",
        ),
        (
            errors.RepositoryNotFoundError,
            f"no such dataset, or a private one; check the name (models and spaces are not read), or {_SIGN_IN}",
        ),
        (
            errors.OfflineModeIsEnabled,
            f"HF_HUB_OFFLINE is set; unset it, or name what the cache has: hf://datasets/{repo}@COMMIT/FILE",
        ),
        (errors.HFValidationError, "no valid name of a dataset; expected hf://datasets/OWNER/NAME"),
        (errors.HfHubHTTPError, _STATUSES.get(status or 0, f"{endpoint} failed ({status}); try again later")),
        (errors.EntryNotFoundError, "the dataset has no such file; check the name"),
        (ValueError, f"{endpoint} did not answer as a hub does; check HF_ENDPOINT, or try again later"),
    )
    for kind, sentence in explained:
        if isinstance(error, kind):
            return sentence
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left for the cache of huggingface_hub; free some, or move the cache with HF_HOME"
    if _WRONG_SIZE in str(error):
        return "the download was cut off; run the command again: what arrived whole is not fetched again"
    return (
        f"{endpoint} could not be reached, or the connection broke ({type(error).__name__}); "
        "check the network and HF_ENDPOINT, and run the command again"
    )


def choose_files(place: str, names: Sequence[str], path: str) -> list[str]:
    """The files that ``path`` means: a file, a pattern, a folder, or, if empty, the whole dataset.

    Of a folder these are its Parquet files (of the whole dataset those in ``data``, if there are any),
    unless they are of several splits. None if the whole dataset has no Parquet file.
    """
    if path in names:
        return [path]
    if has_magic(path):
        found = [name for name in names if _matches(name.split("/"), path.split("/"))]
        if not found:
            raise UnreadableFile(f"{place}/{path}: no file matches; {list_files(names)}")
        return sorted(found)
    inside = [name for name in names if not path or name.startswith(f"{path}/")]
    if not inside and path:
        raise UnreadableFile(f"{place}/{path}: no such file or folder; {list_files(names)}")
    tables = sorted(name for name in inside if name.endswith(".parquet"))
    if not path:
        tables = [name for name in tables if name.startswith("data/")] or tables
    if not tables and path:
        raise UnreadableFile(f"{place}/{path}: no Parquet files in this folder; {list_files(inside)}")
    # Raise if the files are of several splits or subsets, or of a split that is not complete.
    patterns = list(dict.fromkeys(map(_pattern, tables)))
    addresses = " or ".join(f"'{place}/{pattern}'" for pattern in patterns[:_LISTED_COUNT])
    if len(patterns) > 1:
        rest = f" (or {len(patterns) - _LISTED_COUNT} more)" if len(patterns) > _LISTED_COUNT else ""
        raise UnreadableFile(
            f"{place}: has {len(patterns)} splits or subsets, which may not belong together; "
            f"name one: {addresses}{rest}"
        )
    if any(part.startswith(_PARTIAL) for pattern in patterns for part in pattern.split("/")):
        raise UnreadableFile(
            f"{place}: the hub has converted only the beginning of this dataset to Parquet; "
            f"name its own files, or the beginning: {addresses}"
        )
    return tables


def list_files(names: Sequence[str]) -> str:
    """The data files of a dataset, for messages."""
    files = sorted(name for name in names if name.endswith(_DATA_ENDINGS))
    if not files:
        return "the dataset has no files of data that can be read"
    rest = f" and {len(files) - _LISTED_COUNT} more" if len(files) > _LISTED_COUNT else ""
    return f"the dataset has {', '.join(files[:_LISTED_COUNT])}{rest}"


def _pattern(name: str) -> str:
    """The pattern that a file's shards have in common; the name itself if it is no shard."""
    folder, slash, base = name.rpartition("/")
    stem = base.removesuffix(".parquet")
    if stem.isdecimal():
        return f"{folder}{slash}*.parquet"
    shard = _SHARD.search(stem)
    return name if shard is None else f"{folder}{slash}{stem[: shard.start()]}-*.parquet"


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both in parts: ``*`` stays within a part, ``**`` is any number of them."""
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(name[start:], pattern[1:]) for start in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])
