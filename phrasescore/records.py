"""What flows through the project: phrase pairs."""

from typing import NamedTuple


class PhrasePair(NamedTuple):
    """A source phrase and a target phrase, as words without ``<s>`` and ``</s>``.

    A NamedTuple and not a frozen dataclass: it is made once a line of a phrase table, and costs a
    third of the time.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]


class HypothesisList(NamedTuple):
    """A source sentence and translations of it, as tokens; the same one may come twice."""

    source: tuple[str, ...]
    hypotheses: list[tuple[str, ...]]
