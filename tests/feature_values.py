"""The values of a feature from Python, for tests."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from phrasescore.features.feature import Feature
from phrasescore.records import PhraseBlock, PhrasePair


def scored(feature: Feature, pairs: Sequence[PhrasePair]) -> tuple[list[float], str]:
    """Return the values of the first column, and the tally as a text."""
    scores = feature.score(PhraseBlock.of(pairs))
    return scores.values[0].tolist(), str(scores.tally)


def values_of(feature: Feature, pairs: Sequence[PhrasePair]) -> list[float]:
    return scored(feature, pairs)[0]


def as_block(pairs: Sequence[PhrasePair]) -> PhraseBlock:
    """Return pairs whose phrases lie in a text, with other bytes between them."""
    text, places = b"what is before ", []
    for pair in pairs:
        for words in pair:
            places.append(len(text))
            text += " ".join(words).encode()
            places.append(len(text))
            text += b" ||| "
    return PhraseBlock(text, np.array(places, np.int64).reshape(-1, 4))


def count_scores(cache: str | Path) -> int:
    """Return the number of scores in the file of a cache."""
    with closing(sqlite3.connect(cache)) as database:
        ((count,),) = database.execute("SELECT COUNT(*) FROM scores")
    return int(count)
