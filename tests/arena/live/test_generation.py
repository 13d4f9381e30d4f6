"""One turn: two scripted streams, their faults, and what a reader gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from support.jumping_loop import run_jumping
from support.scripted_streams import ScriptedChat, StreamScript, make_entrant, steady
from tiltyard.arena.live.generation import (
    SideCall,
    StreamText,
    TurnGeneration,
    TurnLimits,
)
from tiltyard.arena.live.live_records import (
    CallEnd,
    CallPlan,
    FrameMark,
    LiveFrame,
    LiveTurn,
    TurnEnd,
    TurnEntrant,
)
from tiltyard.arena.live.safety import SafetyVerdict
from tiltyard.arena.live.turn_notes import EntrantNames, NameMask
from tiltyard.core.live.stream_pace import Pace
from tiltyard.errors import Closed, ProviderFault, StoreFault
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn

_REQUEST = ChatRequest((ChatTurn("user", "Why is the sky blue?"),), None, 1_000)
_FAULT = ProviderFault("https://secret-model.example: 500", status=500, retryable=True)


@dataclass
class KeptTurn:
    """A `TurnRecorder` in memory."""

    calls: dict[int, CallEnd] = field(default_factory=dict)
    retried: list[int] = field(default_factory=list)
    ends: list[TurnEnd] = field(default_factory=list)
    health: list[tuple[int, bool]] = field(default_factory=list)
    #: So often the database is away.
    outages: int = 0
    refuses_retries: bool = False

    async def retry_call(self, failed: int, plan: CallPlan) -> int:
        if self.refuses_retries:
            raise Closed("no money")
        assert failed in self.calls, "a call ends before it is repeated"
        assert plan.reserve is not None
        self.retried.append(failed)
        return failed + 100

    async def finish_call(self, call: int, end: CallEnd) -> None:
        if self.outages:
            self.outages -= 1
            raise StoreFault("away")
        assert call not in self.calls
        self.calls[call] = end

    async def finish_turn(self, end: TurnEnd) -> None:
        assert {1, 2} <= set(self.calls), "all calls have ended before the turn"
        self.ends.append(end)

    async def note_end(self, entrant: TurnEntrant, state: str, fault: ProviderFault | None) -> None:
        if state not in ("stopped", "refused"):
            self.health.append((entrant.model, fault is None))


@dataclass
class Turn:
    """A turn to be run, and what came of it."""

    left: ScriptedChat
    right: ScriptedChat
    pace: Pace = "equal"
    kept: KeptTurn = field(default_factory=KeptTurn)
    checks: Checked | None = None
    mask: NameMask | None = None

    def make(self) -> TurnGeneration:
        sides = (make_entrant(7, self.left), make_entrant(8, self.right))
        calls = (SideCall(sides[0], _REQUEST, 1), SideCall(sides[1], _REQUEST, 2))
        limits = TurnLimits(
            self.pace, first_token_seconds=30.0, gap_seconds=20.0, total_seconds=900.0, mask=self.mask
        )
        return TurnGeneration([LiveTurn(1, "Why?", "", "", "waiting")], calls, limits, self.kept, self.checks)

    def run(self) -> tuple[list[tuple[float, LiveFrame]], TurnEnd]:
        return run_jumping(self._run())

    async def _run(self) -> tuple[list[tuple[float, LiveFrame]], TurnEnd]:
        generation = self.make()
        reading = asyncio.create_task(follow(generation))
        end = await generation.run()
        return await reading, end


async def follow(generation: TurnGeneration) -> list[tuple[float, LiveFrame]]:
    """All frames of a turn, with the seconds since its start."""
    began = asyncio.get_running_loop().time()
    frames, mark = [], FrameMark()
    while not frames or frames[-1][1].state in {"waiting", "streaming"}:
        frame = await generation.shown.next_frame(mark, 1.0)
        if frame.mark == mark and frame.state in {"waiting", "streaming"}:
            continue
        frames.append((asyncio.get_running_loop().time() - began, frame))
        mark = frame.mark
    return frames


def chat(*scripts: StreamScript) -> ScriptedChat:
    return ScriptedChat(list(scripts) or [StreamScript()])


def texts(frames: list[tuple[float, LiveFrame]]) -> tuple[str, str]:
    return "".join(frame.a for _, frame in frames), "".join(frame.b for _, frame in frames)


def test_a_mask_hides_names_in_every_frame_and_in_what_is_stored() -> None:
    mask = NameMask([EntrantNames("Heron Large", "heron-large"), EntrantNames("Plover", "plover-2")])
    said = "I am Heron Large, made by Anthropic. " * 9 + "Ask Heron Large again"
    turn = Turn(chat(steady(said, rate=300)), chat(steady("I am plover-2! " * 30, rate=90)), mask=mask)
    frames, end = turn.run()
    assert texts(frames) == end.texts
    told = " ".join((*end.texts, *texts(frames))).lower()
    assert "heron" not in told
    assert "anthropic" not in told
    assert "plover" not in told
    assert end.texts[0].endswith("again")
    assert end.written[0] == said


def test_a_text_without_sentences_is_masked_as_it_comes() -> None:
    text = StreamText(10_000, NameMask([EntrantNames("Heron Large", "heron-large")]))
    for _ in range(400):
        text.add("heron-large and ")
    assert len(text.text) > 1_000
    text.close()
    assert "heron" not in text.text
    assert text.written == "heron-large and " * 400


def test_without_news_a_reader_is_told_where_it_is_and_which_side_has_ended() -> None:
    """The longer answer stalls after the shorter one is complete. A reader may be ahead of what a process knows."""
    longer = StreamScript([*steady("word " * 40, rate=400).pieces, (15.0, "late")])
    turn = Turn(chat(steady("short", rate=100)), chat(longer))

    async def scene() -> LiveFrame:
        generation = turn.make()
        running = asyncio.create_task(generation.run())
        await asyncio.sleep(10.0)
        beyond = FrameMark(1, 9_999, 9_999)
        assert generation.shown.frame(beyond) is None
        still = await generation.shown.next_frame(beyond, 0.0)
        ahead = generation.shown.frame(FrameMark(1, 9_999, 195))
        assert ahead is not None
        assert (ahead.mark, ahead.a, ahead.b) == (FrameMark(1, 9_999, 200), "", "word ")
        await running
        return still

    still = run_jumping(scene())
    assert still == LiveFrame(FrameMark(1, 9_999, 9_999), "", "", "streaming", ended_a=True, ended_b=False)


def test_both_answers_are_shown_whole_and_stored() -> None:
    turn = Turn(chat(steady("left " * 60, rate=200)), chat(steady("right " * 90, rate=90)))
    frames, end = turn.run()
    assert texts(frames) == ("left " * 60, "right " * 90)
    assert end == turn.kept.ends[0] == TurnEnd("done", texts=("left " * 60, "right " * 90))
    assert [one.state for one in turn.kept.calls.values()] == ["done", "done"]
    assert all(one.cost and one.first_token_seconds and one.seconds for one in turn.kept.calls.values())
    assert sorted(turn.kept.health) == [(7, True), (8, True)]


@pytest.mark.parametrize("pace", ["equal", "as-it-comes", "complete"])
def test_there_are_at_most_fifteen_frames_a_second(pace: Pace) -> None:
    turn = Turn(chat(steady("a" * 900, rate=300, size=3)), chat(steady("b" * 300, rate=300, size=3)), pace)
    frames, _ = turn.run()
    times = [at for at, frame in frames if frame.state == "streaming"]
    assert all(later - sooner > 0.9 for sooner, later in zip(times, times[15:], strict=False))
    assert (len(times) > 10) == (pace != "complete")


def test_equal_counts_in_each_frame_and_no_start_before_both() -> None:
    turn = Turn(chat(steady("a" * 500, rate=300)), chat(steady("b" * 500, rate=60, first=12.0)))
    frames, _ = turn.run()
    shown = [(at, frame) for at, frame in frames if frame.a or frame.b]
    assert shown[0][0] > 12.0
    assert all(len(frame.a) == len(frame.b) for _, frame in shown if frame.state == "streaming")


def test_a_model_that_fails_before_anything_is_shown_is_asked_once_more() -> None:
    failing = chat(StreamScript([(0.1, "half of")], fault=_FAULT), steady("the whole answer", rate=100))
    turn = Turn(failing, chat(steady("b" * 40, rate=100, first=5.0)))
    frames, end = turn.run()
    assert end.state == "done"
    assert texts(frames)[0] == "the whole answer"
    assert turn.kept.retried == [1]
    assert turn.kept.calls[1].state == "failed"
    assert turn.kept.calls[1].cost is None, "the reserve stays counted: a part had come"
    assert turn.kept.calls[101].state == "done"
    assert (7, False) in turn.kept.health


def test_a_refused_request_costs_nothing() -> None:
    turn = Turn(chat(StreamScript([], fault=_FAULT), StreamScript()), chat())
    turn.run()
    assert turn.kept.calls[1].cost == 0


@pytest.mark.parametrize("broken", [StreamScript([], fault=_FAULT), StreamScript([], hangs=True)])
def test_a_model_that_fails_twice_voids_the_turn(broken: StreamScript) -> None:
    other = chat(StreamScript([(0.5, "x")], hangs=True))
    turn = Turn(chat(broken), other)
    frames, end = turn.run()
    assert (end.state, end.texts) == ("void", ("", ""))
    assert texts(frames) == ("", "")
    assert frames[-1][1].state == "void"
    assert 1 in turn.kept.retried
    assert other.broken_off >= 1, "the other stream is stopped"


def test_a_failure_after_text_was_shown_voids_the_turn() -> None:
    broken = StreamScript([(0.1, "some words that are shown " * 5)], fault=_FAULT)
    late = StreamScript([(0.1, "a" * 130), (3.0, "b")], fault=_FAULT)
    turn = Turn(chat(broken), chat(late))
    turn.left.scripts = [StreamScript([(0.1, "c" * 200), (5.0, "d")])]
    frames, end = turn.run()
    assert end.state == "void"
    assert turn.kept.retried == []
    assert texts(frames)[0]
    assert end.problem is not None
    assert "model 8" in end.problem


def test_silence_is_a_failure_at_the_same_time_for_all() -> None:
    silent = StreamScript([(0.1, "begins")], hangs=True)
    turn = Turn(chat(silent), chat(steady("b" * 100, rate=50, first=25.0)))
    frames, end = turn.run()
    assert end.state == "void"
    assert turn.kept.calls[1].problem == "no further token for 20 seconds"
    assert 40.0 < frames[-1][0] < 42.0, "twenty seconds, twice"


def test_thinking_counts_as_a_sign_of_life_and_is_not_shown() -> None:
    thinking = StreamScript([(15.0, "done")], thinking=[(15.0, "hm "), (15.0, "so ")])
    turn = Turn(chat(thinking), chat())
    frames, end = turn.run()
    assert end.state == "done"
    assert end.thinking == ("hm so ", "")
    assert texts(frames) == ("done", "Hello there.")


@pytest.mark.slow
def test_an_answer_that_never_ends_is_ended() -> None:
    drip = StreamScript([(19.0, "x")] * 60)
    _, end = Turn(chat(drip), chat()).run()
    assert end.state == "void"
    assert end.problem is not None
    assert "within 900 seconds" in end.problem


def test_a_longer_answer_than_its_limit_is_cut() -> None:
    turn = Turn(chat(StreamScript([(0.01, "y" * 5_000)] * 10)), chat(), "as-it-comes")
    _, end = turn.run()
    assert len(end.texts[0]) == 16_000
    assert turn.left.broken_off == 1


async def _stopped(turn: Turn, after: float) -> tuple[list[tuple[float, LiveFrame]], TurnEnd]:
    generation = turn.make()
    reading = asyncio.create_task(follow(generation))
    asyncio.get_running_loop().call_later(after, generation.stop)
    end = await generation.run()
    return await reading, end


def test_stop_keeps_what_is_shown_of_both() -> None:
    """What has come and is not shown would tell which model is faster."""
    turn = Turn(chat(steady("a" * 5_000, rate=380)), chat(steady("b" * 5_000, rate=60)))
    frames, end = run_jumping(_stopped(turn, 4.0))
    assert end.state == "stopped"
    assert texts(frames) == end.texts
    assert len(end.texts[0]) == len(end.texts[1]) > 50
    assert turn.left.broken_off == turn.right.broken_off == 1
    assert {one.state for one in turn.kept.calls.values()} == {"stopped"}
    assert turn.kept.health == []


def test_stop_before_anything_is_shown() -> None:
    turn = Turn(chat(StreamScript([], hangs=True)), chat(StreamScript([], hangs=True)))
    _, end = run_jumping(_stopped(turn, 2.0))
    assert (end.state, end.texts) == ("stopped", ("", ""))


def test_a_turn_without_money_for_a_repetition_is_void() -> None:
    turn = Turn(chat(StreamScript([], fault=_FAULT)), chat(), kept=KeptTurn(refuses_retries=True))
    _, end = turn.run()
    assert end.state == "void"
    assert end.problem is not None
    assert "again: no money" in end.problem


def test_the_end_is_stored_although_the_database_was_away() -> None:
    turn = Turn(chat(), chat(), kept=KeptTurn(outages=12))
    _, end = turn.run()
    assert turn.kept.ends == [end]


def test_any_error_of_a_provider_ends_the_turn() -> None:
    class Odd(ScriptedChat):
        async def stream(self, request: ChatRequest):  # type: ignore[no-untyped-def,override]
            yield await super().stream(request).__anext__()
            raise ZeroDivisionError

    _, end = Turn(Odd(), chat()).run()
    assert end.state == "void"
    assert end.problem == "model 7: the stream could not be read"


def test_a_reader_that_comes_back_gets_the_rest_exactly() -> None:
    async def scene() -> None:
        turn = Turn(chat(steady("abcdefghij" * 40, rate=100)), chat(steady("klmnopqrst" * 30, rate=100)))
        generation = turn.make()
        running = asyncio.create_task(generation.run())
        await asyncio.sleep(2.5)
        seen = generation.shown.frame(FrameMark())
        assert seen is not None
        await asyncio.sleep(0.8)
        rest = generation.shown.frame(seen.mark)
        assert rest is not None
        assert rest.a
        both = generation.shown.frame(FrameMark())
        assert both is not None
        assert (seen.a + rest.a, seen.b + rest.b, rest.mark) == (both.a, both.b, both.mark)
        await running
        final = generation.shown.frame(rest.mark)
        assert final is not None
        assert (seen.a + rest.a + final.a, final.state) == ("abcdefghij" * 40, "done")

    run_jumping(scene())


@dataclass
class Checked:
    """A moderation with one verdict."""

    verdict: SafetyVerdict
    holds_answers: bool = False
    seen: list[tuple[str, str]] = field(default_factory=list)

    async def check_answers(self, _turns: Sequence[LiveTurn], a: str, b: str) -> SafetyVerdict:
        self.seen.append((a, b))
        await asyncio.sleep(0.5)
        return self.verdict


def test_refused_answers_void_the_turn() -> None:
    checks = Checked(SafetyVerdict(False))
    frames, end = Turn(chat(), chat(), checks=checks).run()
    assert (end.state, end.texts) == ("void", ("", ""))
    assert checks.seen == [("Hello there.", "Hello there.")]
    assert frames[-1][1].state == "void"


def test_answers_that_are_held_are_shown_after_the_check() -> None:
    checks = Checked(SafetyVerdict(True, ("names",)), holds_answers=True)
    turn = Turn(chat(steady("a" * 100, rate=50)), chat(steady("b" * 100, rate=50)), checks=checks)
    frames, end = turn.run()
    assert next(at for at, frame in frames if frame.a) > 2.4
    assert end.flags == {"rules": ["names"]}
    assert texts(frames) == ("a" * 100, "b" * 100)


def test_an_empty_answer_is_a_failure_that_is_paid_for() -> None:
    turn = Turn(chat(StreamScript([(0.1, " ")]), StreamScript()), chat())
    frames, end = turn.run()
    assert end.state == "done"
    assert texts(frames)[0] == "Hello there."
    assert (turn.kept.calls[1].state, turn.kept.calls[1].problem) == ("refused", "the answer is empty")
    assert turn.kept.calls[1].cost
