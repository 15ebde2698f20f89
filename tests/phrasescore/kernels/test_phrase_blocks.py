"""Blocks of phrase pairs are joined without the other bytes of their texts."""

import numpy as np
import pytest

from phrasescore.kernels.phrase_blocks import join_blocks
from phrasescore.records import PhraseBlock, PhrasePair

PAIRS = [PhrasePair(f"a{number} é", "b") for number in range(7)] + [PhrasePair((), "x")]


def in_a_text(pairs: list[PhrasePair]) -> PhraseBlock:
    text, places = b"", []
    for pair in pairs:
        for words in pair:
            places.append(len(text))
            text += " ".join(words).encode()
            places.append(len(text))
            text += b" ||| "
    return PhraseBlock(text, np.array(places, np.int64).reshape(-1, 4))


@pytest.mark.parametrize("size", [1, 3, 8])
def test_joined_blocks_have_all_pairs_and_no_other_bytes(size: int) -> None:
    parts = [PAIRS[first : first + size] for first in range(0, len(PAIRS), size)]
    joined = join_blocks([in_a_text(part) for part in parts])
    assert list(joined.pairs()) == PAIRS
    assert joined.text.decode() == "".join(f"a{number} éb" for number in range(7)) + "x"
    assert joined.affiliations is None


def test_affiliations_and_sources_stay_with_their_pairs() -> None:
    one = PhraseBlock.of_source(("s", "t"), [("a",), ("b", "c")], [(1,), (0, 2)])
    other = PhraseBlock.of([(("u",), ())], [()])
    joined = join_blocks([one, other])
    assert joined.affiliations == [(1,), (0, 2), ()]
    last = joined.select(np.array([2, 0]))
    assert list(last.pairs()) == [PhrasePair("u", ()), PhrasePair("s t", "a")]
    assert last.affiliations == [(), (1,)]


def test_some_pairs_without_affiliations_leave_none() -> None:
    aligned = PhraseBlock.of_source(("s",), [("a",)], [(0,)])
    assert join_blocks([aligned, PhraseBlock.of([(("t",), ("b",))])]).affiliations is None
    assert join_blocks([aligned, PhraseBlock.of([])]).affiliations == [(0,)]
