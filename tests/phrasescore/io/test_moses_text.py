"""Moses' tokens, against what Moses' scripts wrote; tests/data/README.md names the scripts."""

import json
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import DataError
from phrasescore.io.moses_text import load_tokenizer, load_truecaser, train_truecaser

DATA = Path(__file__).parents[2] / "data/moses-text.json"


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(DATA.read_text())


def test_words_are_those_of_tokenizer_perl(golden: Any) -> None:
    assert len(golden["tokens"]) > 30
    for language, line, words in golden["tokens"]:
        assert (line, load_tokenizer(language)(line)) == (line, words.split())


def test_signs_of_indic_scripts_stay_in_their_words() -> None:
    # Not as tokenizer.perl, for which the sign that joins consonants is a mark: four words.
    assert load_tokenizer("hi")("हिन्दी है.") == ["हिन्दी", "है", "."]


def test_a_truecaser_is_that_of_train_truecaser_perl(golden: Any) -> None:
    lines = train_truecaser(line.split(" ") for line in golden["corpus"])
    assert sorted(line.decode().rstrip("\n") for line in lines) == sorted(golden["model"])


def test_of_equally_frequent_forms_the_first_one_is_the_usual_one() -> None:
    lines = train_truecaser([["x", "US", "us"], ["x", "us", "US"], ["x", "Us"]])
    assert list(lines) == [b"US (2/5) us (2) Us (1)\n"]


def test_words_are_truecased_as_by_truecase_perl(golden: Any, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.write_text("".join(f"{line}\n" for line in golden["model"]))
    truecase = load_truecaser(str(model))
    for line, cased in golden["truecased"]:
        assert " ".join(truecase(line.split(" "))) == cased


def test_words_with_unicode_s_blanks_are_words_of_a_truecaser(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.write_bytes(b"".join(train_truecaser([["x", "a\u00a0B"]])))
    assert load_truecaser(str(model))(["x", "A\u00a0b", "A"]) == ["x", "a\u00a0B", "A"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"la (9/9) x\n", "a model from Moses' train-truecaser.perl, such as"),
        (b"la (x/9) Il eaking\n", "a model from Moses' train-truecaser.perl, such as"),
        (b"la\xff (9/9)\n", "UTF-8, found byte 0xff"),
    ],
)
def test_a_damaged_truecaser_is_refused(tmp_path: Path, line: bytes, problem: str) -> None:
    (tmp_path / "case.en").write_bytes(b"Le (9/9)\n" + line)
    with pytest.raises(DataError, match=f"case.en:2: expected {problem}"):
        load_truecaser(str(tmp_path / "case.en"))
