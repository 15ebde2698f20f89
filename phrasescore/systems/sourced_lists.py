"""N-best lists with their source sentences, and the features that are added to them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from moses_integration.alignments import affiliate_hypothesis, has_links
from moses_integration.nbest import Ids, NbestList, number_distinct, read_nbest
from moses_integration.nbest_lines import format_rows
from phrasescore.errors import DataError
from phrasescore.io.text import check_markup, decode, read_lines
from phrasescore.records import PhraseBlock, split_words
from phrasescore.systems.scoring import AddedColumn, Floats, Scoring
from phrasescore.systems.text_checks import warn_of_alignments


def rescored_lines(scorer: Scoring, each: "SourcedList", values: Floats) -> bytes:
    """Return the lines of a list with a scorer's columns."""
    return each.nbest.with_features(*_feature_texts(scorer.added, each, values))


def _feature_texts(
    columns: Sequence[AddedColumn], found: "SourcedList", values: Floats
) -> tuple[list[bytes], Ids]:
    pairs = found.numbering[1]
    rows = list(values)
    if any(column.given is not None for column in columns):  # they may differ from line to line
        of_pairs = iter(values)
        rows = [
            next(of_pairs)[pairs] if column.given is None else column.given.of(found)
            for column in columns
        ]
        pairs = np.arange(found.num_lines)
    names, style = [column.name for column in columns], found.nbest.style
    return format_rows(names, np.stack(rows, axis=1), style), pairs


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


def with_sources(
    lists: Iterable[NbestList], path: str, *, allow_missing: bool = False
) -> Iterator[tuple[NbestList, tuple[str, ...]]]:
    """Yield each list with the words of its source sentence.

    :param allow_missing: whether a sentence may have no list. Moses writes an empty hypothesis for
        an empty line; it writes nothing only if it finds no translation.
    """
    sources = enumerate(read_lines(path))
    read = 0
    for found in lists:
        for identity, raw in sources:
            read = identity + 1
            if identity == found.id:
                text = decode(path, identity + 1, raw)
                check_markup(path, identity + 1, text)
                yield found, split_words(text)
                break
            if not allow_missing:
                problem = (
                    f"expected id {identity}, found {found.id}: sentence {identity + 1} of {path} "
                    "has no hypotheses (--allow-missing skips it)"
                )
                raise DataError(found.path, found.first_line, problem)
        else:
            problem = f"id {found.id} is beyond the source {path}, which has {read} lines"
            raise DataError(found.path, found.first_line, problem)
    if next(sources, None) is not None and not allow_missing:
        problem = "the n-best list ends before this sentence,"
        raise DataError(path, read + 1, f"{problem} with id {read - 1} (--allow-missing skips it)")


def read_sourced_lists(
    nbest: str, source: str, new_names: Collection[str], allow_missing: bool, aligned: bool = False
) -> Iterator[SourcedList]:
    """Lazily yield each n-best list in a file with its source sentence."""
    lists = with_sources(read_nbest(nbest, new_names), source, allow_missing=allow_missing)
    is_unaligned = aligned
    for place, (found, words) in enumerate(lists):
        is_unaligned = is_unaligned and not any(map(has_links, found.raws))
        yield SourcedList(place, found, words, aligned)
    if is_unaligned:
        warn_of_alignments(nbest)
