"""Whether time tells the sides of a matchup apart: one model's responses are large and on disk, the other's small."""

import json
import random
import statistics
import time

import pytest

from support.served import make_token, served
from tiltyard.postgres.connections import connect

SIZES = {"small": 200, "large": 400_000}
PROMPTS = 40


def answers(model, size):
    for prompt in range(PROMPTS):
        row = {"prompt_id": f"prompt-{prompt}", "prompt": "Well?", "model": model}
        yield json.dumps(row | {"response": f"{model[0]}{prompt:03}" * (size // 4)})


def make(site):
    admin = site.client(make_token(site.database, "admin"))
    body = "\n".join(line for model, size in SIZES.items() for line in answers(model, size))
    assert admin.post("/api/v1/arenas", json={"name": "arena"}).status_code == 201
    kind = {"content-type": "application/x-ndjson"}
    assert (
        admin.post("/api/v1/arenas/arena/responses", content=body.encode(), headers=kind).status_code == 200
    )
    with connect(site.database) as connection:
        (object_storage,) = connection.execute("SELECT count(*) FROM contents WHERE bytes IS NULL").fetchone()
    assert object_storage == PROMPTS


def first_bytes(site, rounds, rng, *, cached):
    """Milliseconds until the headers of each side came, by the size of what followed them."""
    client, found = site.client(), {"small": [], "large": []}
    for _ in range(rounds):
        if not cached:
            site.registry.blobs._bytes.clear()
        shown = client.post("/api/v1/arenas/arena/matchups").json()
        sides = [shown["responses"][side]["url"] for side in "ab"]
        rng.shuffle(sides)
        for url in sides if cached else sides[:1]:
            began = time.perf_counter()
            with client.stream("GET", url) as answer:
                took = 1000 * (time.perf_counter() - began)
                size = len(answer.read())
            found["large" if size > 10_000 else "small"].append(took)
        client.post(f"/api/v1/matchups/{shown['matchup']}/skip")
    return found


def told_apart(found):
    """The chance that the large one's headers came later than the small one's: half, if nothing tells."""
    small, large = sorted(found["small"]), found["large"]
    later = sum(
        sum(other < one for other in small) + sum(other == one for other in small) / 2 for one in large
    )
    return later / (len(small) * len(large))


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_the_time_until_a_side_answers_does_not_depend_on_its_size(database, tmp_path, cached):
    with served(database, folder=tmp_path) as site:
        make(site)
        rng = random.Random(1)
        first_bytes(site, 20, rng, cached=cached)
        found = first_bytes(site, 600, rng, cached=cached)
    chance = told_apart(found)
    for size, times in found.items():
        fifths = statistics.quantiles(times, n=20)
        print(
            f"{size}: {len(times)} times, median {statistics.median(times):.2f} ms, 95 % {fifths[-1]:.2f} ms"
        )
    print(f"cached {cached}: later with chance {chance:.3f}")
    spread = (1 / 12 * (1 / len(found["small"]) + 1 / len(found["large"]))) ** 0.5
    assert abs(chance - 0.5) < max(4 * spread, 0.08)
