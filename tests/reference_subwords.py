"""Byte pair encoding of a word, slow and straight.

Written from Sennrich et al. (2016), section 3.2, and from what sentencepiece says of its own: the
first characters of words are marked by ``▁``, and the pieces stand in the order of their merges,
which is that in which they are applied. Characters that are no pieces stay together. A word with
the mark in it, which no text should have, is ``▁`` and something unknown.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, pairwise

from phrasescore.vocabulary import SubwordVocabulary

# Words whose parts come back: some of each side of a small text, with their counts.
COUNTS = {
    **{
        stem + end: 7.0 for stem in ("maison", "grand", "petit", "rue") for end in ("", "s", "ette")
    },
    "la": 40.0,
    "les": 31.0,
    "&apos;": 5.0,
    "une": 20.0,
}


def vocabulary(size: int = 40) -> SubwordVocabulary:
    return SubwordVocabulary.from_counts(COUNTS, size)


def split(pieces: Sequence[str], word: str) -> list[str]:
    """Return the pieces of a word.

    :param pieces: all of them, in the order of their ids.
    """
    if "▁" in word:
        return ["▁", "unknown"]
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    symbols = list("▁" + word)
    while True:
        pairs = [
            (ranks[first + second], place)
            for place, (first, second) in enumerate(pairwise(symbols))
            if first + second in ranks
        ]
        if not pairs:
            break
        _, place = min(pairs)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    runs = groupby(symbols, lambda symbol: symbol in ranks)
    return [part for known, run in runs for part in (run if known else ["".join(run)])]


def split_probabilities(
    pieces: Sequence[str], word: str, dropout: float
) -> dict[tuple[str, ...], float]:
    """Return the exact probability of each split of a word, whose characters are all pieces.

    Algorithm 1 of Provilkov et al. (2020): in each step each possible merge is left out with the
    probability ``dropout``, and the first of the others is done.
    """
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    found: dict[tuple[str, ...], float] = defaultdict(float)

    def walk(symbols: tuple[str, ...], probability: float) -> None:
        merges = [
            (ranks[first + second], place)
            for place, (first, second) in enumerate(pairwise(symbols))
            if first + second in ranks
        ]
        for _, place in sorted(merges):
            merged = (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
            walk(merged, probability * (1 - dropout))
            probability *= dropout
        found[symbols] += probability

    walk(("▁", *word), 1.0)
    return found


def ids(known: SubwordVocabulary, words: Sequence[str]) -> list[int]:
    pieces = [known.word(number) for number in range(2, len(known))]
    numbers = {piece: number for number, piece in enumerate(pieces, start=2)}
    return [numbers.get(piece, 1) for word in words for piece in split(pieces, word)]
