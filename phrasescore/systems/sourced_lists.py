"""N-best lists with their source sentences, and the features that are added to them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np

from moses_integration.alignments import affiliate_hypothesis, has_links
from moses_integration.nbest import Ids, NbestList, number_distinct, read_every_list
from moses_integration.nbest_lines import format_rows
from phrasescore.errors import DataError
from phrasescore.io.text import check_markup, decode, read_lines
from phrasescore.records import PhraseBlock, split_words
from phrasescore.systems.scoring import Floats, Scoring
from phrasescore.systems.text_checks import warn_of_alignments


def rescored_lines(scorer: Scoring, each: "SourcedList", values: Floats) -> bytes:
    """Return the lines of a list with a scorer's columns."""
    columns, pairs, rows = scorer.added, each.numbering[1], list(values)
    if any(column.given is not None for column in columns):  # they may differ from line to line
        of_pairs = iter(values)
        rows = [
            next(of_pairs)[pairs] if column.given is None else column.given.of(each)
            for column in columns
        ]
        pairs = np.arange(each.num_lines)
    texts = format_rows(scorer.names, np.stack(rows, axis=1), each.nbest.style)
    return each.nbest.with_features(texts, pairs)


@dataclass
class SourcedList:
    """An n-best list with its source sentence, which forms a pair with each distinct hypothesis."""

    place: int  # the number of lists before it
    nbest: NbestList
    source: tuple[str, ...]
    aligned: bool = False  # whether the lines' word alignments matter

    @property
    def before(self) -> int:
        """Number of lines before this list."""
        return self.nbest.first_line - 1

    @property
    def num_lines(self) -> int:
        """Number of lines in this list."""
        return self.nbest.num_lines

    @property
    def raw(self) -> bytes:
        """The bytes of the lines and the source sentence, on which the new features depend."""
        return self.nbest.raw + " ".join(self.source).encode() + b"\n"

    def lines(self, first: int, after: int) -> "SourcedList":
        """Return the lines from index ``first`` up to, but not including, ``after``."""
        return SourcedList(self.place, self.nbest.lines(first, after), self.source, self.aligned)

    @cached_property
    def numbering(self) -> tuple[Ids, Ids]:
        """The index of each pair's first line, and the index of each line's pair."""
        if not self.aligned:
            return self.nbest.numbering
        rest = (tuple(raw.split(b"|||", 4)[4:]) for raw in self.nbest.raws)
        return number_distinct(zip(self.nbest.hypotheses, rest, strict=True))

    @cached_property
    def block(self) -> PhraseBlock:
        """The pairs to score."""
        nbest, firsts = self.nbest, self.numbering[0]
        hypotheses = nbest.texts(firsts)
        affiliations = None
        if self.aligned:
            affiliations = [
                affiliate_hypothesis(
                    nbest.raws[index],
                    len(self.source),
                    len(nbest.words(index)),
                    nbest.path,
                    nbest.first_line + index,
                )
                for index in firsts.tolist()
            ]
        return PhraseBlock.of_source(self.source, hypotheses, affiliations)


def read_sourced_lists(
    nbest: str, source: str, new_names: Collection[str], allow_missing: bool, aligned: bool = False
) -> Iterator[SourcedList]:
    """Lazily yield each n-best list in a file with its source sentence.

    :param allow_missing: whether a sentence may have no list. Moses writes an empty hypothesis for
        an empty line; it writes nothing only if it finds no translation.
    """
    cure = "--allow-missing skips it"
    lists = read_every_list(nbest, new_names=new_names, allow_missing=allow_missing, cure=cure)
    is_unaligned, place = aligned, 0
    for number, (found, raw) in enumerate(zip_longest(lists, read_lines(source)), start=1):
        if found is None and not allow_missing:
            problem = f"the n-best list ends before this sentence, with id {number - 2} ({cure})"
            raise DataError(source, number, problem)
        if found is None or not found.data:
            continue
        if raw is None:
            problem = f"id {found.id} is beyond the end of the source {source}"
            raise DataError(nbest, found.first_line, problem)
        text = decode(source, number, raw)
        check_markup(source, number, text)
        is_unaligned = is_unaligned and not any(map(has_links, found.raws))
        yield SourcedList(place, found, split_words(text), aligned)
        place += 1
    if is_unaligned:
        warn_of_alignments(nbest)
