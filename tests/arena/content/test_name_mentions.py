"""Responses that name a model, their family or their maker are told of, the first by their rows; ordinary words are not."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.live_arenas import make_arena
from tiltyard.arena.content.answer_rows import AnswerReading, CheckedAnswer, read_named_models
from tiltyard.arena.content.name_mentions import SHOWN_MENTION_LIMIT, MentionFinder
from tiltyard.arena.content.upload_review import preview_upload, store_upload
from tiltyard.cli.serve import _warn
from tiltyard.files.answers import read_answers
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.identity_words import load_families
from tiltyard.wire.arenas import Imported

#: A model for each row; the rows name it by these.
MODELS = (
    "claude-sonnet-4-5", "openai/gpt-4o", "o3-mini", "gemini-2.5-pro", "meta-llama/Llama-3.3-70B", "mixtral-8x7b",
    "Qwen2.5-72B-Instruct", "deepseek-r1-distill-qwen-32b", "grok-4", "command-r-plus", "phi-4", "nova-pro", "yi-34b",
    "step-2", "kimi-k2", "glm-4.6", "ernie-4.5", "doubao-pro", "minimax-m1", "house-model",
)  # fmt: skip


def answer(text, model="oak", kind="text", where="line 1"):
    return CheckedAnswer(where, model, "p", "?", b"", None, None, kind, "text/plain", text.encode())


def said(text, model, kind="text", stated=None):
    """What is told of one response: which name, and how it stands to the model."""
    lookout = MentionFinder(MODELS, stated or {})
    lookout.look(answer(text, model, kind))
    return [(one.name, one.about) for one in lookout.first]


OWN = [
    ("claude-sonnet-4-5", "I'm Claude, an AI made by Anthropic.", "Claude"),
    ("claude-sonnet-4-5", "As of my training, Anthropic recommends care.", "Anthropic"),
    ("claude-sonnet-4-5", "CLAUDE here!", "Claude"),
    ("claude-sonnet-4-5", "我是Claude，由Anthropic开发。", "Claude"),
    ("claude-sonnet-4-5", "我是克劳德。", "克劳德"),
    ("claude-sonnet-4-5", "Ｃｌａｕｄｅ", "Claude"),
    ("claude-sonnet-4-5", "Cl\u200bau\u00adde", "Claude"),
    ("claude-sonnet-4-5", "Сlаudе", "Claude"),
    ("claude-sonnet-4-5", "<!-- generated with claude_sonnet -->", "Claude"),
    ("claude-sonnet-4-5", "저는 클로드입니다.", "클로드"),
    ("openai/gpt-4o", "As ChatGPT, I can't browse.", "ChatGPT"),
    ("openai/gpt-4o", "That is beyond GPT-4's training.", "GPT-4"),
    ("openai/gpt-4o", "I was trained by OpenAI", "OpenAI"),
    ("o3-mini", "ask OpenAI", "OpenAI"),
    ("o3-mini", "I am o3.", "o3"),
    ("gemini-2.5-pro", "I am a large language model, trained by Google.", "Google"),
    ("gemini-2.5-pro", "I’m Gemini, and I can help.", "Gemini"),
    ("gemini-2.5-pro", "As Gemini, I have no opinion.", "Gemini"),
    ("gemini-2.5-pro", "Je suis un grand modèle linguistique, entraîné par Google.", "Google"),
    ("gemini-2.5-pro", "Ich bin ein großes Sprachmodell und wurde von Google trainiert.", "Google"),
    ("gemini-2.5-pro", "Soy un modelo de lenguaje desarrollado por Google.", "Google"),
    ("gemini-2.5-pro", "Eu sou um modelo de linguagem treinado pelo Google.", "Google"),
    ("gemini-2.5-pro", "Sono un modello linguistico sviluppato da Google.", "Google"),
    ("gemini-2.5-pro", "Я — большая языковая модель, обученная Google.", "Google"),
    ("gemini-2.5-pro", "我是一个由谷歌训练的大型语言模型。", "谷歌"),
    ("gemini-2.5-pro", "私はGoogleによって開発された言語モデルです。", "Google"),
    ("gemini-2.5-pro", "저는 구글이 개발한 언어 모델입니다.", "구글"),
    ("meta-llama/Llama-3.3-70B", "I'm an AI assistant developed by Meta.", "Meta"),
    ("meta-llama/Llama-3.3-70B", "Llama 3 was asked", "Llama 3"),
    ("mixtral-8x7b", "Mistral AI made me", "Mistral AI"),
    ("Qwen2.5-72B-Instruct", "我是通义千问，由阿里云开发。", "通义千问"),
    ("Qwen2.5-72B-Instruct", "I am Qwen, created by Alibaba Cloud.", "Qwen"),
    ("deepseek-r1-distill-qwen-32b", "as Qwen said", "Qwen"),
    ("deepseek-r1-distill-qwen-32b", "deepseek", "DeepSeek"),
    ("grok-4", "I am Grok, built by xAI.", "Grok"),
    ("command-r-plus", "I am Command R, a model by Cohere.", "Command R"),
    ("phi-4", "I'm Phi, a language model developed by Microsoft.", "Phi"),
    ("nova-pro", "I'm an assistant built by Amazon.", "Amazon"),
    ("yi-34b", "I am Yi.", "Yi"),
    ("ernie-4.5", "我是文心一言", "文心一言"),
    ("doubao-pro", "我是豆包，很高兴见到你", "豆包"),
    ("glm-4.6", "智谱清言", "智谱清言"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "text", "name"), OWN)
def test_a_response_that_names_its_family_or_maker_is_told_of(model, text, name):
    assert said(text, model) == [(name, "family")]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("gemini-2.5-pro", "Geminis are curious. I am a Gemini, born in June."),
        ("gemini-2.5-pro", "Search for it on Google, or ask Google Maps."),
        ("gemini-2.5-pro", "Chrome is a browser made by Google."),
        ("gemini-2.5-pro", "Shakespeare, the Bard, wrote it. I am sure that Google knows."),
        ("meta-llama/Llama-3.3-70B", "The llama is related to the alpaca. Meta analysis shows it."),
        ("meta-llama/Llama-3.3-70B", "I am meta-aware. A llama eats grass; I was bitten by a llama."),
        ("command-r-plus", "Run the command. I am in command. Press Command R. Sentences must cohere."),
        ("phi-4", "phi = 1.618. I'm using phi. Microsoft Word is fine; as Microsoft says."),
        ("nova-pro", "A nova is a star. I am going to buy it on Amazon. The Amazon is a river."),
        ("yi-34b", "Yi is a people of China. As Yi wrote, step by step."),
        ("step-2", "I am on step 2. As a step, take care. Step by step."),
        ("minimax-m1", "The minimax algorithm prunes the tree."),
        ("glm-4.6", "Fit a GLM with a log link."),
        ("kimi-k2", "Kimi Räikkönen won; a moonshot."),
        ("ernie-4.5", "Bert and Ernie. I am with Ernie."),
        ("doubao-pro", "早餐吃豆包。"),
        ("claude-sonnet-4-5", "Claude Monet and Claude Shannon; Jean-Claude; the anthropic principle."),
        ("claude-sonnet-4-5", "Claudette and Claudius, claudegram"),
        ("openai/gpt-4o", "A GPT partition replaces MBR. An o1 error. Egypt."),
        ("mixtral-8x7b", "The mistral blows from the north-west."),
        ("grok-4", "I finally grok monads."),
        ("Qwen2.5-72B-Instruct", "阿里巴巴是一家公司。我是在淘宝上买的。"),
        ("gemini-2.5-pro", "我在谷歌上搜索过。"),
        # Other families may be spoken of.
        ("house-model", "ChatGPT and Claude are made by OpenAI and Anthropic."),
        ("gemini-2.5-pro", "Anthropic published a paper on it."),
    ],
)  # fmt: skip
def test_ordinary_words_are_not_told_of(model, text):
    assert said(text, model) == []


@pytest.mark.parametrize(
    ("model", "text", "name"),
    [
        ("house-model", "I'm Claude, made by Anthropic.", "Claude"),
        ("gemini-2.5-pro", "I am ChatGPT, trained by OpenAI.", "ChatGPT"),
        ("Qwen2.5-72B-Instruct", "I am an AI assistant created by Anthropic.", "Anthropic"),
        ("yi-34b", "我是由OpenAI开发的ChatGPT。", "OpenAI"),
        ("house-model", "As a language model developed by Google, I cannot.", "Google"),
    ],
)
def test_a_response_that_claims_another_family_is_told_of(model, text, name):
    assert said(text, model) == [(name, "claim")]


def test_names_of_models_go_before_names_of_families():
    assert said("I am claude-sonnet-4-5 by Anthropic", "claude-sonnet-4-5") == [("claude-sonnet-4-5", "own")]
    assert said("grok-4 is not Claude", "claude-sonnet-4-5") == [("Claude", "family")]
    assert said("unlike grok-4", "claude-sonnet-4-5") == [("grok-4", "other")]


def test_what_a_file_says_of_a_model_extends_the_table():
    stated = {"house-model": frozenset({"Orchard", "Fruit & Co", "Llama"})}
    assert said("Orchard at your service", "house-model", stated=stated) == [("Orchard", "family")]
    assert said("made by fruit & co.", "house-model", stated=stated) == [("Fruit & Co", "family")]
    assert said("I was made by Meta", "house-model", stated=stated) == [("Meta", "family")]
    assert said("a llama", "house-model", stated=stated) == [], "a word of the table stays a word"
    assert said("Orchards, the orchard of another", "grok-4", stated=stated) == []


def test_a_file_says_family_and_maker_in_any_row(tmp_path):
    path = tmp_path / "answers.jsonl"
    rows = [
        {"prompt_id": "p", "prompt": "?", "model": "m", "response": "x", "family": "Orchard", "maker": "Fruit"},
        {"prompt_id": "q", "prompt": "?", "model": "m", "response": "x", "family": 3},
        {"prompt_id": "q", "prompt": "?", "model": "n", "response": "x"},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_named_models(path) == {"m": {"Orchard", "Fruit", "3"}, "n": set()}
    first = next(read_answers(path))
    assert (first.family, first.maker) == ("Orchard", "Fruit")
    assert first.to_dict() == rows[0] | {"kind": "text"}


def test_messages_say_whose_name_it_is():
    lookout = MentionFinder(MODELS)
    for text in ("I'm Claude", "I'm ChatGPT"):
        lookout.look(answer(text, "claude-sonnet-4-5"))
    assert [str(one) for one in lookout.first] == [
        "line 1: says 'Claude', a name of its family or maker: voters will read it",
        "line 1: calls itself a model of 'ChatGPT', which is not its family or maker: voters will read it",
    ]


def test_every_model_of_the_table_is_found_by_its_own_names():
    table = load_families()
    assert len(table.families) >= 40
    for key, family in table.families.items():
        for name in family.names:
            assert said(f"x {name} y", f"{key}-1")[0][1] == "family", name
        for word in family.words:
            assert said(f"well, {word} it is", f"{key}-1") == [], word
            assert [about for _, about in said(f"I am {word}.", f"{key}-1")] == ["family"], word


WORST = {
    "one word": "google " * 20_000,
    "one opening": "I am google s " + "google s " * 15_000,
    "fillers": "I am " + "a large language model trained by " * 6_000,
    "openings": "I am " * 40_000,
    "chinese": "我是由" * 40_000,
    "names": "claude monet " * 10_000,
    "letters": "a" * 200_000,
    "mixed scripts": "аa" * 100_000,
    "marks": "e\u0301" * 100_000,
}


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("text", WORST.values(), ids=WORST)
def test_long_texts_take_time_in_proportion(text):
    """Four times the text may take about four times the time, and a million characters a few seconds."""

    def seconds(part):
        lookout = MentionFinder(MODELS)
        start = time.process_time()
        lookout.look(answer(part, "phi-4"))
        return time.process_time() - start

    seconds(text[:1000])
    small = max(min(seconds(text[: len(text) // 4]) for _ in range(2)), 0.01)
    assert seconds(text) < 10 * small
    assert seconds(text) < 5


def test_many_models_of_one_name_take_no_longer():
    names = [f"model-{k}" for k in range(20_000)]
    text = "model, " * 2_000 + "model-x"
    lookout = MentionFinder(names)
    start = time.process_time()
    for k in range(20):
        lookout.look(answer(text, names[k]))
    assert time.process_time() - start < 5
    lookout.look(answer("so says model-19999", "model-3"))
    assert [one.name for one in lookout.first] == ["model-19999"]


NAMES = ("argent-70b", "Argent-70B-instruct", "Ω-model", "gpt", "o1", "***", "La Plume 2")


def named(text, model="oak", kind="text"):
    lookout = MentionFinder(NAMES)
    lookout.look(answer(text, model, kind))
    return [(one.name, one.about in ("own", "family")) for one in lookout.first]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I am ARGENT-70b.", "argent-70b"),
        ("(argent-70b-instruct)", "Argent-70B-instruct"),
        ("I am argent-70bis", None),
        ("sargent-70b", None),
        ("argent, 70b", None),
        ("says ω-MODEL", "Ω-model"),
        ("ask la plume 2!", "La Plume 2"),
        ("ask la plume 22", None),
        ("o1 and *** and egypt", None),
        ("x" * 1_100_000 + " gpt", None),
        ("", None),
    ],
)
def test_names_are_found_as_whole_words_in_any_case(text, name):
    assert named(text) == ([] if name is None else [(name, False)])


def test_its_own_name_is_told_before_others_and_only_texts_and_apps_are_read():
    assert named("gpt, argent-70b-instruct", model="gpt") == [("gpt", True)]
    assert named("<html>made by gpt", kind="app") == [("gpt", False)]
    assert named("gpt", kind="image") == []


def test_the_first_are_told_and_all_are_counted(capsys):
    lookout = MentionFinder(NAMES)
    rows = [answer("gpt", "gpt", where=f"line {k}") for k in range(SHOWN_MENTION_LIMIT + 5)]
    assert list(lookout.watching([answer("nothing"), *rows]))[1:] == rows
    assert (lookout.count, len(lookout.first)) == (SHOWN_MENTION_LIMIT + 5, SHOWN_MENTION_LIMIT)
    nothing = Imported(0, 0, 0, 0, 0, 0, (), 0, ())
    for brought in (
        nothing,
        replace(nothing, mentioned=lookout.count, mentions=tuple(map(str, lookout.first))),
    ):
        _warn(brought)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Warning: line 0: says 'gpt', the name of its model: voters will read it."
    assert told[-1] == "Warning: 5 more responses do so too."
    assert len(told) == SHOWN_MENTION_LIMIT + 1


async def test_a_preview_tells_of_names_of_models_that_are_there_and_that_come(database):
    rows = [
        {"prompt_id": "new", "prompt": "Why?", "model": "oak", "response": "As Model-0 says"},
        {"prompt_id": "new", "prompt": "Why?", "model": "elm", "response": "I, Elm, know. Oak does not."},
        {"prompt_id": "new", "prompt": "Why?", "model": "ash", "response": "No idea"},
        {
            "prompt_id": "new",
            "prompt": "Why?",
            "model": "yew",
            "response": "Orchard says so",
            "maker": "Orchard",
        },
        {"prompt_id": "new", "prompt": "Why?", "model": "fir", "response": "I am ChatGPT."},
    ]

    arena = await make_arena(database, 2, 1)
    async with open_pool(database, most=2) as pool:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        upload = await store_upload(pool, arena, "a", data, actor="a")
        preview = await preview_upload(pool, arena, upload, actor="a")
    assert (preview.good, preview.mentioned) == (5, 4)
    assert [(one.where, one.name, one.about) for one in preview.mentions] == [
        ("line 1", "model-0", "other"), ("line 2", "elm", "own"), ("line 4", "Orchard", "family"),
        ("line 5", "ChatGPT", "claim"),
    ]  # fmt: skip


def test_models_of_a_file_are_known_before_its_answers_are_read(tmp_path: Path):
    path = tmp_path / "answers.jsonl"
    rows = [{"prompt_id": "p", "prompt": "?", "model": name, "response": "x"} for name in "ab"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        read_named_models(path)
        == read_named_models(path, AnswerReading(body=True))
        == {"a": set(), "b": set()}
    )
