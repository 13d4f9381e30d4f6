"""What tests share: servers, arenas, worlds and files that are made for them."""

from pathlib import Path

#: The folder of all tests, and that of the project.
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
