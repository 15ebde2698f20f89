"""N-best lists with their source sentences, as a run reads them that may be resumed."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from moses_integration.alignments import affiliate_hypothesis, has_links
from moses_integration.nbest import NbestList, read_nbest
from phrasescore.errors import DataError
from phrasescore.io.text import MARKUP, decode, read_lines, split_words
from phrasescore.records import HypothesisList
from phrasescore.workflows.text_checks import warn_of_alignments


@dataclass
class SourcedList:
    """An n-best list with the words of its sentence: some lines of an input."""

    # The number of lists before it.
    place: int
    nbest: NbestList
    source: tuple[str, ...]
    # Whether the lines' word alignments matter.
    aligned: bool = False

    @property
    def before(self) -> int:
        """How many lines come before."""
        return self.nbest.first_line - 1

    @property
    def num_lines(self) -> int:
        """How many lines there are."""
        return self.nbest.num_lines

    @property
    def raw(self) -> bytes:
        """The lines, and the sentence, on which the new features depend as well."""
        return self.nbest.raw + " ".join(self.source).encode() + b"\n"

    def lines(self, first: int, after: int) -> "SourcedList":
        """Return the lines from number ``first`` to before ``after``, counted from 0."""
        return SourcedList(self.place, self.nbest.lines(first, after), self.source, self.aligned)

    @cached_property
    def keys(self) -> list[bytes]:
        """What is equal in lines whose features are."""
        if not self.aligned:
            return self.nbest.hypotheses
        parts = (raw.split(b"|||", 4)[4:] for raw in self.nbest.raws)
        pairs = zip(self.nbest.hypotheses, parts, strict=True)
        return [b"|||".join([hypothesis, *rest]) for hypothesis, rest in pairs]

    @cached_property
    def distinct(self) -> HypothesisList:
        """The hypotheses of the distinct keys, in the order of their first lines.

        :raises DataError: at a hypothesis that is not UTF-8, or lacks a word alignment.
        """
        words = self.nbest.distinct()
        first = {key: place for place, key in reversed(list(enumerate(self.keys)))}
        places = [first[key] for key in dict.fromkeys(self.keys)]
        hypotheses = [words[self.nbest.hypotheses[place]] for place in places]
        if not self.aligned:
            return HypothesisList._make((self.source, hypotheses, None))  # they are words
        affiliations = [
            affiliate_hypothesis(
                *(self.nbest.raws[place], len(self.source), len(hypothesis)),
                *(self.nbest.path, self.nbest.first_line + place),
            )
            for place, hypothesis in zip(places, hypotheses, strict=True)
        ]
        return HypothesisList(self.source, hypotheses, affiliations)


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

    :param new_names: of features that no line may have.
    :param allow_missing: whether a sentence may have no list.
    :param aligned: whether the word alignments of the lines matter.
    :raises DataError: on reaching lines that are not as they should be.
    """
    lists = with_sources(read_nbest(nbest, new_names), source, allow_missing=allow_missing)
    is_unaligned = aligned
    for place, (found, words) in enumerate(lists):
        is_unaligned = is_unaligned and not any(map(has_links, found.raws))
        yield SourcedList(place, found, words, aligned)
    if is_unaligned:
        warn_of_alignments(nbest)
