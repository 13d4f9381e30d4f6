"""Whatever somebody writes: it is shown, it hides nothing, it runs nothing, it asks for nothing."""

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.hostile_text import PAYLOADS, Payload
from tiltyard.web.texts import format_name, plain_text, render_text
from tiltyard.web.texts.code_highlighter import (
    CODE_CLASSES,
    LANGUAGES,
    MAX_HIGHLIGHTED_CHARACTERS,
    CodeHighlighter,
)
from tiltyard.web.texts.markdown import (
    ATTRIBUTES,
    BRACKET_LIMIT,
    CLASSES,
    LINK_REL,
    MAX_MARKDOWN_CHARACTERS,
    MAX_MARKDOWN_LINES,
    MAX_SHOWN_CHARACTERS,
    TAGS,
    VALUES,
    target_of,
)

_VOID = {"br", "hr"}
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_FLAG = re.compile("(?<=🏴)[\U000e0061-\U000e007a]{5}\U000e007f")
#: Plain words with what surrounds them in real text: markup, controls, other scripts.
_HOSTILE = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="*_`~[]()<>!#|-+.:=\"'\\&;$\n\t a1é\u202e\u200dא", max_size=300),
    st.lists(st.sampled_from([payload.text[:200] for payload in PAYLOADS]), max_size=4).map("\n".join),
)


class Read(HTMLParser):
    """Reads HTML and refuses whatever is not on the list."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(str(html))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS | {"bdi"}, tag
        told = {name: value or "" for name, value in attrs}
        assert len(told) == len(attrs)
        for name, value in told.items():
            self._check(tag, name, value)
        self.tags.append((tag, told))
        if tag not in _VOID:
            self.open.append(tag)

    def _check(self, tag: str, name: str, value: str) -> None:
        assert _HIDDEN.search(value) is None
        if name == "class":
            assert set(value.split()) <= CLASSES[tag]
        elif name == "href":
            assert re.match(r"https?://[a-z0-9.\[\]:-]+(?:[/?#]|$)|mailto:[^@]+@", value, re.IGNORECASE), (
                value
            )
        elif tag == "a" and name in {"rel", "target"}:
            assert value == {"rel": LINK_REL, "target": "_blank"}[name]
        elif tag == "bdi":
            assert name == "title"
        elif name in VALUES.get(tag, {}):
            assert value in VALUES[tag][name]
        else:
            assert name in ATTRIBUTES[tag], (tag, name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert _HIDDEN.search(_FLAG.sub("", data)) is None
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    def of(self, tag: str) -> list[dict[str, str]]:
        return [told for each, told in self.tags if each == tag]


def rendered(text: str, **options) -> Read:
    return Read(render_text(text, **options))


def test_there_are_more_than_two_hundred_payloads_and_no_two_are_alike():
    assert len(PAYLOADS) > 240
    assert (
        len({payload.text for payload in PAYLOADS})
        == len({payload.name for payload in PAYLOADS})
        == len(PAYLOADS)
    )


def test_a_payload_leaves_nothing_but_what_is_on_the_list():
    def problem(payload: Payload) -> str | None:
        try:
            for html in (render_text(payload.text), format_name(payload.text), plain_text(payload.text)):
                Read(html)
            Read(render_text(payload.text, language="ar"))
        except AssertionError as error:
            return f"{payload.name}: {error}"
        return None

    assert list(filter(None, map(problem, PAYLOADS))) == []


@given(_HOSTILE)
def test_any_text_becomes_html_of_the_list(text: str):
    rendered(text)
    Read(plain_text(text))
    Read(format_name(text, most=40))


@given(
    st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), min_size=1, max_size=40)
)
def test_no_word_of_a_paragraph_is_lost(words: list[str]):
    text = " ".join(words)
    assert rendered(f"says {text}").text.split() == ["says", *text.split()]


@given(_HOSTILE)
def test_plain_text_says_what_was_written(text: str):
    seen = Read(plain_text(text)).text
    letters = [each for each in text if each.isalnum() and each.isascii()]
    found = iter(seen)
    assert all(each in found for each in letters)


@given(_HOSTILE)
def test_the_same_text_gives_the_same_html(text: str):
    assert render_text(text) == render_text(text)


def test_markdown_becomes_what_it_means():
    read = rendered(
        "# A\n\n**b** _c_ ~~d~~ `e`\n\n1. f\n\n> g\n\n- h\n\n---\n\n| i |\n|--:|\n| j |\n\nk  \nl"
    )
    assert {"h3", "strong", "em", "s", "code", "ol", "blockquote", "ul", "hr", "table", "br"} <= {
        tag for tag, _ in read.tags
    }
    assert {"class": "to-the-right", "dir": "auto"} in read.of("td")


def test_headings_stay_below_those_of_the_page():
    read = rendered("\n\n".join("#" * level + " x" for level in range(1, 7)))
    assert [tag for tag, _ in read.tags] == ["h3", "h4", "h5", "h6", "h6", "h6"]


def test_raw_html_is_shown_as_it_was_written():
    text = "<b onclick=x>bold</b> <!-- no --> &lt;i&gt;"
    assert rendered(text).text.strip() == "<b onclick=x>bold</b> <!-- no --> <i>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[google.com](https://evil.example/x)", "google.com (evil.example)"),
        ("[here](https://evil.example/x)", "here (evil.example)"),
        ("[https://evil.example/x](https://evil.example/x)", "https://evil.example/x"),
        ("[evil.example](https://evil.example/x)", "evil.example"),
        ("[evil.example.com](https://evil.example)", "evil.example.com (evil.example)"),
        ("[evil.example@google.com](https://evil.example)", "evil.example@google.com (evil.example)"),
        ("<https://ok.example/a?b#c>", "https://ok.example/a?b#c"),
        ("<https://аpple.com>", "https://аpple.com (xn--pple-43d.com)"),
        ("[write](mailto:a@b.example)", "write (a@b.example)"),
        ("<a@b.example>", "a@b.example"),
        ("[x](http://[::1]:8000/)", "x ([::1]:8000)"),
    ],
)
def test_a_link_says_where_it_leads(text: str, said: str):
    read = rendered(text)
    assert read.text.strip() == said
    (link,) = read.of("a")
    assert (link["rel"], link["target"]) == (LINK_REL, "_blank")


@pytest.mark.parametrize(
    "address",
    ["/operator", "//evil.example", "#top", "?x", "https:evil.example", "https:///evil.example", "ftp://x.example",
     "https://user@evil.example", "https://google.com%2f@evil.example", "https://ev%69l.example",
     "https://x.example/" + "a" * 3_000, "mailto:nobody", "tel:1"],
)  # fmt: skip
def test_a_link_that_may_not_be_followed_is_text_with_its_address(address: str):
    read = rendered(f"[words](<{address}>)")
    assert read.of("a") == []
    assert "words" in read.text
    assert "link removed: " in read.text
    assert address[:9] in read.text


@pytest.mark.parametrize(
    "address", ["https://[::1", "https://[x]/", "https://é.example", "https://x.example\\y", "x"]
)
def test_an_address_that_browsers_might_read_otherwise_leads_nowhere(address: str):
    assert target_of(address) is None


def test_a_link_keeps_its_title_but_not_its_tricks():
    (link,) = rendered('[x](https://x.example "a\u202eb")').of("a")
    assert link["title"] == "a[U+202E]b"


def test_images_are_left_out_with_their_words():
    read = rendered("![a *cat*](https://x.example/cat.png) ![](/y.png)")
    assert read.text.strip() == "[image removed: a cat] [image removed]"
    assert read.of("img") == []


def test_our_own_words_are_translated():
    german = {"image removed: {alt}": "Bild fehlt: {alt}"}
    assert "Bild fehlt: {x}" in rendered("![{x}](y)", say=lambda text: german.get(text, text)).text


def test_a_linked_image_keeps_its_words():
    assert rendered("[![cat](x.png)](https://x.example)").text.strip() == "[image removed: cat] (x.example)"


@pytest.mark.parametrize(
    ("text", "source", "display"),
    [
        ("so $x^2$ it is", "x^2", "inline"),
        (r"so \(x<y\) it is", "x<y", "inline"),
        ("so $$x^2$$ it is", "x^2", "block"),
        (r"so \[x\] it is", "x", "block"),
        ("$$\nx\n= y\n$$", "x\n= y", "block"),
        ("\\[\nx\n- y\n\\]", "x\n- y", "block"),
        ("> \\[ x\n> = y \\]", "x\n= y", "block"),
        ("- \\[ x\n  = y \\]", "x\n= y", "block"),
    ],
)
def test_maths_keeps_its_source_for_those_without_a_script(text: str, source: str, display: str):
    read = rendered(text)
    assert source in read.text
    assert {"class": "maths", "data-display": display, "dir": "ltr"} in read.of("span")


@pytest.mark.parametrize(
    "text",
    ["It costs $5 and $10.", r"\( never closed", r"\(\)", "\\[ a\n\nb \\]", "- \\[ a\nb \\]\n", r"\[ a \] b \]",
     "$$" + "x" * 2_001 + "$$", "a $" + "x" * 2_001 + "$", "    \\[ x \\]"],
)  # fmt: skip
def test_what_is_no_formula_stays_text(text: str):
    read = rendered(text)
    assert not [told for told in read.of("span") if told.get("class") == "maths" and "a" not in text]
    assert sum(map(str.isalnum, read.text)) == sum(map(str.isalnum, text))


def test_code_is_coloured_by_classes():
    read = rendered("```python\ndef f(): return '<b>' # no\n```")
    assert "def f(): return '<b>' # no" in read.text
    assert {told["class"] for told in read.of("span")} == {
        "code-keyword",
        "code-name",
        "code-string",
        "code-comment",
    }
    assert read.of("pre") == [{"dir": "ltr", "tabindex": "0"}]


@pytest.mark.parametrize(
    "language", ["", "nonsense", "PYTHON3000", "x" * 900, "\u202e", "python{1}", "../python"]
)
def test_code_in_no_known_language_is_plain(language: str):
    read = rendered(f"```{language}\ndef f(): pass\n```")
    assert read.text == "def f(): pass\n\n"
    assert read.of("span") == []


def test_much_code_is_shown_whole_but_plain():
    long = "x = 1\n" * (MAX_HIGHLIGHTED_CHARACTERS // 6 + 1)
    read = rendered(f"```python\n{long}```\n\n```python\ny = 2\n```")
    assert read.of("span") == []
    assert long in read.text


def test_every_language_shows_its_code_whole():
    code = "# a\n\n\n<b>&\n\tclass X { f(\"x\\n\", 'y', 1.5e3) /* z */ }\n--[[ q ]] `$x` @d #{e} <?php ?> \ufeff\u202e\n"
    for language in sorted(LANGUAGES):
        assert Read(CodeHighlighter().highlight_code(code, language)).text == code.replace(
            "\ufeff\u202e", "U+FEFF U+202E"
        )
    assert {"code-keyword", "code-string"} <= CODE_CLASSES


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\u202e", "RIGHT-TO-LEFT OVERRIDE"),
        ("\u2066", "LEFT-TO-RIGHT ISOLATE"),
        ("\u200e", "LEFT-TO-RIGHT MARK"),
        ("\u061c", "ARABIC LETTER MARK"),
        ("\u200b", "ZERO WIDTH SPACE"),
        ("\u200c", "ZERO WIDTH NON-JOINER"),
        ("\u200d", "ZERO WIDTH JOINER"),
        ("\u2060", "WORD JOINER"),
        ("\ufeff", "ZERO WIDTH NO-BREAK SPACE"),
        ("\u00ad", "SOFT HYPHEN"),
        ("\U000e0041", "TAG LATIN CAPITAL LETTER A"),
        ("\x1b", "ESCAPE"),
        ("\x9b", "CONTROL CHARACTER"),
        ("\ufdd0", "NOT A CHARACTER"),
        ("\u2028", "LINE SEPARATOR"),
        ("\u3164", "HANGUL FILLER"),
    ],
)
def test_a_hidden_character_is_named(character: str, name: str):
    code = f"U+{ord(character):04X}"
    told = {"class": "control", "title": f"{code} {name}"}
    for html in (render_text(f"a{character}b"), plain_text(f"a{character}b"), format_name(f"a{character}b")):
        read = Read(html)
        assert read.of("span") == [told]
        assert read.text.strip() == f"a{code}b"
    assert code in rendered(f"`a{character}b`").text
    assert code in rendered(f"```python\na{character}b\n```").text


@pytest.mark.parametrize("text", ["\x00", "\ud800", "\ud83d\ude00"])
def test_what_cannot_be_stored_is_spelled(text: str):
    for html in (render_text(f"a{text}b"), plain_text(f"a{text}b"), format_name(f"a{text}b")):
        assert f"U+{ord(text[0]):04X}" in Read(html).text


def test_an_entity_hides_nothing_either():
    assert rendered("&#x202e; &ZeroWidthSpace; &shy;").text.strip() == "U+202E U+200B U+00AD"


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻",
        "👩🏽\u200d🚀",
        "🏳\ufe0f\u200d🌈",
        "❤\ufe0f\u200d🔥",
        "می\u200cخواهم",
        "क्\u200dष",
        "ක්\u200dෂ",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "葛\U000e0100",
        "1\ufe0f\u20e3",
        "Việt e\u0302\u0301",
        "שָׁלוֹם",
    ],
)
def test_what_honest_text_needs_stays(text: str):
    assert rendered(text).text.strip() == text
    assert Read(format_name(text)).text == text
    assert Read(plain_text(text)).of("span") == []


@pytest.mark.parametrize(
    "text",
    ["a\u200db", "👩\u200d", "\u200d💻", "👩\u200dx", "x\u200d💻", "می\u200c", "می\u200c\u200cخ", "می\u200cx", "👩\u200c💻",
     "🏴\U000e0067\U000e0062\U000e007f", "x\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
     "葛\U000e0100\U000e0101", " \ufe0f", "\ufe0f", "a" + "\u0300" * 5, "\u200d\ufe0f"],
)  # fmt: skip
def test_what_only_looks_like_need_is_shown(text: str):
    assert "U+" in Read(plain_text(text)).text


def test_a_run_of_hidden_characters_is_one_mark():
    read = Read(plain_text("a" + "\u200b" * 5_000 + "b"))
    assert len(read.of("span")) == 1
    assert "×5000" in read.text


def test_a_flood_of_hidden_characters_is_spelled_without_marks():
    read = Read(plain_text("a\u202e" * 5_000))
    assert len(read.of("span")) == 2_000
    assert read.text.count("U+202E") == 5_000


def test_right_to_left_text_runs_so():
    read = rendered("שלום\n\n- אחד\n- שתיים\n\n1. ראשון\n\n   עוד\n\n> ציטוט\n\n| א |\n|--|\n| ב |")
    for tag in ("ul", "ol", "li", "blockquote", "table"):
        assert {told["dir"] for told in read.of(tag)} == {"rtl"}
    for tag in ("p", "th", "td"):
        assert {told["dir"] for told in read.of(tag)} == {"auto"}


def test_left_to_right_text_runs_so_within_the_other():
    read = rendered("- אחד\n- two\n- 3")
    assert [told.get("dir") for told in read.of("li")] == ["rtl", "ltr", None]


@pytest.mark.parametrize(
    ("language", "runs"), [("ar", "rtl"), ("fa-IR", "rtl"), ("en", "auto"), (None, "auto")]
)
def test_a_line_of_arabic_may_begin_with_a_latin_word(language: str | None, runs: str):
    read = rendered("Python هي لغة\n\n- Python هي لغة", language=language)
    assert read.of("p")[0]["dir"] == runs
    assert read.of("ul")[0]["dir"] == ("rtl" if runs == "rtl" else "ltr")


def test_latin_lines_in_an_arabic_text_run_from_left_to_right():
    assert rendered("print hello", language="ar").of("p") == [{"dir": "auto"}]


def test_code_always_runs_from_left_to_right():
    read = rendered("שלום `אחד`\n\n```\nשתיים\n```\n\n    שלוש")
    assert {told["dir"] for tag, told in read.tags if tag in {"code", "pre"}} == {"ltr"}


def test_a_name_is_cut_in_the_middle_and_whole_in_its_title():
    read = Read(format_name("a" * 100 + "z" * 100, most=30))
    assert read.text == "a" * 19 + "…" + "z" * 10
    assert read.of("bdi") == [{"title": "a" * 100 + "z" * 100}]
    assert len(Read(format_name("é" * 50_000)).of("bdi")[0]["title"]) < 11_000


def test_a_name_that_hides_something_spells_it_in_its_title():
    assert Read(format_name("gpt\u202e4")).of("bdi") == [{"title": "gpt[U+202E]4"}]
    assert Read(format_name("gpt-4")).of("bdi") == [{}]


def test_a_name_stands_on_one_line():
    assert Read(format_name("a\nb\tc")).text == "a␊b␉c"


def test_remarks_keep_their_lines():
    assert plain_text("a\r\nb\rc\n<d>") == "a<br>\nb<br>\nc<br>\n&lt;d&gt;"


@pytest.mark.parametrize(
    "text",
    [
        "word " * (MAX_MARKDOWN_CHARACTERS // 4),
        "a\n" * (MAX_MARKDOWN_LINES + 9),
        "[" * (BRACKET_LIMIT + 9),
        "x" * (MAX_MARKDOWN_CHARACTERS + 9),
    ],
    ids=["words", "lines", "brackets", "one line"],
)
def test_what_is_too_long_is_still_there_to_read(text: str):
    read = rendered(text)
    assert "shown without formatting" in read.text
    assert read.of("pre")[-1] == {"class": "as-written", "dir": "auto", "tabindex": "0"}
    shown = read.text.replace("The rest is shown without formatting: it is too long or too complex.", "")
    assert sorted("".join(shown.split())) == sorted("".join(text.split()))


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("unit", ["x", "<", "\u202e", "a\u202e", "word "])
def test_what_is_far_too_long_is_cut_and_says_so(unit: str):
    told = "too long to show here"
    assert told not in rendered(unit * (MAX_SHOWN_CHARACTERS // len(unit))).text
    html = render_text(unit * (20 * MAX_SHOWN_CHARACTERS // len(unit)))
    assert len(html) < 12 * MAX_SHOWN_CHARACTERS
    assert told in html


@pytest.mark.parametrize(
    "text",
    ["> " * 60 + "deep words", "".join("  " * depth + "- deep words\n" for depth in range(60)),
     ">" * 40 + " deep words\nmore of them\n\nnext"],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_still_there_to_read(text: str):
    read = rendered(text)
    assert read.text.count("deep words") == text.count("deep words")
    assert read.text.count("next") == text.count("next")


def test_a_table_with_too_many_cells_is_shown_as_it_was_written():
    text = "|" + "a|" * 500 + "\n|" + "-|" * 500 + "\n" + "|b|\n" * 100
    read = rendered(text)
    assert read.of("table") == []
    assert read.text.count("b") == 100


_FLOODS = (
    "*", "[", "![", "](", "[a](", ">", "> \n", "- a\n", "`", "`a", "~~a", "_*", "**a*", "$", "$$", "\\(", "\\[\n", "&", "<",
    "<http://", "|-|-\n", "a|b\n", "#\n", "a\n=\n", "\n", " ", "[a]: x\n", "[a]", "<x@y.z>", "\u202ea", "e\u0301\u0301",
    "\u200d", "[]()", "![a](b)", "```\n", "\r", "\x00", "ا ", "$x$ ", "(", "a*b_c~~d",
)  # fmt: skip


#: Seconds of CPU that tell a bounded rendering from one that blows up, on a core that is busy and watched.
BOUND = 15.0


@pytest.mark.slow(but_every=20)
@pytest.mark.parametrize("unit", _FLOODS, ids=repr)
def test_a_flood_is_quick(unit: str):
    """About half a second each on a quiet core."""
    text = unit * (100_000 // len(unit))
    start = time.thread_time()
    render_text(text)
    assert time.thread_time() - start < BOUND


def _nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + "words" + closing * depth


_PATHOLOGICAL = {
    "images in images": _nested("![", "](b)", 2_400),
    "links in links": _nested("[", "](b)", 2_400),
    "brackets in brackets": _nested("[", "]", 2_400),
    "brackets behind !": "words!" + "[" * 5_000,
    "emphasis in emphasis": _nested("*a **b ", " c** d*", 2_400),
    "quotations in quotations": ">" * 30_000 + "words",
    "quoted lists": ("> - " * 7 + "words\n") * 2_000,
    "numbered quotations": ("1. > " * 8 + "words\n") * 1_400,
    "lists in lists": "".join("  " * depth + "- words\n" for depth in range(240)),
    "runs of backticks": " ".join("`" * length for length in range(340)) + "words",
    "a long table": "|a|b|\n|-|-|\n" + "|words|b|\n" * 4_900,
    "a wide table": "|a" * 9_000 + "\n" + "|-" * 9_000 + "\nwords",
    "heads of tables": "|words\n|-\n" * 2_400,
    "references": "".join(f"[{n}]: x\n" for n in range(2_400))
    + "words"
    + "".join(f"[{n}]" for n in range(2_400)),
    "titles of references": "[a]: b 'words\n" * 4_000,
    "titles of links": '[a](b "words' * 4_000,
    "formulae": "- \\[\n  words\n" * 2_400,
    "mixed marks": "words" + "*a_b" * 14_000,
    "fences in quotations": "> ```\n> words\n" * 2_400,
}


@pytest.mark.slow(but_every=13)
@pytest.mark.parametrize("seconds", [None, 0.02])
@pytest.mark.parametrize("name", _PATHOLOGICAL)
def test_a_pathological_text_is_shown_in_time(name: str, seconds: float | None, monkeypatch):
    """Also if there is hardly any time to read it: then it is shown as it was written."""
    if seconds is not None:
        monkeypatch.setattr("tiltyard.web.texts.markdown.MAX_PARSE_SECONDS", seconds)
    start = time.thread_time()
    html = render_text(_PATHOLOGICAL[name])
    assert time.thread_time() - start < (BOUND if seconds is None else BOUND / 5)
    assert "words" in html


def test_reading_stops_at_its_deadline(monkeypatch):
    monkeypatch.setattr("tiltyard.web.texts.markdown.MAX_PARSE_SECONDS", 0.0)
    for text in ("# words *and* more", "> - `words`", "|a|\n|-|\n|words|", "words"):
        read = rendered(text)
        told = "The rest is shown without formatting: it is too long or too complex."
        assert read.text.strip() == told + text
        assert read.of("pre") == [{"class": "as-written", "dir": "auto", "tabindex": "0"}]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("bash", "$'" + "\\\\" * 40),
        ("scala", '"' + "\\\\" * 40),
        ("perl", "s!" + "\\\\" * 40),
        ("php", "<?php $a = <<<" + "é" * 40),
        ("c", "a " + "//\\\n\n  " * 200),
        ("ini", "=" * 9_000),
        ("html", "<!--" * 4_000),
        ("css", "-1" * 9_000),
        ("python", '"""' + '\\"""' * 3_000),
        ("js", "`" + "\\`\n" * 4_000),
    ],
)
def test_code_cannot_freeze_a_process(language: str, code: str):
    """Most of these take a highlighter that backtracks minutes or years."""
    start = time.thread_time()
    read = rendered(f"```{language}\n{code}\n```")
    assert time.thread_time() - start < 2.0
    assert code in read.text


def test_a_string_that_is_never_closed_has_no_colour():
    assert rendered("```yaml\n- don't do\n- 'x'\n```").of("span") == [{"class": "code-string"}]


@pytest.mark.parametrize(
    ("language", "code", "kinds"),
    [
        ("rust", "fn f<'a>(x: &'a str) { 'c' }", ["keyword", "type", "string"]),
        ("sql", "SELECT count(*) -- x", ["keyword", "name", "comment"]),
        ("html", '<a href="x">don\'t</a>', ["keyword", "name", "string", "keyword", "keyword", "keyword"]),
        ("yaml", "a: true # no", ["name", "keyword", "comment"]),
        ("json", '{"a": ["b", 1.5e3]}', ["name", "string", "number"]),
        ("diff", "@@ 1\n-a\n+b", ["keyword", "removed", "added"]),
        ("css", "a { color: #fff } /* x */", ["name", "keyword", "comment"]),
        ("python", '"""a "b" c""" \'d\'', ["string", "string"]),
        ("tex", "\\frac{1} % x", ["keyword", "number", "comment"]),
    ],
)
def test_languages_are_coloured_by_their_own_rules(language: str, code: str, kinds: list[str]):
    spans = rendered(f"```{language}\n{code}\n```").of("span")
    assert [told["class"] for told in spans] == [f"code-{kind}" for kind in kinds]


@pytest.mark.slow
@given(st.text(alphabet="*_`~[]()<>!#|-+.:=\"'\\&;$\n\t a1\u202e", min_size=1, max_size=12))
def test_no_flood_is_slow(unit: str):
    start = time.thread_time()
    render_text(unit * (MAX_MARKDOWN_CHARACTERS // len(unit)))
    assert time.thread_time() - start < BOUND
