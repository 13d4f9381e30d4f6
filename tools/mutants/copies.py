"""Copies of the repository in which mutants are tested: its own files are never changed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sampling import Mutant

#: Copied whole, with their compiled files, whose times stay; what lies beside them is linked.
_COPIED = ("src", "tests", "pyproject.toml")
_LEFT_OUT = {".git", ".venv"}


@dataclass
class Copy:
    """One copy, with one changed file at most."""

    root: Path
    _changed: tuple[Path, str] | None = field(default=None)

    @classmethod
    def make(cls, repository: Path, root: Path) -> Copy:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for path in repository.iterdir():
            if path.name in _COPIED and path.is_dir():
                shutil.copytree(path, root / path.name, symlinks=True)
            elif path.name in _COPIED:
                shutil.copy2(path, root / path.name)
            elif path.name not in _LEFT_OUT and path != root.parent:
                (root / path.name).symlink_to(path)
        return cls(root)

    @property
    def log(self) -> Path:
        return self.root.with_suffix(".log")

    def change(self, mutant: Mutant) -> tuple[str, str] | None:
        """Make the change: the lines before and after; nothing if there is no change."""
        path = self.root / mutant.path
        source = path.read_text(encoding="utf-8")
        changed = mutant.applied(source)
        if changed is None:
            return None
        self._changed = (path, source)
        path.write_text(changed, encoding="utf-8")
        self._forget_compiled(path)
        return _different(source, changed)

    def restore(self) -> None:
        """Undo the change."""
        if self._changed is not None:
            path, source = self._changed
            path.write_text(source, encoding="utf-8")
            self._forget_compiled(path)
            self._changed = None

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()


def _different(before: str, after: str) -> tuple[str, str]:
    """The lines that differ."""
    old, new = before.splitlines(), after.splitlines()
    first = next(
        (k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    tail = 0
    while tail < min(len(old), len(new)) - first and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return "\n".join(old[first : len(old) - tail]), "\n".join(new[first : len(new) - tail])
