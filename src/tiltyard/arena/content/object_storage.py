"""Storage for what is not in the database, in a folder or an S3-compatible bucket: large blobs, and boards as files."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tiltyard.errors import BadOption, MissingExtra, StoreFault
from tiltyard.foundation.local_files import replace_file
from tiltyard.settings.environment import Environment

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store


class FolderStorage:
    """One file for each name, readable by its owner only, and written atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def put(self, name: str, data: bytes) -> None:
        await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str) -> bytes:
        with _translate_file_errors("read", self.path / name):
            return await asyncio.to_thread((self.path / name).read_bytes)

    async def remove(self, name: str) -> None:
        with _translate_file_errors("remove", self.path / name):
            await asyncio.to_thread((self.path / name).unlink, missing_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        place = self.path / name
        with _translate_file_errors("write", place):
            if place.is_file() and place.stat().st_size == len(data):
                return
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replace_file(place, durable=True, private=True) as file:
                file.write(data)


class BucketStorage:
    """Objects under a prefix of a bucket, by the S3 protocol."""

    def __init__(self, store: S3Store, place: str) -> None:
        self._store = store
        self._place = place

    async def put(self, name: str, data: bytes) -> None:
        from obstore import put_async

        with _translate_bucket_errors("write", f"{self._place}/{name}"):
            await put_async(self._store, name, data)

    async def get(self, name: str) -> bytes:
        from obstore import get_async

        with _translate_bucket_errors("read", f"{self._place}/{name}"):
            found = await get_async(self._store, name)
            return bytes(await found.bytes_async())

    async def remove(self, name: str) -> None:
        from obstore import delete_async

        with _translate_bucket_errors("remove", f"{self._place}/{name}"):
            await delete_async(self._store, name)


#: Stores bytes by name. Storing the same name again has no effect; removing a missing name is not an error.
ObjectStorage = FolderStorage | BucketStorage


def open_configured_storage(environment: Environment) -> ObjectStorage:
    """The storage that the environment configures; by default a folder in Tiltyard's home."""
    variables = environment.variables
    return open_storage(variables.get("TILTYARD_RESPONSES_URL"), environment.home, variables)


def open_storage(url: str | None, home: Path, variables: Mapping[str, str] | None = None) -> ObjectStorage:
    """Open the storage at a URL: ``s3://bucket/prefix``, a folder, or by default ``responses`` in Tiltyard's home.

    A bucket's endpoint, region and keys are read from the usual ``AWS_…`` variables.
    """
    if not url:
        return FolderStorage(home / "responses")
    if not url.startswith("s3://"):
        if "://" in url:
            scheme = url.split(":", maxsplit=1)[0]
            raise BadOption(f"TILTYARD_RESPONSES_URL: unknown scheme {scheme}; expected s3://bucket/prefix")
        return FolderStorage(Path(url).expanduser())
    store = _open_bucket("TILTYARD_RESPONSES_URL", url, variables or {})
    return BucketStorage(store, url.rstrip("/"))


def _open_bucket(variable: str, url: str, variables: Mapping[str, str]) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise MissingExtra("s3", f"{variable} with a bucket") from None
    parts = urlsplit(url)
    if not parts.netloc:
        raise BadOption(f"{variable} is {url!r}; expected s3://bucket/prefix")
    prefix = parts.path.strip("/")
    return S3Store(parts.netloc, prefix=prefix or None, **_bucket_options(variables))


class PublicFiles:
    """Files that a static server or a CDN serves to everybody: a folder, or objects under a prefix of a bucket.

    Each is written atomically. A folder also has them compressed, as static servers expect them: ``NAME.gz``.
    """

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        self._place = url.rstrip("/")
        self._in_folder = not url.startswith("s3://")
        if self._in_folder:
            self._store: LocalStore | S3Store = _open_folder(url)
        else:
            self._store = _open_bucket("boards_url", url, variables)

    def put(self, name: str, data: bytes, media_type: str, caching: str) -> None:
        import obstore

        with _translate_bucket_errors("write", f"{self._place}/{name}"):
            if not self._in_folder:
                about = {"Content-Type": media_type, "Cache-Control": caching}
                obstore.put(self._store, name, data, attributes=about)
                return
            if not media_type.startswith("image/png"):
                obstore.put(self._store, f"{name}.gz", gzip.compress(data, 6, mtime=0))
            obstore.put(self._store, name, data)

    def find(self, name: str) -> bytes | None:
        import obstore

        with _translate_bucket_errors("read", f"{self._place}/{name}"):
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> dict[str, datetime]:
        """The files under a prefix by name, with the time of their writing; compressed ones are not named."""
        import obstore

        with _translate_bucket_errors("list", f"{self._place}/{prefix}"):
            found = {
                one["path"]: one["last_modified"]
                for page in obstore.list(self._store, prefix)
                for one in page
            }
        return {
            name: at
            for name, at in found.items()
            if name.removesuffix(".gz") not in found or name[-3:] != ".gz"
        }

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are missing are no error."""
        import obstore

        gone = [one for name in names for one in ((f"{name}.gz", name) if self._in_folder else (name,))]
        for one in gone if self._in_folder else ([gone] if gone else []):
            with _translate_bucket_errors("remove", f"{self._place}/{one}"):
                obstore.delete(self._store, one)


def _open_folder(url: str) -> LocalStore:
    path = Path(url.removeprefix("file://")).expanduser()
    if "://" in url.removeprefix("file://") or not path.is_absolute():
        raise BadOption(
            f"boards_url is {url!r}; expected s3://bucket/prefix or file:///folder", option="boards_url"
        )
    try:
        from obstore.store import LocalStore
    except ImportError:
        raise MissingExtra("s3", "writing boards as files") from None
    with _translate_file_errors("make", path):
        path.mkdir(parents=True, exist_ok=True)
    return LocalStore(path, automatic_cleanup=True)


def _bucket_options(variables: Mapping[str, str]) -> dict[str, Any]:
    named = {
        "endpoint": variables.get("AWS_ENDPOINT_URL"),
        "region": variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION"),
        "access_key_id": variables.get("AWS_ACCESS_KEY_ID"),
        "secret_access_key": variables.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": variables.get("AWS_SESSION_TOKEN"),
    }
    options: dict[str, Any] = {name: value for name, value in named.items() if value}
    if str(options.get("endpoint", "")).startswith("http://"):
        options["client_options"] = {"allow_http": True}
    return options


@contextmanager
def _translate_file_errors(verb: str, place: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise StoreFault(f"cannot {verb} {place}: it does not exist; restore it from a backup") from None
    except OSError as error:
        raise StoreFault(
            f"cannot {verb} {place}: {error.strerror or error}; check the disk and the folder's permissions"
        ) from None


@contextmanager
def _translate_bucket_errors(verb: str, place: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:
        if verb != "remove":
            raise StoreFault(f"cannot {verb} {place}: it does not exist; restore it from a backup") from None
    except (BaseError, OSError) as error:
        problem = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise StoreFault(
            f"cannot {verb} {place}: {problem}; check the bucket, its address and its keys"
        ) from None
