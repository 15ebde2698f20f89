"""Tokenised text, and counts, as a person reads them."""

from collections.abc import Iterable

# What Moses' tokeniser writes for characters that its files use (scripts/tokenizer,
# escape-special-chars.perl). The ampersand comes last, or "&amp;lt;" would be undone twice.
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
    """Return words with blanks between them, and Moses' escapes as what they stand for.

    What comes out is plain text: a page has to escape it for its own needs.

    >>> shown(["l&apos;", "&amp;lt;", "&lt;b&gt;"])
    "l' &lt; <b>"
    """
    text = " ".join(words)
    if "&" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


def whole(number: float) -> int | float:
    """Return a count as a whole number, if it is one: some tables have fractions of counts."""
    return int(number) if number.is_integer() else number
