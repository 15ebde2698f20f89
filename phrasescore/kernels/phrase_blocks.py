"""Blocks of phrase pairs in compiled code."""

from collections.abc import Sequence

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from phrasescore.records import PhraseBlock


def join_blocks(blocks: Sequence[PhraseBlock]) -> PhraseBlock:
    """Return the pairs of some blocks, with a text that has only their phrases."""
    sizes = [int((places[:, 1::2] - places[:, ::2]).sum()) for _, places, _ in blocks]
    text = np.empty(sum(sizes), np.uint8)
    spans = np.empty((sum(len(places) for _, places, _ in blocks), 4), np.int64)
    offset = first = 0
    for (data, places, _), size in zip(blocks, sizes, strict=True):
        after = first + len(places)
        _copy_phrases(np.frombuffer(data, np.uint8), places, offset, text, spans[first:after])
        offset, first = offset + size, after
    known = [block.affiliations for block in blocks if len(block.places)]
    affiliations = None
    if None not in known:
        affiliations = [each for part in known for each in part or []]
    return PhraseBlock(text.tobytes(), spans, affiliations)


@kept_njit()
def _copy_phrases(data, places, offset, text, spans):  # type: ignore[no-untyped-def]
    """Copy phrases one after another into ``text`` from ``offset`` on, and set their spans."""
    for pair in range(len(places)):
        for side in range(0, 4, 2):
            spans[pair, side] = offset
            for position in range(places[pair, side], places[pair, side + 1]):
                text[offset] = data[position]
                offset += 1
            spans[pair, side + 1] = offset
