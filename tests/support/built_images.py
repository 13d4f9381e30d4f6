"""The image of deploy/, built and run by buildah: no daemon, storage in one folder, no isolation but a chroot."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.deployed import DEPLOY, ROOT

#: Debian's packages that stand for the slim image of Python.
_BASE_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
#: What Debian's slim images leave out.
_LEFT_OUT = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
_BASE_SECONDS, _BUILD_SECONDS, _STEP_SECONDS = 1200, 2400, 300
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
#: Where packages come from, if this machine says so in its environment.
_PACKAGE_SOURCES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry")


class ImageStore:
    """Images and containers under ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = folder / "temporary"
        self._temporary.mkdir(parents=True)

    def make_base(self) -> str:
        """The name of the image that the Dockerfile begins with, made of Debian's packages instead."""
        (name,) = set(re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
        container = self.buildah("from", "scratch")
        root = Path(self.buildah("mount", container))
        release = name.rsplit("-", maxsplit=1)[1]
        include = f"--include={_BASE_PACKAGES}"
        self._run(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            *_LEFT_OUT,
            include,
            release,
            root,
            seconds=_BASE_SECONDS,
        )
        (root / "usr/bin/python").symlink_to("python3")
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        found = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
        if found is not None:
            shutil.copy(found, root / _CERTIFICATES.lstrip("/"))
        variables = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"), _CERTIFICATES)
        variables |= {one: os.environ[one] for one in _PACKAGE_SOURCES if one in os.environ}
        told = [part for one, value in variables.items() for part in ("--env", f"{one}={value}")]
        self.buildah("config", *told, container)
        self.buildah("commit", "--quiet", "--rm", container, f"docker.io/library/{name}")
        return name

    def build(self, name: str) -> None:
        """From the Dockerfile as it stands."""
        options = ("--isolation", "chroot", "--pull-never", "--format", "docker")
        files = ("--file", DEPLOY / "Dockerfile", "--tag", name, ROOT)
        self.buildah("build", *options, *files, seconds=_BUILD_SECONDS)

    def configuration(self, name: str) -> dict[str, Any]:
        """What Docker would be told of the image."""
        told: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", name))
        return dict(told["Docker"]["config"])

    def make_container(self, name: str, image: str, hosts: Mapping[str, str]) -> Path:
        """A container that knows these names, not yet running; where its files are."""
        known = [part for host, address in hosts.items() for part in ("--add-host", f"{host}:{address}")]
        self.buildah("from", "--pull-never", "--name", name, *known, image)
        return Path(self.buildah("mount", name))

    def command(self, container: str, *command: str, **options: Mapping[str, object]) -> list[str]:
        """What runs ``command`` in it: with its ``volumes`` (by their place inside) and ``variables``."""
        volumes = [f"--volume={there}:{here}" for here, there in options.get("volumes", {}).items()]
        variables = [f"--env={name}={value}" for name, value in options.get("variables", {}).items()]
        limits = ("--cap-drop=ALL", "--mount=type=tmpfs,destination=/tmp")
        told = ("run", "--isolation", "chroot", *limits, *volumes, *variables, container, "--", *command)
        return self._buildah(*told)

    def buildah(self, *arguments: object, seconds: float = _STEP_SECONDS) -> str:
        return self._run(*self._buildah(*arguments), seconds=seconds)

    def _buildah(self, *arguments: object) -> list[str]:
        where = ("--storage-driver=vfs", "--root", self._folder / "root", "--runroot", self._folder / "run")
        return ["buildah", *map(str, (*where, *arguments))]

    def _run(self, *command: object, seconds: float) -> str:
        """What it prints; whatever it started ends with it."""
        environment = {**os.environ, "TMPDIR": str(self._temporary)}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [str(part) for part in command]
        with subprocess.Popen(words, env=environment, text=True, start_new_session=True, **pipes) as running:
            try:
                told, complaint = running.communicate(timeout=seconds)
            except BaseException:
                os.killpg(running.pid, signal.SIGKILL)
                raise
        assert running.returncode == 0, (words, told[-2000:], complaint[-2000:])
        return told.strip()


#: Mounts a root that cannot be written, with a temporary folder and the place of the volume; then as an engine with
#: all capabilities dropped and no new privileges: ROOT HOME HOME-INSIDE ACCOUNT COMMAND…
_READ_ONLY = """
root=$1 home=$2 inside=$3 account=$4; shift 4
mount --make-rprivate /
mount --bind "$root" "$root" && mount -o remount,ro,bind "$root"
mount -t tmpfs tmpfs "$root/tmp"; mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/dev"
for one in null zero random urandom; do touch "$root/dev/$one"; mount --bind "/dev/$one" "$root/dev/$one"; done
mkdir "$root/dev/shm"; mount -t tmpfs tmpfs "$root/dev/shm"
mount --bind "$home" "$root$inside"
exec chroot "$root" /usr/bin/setpriv --reuid "$account" --regid "$account" --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all "$@"
"""


def read_only_command(root: Path, home: Path, inside: str, account: int, *command: str) -> list[str]:
    """What runs ``command`` in these files, none of which can be written but ``home``, which is seen at ``inside``."""
    given = (str(root), str(home), inside, str(account), *command)
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", _READ_ONLY, "sh", *given]


@contextmanager
def image_store(folder: Path) -> Iterator[ImageStore]:
    """Storage in this new folder, which is gone afterwards: it takes gigabytes."""
    folder.mkdir()
    try:
        yield ImageStore(folder)
    finally:
        shutil.rmtree(folder)
