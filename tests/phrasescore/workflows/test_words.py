"""What divides words is the same for all verbs: a text has no unknown word for its own model."""

import random
from pathlib import Path

import kenlm
import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.evaluation.sentences import read_text

BLANKS = ["\0", "\t", "\v", "\f", "\r", "  ", "\t \r", *[" "] * 8]
ODD = ["\u00a0", "\u3000", "\x1c", "\x85", "\u2028", *[""] * 20]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_perplexity_of_a_text_with_all_blanks_is_kenlm_s() -> None:
    numbers = random.Random(5)
    lines = [
        "".join(
            numbers.choice("abcdefg") + numbers.choice(ODD) + numbers.choice(BLANKS)
            for _ in range(numbers.randrange(9))
        )
        for _ in range(300)
    ]
    Path("text").write_bytes("".join(f"{line}\n" for line in lines).encode())
    settings = phrasescore.Estimating(order=3, discount_fallback=True)
    phrasescore.build_lm(["text"], "lm.arpa", settings=settings)
    (text,) = phrasescore.perplexity(["text"], lm="lm.arpa")
    found = text.models["lm.arpa"]
    model = kenlm.Model("lm.arpa")
    # The module divides at all blanks but NUL, at which lmplz divides.
    scores = [each for line in lines for each in model.full_scores(line.replace("\0", " "))]
    assert found.tokens == len(scores)
    assert found.unknown == sum(unknown for *_, unknown in scores) == 0
    expected = 10 ** -(sum(score for score, *_ in scores) / len(scores))
    assert found.including_unknown == pytest.approx(expected, rel=1e-5)


def test_texts_in_memory_have_no_byte_order_mark_and_errors_name_the_sentence() -> None:
    given = ["\ufeffla\tmaison", ["\ufeffle", "chat"], "\ufeff"]
    found = read_text(given, "texts")
    assert found.words == [("la", "maison"), ("le", "chat"), ()]
    assert found.texts == ["la\tmaison", "le chat", ""]
    wrong = {"\udce9t\udce9": "byte 0xe9", "a \ud800": "the lone surrogate U\\+D800"}
    for text, problem in wrong.items():
        for sentence in (text, text.split(" ")):
            with pytest.raises(
                ArgumentError, match=rf"texts\[1\]: expected UTF-8, found {problem}"
            ):
                read_text(["la maison", sentence], "texts")
