"""The server's secret keys, which sign cookies and pseudonyms.

They are in the file ``secret.key`` in the home folder, readable by its owner only, or in the variable
``TILTYARD_SECRET_KEY``. There may be two, on separate lines or separated by a comma: the first signs, both
verify. To rotate, put a new key first, restart, and remove the old one when its signatures may become invalid.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.foundation.local_files import create_private_file, open_regular

KEY_FILE = "secret.key"
KEY_VARIABLE = "TILTYARD_SECRET_KEY"

_MIN_KEY_CHARACTERS = 32
_MIN_SIGNATURE_BYTES = 16
_KEY_LIMIT = 2


class SecretKeys:
    """One or two keys. The first signs, all verify. They never appear in a repr or a message."""

    def __init__(self, secrets_: Sequence[str], *, where: str = "the secret key") -> None:
        if not 1 <= len(secrets_) <= _KEY_LIMIT:
            raise BadOption(f"{where} has {len(secrets_)} keys; expected one, or two during a rotation")
        if any(len(secret) < _MIN_KEY_CHARACTERS for secret in secrets_):
            raise BadOption(
                f"{where} has a key of fewer than {_MIN_KEY_CHARACTERS} characters; create one with: "
                "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        self._keys = tuple(secret.encode() for secret in secrets_)
        #: Derived keys by purpose; there are few purposes, and none comes from outside.
        self._derived: dict[str, tuple[bytes, ...]] = {}

    def sign(self, purpose: str, message: bytes) -> bytes:
        """Sign a message with the newest key. A signature is valid for its purpose only."""
        return hmac.digest(self._keys_for(purpose)[0], message, "sha256")

    def sign_with_all(self, purpose: str, message: bytes) -> tuple[bytes, ...]:
        """The signature of every key, the newest first: for what was derived before a rotation."""
        return tuple(hmac.digest(key, message, "sha256") for key in self._keys_for(purpose))

    def verify(
        self, purpose: str, message: bytes, signature: bytes, *, shortest: int = _MIN_SIGNATURE_BYTES
    ) -> bool:
        """Whether any of the keys signed the message for this purpose.

        A signature may be truncated to ``shortest`` bytes or more.
        """
        found = False
        for key in self._keys_for(purpose):
            own = hmac.digest(key, message, "sha256")[: max(len(signature), shortest)]
            found |= hmac.compare_digest(own, signature)
        return found

    def pseudonym(self, release: str, session: int) -> str:
        """A session's pseudonym in one release of battles; it differs between releases.

        It depends on the newest key: after a rotation, the same release gives other pseudonyms.
        """
        message = f"{len(release)}:{release}:{session}".encode()
        digest = self.sign("pseudonym", message)[:12]
        return "v" + base64.urlsafe_b64encode(digest).decode()

    def _keys_for(self, purpose: str) -> tuple[bytes, ...]:
        """The keys for one purpose, each derived from one of the secrets."""
        found = self._derived.get(purpose)
        if found is None:
            label = b"tiltyard " + purpose.encode()
            found = self._derived[purpose] = tuple(hmac.digest(key, label, "sha256") for key in self._keys)
        return found


def open_keys(home: Path, stated: str | None = None) -> SecretKeys:
    """Read the keys from the variable, or else from the home folder, where a key is created if there is none."""
    if stated and stated.strip():
        return SecretKeys(_parts(stated.replace(",", "\n")), where=KEY_VARIABLE)
    path = home / KEY_FILE
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            create_private_file(path, f"{secrets.token_urlsafe(32)}\n".encode())
        return SecretKeys(_parts(_read(path)), where=str(path))
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UnreadableFile(f"{path}: {problem}; make the folder writable or set {KEY_VARIABLE}") from None


def _parts(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: Path) -> str:
    with open_regular(path) as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadOption(
                f"{path} can be read by others (mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}"
            )
        return file.read().decode()
