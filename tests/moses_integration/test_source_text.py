"""Phrases are found in texts if they are consecutive words of a sentence, and only then."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.phrase_tables import TableLines, keys_of
from moses_integration.nbest import read_nbest
from moses_integration.phrase_table import read_phrase_table
from moses_integration.source_text import TextPhrases, keys_of_sentences, read_source
from phrasescore.errors import DataError
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.records import join_words, split_words, to_words

# All that divide words for KenLM: NUL for lmplz (lm/builder/corpus_count.cc), VT and FF for query
# (kSpaces in util/file_piece.cc) and the Python module, the others for all of them.
BLANKS = "\0\t\v\f\r "
OTHERS = [chr(code) for code in range(1, 0x120) if chr(code) not in f"{BLANKS}\n|"]
OTHERS += ["\u2003", "\u2028", "\u3000", "\ufeff", "\U0001f600"]


@pytest.mark.parametrize("between", [*BLANKS, *OTHERS], ids=ascii)
def test_all_readers_divide_words_at_the_same_characters(between: str, tmp_path: Path) -> None:
    text = f"a{between}b"
    words = ("a", "b") if between in BLANKS else (text,)
    path = tmp_path / "file"

    def written(line: str) -> str:
        path.write_bytes(f"{line}\n".encode())
        return str(path)

    assert split_words(text) == to_words(text) == words
    assert join_words(text.encode()).decode() == " ".join(words)
    assert [line.words for line in read_monolingual_text(written(text))] == [words]
    assert read_source(written(text)) == [words]
    (line,) = read_phrase_table(written(f"{text} ||| {text} ||| 1"))
    assert line.pair == (words, words)
    assert len(list(TableLines(str(path), 1).find(keys_of_sentences([words], 2)))) == 1
    phrase = " ".join(words).encode()
    assert (
        len(list(TableLines(str(path), 2).find(keys_of([b"%b|||%b" % (phrase, phrase)], 2)))) == 1
    )
    (hypotheses,) = read_nbest(written(f"0 ||| {text} ||| LM0= 1 ||| 1"))
    assert hypotheses.words(0) == words
    assert hypotheses.hypothesis(0) == f" {text} ".encode()


def found(phrases: TextPhrases, wanted: Sequence[str]) -> list[bool]:
    text, places = b"before", []
    for phrase in wanted:
        text += b"x"
        places.append((len(text), len(text) + len(phrase.encode())))
        text += phrase.encode() + b" ||| "
    return phrases.contain(text, np.array(places, np.int64).reshape(-1, 2)).tolist()


@pytest.mark.parametrize(
    ("phrase", "occurs"),
    [
        ("la", True),
        ("la maison", True),
        ("la maison bleue", True),
        ("l'été", True),
        ("maison bleue l'été", False),
        ("la bleue", False),
        ("mais", False),
        ("aison", False),
        ("la mais", False),
        ("a", False),
        ("la  maison", False),
        ("LA", False),
        ("été", False),
        ("bleue\nl'été", False),
        ("maison bleue ", False),
    ],
)
def test_a_phrase_is_words_side_by_side_in_one_sentence(phrase: str, occurs: bool) -> None:
    phrases = TextPhrases([("la", "maison", "bleue"), (), ("l'été",)])
    assert found(phrases, [phrase]) == [occurs]


def test_all_phrases_of_random_texts_are_found_and_no_others() -> None:
    generator = random.Random(1)
    words = ["a", "b", "ab", "ba", "é"]

    def sentence(most: int) -> list[str]:
        return generator.choices(words, k=generator.randint(1, most))

    sentences = [sentence(12) for _ in range(40)]
    known = {
        " ".join(each[begin:end])
        for each in sentences
        for begin in range(len(each))
        for end in range(begin + 1, len(each) + 1)
    }
    wanted = [" ".join(sentence(9)) for _ in range(3000)] + sorted(known)
    expected = [phrase in known for phrase in wanted]
    assert 500 < sum(expected) < len(wanted) - 500
    assert found(TextPhrases(sentences), wanted) == expected


def test_phrases_may_be_longer_than_is_usual() -> None:
    sentence = [str(number) for number in range(20)]
    phrases = TextPhrases([["19", "20"], sentence, ["20"]])
    wanted = [" ".join(sentence[:length]) for length in (1, 7, 8, 20)]
    assert found(phrases, wanted) == [True] * 4
    others = ["20", "1", "19 20"]  # after the sentence: another one, a part of a word
    assert found(phrases, [" ".join([*sentence, each]) for each in others]) == [False] * 3
    assert found(phrases, [" ".join(sentence[:8]) + "0", " ".join(sentence[:8])[1:]]) == [False] * 2


def test_no_phrases_and_no_sentences_are_no_error() -> None:
    assert found(TextPhrases([("a",)]), []) == []
    assert found(TextPhrases([]), ["a"]) == [False]


def test_texts_are_read_as_a_search_reads_them(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b" the\thouse  is \r\n\nblue\n")
    (tmp_path / "two").write_bytes(b"a house")
    phrases = TextPhrases.read([str(tmp_path / "one"), str(tmp_path / "two")])
    assert phrases.text == b"the house is\nblue\na house\n"
    (tmp_path / "two").write_bytes(b"\n \n")
    with pytest.raises(DataError, match="two: expected a tokenised text, found no word"):
        TextPhrases.read([str(tmp_path / "one"), str(tmp_path / "two")])
    (tmp_path / "two").write_bytes(b"a\nthe|DT house\n")
    with pytest.raises(DataError, match="two:2: expected words without factors"):
        TextPhrases.read([str(tmp_path / "two")])
