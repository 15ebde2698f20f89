"""Promises of the pieces of words."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.vocabulary import SubwordVocabulary, Vocabulary, load_vocabulary, model_path
from tests import reference_subwords
from tests.reference_subwords import COUNTS

KNOWN = reference_subwords.vocabulary()
PIECES = [KNOWN.word(number) for number in range(2, len(KNOWN))]


def test_there_are_as_many_pieces_as_asked_and_all_characters_are_among_them() -> None:
    assert len(KNOWN) == 40 + 2
    assert set("".join(COUNTS)) | {"▁"} <= set(PIECES)
    # sentencepiece's trainer stops where nothing is left to merge.
    assert len(SubwordVocabulary.from_counts(COUNTS, 5000)) < 200


@given(st.text("maisongrdpteu&;é漢字 ".replace(" ", ""), min_size=1, max_size=12))
def test_pieces_are_those_of_slow_byte_pair_encoding(word: str) -> None:
    (pieces,) = KNOWN.split([word])
    assert list(pieces) == reference_subwords.split(PIECES, word)
    assert KNOWN.ids([word, "la"]) == reference_subwords.ids(KNOWN, [word, "la"])
    assert KNOWN.join(pieces) == (word,)


def test_real_words_have_the_pieces_of_slow_byte_pair_encoding(shared_data: Path) -> None:
    text = (shared_data / "train.fr").read_text("utf-8").replace("\n", " ")
    counts = Counter(word for word in text.split(" ") if word)
    found = SubwordVocabulary.from_counts(counts, 2000)
    pieces = [found.word(number) for number in range(2, len(found))]
    words = sorted(counts)[::40]
    assert len(words) > 250
    wanted = [tuple(reference_subwords.split(pieces, word)) for word in words]
    assert found.split(words) == wanted


def test_only_a_new_character_is_unknown() -> None:
    assert "rustigmaison" in KNOWN
    assert "maisonx" not in KNOWN
    assert KNOWN.ids(["x漢"]) == [KNOWN.ids_of_pieces(["▁"])[0], 1]
    assert KNOWN.coverage({"rustig": 3.0, "x": 1.0}) == 0.75


# Of characters that sentencepiece, or the vocabulary, has as marks of their own.
@pytest.mark.parametrize(
    "word", ["</s>", "<unk>", "<s>", "▁", "▁la", "a▁b", "\t", "a\u00a0b", "\0"]
)
def test_no_word_is_taken_for_a_mark(word: str) -> None:
    known = SubwordVocabulary.from_counts({**COUNTS, word: 50.0, "</s>": 9.0}, 60)
    (pieces,) = known.split([word])
    assert pieces[0].startswith("▁")
    numbers = known.ids(["la", word, "la"])
    assert Vocabulary.END not in numbers
    # No other word has these pieces.
    assert known.split(["la"]) != [pieces]
    assert len(pieces) == len(known.ids([word]))
    if "▁" in word:
        assert known.ids([word])[1:] == [Vocabulary.UNKNOWN]


def test_words_come_back_from_pieces_that_are_not_theirs() -> None:
    assert KNOWN.join(["▁", "▁la", "m", "▁r", "ue", "▁"]) == ("lam", "rue")
    assert KNOWN.join(["la", "▁la"]) == ("la", "la")
    assert KNOWN.join([]) == ()


def test_the_same_counts_in_another_order_give_the_same_pieces() -> None:
    turned = dict(reversed(COUNTS.items()))
    assert SubwordVocabulary.from_counts(turned, 40) == KNOWN
    assert SubwordVocabulary.from_counts(COUNTS, 41) != KNOWN
    assert Vocabulary(PIECES) != KNOWN


def test_saved_and_loaded_they_split_alike(tmp_path: Path) -> None:
    KNOWN.save(tmp_path / "target.vocab")
    assert model_path(tmp_path / "target.vocab") == tmp_path / "target.spm"
    loaded = load_vocabulary(tmp_path / "target.vocab")
    assert loaded == KNOWN
    assert loaded.ids(["rustig", "maisonx"]) == KNOWN.ids(["rustig", "maisonx"])
    (tmp_path / "target.spm").unlink()
    plain = load_vocabulary(tmp_path / "target.vocab")
    assert plain == Vocabulary(PIECES)
    assert plain.ids(["la", "▁la"]) == [1, KNOWN.ids(["la"])[0]]


@pytest.mark.parametrize(
    "content",
    [
        b"\n\n\n\3abc\x15\0\0\0\0\n\n\n\3\xff\xfe\xfd\x15\0\0\0\0",
        b"",
        b"\n\x0e\n\x05<unk",
        b"# phrasescore vocabulary",
    ],
)
def test_a_file_that_is_no_model_of_sentencepiece_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    KNOWN.save(tmp_path / "target.vocab")
    (tmp_path / "target.spm").write_bytes(content)
    with pytest.raises(DataError, match=r"target.spm: expected a sentencepiece model"):
        load_vocabulary(tmp_path / "target.vocab")


def test_a_model_of_other_pieces_is_refused(tmp_path: Path) -> None:
    reference_subwords.vocabulary(30).save(tmp_path / "source.vocab")
    spm = (tmp_path / "source.spm").read_bytes()
    KNOWN.save(tmp_path / "source.vocab")
    (tmp_path / "source.spm").write_bytes(spm)
    with pytest.raises(DataError, match=r"expected the sentencepiece model for source.vocab"):
        load_vocabulary(tmp_path / "source.vocab")


def test_fewer_pieces_than_characters_are_refused() -> None:
    characters = len(set("".join(COUNTS)) | {"▁"})
    with pytest.raises(PhrasescoreError, match=f"{characters} different characters"):
        SubwordVocabulary.from_counts(COUNTS, characters - 1)
    assert len(SubwordVocabulary.from_counts(COUNTS, characters)) == characters + 2
    with pytest.raises(PhrasescoreError, match="no words to learn them from"):
        SubwordVocabulary.from_counts({}, 10)
