"""Sentences in groups: by length, and by the number of words that a network does not know.

The groups of Cho et al. (2014), On the Properties of Neural Machine Translation, figure 4, and of
Bahdanau et al. (2014), figure 2. There figures are smoothed over a window of 10 lengths; here each
sentence is in the group of its own length, and the group's size is given.
"""

from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.vocabulary import Vocabulary

# Numbers of unknown words above this one share a group.
MOST_UNKNOWN = 10


class Group(NamedTuple):
    """Sentences that have a property in common."""

    # As a table or an axis shows it.
    label: str
    # 0-based.
    members: list[int]


class Breakdown(NamedTuple):
    """All sentences in groups, of which none is empty."""

    # The property that the groups differ in, such as "words in the source".
    title: str
    groups: list[Group]


def group_by_length(side: str, lengths: Sequence[int], width: int) -> Breakdown:
    """Group sentences by their length in words: 1 to ``width``, and so on; empty ones apart.

    :param side: of the lengths, for the title.
    """
    found: dict[int, list[int]] = {}
    for member, length in enumerate(lengths):
        found.setdefault((length + width - 1) // width, []).append(member)
    groups = [
        Group(_range((number - 1) * width + 1, number * width) if number else "0", found[number])
        for number in sorted(found)
    ]
    return Breakdown(f"words in the {side}", groups)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def group_by_unknown_words(side: str, counts: Sequence[int]) -> list[Breakdown]:
    """Group sentences by their number of unknown words: exactly this number, and at most this one.

    The paper's figure shows the second breakdown, whose groups contain one another.

    :param side: of the counts, for the title.
    """
    exactly, at_most = [], []
    highest = max(counts)
    for number in range(min(highest, MOST_UNKNOWN) + 1):
        members = [member for member, count in enumerate(counts) if count == number]
        if members:
            exactly.append(Group(str(number), members))
        upto = [member for member, count in enumerate(counts) if count <= number]
        if upto:
            at_most.append(Group(str(number), upto))
    above = [member for member, count in enumerate(counts) if count > MOST_UNKNOWN]
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
