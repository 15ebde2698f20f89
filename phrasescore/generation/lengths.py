"""How long a generated target may become."""

from collections.abc import Sequence

import numpy as np

from phrasescore.generation.generator import Source
from phrasescore.generation.word_choice import Ids


def length_limits(sources: Sequence[Source], max_length: int | None) -> Ids:
    """Return how many words, ``</s>`` not counted, the targets of each source may have.

    :param max_length: for all; None for twice the words of the source and 10.
    """
    lengths = np.fromiter(map(len, sources), np.int64, len(sources))
    return np.full_like(lengths, max_length) if max_length is not None else 2 * lengths + 10
