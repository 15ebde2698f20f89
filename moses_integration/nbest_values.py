"""Hypotheses of n-best lists as values, instead of lines."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from moses_integration.nbest import NbestList, read_every_list


class Hypothesis(NamedTuple):
    """A hypothesis of an n-best list, whose numbers have the seven digits of a line."""

    words: tuple[str, ...]
    features: Mapping[str, tuple[float, ...]]  # natural logarithms or counts, by name
    score: float  # the total, of the decoder or of reranking
    extra: str = ""  # the fields after the total, such as a word alignment

    def __str__(self) -> str:
        """Return the words with blanks between them."""
        return " ".join(self.words)


def read_lists(path: str | os.PathLike[str]) -> list[list[Hypothesis]]:
    """Read all n-best lists of a file into memory, by sentence; each sentence must have a list."""
    return list(map(hypotheses_of, read_every_list(os.fspath(path))))


def hypotheses_of(found: NbestList) -> list[Hypothesis]:
    """Return the hypotheses of an n-best list."""
    return [_hypothesis(found, index) for index in range(found.num_lines)]


def _hypothesis(found: NbestList, index: int) -> Hypothesis:
    extra = b"".join(found.raws[index].split(b"|||", 4)[4:]).decode().strip(" ")
    return Hypothesis(found.words(index), found.features(index), found.total(index), extra)
