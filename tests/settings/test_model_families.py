"""The table of families and makers: dated, complete, without contradictions."""

from datetime import date

from tiltyard.settings.identity_words import load_families


def test_the_table_is_dated_and_no_name_means_two_things():
    table = load_families()
    assert date.fromisoformat(table.as_of) > date(2026, 11, 1)
    seen = {}
    for key, family in table.families.items():
        assert family.names or family.words, key
        for name in (*family.names, *family.words):
            assert seen.setdefault((key, name.casefold()), name) == name
        assert not set(family.names) & set(family.words), key
        for phrase in family.exceptions:
            assert any(name.casefold() in phrase.casefold() for name in family.names), phrase


def test_the_families_that_people_meet_are_there():
    named = {name for family in load_families().families.values() for name in (*family.names, *family.words)}
    assert named >= {
        "Claude", "Anthropic", "ChatGPT", "OpenAI", "o1", "o3", "Gemini", "Bard", "Google", "DeepMind", "Llama", "Meta",
        "Mistral", "Mixtral", "Qwen", "Tongyi", "Alibaba", "DeepSeek", "Grok", "xAI", "Cohere", "Phi", "Microsoft",
        "Copilot", "Gemma", "GLM", "Zhipu", "Kimi", "Moonshot AI", "ERNIE", "Baidu", "Doubao", "ByteDance", "Nova",
        "Amazon", "Granite", "IBM", "Nemotron", "NVIDIA", "Yi", "Falcon", "Jamba", "AI21", "MiniMax", "Hunyuan",
        "Tencent", "StepFun", "OLMo", "Reka", "通义千问", "文心一言", "豆包", "智谱",
    }  # fmt: skip
