"""References that cannot be those of the lists are warned of, and bad translations are not."""

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from phrasescore.cli.reference_check import doubt

EXAMPLE = Path(__file__).parents[3] / "examples" / "english-french"


WHAT = "the first hypotheses"


def words(name: str) -> list[list[str]]:
    return [line.split() for line in (EXAMPLE / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def translations() -> list[list[str]]:
    """Real Moses' own choices for the dev set."""
    lists = read_nbest(str(EXAMPLE / "dev.20best.gz"))
    return [list(next(iter(found.distinct().values()))) for found in lists]


def test_real_references_raise_no_doubt(translations: list[list[str]]) -> None:
    assert doubt([words("dev.fr")], translations, WHAT) is None
    # The second set alone would.
    assert doubt([words("dev.fr"), words("dev.en")], translations, WHAT) is None


def test_a_system_that_knows_one_word_of_seven_raises_none(translations: list[list[str]]) -> None:
    numbers = random.Random(1)
    for order in (False, True):
        bad = [
            [word if numbers.random() < 1 / 7 else f"x{numbers.randrange(999)}" for word in line]
            for line in translations
        ]
        if order:
            bad = [numbers.sample(line, len(line)) for line in bad]
        assert doubt([words("dev.fr")], bad, WHAT) is None


def test_another_language_raises_doubt(translations: list[list[str]]) -> None:
    found = doubt([words("dev.en")], translations, WHAT)
    # Counted by words that both have, the rarer count of each: names, "." and "!".
    own = sum(
        min(line.count(word), reference.count(word))
        for line, reference in zip(translations, words("dev.en"), strict=True)
        for word in set(line)
    )
    assert found is not None
    assert f"have BLEU 0.00, {own:,} words in common with their references" in found
    assert "in the language of the translations" in found


@pytest.mark.parametrize("place", [1, 250, 499])
def test_references_that_are_shifted_raise_doubt(translations: list[list[str]], place: int) -> None:
    references = words("dev.fr")
    found = doubt([references[place:] + references[:place]], translations, WHAT)
    assert found is not None
    assert "of the same text in the same order" in found


def test_shuffled_references_raise_doubt(translations: list[list[str]]) -> None:
    for seed in range(5):
        references = words("dev.fr")
        random.Random(seed).shuffle(references)
        assert doubt([references], translations, WHAT) is not None


def test_nothing_in_common_raises_doubt_and_few_sentences_do_not() -> None:
    assert doubt([[["a", "c"]] * 10], [["b"]] * 10, WHAT) is not None
    assert doubt([[["a", "c"]] * 9], [["b"]] * 9, WHAT) is None


def test_text_that_is_not_split_into_words_raises_none(translations: list[list[str]]) -> None:
    joined = [["".join(["x", *line])] for line in translations]
    assert doubt([[["".join(line)] for line in words("dev.fr")]], joined, WHAT) is None


def test_a_source_with_several_references_beside_each_other_raises_none(
    translations: list[list[str]],
) -> None:
    references = [line for line in words("dev.fr") for _ in range(5)]
    hypotheses = [line for line in translations for _ in range(5)]
    assert doubt([references], hypotheses, WHAT) is None


def test_little_in_common_is_enough_where_few_sentences_have_no_bleu() -> None:
    # Three words in common with the own reference, two with any other; no 4-gram, and so no BLEU.
    for num, is_doubted in ((99, False), (100, True)):
        hypotheses = [[f"w{number}", "the", "a"] for number in range(num)]
        references = [["the", "a", f"w{number}"] for number in range(num)]
        assert (doubt([references], hypotheses, WHAT) is not None) is is_doubted


def test_of_many_sentences_the_first_2000_are_looked_at() -> None:
    # All together would have about as much in common with others' references.
    texts = [[f"{letter}{number}" for letter in "abcd"] for number in range(2000)]
    assert doubt([texts + [list("abcd")] * 40_000], texts + [list("abcd")] * 40_000, WHAT) is None
    assert doubt([[list("abcd")] * 2000], [list("abcd")] * 2000, WHAT) is not None


def test_evaluate_warns_of_another_text_and_of_references_that_are_not_there(
    tmp_path: Path,
) -> None:
    right = [" ".join(f"w{number}{letter}" for letter in "abcd") for number in range(12)]
    wrong = right[1:] + right[:1]
    for name, lines in (("right", right), ("wrong", wrong), ("holes", ["", *right[1:-1], ""])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    systems = [str(tmp_path / name) for name in ("right", "wrong")]
    for references, expected in (
        (("right",), [f"{tmp_path}/wrong: the translations have BLEU 0.00"]),
        (("holes", "right"), [f"{tmp_path}/wrong: the translations have BLEU 0.00"]),
        (
            ("holes",),
            [
                f"{tmp_path}/holes: 2 lines are empty: no reference is there",
                f"{tmp_path}/wrong: the translations have BLEU 0.00",
            ],
        ),
    ):
        options = [f"--references={tmp_path / name}" for name in references]
        result = CliRunner().invoke(main, ["evaluate", *systems, *options])
        assert result.exit_code == 0
        found = [line for line in result.stderr.splitlines() if "warning: " in line]
        assert len(found) == len(expected)
        for line, start in zip(found, expected, strict=True):
            assert line.startswith(f"phrasescore: warning: {start}")
