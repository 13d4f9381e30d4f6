"""How long a reply may be, whether it is asked for once more, and when a judge is given up."""

from dataclasses import replace

import pytest

from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.errors import JudgeUnusable, ProviderFault
from tiltyard.judges.requests import UNUSABLE, LearnedLimits, ReplyLimits, UnusableReplies

OK, CUT, ODD, NO = QuestionState.OK, QuestionState.TRUNCATED, QuestionState.UNPARSEABLE, QuestionState.REFUSED


@pytest.mark.parametrize(
    ("states", "limit"),
    [
        ([], 100),
        ([ODD], 100),
        ([CUT], 400),
        ([OK], None),
        ([NO], None),
        ([CUT, CUT], None),
        ([CUT, ODD], None),
        ([ODD, CUT], None),
    ],
)
def test_what_is_asked_again_and_with_which_limit(states: list[QuestionState], limit: int | None) -> None:
    assert ReplyLimits().next_limit(states, 100, 400) == limit


@pytest.mark.parametrize(
    ("known", "limit"),
    [
        ({"max_output": 1000}, 400),
        ({"max_output": 250}, 250),
        ({"max_output": 100}, None),
        ({"max_output": 50}, None),
        ({"context": 10_000}, 400),
        # 400 bytes are about 100 tokens.
        ({"context": 300}, 200),
        ({"context": 150}, None),
        ({"context": 350, "max_output": 220}, 220),
        ({"raised": False}, None),
    ],
)
def test_a_raised_limit_stays_within_what_the_model_has_and_is_never_the_same(
    known: dict[str, int], limit: int | None
) -> None:
    assert ReplyLimits(**known).next_limit([CUT], 100, 400) == limit


def refused(said: str, **given: object) -> ProviderFault:
    return ProviderFault("refused", **{"status": 400, "said": said, **given})


MOST = "max_tokens is too large: 16384. This model supports at most 4096 completion tokens."


def test_an_output_limit_is_learnt_once_for_all() -> None:
    learned, body = LearnedLimits(), {"max_tokens": 16_384}
    assert learned.bounded(16_384, 1000) == 16_384
    assert learned.learn(refused(MOST), body, 1000)
    assert learned.bounded(16_384, 1000) == 4096
    assert learned.bounded(100, 1000) == 100
    # Those that were under way together are sent again, too; one that kept to it is not.
    assert learned.learn(refused(MOST), body, 1000)
    assert not learned.learn(refused(MOST.replace("16384", "4096")), {"max_tokens": 4096}, 1000)
    # The least of what was said holds.
    assert learned.learn(refused(MOST.replace("4096", "8000")), body, 1000)
    assert learned.bounded(16_384, 1000) == 4096


def test_a_context_bounds_each_request_by_its_size() -> None:
    learned = LearnedLimits()
    said = "maximum context length is 8192 tokens. However, you requested 16384 output tokens and your prompt contains at least 1000 input tokens"
    assert learned.learn(refused(said), {"max_tokens": 16_384}, 2000)
    assert learned.bounded(16_384, 2000) == 7192
    assert learned.bounded(16_384, 4000) == 6192
    assert learned.bounded(100, 4000) == 100
    # However little room there seems to be, something is asked for: the endpoint counts better.
    assert learned.bounded(16_384, 100_000) == 64


def test_the_other_name_of_the_field_is_learnt() -> None:
    learned = LearnedLimits()
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    assert learned.learn(refused(said), {"max_tokens": 10}, 5)
    assert learned.field == "max_completion_tokens"
    assert not learned.learn(refused("something else"), {"max_completion_tokens": 10}, 5)


@pytest.mark.parametrize(
    "fault",
    [
        refused("no such model"),
        refused(""),
        refused(MOST, status=429),
        refused(MOST, status=500),
        refused(MOST, billed=True),
    ],
    ids=["another matter", "nothing said", "throttled", "server", "perhaps billed"],
)
def test_other_refusals_teach_nothing(fault: ProviderFault) -> None:
    learned = LearnedLimits()
    before = replace(learned)
    assert not learned.learn(fault, {"max_tokens": 16_384}, 1000)
    assert learned == before


def counted(*replies: tuple[str, QuestionState, bool]) -> list[JudgeUnusable | None]:
    counting = UnusableReplies("j", VerdictForm.TEXT, 512)
    return [counting.add(prompt, state, ended=ended) for prompt, state, ended in replies]


def test_ten_replies_without_a_verdict_on_three_prompts_are_enough() -> None:
    replies = [(f"p{k % 3}", NO, True) for k in range(12)]
    found = counted(*replies)
    assert found[:9] == [None] * 9
    assert all(found[9:])
    text = str(found[9])
    assert text.startswith(UNUSABLE)
    assert "last 10 replies" in text
    assert "refused 10" in text


def test_a_verdict_in_between_begins_anew() -> None:
    replies = [(f"p{k % 5}", NO if k % 10 != 9 else OK, True) for k in range(50)]
    assert not any(counted(*replies))


def test_two_prompts_are_not_enough() -> None:
    assert not any(counted(*((f"p{k % 2}", CUT, True) for k in range(50))))


def test_first_replies_alone_are_not_enough_where_a_second_may_help() -> None:
    first = [(f"p{k}", CUT, False) for k in range(30)]
    assert not any(counted(*first))
    assert not any(counted(*first, ("p0", OK, True), *first))
    found = counted(*first, *((f"p{k}", CUT, True) for k in range(3)))
    assert found[-1] is not None
    assert "truncated 33" in str(found[-1])
    assert "(512 now)" in str(found[-1])


def test_the_advice_is_for_what_is_most_common() -> None:
    replies = [("a", NO, True), *((f"p{k}", ODD, True) for k in range(9))]
    assert "use another reply" in str(counted(*replies)[-1])
