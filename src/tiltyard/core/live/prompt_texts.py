"""Prompts that people write: when two of them are the same prompt, and the language of one.

The language is found by its letters and most common words; it is ``unknown`` where they do not tell.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from types import MappingProxyType

COMMON_WORDS = MappingProxyType(
    {
        language: frozenset(words.split())
        for language, words in {
            "en": """the of and to in is are was be been it that this these those for on with as by at from or an not you your
                i my me we our they their he she his her its what which who whom how why when where do does did can could would
                should will have has had there here if then than but about into over please write explain give tell make help
                need want create show list summarize summarise translate describe compare find let's i'm don't doesn't isn't
                what's it's hello hi thanks some any all more most other each between using use under best fix""",
            "de": """der die das den dem des ein eine einen einem einer eines und oder aber nicht ist sind war waren sein hat haben
                ich du er sie es wir ihr mir mich dir dich uns mein meine meiner meinem meinen dein deine was wie warum wann wo wer
                welche welcher welches für mit von zu zum zur im am auf aus bei nach über unter vor wird werden kann kannst können
                soll sollte bitte schreibe schreib erkläre gib nenne mache hilfe brauche auch noch nur wenn dass als man mehr sehr
                kein keine einige zwischen hallo danke erzähl diesen dieser diese""",
            "fr": """le la les un une des du de et ou mais ne pas est sont était être avoir a ont je tu il elle nous vous ils elles
                mon ma mes ton ta tes son sa ses que qui quoi quel quelle quels quelles comment pourquoi quand où dans sur pour
                par avec sans entre ce cette ces c'est qu'est-ce moi toi lui au aux en y plus très aussi écris écrire explique
                donne fais aide besoin peux pouvez veux svp bonjour merci j'ai l'on d'un d'une qu'un n'est s'il""",
            "es": """el la los las un una unos unas de del y o pero no es son era ser estar está están tiene tengo hay yo tú él ella
                nosotros ustedes mi mis tu tus su sus me te se lo le que qué quién cuál cuáles cómo por qué cuándo dónde como
                para por con sin sobre entre en al este esta estos estas más muy también escribe explica explícame dame dime haz
                ayuda necesito puedes puedo quiero hola gracias cual donde cuando""",
            "pt": """o a os as um uma uns umas de do da dos das e ou mas não nao é são era ser estar está tem tenho há eu tu você ele
                ela nós vocês meu minha meus minhas seu sua seus suas me te se lhe que quem qual quais como por quando onde para com
                sem sobre entre em no na nos nas ao à este esta isto mais muito também escreva escreve explique explica diga faça
                ajuda preciso pode posso quero olá obrigado dê uma""",
            "it": """il lo la i gli le un uno una di del della dei delle dello e o ma non è sono era essere avere ha ho hai c'è io tu
                lui lei noi voi loro mio mia miei tuo tua suo sua mi ti si ci che chi cosa quale quali come perché quando dove per
                con senza su sul sulla tra fra in nel nella al alla questo questa questi più molto anche scrivi spiega spiegami
                dammi dimmi fammi aiuto bisogno puoi posso voglio ciao grazie""",
            "nl": """de het een en of maar niet is zijn was waren heeft heb hebben ik jij je hij zij ze wij we jullie mijn jouw uw
                onze wat wie welke waarom wanneer waar hoe voor met van naar in op aan bij uit over onder tussen dit dat deze die er
                ook nog meer veel schrijf leg geef maak vertel hulp nodig kan kun kunt wil graag hallo bedankt alsjeblieft om te""",
            "pl": """i w na z do nie to się jest są był była być ma mam co kto jak jaki jaka jakie dlaczego kiedy gdzie który która
                które dla od po przez o u za ze że ale lub czy ja ty on ona my mi mnie mój moja twój swój ten ta te tego tej
                napisz wyjaśnij podaj daj zrób pomocy pomoc potrzebuję możesz mogę chcę proszę cześć dziękuję bardzo także""",
            "sv": """och i att det som en ett på är av för med till den de inte om var vad vem hur varför när vilken vilket vilka jag
                du han hon vi ni min mitt mina din ditt dina sin har hade kan ska skulle vill från eller men så också mer mycket
                skriv förklara ge gör hjälp behöver hej tack mellan""",
            "da": """og i at det som en et på er af for med til den de ikke om var hvad hvem hvordan hvorfor hvornår hvor hvilken
                hvilket hvilke jeg du han hun vi jer min mit mine din dit dine sin har havde kan skal skulle vil fra eller men så
                også mere meget skriv forklar giv lav hjælp brug hej tak mellem""",
            "no": """og i at det som en et ei på er av for med til den de ikke om var hva hvem hvordan hvorfor når hvor hvilken
                hvilket hvilke jeg du han hun vi dere min mitt mine din ditt dine sin har hadde kan skal skulle vil fra eller men
                så også mer mye skriv forklar gi lag hjelp trenger hei takk mellom""",
            "fi": """ja on ei se että en et hän he me te minä sinä minun sinun mikä mitä mitkä kuka miten miksi milloin missä mistä
                kuinka ovat oli olla tai mutta kun jos niin myös vain kanssa kirjoita selitä anna kerro tee apua tarvitsen voi
                voitko voinko haluan hei kiitos lyhyt tämä nämä""",
            "cs": """a v na z do ne to se je jsou byl byla být má mám co kdo jak jaký jaká jaké proč kdy kde který která které pro od
                po s o u za že ale nebo já ty on ona my mi mě můj moje tvůj svůj ten ta tato toto tento napiš vysvětli dej řekni
                udělej pomoc pomoci potřebuji můžeš mohu chci prosím ahoj děkuji také jen""",
            "hu": """a az és egy nem van vannak volt hogy mi ki mit miért mikor hol hogyan melyik én te ő ti ők nekem neked ez ezek
                is csak vagy de ha mert írj magyarázd adj mondd készíts segíts segítség segítségre szükségem kell lehet tudsz kérlek
                szia köszönöm rövid több nagyon""",
            "ro": """și si de la în in pe cu un o este sunt era fi are am nu care ce cine cum de ce când unde pentru din prin despre
                între eu tu el ea noi voi mea meu mele ta tău sa său acest această mai foarte scrie explică dă-mi spune fă ajutor
                nevoie pot poți vreau salut mulțumesc sau dar că""",
            "tr": """ve bir bu şu o için ile de da mi mı mu mü ne nedir kim nasıl neden niçin nerede neresidir hangi ben sen biz siz
                benim senin var yok değil çok daha gibi kadar ama veya hakkında yaz açıkla ver söyle yap yardım yardıma ihtiyacım
                istiyorum lütfen merhaba teşekkürler olan olarak kısa""",
            "vi": """và là của có không một các những cho với trong trên về này đó tôi bạn anh chị em chúng ta gì ai thế nào tại sao
                khi đâu được để từ hãy viết giải thích cần giúp làm xin chào cảm ơn bài ngắn đã sẽ""",
            "id": """dan yang di ke dari untuk dengan adalah ini itu tidak ada saya aku kamu anda kami kita dia mereka apa siapa
                bagaimana mengapa kenapa kapan mana tentang dalam pada akan bisa dapat tolong tulis jelaskan buat beri berikan
                bantuan butuh ingin halo terima kasih atau tapi juga lebih sangat""",
            "ru": """и в не на что с по как это а но из у за от то же для или если он она они мы вы ты я мне меня мой моя моё мои твой
                его её их кто какая какой какие какое почему когда где зачем чем есть был была быть нет да о об при до напиши
                объясни дай расскажи сделай помоги помощь нужна нужно можно можешь хочу привет спасибо пожалуйста""",
            "uk": """і в не на що з по як це а але із у за від то ж для або якщо він вона вони ми ви ти я мені мене мій моя моє мої
                твій його її їх хто яка який які яке чому коли де є був була бути ні так про при до напиши поясни дай розкажи
                зроби допоможи допомога потрібна потрібно можна можеш хочу привіт дякую та""",
            "bg": """и в не на че с по как това а но от у за то или ако той тя те ние вие ти аз ми ме мой моя моето кой коя какъв
                каква какви какво защо кога къде е са беше да ли се си за напиши обясни дай разкажи направи помощ имам нужда може
                можеш искам здравей благодаря""",
            "sr": """и у не на да је се са по као то а али од за или ако он она они ми ви ти ја мој моја ко која који које какав
                зашто када где су био била бити није напиши објасни дај помоћ треба могу можеш хоћу здраво хвала шта""",
        }.items()
    }
)
#: Letters that only one of these languages has.
TELLING_LETTERS = MappingProxyType(
    {
        letter: language
        for language, letters in {
            "de": "ß",
            "es": "ñ¿¡",
            "pt": "ãõ",
            "pl": "łąęśżźćń",
            "cs": "ěřůď",
            "hu": "őű",
            "ro": "șțţ",
            "tr": "ğış",
            "vi": "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
            "fr": "œ",
            "ru": "ыэё",
            "uk": "іїєґ",
            "sr": "ђјљњћџ",
        }.items()
        for letter in letters
    }
)
UNKNOWN_LANGUAGE = "unknown"
#: Characters of a prompt that are looked at.
_MAX_CHARACTERS = 4_000
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
#: Signs of code, and the share of a prompt that they may have.
_CODE_SIGNS = frozenset("{}()[];=<>*/\\|&#$_^+")
_CODE_SHARE = 0.08
#: The first and the last letter of each script, and its language if it has only one here.
_SCRIPTS = (
    ("latin", 0x0041, 0x024F),
    ("latin", 0x1E00, 0x1EFF),
    ("el", 0x0370, 0x03FF),
    ("cyrillic", 0x0400, 0x052F),
    ("hy", 0x0530, 0x058F),
    ("he", 0x0590, 0x05FF),
    ("arabic", 0x0600, 0x077F),
    ("hi", 0x0900, 0x097F),
    ("bn", 0x0980, 0x09FF),
    ("pa", 0x0A00, 0x0A7F),
    ("gu", 0x0A80, 0x0AFF),
    ("ta", 0x0B80, 0x0BFF),
    ("te", 0x0C00, 0x0C7F),
    ("kn", 0x0C80, 0x0CFF),
    ("ml", 0x0D00, 0x0D7F),
    ("si", 0x0D80, 0x0DFF),
    ("th", 0x0E00, 0x0E7F),
    ("lo", 0x0E80, 0x0EFF),
    ("my", 0x1000, 0x109F),
    ("ka", 0x10A0, 0x10FF),
    ("ko", 0x1100, 0x11FF),
    ("am", 0x1200, 0x137F),
    ("km", 0x1780, 0x17FF),
    ("ja", 0x3040, 0x30FF),
    ("han", 0x3400, 0x9FFF),
    ("ko", 0xAC00, 0xD7AF),
)
#: A character of these says as much as a few letters of others.
_DENSE_WEIGHT = 3
_DENSE = frozenset({"ja", "han", "ko"})
_CYRILLIC = frozenset({"ru", "uk", "bg", "sr"})
#: Languages that share a script.
_WRITTEN_IN = MappingProxyType({"latin": frozenset(COMMON_WORDS) - _CYRILLIC, "cyrillic": _CYRILLIC})
_PERSIAN, _URDU = frozenset("پچژگک"), frozenset("ٹڈڑےںھ")
#: How much is said by a common word of at most two letters, by a longer one, and by a letter of one language only.
_SHORT_WORD_WEIGHT, _WORD_WEIGHT, _LETTER_WEIGHT = 1, 2, 4
_SHORT_WORD_CHARACTERS = 2
#: What must be said: so much, and so large a share of all words; or a larger share, and twice as much as of any other.
_SURE_WEIGHT, _SURE_SHARE = 4, 0.1
_CLEAR_WEIGHT, _CLEAR_SHARE = 2, 0.15


def detect_language(text: str) -> str:
    """The language as an ISO 639-1 code, or ``unknown``. Code and addresses do not count."""
    words = _words(text[:_MAX_CHARACTERS])
    found: Counter[str] = Counter()
    for letter, count in Counter("".join(words)).items():
        script = next((name for name, first, last in _SCRIPTS if first <= ord(letter) <= last), None)
        if script is not None:
            found[script] += count * (_DENSE_WEIGHT if script in _DENSE else 1)
    scripts = found
    total = sum(scripts.values())
    if not total:
        return UNKNOWN_LANGUAGE
    script, weight = max(scripts.items(), key=lambda one: one[1])
    if script in ("han", "ja") and scripts["ja"]:
        return "ja"
    if 2 * weight <= total:
        return UNKNOWN_LANGUAGE
    if script in _WRITTEN_IN:
        return _by_words(words, _WRITTEN_IN[script])
    if script == "arabic":
        letters = frozenset("".join(words))
        return "ur" if letters & _URDU else "fa" if letters & _PERSIAN else "ar"
    return "zh" if script == "han" else script


def _words(text: str) -> list[str]:
    """The words in small letters, without fenced code and addresses."""
    prose = " ".join(text.split("```")[::2])
    parts = [part for part in prose.split() if "://" not in part and "@" not in part]
    signs = sum(character in _CODE_SIGNS for part in parts for character in part)
    if signs > _CODE_SHARE * sum(map(len, parts)):
        return []
    return [word.replace("’", "'") for word in _WORD.findall(" ".join(parts).lower())]


def _by_words(words: list[str], languages: frozenset[str]) -> str:
    """The language with most common words, if they are enough and no other has as many."""
    hits: Counter[str] = Counter()
    for word in words:
        weight = _WORD_WEIGHT if len(word) > _SHORT_WORD_CHARACTERS else _SHORT_WORD_WEIGHT
        hits.update({language: weight for language in languages if word in COMMON_WORDS[language]})
        hits.update(
            {TELLING_LETTERS[letter]: _LETTER_WEIGHT for letter in set(word) if letter in TELLING_LETTERS}
        )
    ranked = sorted(
        ((count, language) for language, count in hits.items() if language in languages), reverse=True
    )
    count, language = ranked[0] if ranked else (0, UNKNOWN_LANGUAGE)
    second = ranked[1][0] if len(ranked) > 1 else 0
    share = count / (_WORD_WEIGHT * len(words))
    sure = count > second and count >= _SURE_WEIGHT and share >= _SURE_SHARE
    clear = count >= 2 * second and count >= _CLEAR_WEIGHT and share >= _CLEAR_SHARE and len(words) > 1
    return language if sure or clear else UNKNOWN_LANGUAGE


def normalize_prompt(text: str) -> str:
    """A prompt without what does not make it another one: case, white space, punctuation around it, and compatible
    spellings of the same character (NFKC).

    A prompt of punctuation alone stays as it is, apart from its white space.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    joined = " ".join(folded.split())
    start, stop = 0, len(joined)
    while start < stop and _is_outer(joined[start]):
        start += 1
    while stop > start and _is_outer(joined[stop - 1]):
        stop -= 1
    return joined[start:stop] or joined


def free_prompt_name(number: int) -> str:
    """How files and boards call a prompt that a voter wrote; its text is not published with it."""
    return f"live-{number}"


def hash_prompt(text: str) -> bytes:
    """The SHA-256 of the normalised prompt."""
    return hashlib.sha256(normalize_prompt(text).encode("utf-8", "surrogatepass")).digest()


def _is_outer(character: str) -> bool:
    return character == " " or unicodedata.category(character).startswith("P")
