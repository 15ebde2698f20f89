"""N-best lists with their source sentences, as items of the pipeline."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from moses_integration.alignments import affiliate_hypothesis, has_links
from moses_integration.nbest import Ids, NbestList, read_nbest
from phrasescore.errors import DataError
from phrasescore.io.text import MARKUP, decode, read_lines, split_words
from phrasescore.records import PhraseBlock
from phrasescore.workflows.text_checks import warn_of_alignments


@dataclass
class SourcedList:
    """An n-best list with the words of its sentence: some lines of an input.

    Its pairs are the sentence with each distinct hypothesis, or each distinct aligned hypothesis.
    """

    # The number of lists before it.
    place: int
    nbest: NbestList
    source: tuple[str, ...]
    # Whether the lines' word alignments matter.
    aligned: bool = False

    @property
    def before(self) -> int:
        """Number of lines before these."""
        return self.nbest.first_line - 1

    @property
    def num_lines(self) -> int:
        """Number of these lines."""
        return self.nbest.num_lines

    @property
    def raw(self) -> bytes:
        """The bytes of the lines and the sentence, as the new features depend on both."""
        return self.nbest.raw + " ".join(self.source).encode() + b"\n"

    def lines(self, first: int, after: int) -> "SourcedList":
        """Return the lines from number ``first`` to before ``after``, counted from 0."""
        return SourcedList(self.place, self.nbest.lines(first, after), self.source, self.aligned)

    @cached_property
    def numbering(self) -> tuple[Ids, Ids]:
        """The first line of each pair, and the pair of each line."""
        if not self.aligned:
            return self.nbest.numbering
        rest = (raw.split(b"|||", 4)[4:] for raw in self.nbest.raws)
        numbers: dict[tuple[bytes, tuple[bytes, ...]], int] = {}
        firsts, pairs = [], []
        for line, key in enumerate(zip(self.nbest.hypotheses, map(tuple, rest), strict=True)):
            if key not in numbers:
                firsts.append(line)
            pairs.append(numbers.setdefault(key, len(numbers)))
        return np.array(firsts), np.array(pairs)

    @cached_property
    def block(self) -> PhraseBlock:
        """The pairs.

        :raises DataError: at a hypothesis that is not UTF-8, or lacks a word alignment.
        """
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

    :param path: the source, one tokenised sentence per line; id 0 is the first line.
    :param allow_missing: whether a sentence may have no list. Moses writes an empty hypothesis for
        an empty line; it writes nothing only where it found no translation at all.
    :raises DataError: if an id is beyond the source, a sentence lacks its list, is not UTF-8, or
        has markup.
    """
    sources = enumerate(read_lines(path))
    read = 0
    for found in lists:
        for identity, raw in sources:
            read = identity + 1
            if identity == found.id:
                text = decode(path, identity + 1, raw).removesuffix("\r")
                MARKUP.check(path, identity + 1, text)
                yield found, split_words(text)
                break
            if not allow_missing:
                problem = (
                    f"expected id {identity}, found {found.id}: sentence {identity + 1} of {path} "
                    "has no hypotheses (--allow-missing leaves it out)"
                )
                raise DataError(found.path, found.first_line, problem)
        else:
            problem = f"id {found.id} is beyond the source {path}, which has {read} lines"
            raise DataError(found.path, found.first_line, problem)
    missing = next(sources, None)
    if missing is not None and not allow_missing:
        problem = (
            f"the n-best list ends before this sentence, with id {read - 1} "
            "(--allow-missing leaves it out)"
        )
        raise DataError(path, read + 1, problem)


def read_sourced_lists(
    nbest: str,
    source: str,
    new_names: Collection[str],
    *,
    allow_missing: bool,
    aligned: bool = False,
) -> Iterator[SourcedList]:
    """Yield each list of a file with its source, lazily.

    :param new_names: names of new features, which no line may have.
    :param allow_missing: whether a sentence may have no list.
    :param aligned: whether the word alignments of the lines matter.
    :raises DataError: on reaching invalid lines.
    """
    lists = with_sources(read_nbest(nbest, new_names), source, allow_missing=allow_missing)
    is_unaligned = aligned
    for place, (found, words) in enumerate(lists):
        is_unaligned = is_unaligned and not any(map(has_links, found.raws))
        yield SourcedList(place, found, words, aligned)
    if is_unaligned:
        warn_of_alignments(nbest)
