"""Merge the n-best lists of several systems, sentence by sentence."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from moses_integration.combining import MADE, VOTES, ListCombiner
from moses_integration.nbest import NbestList, read_nbest
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, DataError
from phrasescore.io.output import check_files, open_output
from phrasescore.progress import Meter, ProgressCallback


@dataclass(frozen=True, slots=True)
class CombineSummary:
    """Counts and features of the merged n-best lists."""

    sentences: int
    hypotheses: tuple[int, ...]  # number of lines from each file
    features: tuple[str, ...]  # for each file, the name of the feature that marks its hypotheses
    # Names, in alphabetical order, of features that some hypotheses lacked and received, and of
    # features that only other files than the first have.
    filled: tuple[str, ...]
    left_out: tuple[str, ...]


def combine(
    lists: Sequence[StrPath],
    output: StrPath,
    *,
    votes: bool = False,
    progress: ProgressCallback | None = None,
) -> CombineSummary:
    """Merge the n-best lists of several systems into one list of all hypotheses per sentence.

    The first file is the decoder's, and its lines come first. Hypotheses with the same words are
    taken only from the first file that has them. Each line gets a feature per file, ``Made0``,
    ``Made1`` and so on, which is 1 if the file has its words, and 0 otherwise.

    All hypotheses get the features of the first file. A hypothesis that lacks any gets their
    values and its total from the first file's hypothesis with the lowest total. Features that the
    first file lacks are omitted, except sparse ones (names with ``_``).

    :param votes: whether to add features of agreement: ``Votes0`` is the number of files that have
        the words of a hypothesis; ``NgramVotes1`` to ``NgramVotes4`` count, for each n-gram of a
        hypothesis, the other files whose best hypothesis has it.
    """
    check_sequences(lists=lists)
    paths, output = [os.fspath(path) for path in lists], os.fspath(output)
    if len(paths) < 2:
        raise ArgumentError("lists: expected at least two")
    check_files(paths, (output,))
    names = tuple(f"{MADE}{number}" for number in range(len(paths)))
    combiner = ListCombiner(votes=votes)
    sentences, hypotheses = 0, [0] * len(paths)
    with open_output(output) as stream, Meter("combine", "hypotheses", progress) as meter:
        for found in _aligned(paths, (*names, *VOTES * votes)):
            sentences += 1
            for number, lines in enumerate(combiner(found)):
                stream.write(b"".join(lines))
                hypotheses[number] += len(lines)
                meter.update(len(lines))
    filled, left_out = tuple(sorted(combiner.filled)), tuple(sorted(combiner.left_out))
    return CombineSummary(sentences, tuple(hypotheses), names, filled, left_out)


def _aligned(paths: Sequence[str], names: Sequence[str]) -> Iterator[list[NbestList]]:
    """Yield each sentence's lists, one per file; reject files that have the new features."""
    for lists in zip_longest(*map(read_nbest, paths)):
        present: list[NbestList] = [found for found in lists if found is not None]
        first = min(present, key=lambda found: found.id)
        for path, found in zip(paths, lists, strict=True):
            if found is None:
                raise DataError(path, None, f"ends before id {first.id}, which {first.path} has")
            if found.id != first.id:
                problem = f"expected id {first.id}, which {first.path} has, found {found.id}"
                raise DataError(path, found.first_line, problem)
            if known := [name for name in names if name in found.sizes]:
                problem = f"has the feature {known[0]} already: combine all lists in one run"
                raise DataError(path, found.first_line, problem)
        yield present
