"""Groups of sentences: by length, and by the number of words that a network does not know.

The groups of Cho et al. (2014), On the Properties of Neural Machine Translation, figure 4, and of
Bahdanau et al. (2014), figure 2, without their smoothing over a window of 10 lengths.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from phrasescore.models.checkpoint import Checkpoint

# Sentences with more unknown words than this share a group.
MOST_UNKNOWN = 10


class Group(NamedTuple):
    """A group of sentences."""

    # Heading of the group in a table or on an axis.
    label: str
    # Indexes of the sentences, from 0; at least one.
    members: list[int]


class Breakdown(NamedTuple):
    """A division of a text into groups of sentences."""

    # The property that the groups differ in, such as "words in the source".
    title: str
    groups: list[Group]


def group_by_length(side: str, lengths: Sequence[int], width: int) -> Breakdown:
    """Group sentences by their number of words: 0, 1 to ``width``, and so on.

    :param side: the sentences' side, for the title.
    """
    members: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        members.setdefault((length + width - 1) // width, []).append(index)
    groups = [
        Group(_range((number - 1) * width + 1, number * width) if number else "0", members[number])
        for number in sorted(members)
    ]
    return Breakdown(f"words in the {side}", groups)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def group_by_unknown_words(side: str, counts: Sequence[int]) -> list[Breakdown]:
    """Group sentences by their number of unknown words: exactly n, and at most n.

    The paper's figure shows the second breakdown, in which each group contains the ones before it.

    :param side: the sentences' side, for the title.
    """
    exactly, at_most = [], []
    highest = max(counts)
    for number in range(min(highest, MOST_UNKNOWN) + 1):
        members = [index for index, count in enumerate(counts) if count == number]
        if members:
            exactly.append(Group(str(number), members))
        up_to = [index for index, count in enumerate(counts) if count <= number]
        if up_to:
            at_most.append(Group(str(number), up_to))
    above = [index for index, count in enumerate(counts) if count > MOST_UNKNOWN]
    if above:
        exactly.append(Group(f"> {MOST_UNKNOWN}", above))
        at_most.append(Group("any", list(range(len(counts)))))
    return [
        Breakdown(f"unknown words in the {side}", exactly),
        Breakdown(f"at most so many unknown words in the {side}", at_most),
    ]


def count_unknown(vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]) -> list[int]:
    """Return the number of words of each sentence that are outside a shortlist."""
    return [sum(word not in vocabulary for word in words) for words in sentences]


def shortlists_by_side(checkpoint: "Checkpoint") -> dict[str, Vocabulary]:
    """Return a network's shortlists for the source, unless it reads none, and the reference."""
    shortlists = {"reference": checkpoint.table_target_vocabulary}
    if not checkpoint.config.network.reads_source:
        return shortlists
    return {"source": checkpoint.table_source_vocabulary, **shortlists}
