"""Count what has to be carried, and fail if the package has more lines than its budget.

python tools/size.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Lines of Python that src may have. A change of it is a line in the changelog.
BUDGET_LINES = 116_500
#: A part of a page that tools/reference.py writes.
GENERATED = re.compile(r"<!-- generated .*?<!-- end -->", re.DOTALL)
#: Words from which on a text that a test asserts is a sentence.
SENTENCE_WORDS = 4


def files(pattern: str) -> list[Path]:
    """Files of the project that match, without what is built or installed."""
    left_out = {"node_modules", ".venv", "bundle", "site", "__pycache__"}
    return [path for path in ROOT.glob(pattern) if not left_out & set(path.parts)]


def lines(paths: list[Path]) -> int:
    """The lines of all these files."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def words_of_docs() -> int:
    """Words written by hand: without data and without the parts of pages that are generated."""
    pages = [*ROOT.glob("*.md"), *files("docs/**/*.md"), *files("deploy/**/*.md")]
    texts = (page.read_text(encoding="utf-8") for page in pages if "data" not in page.parts)
    return sum(len(GENERATED.sub("", text).split()) for text in texts)


def asserted_sentences() -> int:
    """Texts of four words or more that tests assert, or that an error must match."""
    return sum(
        _is_sentence(text)
        for path in files("tests/**/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "match")
        for text in _texts(node.test if isinstance(node, ast.Assert) else node.value)
    )


def _texts(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _is_sentence(text: str) -> bool:
    words = re.findall(r"[A-Za-z][a-z']*", text)
    return (
        len(words) >= SENTENCE_WORDS
        and re.search("[a-z] [a-z]", text) is not None
        and "\n" not in text.strip()
    )


def main() -> int:
    """Print the counts; return whether the package is too large."""
    package = files("src/**/*.py")
    size = lines(package)
    counts = {
        "lines of Python in src": size,
        "files of Python in src": len(package),
        "lines of tests": lines(files("tests/**/*.py")),
        "lines of lab": lines(files("lab/**/*.py")),
        "lines of bench": lines(files("bench/**/*.py")),
        "lines of tools": lines(files("tools/**/*.py")),
        "lines of SQL": lines(files("src/**/*.sql")),
        "lines of templates": lines(files("src/**/*.html")),
        "lines of TypeScript and CSS": lines([*files("frontend/src/**/*.ts"), *files("**/*.css")]),
        "words of docs": words_of_docs(),
        "decisions": len(files("docs/decisions/*.md")),
        "sentences asserted in tests": asserted_sentences(),
    }
    for name, count in counts.items():
        print(f"{count:>8,}  {name}")
    if size > BUDGET_LINES:
        print(f"src has {size - BUDGET_LINES:,} lines more than its budget of {BUDGET_LINES:,}: delete some.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
