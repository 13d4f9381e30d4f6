"""Every operation of the API under generated requests, by every kind of visitor: nothing breaks."""

import os
import time

import pytest

from support.postgres_servers import fresh_database
from support.visitors import furnished
from tiltyard.web.access import access


@pytest.fixture
def found(server, template, tmp_path, monkeypatch):
    # All visitors have one address, and whoever signed out must get in again after hundreds of wrong attempts.
    for name in ("_WRONG_SIGN_IN_LIMIT", "_WRONG_ENTRY_LIMIT"):
        monkeypatch.setattr(access, name, 1_000_000)
    with fresh_database(server, template) as database, furnished(database, tmp_path) as made:
        yield made


def is_of_live_arenas(operation):
    """Whether an operation is for live arenas: the arenas here are none, and it is refused."""
    return "/live" in operation or operation.endswith("/effects")


def test_no_generated_request_breaks_anything(found):
    from support.api_fuzzing import check, fuzzed

    missed = {one for one in check(fuzzed(found, 8, every=2), 180) if not is_of_live_arenas(one)}
    assert len(missed) <= 20, f"too little of the API was reached: {missed}"


@pytest.mark.slow
def test_no_generated_request_breaks_anything_at_full_size(found):
    from support.api_fuzzing import check, fuzzed

    began = time.monotonic()
    examples = int(os.environ.get("TILTYARD_TEST_EXAMPLES", "480"))
    fuzzing = fuzzed(found, examples)
    print(f"\n{fuzzing.seen.total()} requests in {time.monotonic() - began:.0f} s")
    for label in sorted({label for label, _ in fuzzing.seen}):
        counts = {status: n for (one, status), n in sorted(fuzzing.seen.items()) if one == label}
        print(f"{label:60} {counts}")
    print(f"by role: {dict(fuzzing.asked)}")
    least = 20_000 if examples >= 480 else 0
    missed = {one for one in check(fuzzing, least) if not is_of_live_arenas(one)}
    assert least == 0 or not missed, f"never reached: {missed}"
