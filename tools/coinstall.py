"""Can the extra ``judges`` be installed beside other tools, at the versions they have without it?

    python tools/coinstall.py [--out docs/evidence/data/coinstall.md] [--python-version 3.12] [NAME …]

Resolves each tool alone, then together with Tiltyard's own requirements, by ``uv pip compile``; installs nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Tools that people who evaluate models use; most of them have opinions about the providers' SDKs.
TOOLS = ("litellm", "instructor", "ragas", "arize-phoenix", "inspect-ai", "deepeval")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Coinstall:
    """A tool's version without and with Tiltyard; the packages of the tool that Tiltyard moves to another version."""

    tool: str
    alone: str
    #: ``None`` if there is no solution.
    together: str | None
    moved: tuple[str, ...] = ()
    reason: str = ""

    @property
    def fits(self) -> bool:
        return self.together == self.alone

    def row(self) -> str:
        moved = ", ".join(self.moved) or "none"
        return f"| {self.tool} | {self.alone} | {self.together or self.reason} | {moved} |"


def try_coinstall(tool: str, python: str) -> Coinstall:
    """Resolve one tool alone and with the extra ``judges``."""
    with tempfile.TemporaryDirectory() as name:
        asked = Path(name) / "tool.in"
        asked.write_text(f"{tool}\n")
        alone, reason = _resolve(python, asked)
        if alone is None:
            raise SystemExit(f"{tool} cannot be resolved alone: {reason}")
        both, reason = _resolve(python, asked, ROOT / "pyproject.toml", "--extra", "judges")
    if both is None:
        return Coinstall(tool, alone[tool], None, reason=f"no solution: {reason}")
    moved = tuple(
        f"{package} {version} → {both.get(package)}"
        for package, version in alone.items()
        if both.get(package) != version
    )
    return Coinstall(tool, alone[tool], both[tool], moved)


def _resolve(python: str, *given: str | Path) -> tuple[dict[str, str] | None, str]:
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", python]
    done = subprocess.run([*command, *map(str, given)], capture_output=True, text=True, check=False)
    if done.returncode:
        cause = next((line for line in done.stderr.splitlines() if "Because" in line), done.stderr)
        return None, " ".join(cause.split()).removeprefix("cause: ")
    return {name.lower(): version for name, version in _PIN.findall(done.stdout)}, ""


def report(found: Sequence[Coinstall], python: str) -> str:
    lines = [
        "# Installed beside other tools",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, by `python tools/coinstall.py`: `uv pip compile` for Python {python}, each tool alone "
            "and with `tiltyard[judges]`."
        ),
        "",
        "| tool | alone | with `tiltyard[judges]` | its packages that change |",
        "|---|---|---|---|",
        *(each.row() for each in found),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", default=TOOLS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--python-version", default="3.12")
    options = parser.parse_args()
    found = [try_coinstall(tool, options.python_version) for tool in options.tools]
    text = report(found, options.python_version)
    print(text)
    if options.out:
        options.out.write_text(text)
    return 0 if all(each.fits for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
