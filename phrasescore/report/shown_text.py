"""Tokenised text, counts and probabilities, made legible."""

from collections.abc import Iterable

# The escapes of Moses' tokeniser (scripts/tokenizer/escape-special-chars.perl). The ampersand is
# the last one: else "&amp;lt;" were unescaped twice.
_ESCAPES = (
    ("&#124;", "|"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&apos;", "'"),
    ("&quot;", '"'),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&amp;", "&"),
)


def shown(words: Iterable[str]) -> str:
    """Return words joined by blanks, with Moses' escapes undone.

    The result is plain text, which a page has to escape in its own way.

    >>> shown(["l&apos;", "&amp;lt;", "&lt;b&gt;"])
    "l' &lt; <b>"
    """
    text = " ".join(words)
    if "&" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


def whole(number: float) -> int | float:
    """Return a count as an int where it is whole: some tables have fractional counts."""
    return int(number) if number.is_integer() else number
