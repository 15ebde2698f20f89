"""Word ids of phrases in a text against those of the same words as Python's strings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.features.neural import WordNumbers
from phrasescore.vocabulary import Vocabulary

WORDS = ["la", "maison", "l", "\u00e9", "a\u00a0b", "|", "&#124;", "maisons", "</s", "\t"]
words = st.sampled_from([*WORDS, "</s>", "<unk>", "rare", "e\u0301", "mai", "a\u00a0", "x" * 300])
phrases = st.lists(st.lists(words, max_size=4), max_size=8)


@pytest.mark.parametrize("known", [WORDS, WORDS[:1], []])
@given(phrases, st.sampled_from(["", "la ", "||| "]), st.sampled_from([" ", "  "]))
def test_ids_are_those_of_the_vocabulary(
    known: list[str], found: list[list[str]], before: str, space: str
) -> None:
    text, begins, ends = before.encode(), [], []
    for phrase in found:
        begins.append(len(text))
        text += space.join(phrase).encode()
        ends.append(len(text))
        text += b" ||| 0.5 la\n"
    vocabulary = Vocabulary(known)
    numbers = WordNumbers(vocabulary).number(text, np.array([begins, ends], np.int64).T)
    assert numbers.lengths.tolist() == [len(phrase) for phrase in found]
    assert numbers.values.tolist() == vocabulary.ids([word for phrase in found for word in phrase])


def test_a_large_shortlist_knows_all_of_its_words_and_no_others() -> None:
    known = [f"{number:x}" for number in range(0, 60_000, 2)]
    both = [f"{number:x}" for number in range(60_000)]
    text = " ".join(both).encode()
    vocabulary = Vocabulary(known)
    numbers = WordNumbers(vocabulary).number(text, np.array([[0, len(text)]]))
    assert numbers.values.tolist() == vocabulary.ids(both)
