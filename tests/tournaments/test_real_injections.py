"""The suite of hostile responses before a real LLM server: one judge of random weights, and one that repeats them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest

from support.arranged import arrange, read_lines, write_lines
from support.judge_injections import ANSWER, INJECTIONS, UNREPORTED
from support.servers.tiny_llm import tiny_llm
from support.servers.word_model import write_word_model
from tiltyard.core.judging.question import QuestionTexts, Rubric, build_chat_prompt
from tiltyard.core.judging.untrusted_text import mark_imitations
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm, read_reply

FORMS = (VerdictForm.TEXT, VerdictForm.SCHEMA)
pytestmark = pytest.mark.slow


def reply_to(url: str, response: str) -> str:
    """What the server says to a question with this response in slot A. It is asked directly: no tournament would go on
    with a judge none of whose replies can be read."""
    shown = QuestionTexts("What is the capital of France?", response, ANSWER)
    prompt = build_chat_prompt(shown, Rubric("d", "v1", "Be right."), VerdictForm.TEXT, 120)
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    body = {"model": "parrot", "messages": messages, "max_tokens": prompt.max_tokens}
    asked = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300.0)
    return asked.raise_for_status().json()["choices"][0]["message"]["content"]


def judged(folder: Path, url: str, form: str):
    """A tournament between an honest model and one whose every answer is an attempt."""
    judge = {"provider": "openai", "base_url": f"{url}/v1", "form": form, "max_tokens": 120, "retries": 1}
    arranged = arrange(folder, models=["attacker", "honest"], prompts=0, dimensions=1, judge=judge, prices={})
    prompts = {name: f"What is the capital of France? ({name})" for name in INJECTIONS}
    write_lines(
        folder / "prompts.jsonl", [{"prompt_id": name, "text": text} for name, text in prompts.items()]
    )
    write_lines(
        folder / "answers.jsonl",
        [
            {"prompt_id": name, "prompt": text, "model": model, "response": response}
            for name, text in prompts.items()
            for model, response in (("attacker", INJECTIONS[name]), ("honest", ANSWER))
        ],
    )
    done = arranged.run("run", arranged.config, "--mode", "headline", "--output-dir", "out", check=False)
    assert done.returncode in (0, 3), done.stderr
    arranged.run("verify", "out")
    rows = [row for path in sorted((folder / "out" / "questions").iterdir()) for row in read_lines(path)]
    assert len(rows) == 2 * len(INJECTIONS)
    [finding] = [
        one for one in arranged.document("diagnostics.json")["findings"] if one["name"] == "steering-answers"
    ]
    assert finding["values"]["answers"] == len(INJECTIONS) - len(UNREPORTED)
    return rows


def test_a_judge_that_repeats_what_responses_say_gives_no_verdict(tmp_path):
    """Every word that it says stands in an attempt, as it is quoted to judges."""
    quoted = "\n\n".join(
        " ".join(mark_imitations(text).split()) for name, text in INJECTIONS.items() if name != "json-deep"
    )

    def write(path: Path) -> None:
        write_word_model(path, "parrot", quoted)

    with tiny_llm(write=write) as url:
        texts = [reply_to(url, response) for response in INJECTIONS.values()]
    states = Counter(read_reply(Reply(text), form).state for text in texts for form in FORMS)
    print(states, sum("(quoted)" in text for text in texts))
    assert set(states) == {QuestionState.UNPARSEABLE}
    assert any("(quoted)" in text for text in texts)


@pytest.mark.parametrize("form", ["text", "schema"])
def test_every_verdict_of_a_judge_is_its_own(tmp_path, form):
    with tiny_llm(verdicts=form == "text") as url:
        rows = judged(tmp_path, url, form)
    print(form, Counter((row["state"], row["verdict"]) for row in rows))
    for row in rows:
        if row["state"] == "ok":
            own = read_reply(Reply(row["reply"]["text"]), VerdictForm(form)).verdict
            assert own is not None
            assert own.step.value == row["verdict"]
    assert any(row["state"] == "ok" for row in rows)
