"""What a package index shows and hands out: the description, our wheel and sdist, and wheels of all that they require."""

import re
import resource
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

import tiltyard

ROOT = Path(__file__).parents[2]
PYTHONS = (11, 12, 13, 14)
#: Names of platforms in markers, and in names of wheels.
PLATFORMS = {
    "linux-x86_64": ("linux", "Linux", "x86_64", r"manylinux\S*_x86_64"),
    "linux-aarch64": ("linux", "Linux", "aarch64", r"manylinux\S*_aarch64"),
    "macos-arm64": ("darwin", "Darwin", "arm64", r"macosx_(1[0-4])_\d+_(arm64|universal2)"),
    "windows-amd64": ("win32", "Windows", "AMD64", r"win_amd64"),
}
#: Ratings and tournaments; arenas need POSIX.
ON_WINDOWS = ("fast", "hf", "judges", "plots")
#: A minute on an idle machine whose index is near; of processor time, so that other work does not count.
FIRST_MINUTE_SECONDS = 60

needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")


def uv(*arguments, **options):
    return subprocess.run(
        ["uv", *map(str, arguments)], check=True, capture_output=True, text=True, **options
    ).stdout


@pytest.fixture(scope="module")
def wheels():
    """The tags of the wheels of everything that is locked."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return {
        (one["name"], one["version"]): {
            tag
            for wheel in one.get("wheels", ())
            for tag in parse_wheel_filename(wheel["url"].rpartition("/")[2])[3]
        }
        for one in locked
        if "version" in one
    }


@needs_uv
@pytest.mark.parametrize("platform", PLATFORMS)
def test_everything_required_has_a_wheel(platform, wheels):
    """For every Python that is supported, as it is locked: nobody needs a compiler."""
    system, name, machine, shape = PLATFORMS[platform]
    extras = [f"--extra={extra}" for extra in ON_WINDOWS] if system == "win32" else ["--all-extras"]
    asked = ("--frozen", "--no-default-groups", "--no-emit-project", "--no-hashes", "--no-annotate")
    listed = re.findall(
        r"^([\w.-]+)==([^\s;]+)(?: ; (.*))?$", uv("export", *asked, *extras, cwd=ROOT), re.MULTILINE
    )
    assert len(listed) > 20
    named = {tag.platform for tags in wheels.values() for tag in tags}
    platforms = sorted(one for one in named if re.fullmatch(shape, one))
    for minor in PYTHONS:
        python = (3, minor)
        taken = {
            *cpython_tags(python, platforms=platforms),
            *compatible_tags(python, f"cp3{minor}", platforms),
        }
        places = {
            "sys_platform": system,
            "platform_system": name,
            "platform_machine": machine,
            "os_name": "nt" if system == "win32" else "posix",
            "python_version": f"3.{minor}",
            "python_full_version": f"3.{minor}.1",
        }
        missing = [
            (package, version)
            for package, version, marker in listed
            if not marker or Marker(marker).evaluate(places)
            if not taken & wheels[package, version]
        ]
        assert missing == [], f"Python 3.{minor}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    uv("--quiet", "build", "--out-dir", folder, cwd=ROOT)
    return folder


@pytest.mark.slow
@needs_uv
def test_the_description_renders(built):
    files = [path for path in built.iterdir() if path.suffix in {".whl", ".gz"}]
    assert len(files) == 2
    uv("run", "--no-project", "--with", "twine", "twine", "check", "--strict", *files)


@contextmanager
def index(folder):
    """The address of a package index of this folder, on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["uv", "run", "--no-project", "--with", "pypiserver", "pypi-server", "run"]
    place = ["--interface", "127.0.0.1", "--port", str(port), "--disable-fallback", str(folder)]
    url = f"http://127.0.0.1:{port}/simple/"
    with subprocess.Popen([*command, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(url, timeout=10).close()
                    break
                except OSError:
                    assert server.poll() is None
                    time.sleep(0.1)
            yield url
        finally:
            server.terminate()


def processor_seconds():
    """Of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@needs_uv
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_first_minute_from_an_index(built, kind, tmp_path):
    """An empty environment, ``pip install``, a first `rate` and a first `ab`; times are printed."""
    with index(built) as url:
        began, used = time.monotonic(), processor_seconds()
        uv("--quiet", "venv", "--python", sys.executable, tmp_path / "venv")
        python = tmp_path / "venv" / "bin" / "python"
        only = ("--no-binary", "tiltyard") if kind == "sdist" else ("--only-binary", ":all:")
        wanted = f"tiltyard=={tiltyard.__version__}"
        uv("pip", "install", "--python", python, "--index", url, *only, wanted)
        told = [f"install {time.monotonic() - began:.1f} s"]
        for side in ("a", "b"):
            rows = (f"{number},{number},{int(side == 'a' or number % 3 > 0)}" for number in range(60))
            (tmp_path / f"{side}.csv").write_text("\n".join(("prompt,response,score", *rows)) + "\n")
        for command in ("demo battles", "rate battles.jsonl", "ab a.csv b.csv --bounds 0,1"):
            done = subprocess.run(
                [python.parent / "tiltyard", *command.split()],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            # `ab` says by its code what it decided.
            assert done.returncode in {0, 1}, done.stderr
            told.append(f"{command} by {time.monotonic() - began:.1f} s")
        seconds = processor_seconds() - used
    size = sum(path.stat().st_size for path in (tmp_path / "venv").rglob("*") if not path.is_symlink())
    print(f"{kind}: {'; '.join(told)}; {seconds:.1f} s of processor time; {size / 1e6:.0f} MB")
    assert seconds < FIRST_MINUTE_SECONDS
