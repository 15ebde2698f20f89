"""Parallel text with its word alignment."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from moses_integration.affiliation import Affiliations, affiliate_sentence, parse_links
from phrasescore.errors import DataError, shown_path
from phrasescore.io.corpora import read_parallel_text
from phrasescore.io.text import read_lines
from phrasescore.records import PhrasePair


class AlignedLine(NamedTuple):
    """A line of parallel text and its alignment: their bytes, their words, the affiliations."""

    raw: bytes
    pair: PhrasePair
    # The place in the source of each target word's.
    affiliations: Affiliations


def read_aligned_text(source: str, target: str, alignments: str) -> Iterator[AlignedLine]:
    """Yield each sentence with its translation and its affiliations, in order, lazily.

    A line of the alignment may be empty: all words are then affiliated with the source's end.

    :param source: paths, ``.gz`` included; one of the three may be ``-``.
    :raises DataError: on reading, naming file and line: as `read_parallel_text` and `parse_links`,
        or if the text and its alignment have different numbers of lines.
    """
    number = 0
    text = read_parallel_text(source, target)
    for number, (sentence, line) in enumerate(zip_longest(text, read_lines(alignments)), start=1):
        if sentence is None or line is None:
            ended, other = (source, alignments) if sentence is None else (alignments, source)
            wanted = f"expected as many lines as {shown_path(other)} has"
            raise DataError(ended, number, f"{wanted}, found the end of the file")
        pair = sentence.pair
        sizes = len(pair.source), len(pair.target)
        linked = parse_links(line, *sizes, alignments, number)
        raw = b"%b\n%b" % (sentence.raw, line)
        yield AlignedLine(raw, pair, affiliate_sentence(linked, sizes[0]))
