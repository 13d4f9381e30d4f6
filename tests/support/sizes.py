"""How much a test tries: a little in every run, all of it with ``TILTYARD_TEST_SIZE=full``."""

import os


def sized(small: int, full: int) -> int:
    """One of two sizes."""
    return full if os.environ.get("TILTYARD_TEST_SIZE") == "full" else small
