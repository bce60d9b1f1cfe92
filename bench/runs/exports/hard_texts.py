"""Texts that tokenizers disagree on, the same in every process. `bench.runs.exports.export` compares token ids on them.

They mix lines in many scripts with emoji, combining marks, control characters, white space of all kinds, very long
words, spellings of special tokens and random code points. The first ones are short hand-written cases, including the
empty text.
"""

import unicodedata
from collections.abc import Callable, Iterator

import numpy as np

from ptmbench.models.text.tokenizer_kinds import SPECIALS, SPELLINGS

LINES = (
    "All human beings are born free and equal in dignity and rights.",
    "They aren't here; I've said we'll go, it's 3,000.50 dollars (or $2) -- isn't it?",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren: STRASSE, Straße.",
    "Todos los seres humanos nacen libres e iguales; ¿verdad? ¡Sí, señor!",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İSTANBUL ışık",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι. ΟΔΥΣΣΕΥΣ ὀδύσσεια",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Всі люди народжуються вільними; їжак і ґанок.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. ٣٫١٤ ﷺ",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। क़िला",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "ყველა ადამიანი იბადება თავისუფალი. ᲧᲕᲔᲚᲐ",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար: և",
    "ሁሉም ሰዎች ነጻና እኩል ሆነው ይወለዳሉ።",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,𠀀𪚥",
    "すべての人間は、生まれながらにして自由であり、ガ゚ﾊﾟｰﾃｨｰ①㍿",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한글",
    "ﬁne ﬂow ﬃ ½ ² ℡ Å Ω ｆｕｌｌ ｗｉｄｔｈ ㎏ Ⅷ ǆ",
    "e=mc² ∑∫√ → ⇒ ≠ §5 ¶ † ‰ «quoted» „unten“ ‘single’ …",
    "https://example.org/a_b?c=d&e=%20#f user@example.com #tag @name C++ C# a/b\\c",
)
_BY_HAND = (
    "", " ", "\n", "\t \r\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00", "\x7f", "a", " a ", "a\n", "\na",
    "'", "''s", "'s", " 's", "x's", "x''s", "'re're", "'ve 'LL", "don't's", "1's", "!'s", "\n's", "\u2581",
    "\u2581a", "a\u2581b", "a\u2581\u2581 b", " \u2581 ", "##ing", "a##b", "\u0120a", "\u0301", "a\u0301",
    "a\u0316\u0301", "\u1100\u1161\u11a8", "\U0001d15e\u0334", "\u302e\u302f", "\ufdfa", "\u0130", "\u1e9e",
    "\u03a3\u03a3", "\u2028a\u2029b", "\x85a", "\x1ca", "\u180ea", "\ufffd", "\ufffe", "\U0010ffff",
    "\U0010fffd", "\U0010f000\U0010f001", "\u32ff", "\U0001e030\u0301",
)  # fmt: skip
_EMOJI = (
    "😀", "😂", "❤️", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵", "☎", "✅", "7️⃣", "🫠", "🥹", "🧑🏿‍🚀", "©", "™",
)  # fmt: skip
_SPACES = (
    " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u00a0", "\u1680", "\u2003", "\u2009", "\u200b",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\u180e",
)  # fmt: skip
_CONTROLS = tuple(map(chr, [*range(1, 32), 0, 0x7F, 0x80, 0x9F, 0xAD, 0x200D, 0x200E, 0x202E, 0x2066, 0xFFF9, 0xFFFD]))
_MARKS = tuple(chr(code) for code in range(0x300, 0x370)) + ("\u0591", "\u064b", "\u093c", "\u0e31", "\u20d0", "\ufe0f")
_SPELLED = (*SPECIALS[:8], *SPELLINGS[:8], "[MASK]ed", "<s>", "</s>", "<pad>", "<unk>", "<mask>", "<|endoftext|>")


def texts(count: int, seed: int = 0) -> Iterator[str]:
    """Yields ``count`` different texts."""
    rng, seen = np.random.default_rng(seed), set()
    yield from _BY_HAND[:count]
    seen.update(_BY_HAND)
    left = count - len(_BY_HAND)
    while left > 0:
        text = _KINDS[int(rng.integers(len(_KINDS)))](rng)
        if text not in seen:
            seen.add(text)
            left -= 1
            yield text


def _pick(rng: np.random.Generator, items: tuple[str, ...] | list[str]) -> str:
    return items[int(rng.integers(len(items)))]


def _span(rng: np.random.Generator) -> str:
    """Returns a part of a line, which may begin inside a word."""
    line = _pick(rng, LINES)
    begin = int(rng.integers(len(line)))
    return line[begin : begin + 1 + int(rng.integers(60))]


def _mixed(rng: np.random.Generator, insert: Callable[[np.random.Generator], str], share: float = 0.15) -> str:
    """Returns a part of a line, with the output of ``insert`` after a ``share`` of its characters."""
    return "".join(one + (insert(rng) if rng.random() < share else "") for one in _span(rng))


def _spans(rng: np.random.Generator) -> str:
    return _pick(rng, _SPACES).join(_span(rng) for _ in range(int(rng.integers(1, 5))))


def _cased(rng: np.random.Generator) -> str:
    return _pick(rng, (str.upper, str.lower, str.title, str.swapcase))(_span(rng))


def _composed(rng: np.random.Generator) -> str:
    return unicodedata.normalize(_pick(rng, ("NFC", "NFD", "NFKC", "NFKD")), _span(rng))


def _code_point(rng: np.random.Generator) -> str:
    """Returns a random code point, which may be unassigned or private. Surrogates become "?"."""
    code = int(rng.integers(0x20, (0x250, 0x3000, 0x20000, 0x110000)[int(rng.integers(4))]))
    return chr(code) if not 0xD800 <= code < 0xE000 else "?"


def _random(rng: np.random.Generator) -> str:
    return "".join(_code_point(rng) + _pick(rng, ("", "", " ")) for _ in range(int(rng.integers(1, 25))))


def _long(rng: np.random.Generator) -> str:
    """Returns a word of up to 700 characters between parts of lines. WordPiece does not split words of more than 100 or
    200 characters."""
    word = "".join(_span(rng) for _ in range(12)).replace(" ", "")
    size = int(rng.integers(95, 210)) if rng.random() < 0.8 else 700
    return f"{_span(rng)} {(word * 8)[:size]} {_span(rng)}"


def _ascii(rng: np.random.Generator) -> str:
    return "".join(chr(int(code)) for code in rng.integers(32, 127, int(rng.integers(1, 40))))


def _apostrophes(rng: np.random.Generator) -> str:
    parts = ("'", "'s", "'re", "'LL", "'d", "s", "re", " ", "\n", "9", "!", "\u2019", "é")
    return "".join(_pick(rng, parts) for _ in range(int(rng.integers(2, 14))))


_KINDS = (
    _spans,
    _cased,
    _composed,
    _random,
    _long,
    _ascii,
    _apostrophes,
    lambda rng: _mixed(rng, lambda rng: _pick(rng, _EMOJI)),
    lambda rng: _mixed(rng, lambda rng: _pick(rng, _MARKS), 0.4),
    lambda rng: _mixed(rng, lambda rng: _pick(rng, _CONTROLS)),
    lambda rng: _mixed(rng, lambda rng: _pick(rng, _SPACES)),
    lambda rng: _mixed(rng, lambda rng: _pick(rng, _SPELLED), 0.1),
    lambda rng: _mixed(rng, _code_point),
)
