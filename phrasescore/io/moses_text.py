"""Moses' tokens: the rules of tokenizer.perl, train-truecaser.perl and truecase.perl.

sacremoses has Moses' lists of abbreviations, but its tokeniser and its truecaser give other words
than the scripts. Here, one difference from tokenizer.perl is intended: the signs of Indic scripts
that join or change a consonant stay in their word, as in sacremoses.
"""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import dropwhile
from typing import Any

from phrasescore.errors import DataError
from phrasescore.io.plain_file import MAX_SUBWORDS, read_plain
from phrasescore.io.text import decode, shorten

_logger = logging.getLogger(__name__)

_UNSEGMENTED = {"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"}  # no blanks between words

# Lines of Moses' lists that end in a blank, so that tokenizer.perl never finds them in a text.
_UNUSED = {"it": "Amn Arch all es", "es": "Fil gr", "nl": "Nrs", "sk": "Pf", "sv": "Ö"}
_UNUSED |= {"as": "ভি", "bn": "ভি", "mni": "ভি", "ml": "പി"}

_CONTROLS = dict.fromkeys((*range(9), *range(14, 32)))  # which are removed, unlike \t to \r
_ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
_STOP = "\1"  # stands for a full stop beside another one
_STOPS = re.compile(r"\.{2,}")
_DIGITS = frozenset("0123456789")

# Patterns and replacements, applied in this order. As in tokenizer.perl, a match of one rule takes
# its neighbours with it, so that "a,,5" has a comma that no rule divides.
_COMMAS = ((r"([^\p{N}]),", r"\1 , "), (r",([^\p{N}])", r" , \1"), (r"(\p{N}),$", r"\1 ,"))
_QUOTE = (r"([^\p{Alphabetic}])'([^\p{Alphabetic}])", r"\1 ' \2")
_OPENING = (r"([^\p{Alphabetic}])'(\p{Alphabetic})", r"\1 ' \2")
_CLOSING = (r"(\p{Alphabetic})'([^\p{Alphabetic}])", r"\1 ' \2")
_ENGLISH = (
    _QUOTE,
    (r"([^\p{Alphabetic}\p{N}])'(\p{Alphabetic})", r"\1 ' \2"),
    _CLOSING,
    (r"(\p{Alphabetic})'(\p{Alphabetic})", r"\1 '\2"),
    (r"(\p{N})'(s)", r"\1 '\2"),
)
_FRENCH = (_QUOTE, _OPENING, _CLOSING, (r"(\p{Alphabetic})'(\p{Alphabetic})", r"\1' \2"))
_SOMALI = (_QUOTE, _OPENING, _CLOSING)
_APOSTROPHES = {
    "en": _ENGLISH,
    **dict.fromkeys(("fr", "it", "ga", "ca"), _FRENCH),
    "so": _SOMALI,
    "tdt": ((r"'(?=$|[^\p{Ll}])", " ' "), *_SOMALI),
}
_COLONS = ((r":(?=$|[^\p{Ll}])", " : "),)  # Finnish and Swedish: EU:ssa

_COUNT = re.compile(r"\([0-9.e/+-]+\)")  # of a form of a word, "(3/5)" or "(2)"

# Words after which a sentence begins, and words that may stand before its first word.
_ENDS = frozenset(".:?!")
_OPENINGS = frozenset(("(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"))


@cache
def load_tokenizer(language: str) -> Callable[[str], list[str]]:
    """Return a function that maps a line to its escaped words, as ``tokenizer.perl -l`` does.

    A warning, once per process, names a language without rules or without blanks between words.
    """
    import regex  # has Perl's classes of characters

    abbreviations = _abbreviations(language)
    has_letter = regex.compile(r"\p{Alphabetic}").search
    padded = _PaddedCharacters({"fi": ":", "sv": ":", "ca": "·"}.get(language, ""))

    def compiled(mark: str, rules: Iterable[tuple[str, str]]) -> list[tuple[str, Any, str]]:
        return [(mark, regex.compile(pattern), new) for pattern, new in rules]

    rules = [
        *compiled(":", _COLONS if language in ("fi", "sv") else ()),
        *compiled(",", _COMMAS),
        *compiled("'", _APOSTROPHES.get(language, (("'", " ' "),))),
    ]

    def keeps_stop(word: str, following: str) -> bool:
        if following[:1].islower() or ("." in word and has_letter(word)):
            return True
        only_before_numbers = abbreviations.get(word)
        return only_before_numbers is False or (
            only_before_numbers is True and following[:1] in _DIGITS
        )

    def tokenize(text: str) -> list[str]:
        text = " ".join(text.translate(_CONTROLS).split()).translate(padded)
        if ".." in text:
            text = _STOPS.sub(lambda stops: f" {_STOP * len(stops[0])} ", text)
        for mark, pattern, new in rules:
            if mark in text:
                text = pattern.sub(new, text)
        # Two blanks have an empty word between them, which ends an abbreviation before them.
        words = text.rstrip(" ").split(" ")
        last = len(words) - 1
        for place, word in enumerate(words):
            if word.endswith(".") and len(word) > 1:
                # The last word of a line is hardly an abbreviation.
                if place == last or not keeps_stop(word[:-1], words[place + 1]):
                    words[place] = f"{word[:-1]} ."
            elif place == last and word.endswith(".'"):
                words[place] = f"{word[:-2]} . '"
        return " ".join(words).replace("'", "&apos;").replace(_STOP, ".").split()

    return tokenize


def _abbreviations(language: str) -> dict[str, bool]:
    """Return words before a stop, and whether they are abbreviations only before numbers."""
    from sacremoses.corpus import NonbreakingPrefixes

    prefixes = NonbreakingPrefixes()
    known = set(prefixes.available_langs.values())
    if language in _UNSEGMENTED:
        _logger.warning(
            f"the language {language} has no blanks between words, and Moses' rules do not find"
            " its words: divide its text into words with another program first"
        )
    elif language not in known:
        _logger.warning(
            f"Moses has no rules for the language {language}: the general rules and the"
            " abbreviations of English are used. If its apostrophes join words, the rules of"
            f" Italian (it) suit it better. There are rules for {', '.join(sorted(known))}"
        )
    found: dict[str, bool] = {}
    unused = _UNUSED.get(language, "").split(" ")
    for line in prefixes.words(language if language in known else "en"):
        word, _, mark = line.rpartition(" ")
        is_marked = mark == "#NUMERIC_ONLY#"
        if line not in unused:
            found[word if is_marked else line] = is_marked
    return found


class _PaddedCharacters(dict[int, str]):
    """For `str.translate`: blanks around all characters but letters, digits, and -.,'`"""

    def __init__(self, kept: str) -> None:
        import regex
        from sacremoses.indic import NUKTAS, VIRAMAS

        super().__init__((ord(char), char) for char in (*" -.,'`", *kept, *VIRAMAS, *NUKTAS))
        self._is_alnum = regex.compile(r"[\p{Alphabetic}\p{Nd}]").match

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = char if self._is_alnum(char) else f" {_ESCAPES.get(char, char)} "
        return self[code]


def train_truecaser(sentences: Iterable[Sequence[str]]) -> Iterator[bytes]:
    """Yield the lines of the model that train-truecaser.perl writes, in another order.

    Of two equally frequent forms of a word, the one that occurs first is the usual one; in the
    script, chance decides.
    """
    import regex

    has_case = cache(regex.compile(r"[\p{Ll}\p{Lu}\p{Lt}]").search)
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for words in sentences:
        previous = "."
        for word in dropwhile(_OPENINGS.__contains__, words):
            # Unlike in truecase.perl, the word after an opening quotation mark within a line is
            # not the first of a sentence.
            if previous not in _ENDS and has_case(word):
                forms[_lower(word)][word] += 1
            previous = word
    for counts in forms.values():
        (best, times), *others = counts.most_common()
        rest = (f" {word} ({count})" for word, count in others)
        yield f"{best} ({times}/{counts.total()}){''.join(rest)}\n".encode()


def load_truecaser(
    path: str, *, changes_known: bool = False
) -> Callable[[Iterable[str]], list[str]]:
    """Return a function that gives words their case, as truecase.perl does.

    The first word of a sentence gets its usual case. Other words change only if the model does not
    know them as they are.

    :param path: a model of train-truecaser.perl.
    :param changes_known: whether to give all words their usual case.
    """
    usual: dict[str, str] = {}
    known: set[str] = set()
    try:
        lines = read_plain(path, MAX_SUBWORDS).split(b"\n")
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        words = decode(path, number, line).removesuffix("\r").split(" ")
        forms = words[::2]
        if len(words) % 2 or not all(map(_COUNT.fullmatch, words[1::2])):
            wanted = (
                "expected a model from Moses' train-truecaser.perl, such as 'The (3/5) the (2)'"
            )
            raise DataError(path, number, f"{wanted}; found {shorten(line)}")
        usual[_lower(forms[0])] = forms[0]
        if not changes_known:
            known.update(forms)

    def truecase(words: Iterable[str]) -> list[str]:
        cased = []
        is_first = True
        for word in words:
            best = usual.get(_lower(word), word)
            cased.append(best if is_first or word not in known else word)
            is_first = word in _ENDS or (is_first and word in _OPENINGS)
        return cased

    return truecase


def _lower(word: str) -> str:
    """Return a word in lower case; like Perl, and unlike Python, without a final sigma."""
    return word.replace("Σ", "σ").lower()
