"""Cost, speed and style: kept at import, shown beside ratings, and never made up where they are missing."""

import asyncio
import json

import pytest

from support.postgres_servers import fresh_database
from support.served import served
from support.shown_boards import PAGE, board
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.content.response_details import ModelUsage, read_usage
from tiltyard.errors import InputError
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.web.pages.usage import PlotPoint, answer_cost, scatter_plot

#: By model: the usage of each answer.
USAGE = {
    "dear": {"cost_usd": 0.02, "latency_seconds": 8.0, "input_tokens": 100, "output_tokens": 400},
    "cheap": {"cost_usd": 0.001, "latency_seconds": 1.0},
    "counted": {"input_tokens": 1000, "output_tokens": 2000},
    "silent": None,
}


def answers(path, usage=USAGE, prompts=6):
    rows = [
        {"prompt_id": f"p{k}", "prompt": f"Question {k}", "model": model, "response": f"# {model}\n- **{k}**"}
        | ({} if spent is None else {"usage": spent})
        for model, spent in usage.items()
        for k in range(prompts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


async def brought(url, folder, path):
    async with open_pool(url, most=2) as pool:
        await create_arena(pool, "arena")
        await import_answers(pool, BlobStore(pool, FolderStorage(folder)), "arena", path)
        return {one.model: one for one in await read_usage(pool, 1)}


@pytest.fixture(scope="module")
def place(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    with fresh_database(server, template) as database:
        usage = asyncio.run(brought(database, folder, answers(folder / "answers.jsonl")))
        lay_votes(database, 1, 800, 4, 6, sessions=40)
        with connect(database) as connection:
            connection.execute(
                "INSERT INTO model_details (arena, model, input_usd, output_usd) "
                "SELECT arena, model, 2, 10 FROM models WHERE name = 'counted'"
            )
        close_window(database, 1)
        rate(database)
        with served(database, folder=folder) as running:
            running.usage = usage
            yield running


def test_an_import_keeps_what_answers_took_and_how_they_are_written(place):
    dear, silent = place.usage["dear"], place.usage["silent"]
    assert (dear.responses, dear.costed, dear.timed, dear.counted) == (6, 6, 6, 6)
    assert dear.mean_cost_usd == pytest.approx(0.02)
    assert (dear.median_latency_seconds, dear.mean_output_tokens) == (8.0, 400.0)
    assert (silent.costed, silent.mean_cost_usd, silent.timed, silent.median_latency_seconds) == (
        0,
        None,
        0,
        None,
    )
    assert (silent.written, silent.mean_headers, silent.mean_lists, silent.mean_bold) == (6, 1.0, 1.0, 1.0)


def test_costs_are_stated_computed_or_not_known_and_never_zero(place):
    reader = place.client()
    assert 'href="/arenas/arena/usage"' in board(reader).text
    text = " ".join(reader.get("/arenas/arena/usage", headers=PAGE).text.split())
    assert "$0.0200" in text
    assert '$0.0220<span class="micro">by' in text
    assert "1 model is not" in text
    assert "2 models are not" in text
    assert "$0.0000" not in text
    assert text.count("<circle") == 3 + 2


@pytest.mark.parametrize("view", ["usage", "style"])
def test_there_is_no_view_of_what_nobody_said(server, template, tmp_path, view):
    with fresh_database(server, template) as database:
        asyncio.run(brought(database, tmp_path, answers(tmp_path / "a.jsonl", {"a": None, "b": None})))
        rate(database)
        with served(database, folder=tmp_path) as running:
            reader = running.client()
            assert reader.get(f"/arenas/arena/{view}", headers=PAGE).status_code == 404
            assert f'href="/arenas/arena/{view}"' not in board(reader).text


def test_tokens_beyond_belief_are_refused(server, template, tmp_path):
    with fresh_database(server, template) as database:
        path = answers(tmp_path / "a.jsonl", {"a": {"output_tokens": 1e300}})
        with pytest.raises(InputError, match="output_tokens"):
            asyncio.run(brought(database, tmp_path, path))


def usage(**known):
    unknown = dict.fromkeys(ModelUsage.__dataclass_fields__)
    return ModelUsage(**unknown | {"model": "m", "responses": 5, "costed": 0, "counted": 0} | known)


def test_a_price_without_tokens_or_tokens_without_a_price_give_no_cost():
    tokens = {"counted": 5, "mean_input_tokens": 10.0, "mean_output_tokens": 20.0}
    assert answer_cost(usage(), ModelDetails(input_usd=1.0, output_usd=1.0)) is None
    assert answer_cost(usage(**tokens), ModelDetails(input_usd=1.0)) is None
    assert answer_cost(usage(**tokens), ModelDetails()) is None
    free = answer_cost(usage(**tokens), ModelDetails(input_usd=0.0, output_usd=0.0))
    assert (free.usd, free.basis, free.responses) == (0.0, "priced", 5)


def point(number, taken, rating, low=None, high=None):
    return PlotPoint(number, f"m{number}", taken, rating, low, high)


def test_points_lie_inside_of_the_plot_and_free_ones_have_no_place():
    plot = scatter_plot([point(1, 0.001, 1400, 1300, 1500), point(2, 10.0, 1600), point(3, 0.0, 1500)])
    assert [placed.point.number for placed in plot.points] == [1, 2]
    for placed in plot.points:
        assert plot.left < placed.x < plot.right
        assert plot.top < placed.y < plot.bottom
    first, second = plot.points
    assert first.x < second.x
    assert first.y > second.y
    assert scatter_plot([point(1, 1.0, 1500)]) is None
    alike = scatter_plot([point(1, 1.0, 1500), point(2, 1.0, 1500)])
    assert alike.points[0].x == alike.points[1].x
