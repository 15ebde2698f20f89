"""What a file seems to be, by how it begins: for the message that it is not what was expected."""

import re

_BEGINNING = 1 << 16  # bytes
# By how a whole file begins; of the lines, the first match counts.
_STARTS = (
    (b"SQLite format 3\0", "a database, such as a score cache"),
    (b"FEATURES_TXT_BEGIN_", "features of Moses' extractor"),
    (b"SCORES_TXT_BEGIN_", "scores of Moses' extractor"),
    (b"{", "JSON"),
)
# (?m): by a line.
_LINES = (
    (rb"\A\s*\d+ \|\|\| .*\|\|\|", "an n-best list"),
    (rb"(?m)^\[(feature|weight|input-factors|mapping)\]\s*$", "a moses.ini"),
    (rb"(?m)^\\data\\\s*$", "a language model in ARPA format"),
    (rb"(?m)^\[(model|vocabulary|training)\]\s*$", "settings of a network (TOML)"),
    (rb"\A\s*[^\s=|]+= [-+.\deE \t]+\n", "a file of weights"),
    (rb"\A\d+-\d+( \d+-\d+)*\n", "word alignments"),
)


def seems_to_be(path: str) -> str | None:
    """Return what a file that is no phrase table seems to be; None where it looks like a table.

    :raises DataError: if it cannot be read.
    """
    from phrasescore.io.text import open_input

    with open_input(path) as stream:
        start = stream.read(_BEGINNING)
    for beginning, kind in _STARTS:
        if start.startswith(beginning):
            return kind
    if b"\0" in start:
        return "a binary file"
    for pattern, kind in _LINES:
        if re.search(pattern, start):
            return kind
    return "a text" if start.strip() and b"|||" not in start else None
