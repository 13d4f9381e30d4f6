"""Syntax highlighting of known languages, with a few CSS classes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tiltyard.web.texts.control_characters import mark_hidden_characters

#: Characters of code that are highlighted in one text; later blocks stay plain.
MAX_HIGHLIGHTED_CHARACTERS = 20_000
#: Classes by the groups of a syntax.
_CLASSES = {
    group: f"code-{group}"
    for group in ("added", "comment", "keyword", "name", "number", "removed", "string", "type")
}
CODE_CLASSES = frozenset(_CLASSES.values())


@dataclass(slots=True)
class CodeHighlighter:
    """Highlights the code of one text, within a limit."""

    characters: int = MAX_HIGHLIGHTED_CHARACTERS

    def highlight_code(self, code: str, language: str) -> str:
        """Code as HTML; plain if the language is unknown or the limit is used up."""
        syntax = LANGUAGES.get(language.lower())
        self.characters -= len(code)
        if syntax is None or self.characters < 0:
            return mark_hidden_characters(code)
        html, end = "", 0
        for found in syntax.pattern.finditer(code):
            group = _word_group(found, syntax) if found.lastgroup == "word" else found.lastgroup
            if group:
                html += mark_hidden_characters(code[end : found.start()])
                html += f'<span class="{_CLASSES[group]}">{mark_hidden_characters(found[0])}</span>'
                end = found.end()
        return html + mark_hidden_characters(code[end:])


def _word_group(found: re.Match[str], syntax: Syntax) -> str:
    word = found[0].lower() if syntax.any_case else found[0]
    if word in syntax.keywords:
        return "keyword"
    if word in syntax.types:
        return "type"
    return "name" if found.string.startswith("(", found.end()) else ""


_REST = r"[^\n]*+"
_SLASHES = rf"//{_REST}"
_STARS = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?"
_HASH = rf"\#{_REST}"
#: Where ``$#`` and ``a#b`` are no comments.
_HASH_AFTER_SPACE = rf"(?<!\S)\#{_REST}"
_DASHES = rf"--{_REST}"
_SEMICOLON = rf";{_REST}"
_PERCENT = rf"%{_REST}"
_TAG_COMMENT = r"<!--[^-]*+(?:-(?!->)[^-]*+)*+(?:-->)?"
_BRACE_DASH = r"\{-[^-]*+(?:-(?!\})[^-]*+)*+(?:-\})?"
_LUA_LONG = r"--\[\[[^\]]*+(?:\](?!\])[^\]]*+)*+(?:\]\])?"
_PARENTHESIS_STAR = r"\(\*(?!\))[^*]*+(?:\*(?!\))[^*]*+)*+(?:\*\))?"

#: A kind of string: its opening and what is in it; its closing.
_String = tuple[str, str]
_DOUBLE: _String = (r'"(?!"")(?:[^"\\\n]++|\\.)*+', '"')
_SINGLE: _String = (r"'(?!'')(?:[^'\\\n]++|\\.)*+", "'")
_BACKTICK: _String = (r"`(?:[^`\\]++|\\.)*+", "`")
# Atomic, not possessive, which fails at quotes inside before Python 3.11.5 (python/cpython#100061).
_TRIPLE: _String = (r'"""(?>(?:[^"\\]++|\\.|"(?!""))*)', '"""')
_TRIPLE_SINGLE: _String = (r"'''(?>(?:[^'\\]++|\\.|'(?!''))*)", "'''")
#: One character; a lifetime or a type variable is none.
_CHARACTER: _String = (r"'(?:[^'\\\n]|\\[^\n]{1,8}?)(?=')", "'")
#: A value in a tag.
_VALUES: tuple[_String, ...] = ((r'(?<==)"[^"]*+', '"'), (r"(?<==)'[^']*+", "'"))
_QUOTES = (_DOUBLE, _SINGLE)

_NUMBER = r"(?P<number>0[xXbBoO][\da-fA-F_]++|\d[\d_]*+(?:\.\d[\d_]*+)?(?:[eE][+-]?\d++)?[\w%]*+)"
_WORD = r"(?P<word>[^\W\d]\w*+)"
_WORD_WITH_DASHES = r"(?P<word>[^\W\d][\w-]*+)"
#: Text outside of tags; it has no colours.
_PLAIN_WORD = r"[\w:@.-]++"
_DECORATOR = r"@[\w.]++"
_VARIABLE = r"\$\w++|\$\{\w++\}"
_DIRECTIVE = r"\#\w++"
_KEY = r"^[ \t]*+(?:- )?[\w.-]++(?=[ \t]*+[:=])|\"[^\"\\\n]*+\"(?=[ \t]*+:)"
_SECTION = r"^\[[^\]\n]*+\]"


@dataclass(frozen=True)
class Syntax:
    """A language, or several that are written alike."""

    #: Its named groups are ``word``, or the class of what they match.
    pattern: re.Pattern[str]
    keywords: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    #: Whether keywords may be written in capitals.
    any_case: bool = False


def _syntax(
    *,
    comments: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    marks: tuple[str, ...] = (),
    strings: tuple[_String, ...] = _QUOTES,
    rest: str = f"{_NUMBER}|{_WORD}",
    keywords: str = "",
    types: str = "",
) -> Syntax:
    """``marks`` look like keywords; ``rest`` is what is neither a comment, a name, a mark nor a string."""
    groups = {
        "comment": comments,
        "name": names,
        "keyword": marks,
        "string": tuple(opening + closing for opening, closing in strings),
    }
    alternatives = [f"(?P<{group}>{'|'.join(parts)})" for group, parts in groups.items() if parts]
    unclosed = [opening for opening, _ in strings]
    pattern = re.compile("|".join([*alternatives, *unclosed, rest]), re.DOTALL | re.MULTILINE)
    return Syntax(pattern, frozenset(keywords.split()), frozenset(types.split()))


_C_WORDS = """
    abstract as assert async await break case catch class const constexpr continue crate debugger default defer
    delete do dyn elif else enum export extends extension extern false final finally fn for foreach from func function
    get goto guard if impl implements import in inline instanceof interface internal is lateinit let loop match mod
    module move mut namespace new nil noexcept null nullptr object of operator option out override package private
    protected protocol pub public readonly ref register repeated required rpc return sealed self service set sizeof
    static struct super suspend switch syntax template this throw throws trait true try type typedef typename typeof
    undefined union unsafe use using val var virtual void volatile when where while with yield
"""
_C_TYPES = """
    any auto bool boolean byte bytes char double error f32 f64 float i16 i32 i64 i8 int int16 int32 int64 int8 isize
    long never number rune short signed size_t str string u16 u32 u64 u8 uint uint16 uint32 uint64 uint8 unknown
    unsigned usize Array Boolean Dict Double Float Int List Map Number Object Option Result Set String Vec
"""
_C = _syntax(
    comments=(_SLASHES, _STARS), names=(_DECORATOR,), marks=(_DIRECTIVE,), keywords=_C_WORDS, types=_C_TYPES
)
_SCRIPT = _syntax(
    comments=(_SLASHES, _STARS),
    names=(_DECORATOR,),
    strings=(*_QUOTES, _BACKTICK),
    keywords=_C_WORDS,
    types=_C_TYPES,
)
#: Languages in which ' begins other things than strings too.
_CHARACTERS = _syntax(
    comments=(_SLASHES, _STARS),
    names=(_DECORATOR,),
    strings=(_TRIPLE, _DOUBLE, _CHARACTER),
    keywords=f"{_C_WORDS} def extends implicit lazy",
    types=_C_TYPES,
)
_PHP = _syntax(comments=(_SLASHES, _STARS, _HASH), names=(_VARIABLE,), keywords=f"{_C_WORDS} echo print")
_STYLES = _syntax(
    comments=(_SLASHES, _STARS),
    names=(r"(?<![\w-])[\w-]++(?=:[ \t])",),
    marks=(r"[@$#][\w-]++",),
    rest=f"{_NUMBER}|{_WORD_WITH_DASHES}",
)
_PYTHON = _syntax(
    comments=(_HASH,),
    names=(_DECORATOR,),
    strings=(_TRIPLE, _TRIPLE_SINGLE, _DOUBLE, _SINGLE),
    keywords="""
        False None True and as assert async await begin break case class continue def del do elif elsif else end ensure
        except export finally for from function global if import in is lambda let local macro match module mutable
        next nil nonlocal not or pass raise redo require rescue retry return self struct super then try unless until
        using when where while with yield
    """,
    types="Dict Float64 Int Int64 List String bool bytes dict float int list object set str tuple",
)
_RUBY = _syntax(
    comments=(_HASH,),
    names=(r"@{1,2}\w++|(?<!:):[a-z_]\w*+",),
    strings=(_TRIPLE, _DOUBLE, _SINGLE),
    keywords="""
        after alias and begin break case class cond def defmodule defp defstruct do else elsif end ensure false fn for
        if import in module next nil not or quote raise receive redo require rescue retry return self super then true
        try undef unless until use when while with yield
    """,
)
_SHELL = _syntax(
    comments=(_HASH_AFTER_SPACE,),
    names=(_VARIABLE,),
    keywords="""
        case cd declare do done echo elif else esac eval exec exit export fi for foreach function if in local my our
        package param print printf process read readonly return select set shift source sub then throw try trap unless
        unset until use while
    """,
)
_R = _syntax(
    comments=(_HASH,),
    strings=(*_QUOTES, _BACKTICK),
    keywords="FALSE NA NULL TRUE break else for function if in library next repeat require return while",
)
_SQL = _syntax(
    comments=(_DASHES, _STARS),
    keywords="""
        add all alter and any as asc begin between by cascade case check column commit constraint create cross database
        default delete desc distinct drop else end exists explain false foreign from full function grant group having
        if in index inner insert intersect into is join key left like limit not null offset on or order outer over
        partition primary references returning revoke right rollback select set table then true truncate union unique
        update using values view when where window with
    """,
    types="bigint boolean bytea char date decimal float int integer interval json jsonb numeric real serial smallint "
    "text time timestamp timestamptz uuid varchar",
)
_SQL = replace(_SQL, any_case=True)
_LUA = _syntax(
    comments=(_LUA_LONG, _DASHES),
    keywords="and break do else elseif end false for function goto if in local nil not or repeat return then true until "
    "while",
)
_FUNCTIONAL = """
    and as begin case class data default deriving do done downto else elif end exception external false for forall
    fun function functor if import in include inherit inline instance let lazy match member method module mutable
    namespace new newtype nonrec null object of open or override private rec sig static struct then to true try type
    use val virtual when where while with yield
"""
_HASKELL = _syntax(comments=(_BRACE_DASH, _DASHES), strings=(_DOUBLE, _CHARACTER), keywords=_FUNCTIONAL)
_ML = _syntax(
    comments=(_PARENTHESIS_STAR, _SLASHES),
    strings=(_TRIPLE, _DOUBLE, _CHARACTER),
    keywords=_FUNCTIONAL,
)
_CLOJURE = _syntax(
    comments=(_SEMICOLON,),
    names=(r":[\w./-]++",),
    strings=(_DOUBLE,),
    rest=f"{_NUMBER}|{_WORD_WITH_DASHES}",
    keywords="case cond def defmacro defn do doseq fn for if if-let let loop nil ns recur require true false when",
)
_ERLANG = _syntax(
    comments=(_PERCENT,),
    keywords="after and andalso begin case catch end fun if not of or orelse receive throw try when",
)
_TEX = _syntax(comments=(_PERCENT,), marks=(r"\\(?:[A-Za-z@]++|.)",), strings=(), rest=_NUMBER)
_TAGS = _syntax(
    comments=(_TAG_COMMENT,),
    names=(r"[\w:@.-]++(?==[\"'{])",),
    marks=(r"</?+[A-Za-z][\w:.-]*+|/?+>|<[!?][A-Za-z]++",),
    strings=_VALUES,
    rest=_PLAIN_WORD,
)
_MARKED = _syntax(
    comments=(_HASH_AFTER_SPACE,),
    names=(_KEY, _VARIABLE),
    marks=(_SECTION,),
    keywords="ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM RUN SHELL USER VOLUME WORKDIR assert else false if in "
    "include inherit let location no null off on rec server then true with yes define endef endif ifdef ifeq ifneq",
)
_INI = _syntax(
    comments=(_HASH_AFTER_SPACE, rf"(?<!\S);{_REST}"), names=(_KEY,), marks=(_SECTION,), keywords="false true"
)
_GRAPHQL = _syntax(
    comments=(_HASH,),
    names=(_DECORATOR, _VARIABLE),
    strings=(_TRIPLE, _DOUBLE),
    keywords="directive enum extend false fragment implements input interface mutation null on query scalar schema "
    "subscription true type union",
    types="Boolean Float ID Int String",
)
_DIFF = _syntax(
    marks=(rf"^(?:@@|diff |index |--- |\+\+\+ ){_REST}",),
    strings=(),
    rest=rf"(?P<added>^\+{_REST})|(?P<removed>^-{_REST})",
)

#: The names that people write behind a fence. Languages apart from these are shown plain.
_NAMES: dict[Syntax, str] = {
    _C: "c c# c++ cpp cs csharp java objc proto protobuf",
    _SCRIPT: "dart go golang javascript js jsx ts tsx typescript",
    _CHARACTERS: "kotlin rs rust scala swift zig",
    _PHP: "php",
    _STYLES: "css scss",
    _PYTHON: "julia py python",
    _RUBY: "elixir rb ruby",
    _SHELL: "bash perl pl powershell ps1 sh shell zsh",
    _R: "r",
    _SQL: "sql",
    _LUA: "lua",
    _HASKELL: "haskell hs",
    _ML: "f# fsharp ocaml",
    _CLOJURE: "clojure",
    _ERLANG: "erlang",
    _TEX: "latex tex",
    _TAGS: "html xml",
    _MARKED: "docker dockerfile json make makefile nginx nix toml yaml yml",
    _INI: "ini",
    _GRAPHQL: "graphql",
    _DIFF: "diff",
}
LANGUAGES = {name: syntax for syntax, names in _NAMES.items() for name in names.split()}
