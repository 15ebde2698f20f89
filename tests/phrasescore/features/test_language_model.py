"""N-gram models as a feature: sums by hand, KenLM's binary files, and files that are no models."""

import gzip
import math
from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.features.language_model import LanguageModelScore
from phrasescore.records import PhrasePair
from tests.feature_values import scored, values_of
from tests.tiny_arpa import TINY_ARPA


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(TINY_ARPA)
    return path


def scores(path: Path, *targets: str) -> list[float]:
    pairs = [PhrasePair(("x",), tuple(t for t in text.split(" ") if t)) for text in targets]
    return [value / math.log(10) for value in values_of(LanguageModelScore(str(path)), pairs)]


def test_sums_by_hand_with_back_off_unknown_words_and_the_end(arpa: Path) -> None:
    texts = ["la maison", "", "maison la", "la rare", "rare"]
    expected = [
        -0.2 - 0.3 - 0.4,
        -0.25 - 1,
        # Backed off: <s>, maison, la.
        (-0.25 - 0.75) + (-0.375 - 0.5) + (-0.125 - 1),
        -0.2 + (-0.125 - 2.5) - 1,
        (-0.25 - 2.5) - 1,
    ]
    assert scores(arpa, *texts) == pytest.approx(expected, rel=1e-6)


def test_the_source_does_not_count_and_the_end_says_what_was_done(arpa: Path) -> None:
    feature = LanguageModelScore(str(arpa))
    (first, second), said = scored(
        feature, [PhrasePair((), ("la", "é")), PhrasePair(("a", "b"), ("la", "é"))]
    )
    assert first == second
    assert said == "2 words unknown to a 2-gram model"


def test_a_space_of_unicode_does_not_divide_a_word(arpa: Path) -> None:
    assert scores(arpa, "la\u00a0maison") == scores(arpa, "rare")


def test_gzip_is_read(arpa: Path, tmp_path: Path) -> None:
    packed = tmp_path / "lm.arpa.gz"
    packed.write_bytes(gzip.compress(arpa.read_bytes()))
    assert scores(packed, "la maison") == scores(arpa, "la maison")


def test_a_score_that_is_no_number_is_refused(arpa: Path) -> None:
    arpa.write_text(TINY_ARPA.replace("-0.3\tla maison", "-1e39\tla maison"))  # -inf in float32
    with pytest.raises(DataError, match=r"lm\.arpa: the log10 probability of 'maison' is -inf"):
        scores(arpa, "la maison")


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_a_binary_of_kenlm_has_the_values_of_its_arpa_file(
    arpa: Path, repository: Path, kind: str
) -> None:
    texts = ["la maison", "", "maison la", "la rare", "rare", "la\u00a0maison"]
    binary = repository / "tests/data" / f"tiny.{kind}.kenlm"
    assert scores(binary, *texts) == pytest.approx(scores(arpa, *texts), abs=1e-6)


def test_a_damaged_binary_is_one_line_with_the_reason(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "lm"
    path.write_bytes((repository / "tests/data" / "tiny.trie.kenlm").read_bytes()[:90])
    with pytest.raises(DataError) as caught:
        LanguageModelScore(str(path))
    assert str(caught.value).startswith(f"{path}: KenLM cannot load this binary file: ")
    assert "\n" not in str(caught.value)


def test_a_model_of_a_higher_order_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    counts = "".join(f"ngram {n}=1\n" for n in range(1, 41))
    path.write_text(f"\\data\\\n{counts}\n\\1-grams:\n")
    with pytest.raises(DataError, match="expected counts for 1 to 16 orders, found 40"):
        LanguageModelScore(str(path))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"hello\n", r":1: expected an ARPA file, which begins with \data\, found 'hello'"),
        (b"", r":1: expected an ARPA file, which begins with \data\, found ''"),
        (TINY_ARPA[:60].encode(), ": expected "),
        (TINY_ARPA.replace("-0.75\tm", "x\tm").encode(), ":11: expected numbers"),
        (b"\\data\\\nngram \xff1=57\n", r":2: expected 'ngram 1=COUNT', found 'ngram \\xff1=57'"),
        (b"\\data\\\nngram 1=" + b"9" * 5000, ":2: expected 'ngram 1=COUNT'"),
        (TINY_ARPA.encode().replace(b"maison", b"mais\xff"), ":11: expected UTF-8, found byte"),
        (gzip.compress(TINY_ARPA.encode() * 9, mtime=0)[:90], "the gzip data end too early"),
    ],
)
def test_what_is_no_model_is_one_line_with_its_number(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    path = tmp_path / "lm"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        LanguageModelScore(str(path))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert problem in message
    assert "\n" not in message
    assert len(message) < 800


@pytest.mark.parametrize("name", ["nothing", "-", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = name if name == "-" else str(tmp_path / name)
    with pytest.raises(DataError, match=r"expected a file|cannot open"):
        LanguageModelScore(path)
