"""Hypotheses of n-best lists as values, instead of lines."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from moses_integration.nbest import NbestList, parse_nbest, read_every_list
from moses_integration.nbest_lines import format_hypothesis
from phrasescore.errors import ArgumentError
from phrasescore.records import Sentence, to_sentences


class Hypothesis(NamedTuple):
    """A hypothesis of an n-best list, whose numbers have the seven digits of a line."""

    words: tuple[str, ...]
    features: Mapping[str, tuple[float, ...]]  # natural logarithms or counts, by name
    score: float  # the total, of the decoder or of reranking
    extra: str = ""  # the fields after the total, such as a word alignment

    def __str__(self) -> str:
        """Return the words with blanks between them."""
        return " ".join(self.words)


# For each sentence, its hypotheses; a sentence stands for a hypothesis without features.
HypothesisLists = Sequence[Sequence[Hypothesis | Sentence]]


def hypotheses_of(lines: bytes) -> list[list[Hypothesis]]:
    """Return the hypotheses in the lines of n-best lists, by sentence."""
    return list(map(_hypotheses, parse_nbest([lines], "the lists"))) if lines else []


def read_lists(path: str | os.PathLike[str]) -> list[list[Hypothesis]]:
    """Read all n-best lists of a file into memory, by sentence; each sentence must have a list."""
    return list(map(_hypotheses, read_every_list(os.fspath(path))))


def _hypotheses(found: NbestList) -> list[Hypothesis]:
    return [_hypothesis(found, index) for index in range(found.num_lines)]


def _hypothesis(found: NbestList, index: int) -> Hypothesis:
    extra = b"".join(found.raws[index].split(b"|||", 4)[4:]).decode().strip(" ")
    return Hypothesis(found.words(index), found.features(index), found.total(index), extra)


def lists_of(lists: HypothesisLists, new_names: Sequence[str] = ()) -> Iterator[NbestList]:
    """Return the n-best lists with the given hypotheses; "the lists" is their name in messages.

    :param new_names: names of features to be added; a hypothesis that has one is an error.
    :raises ArgumentError: if a sentence has no hypothesis.
    :raises DataError: if hypotheses cannot be in the same n-best list.
    :raises TypeError: if a hypothesis is neither a `Hypothesis` nor a sentence.
    """
    lines = []
    for number, hypotheses in enumerate(lists):
        name = f"lists[{number}]"
        if isinstance(hypotheses, str) or not hypotheses:
            raise ArgumentError(f"{name}: expected a list of hypotheses, got {hypotheses!r}")
        texts = [each.words if isinstance(each, Hypothesis) else each for each in hypotheses]
        (words,) = to_sentences(**{name: texts})
        for own, each in zip(words, hypotheses, strict=True):
            known = each if isinstance(each, Hypothesis) else Hypothesis(own, {}, 0.0)
            features = known.features.items()
            values = [(key, np.atleast_1d(value).tolist()) for key, value in features]
            lines.append(format_hypothesis(number, own, values, known.score, known.extra or None))
    return parse_nbest([b"".join(lines)], "the lists", new_names) if lines else iter(())
