"""``phrasescore build-lm``: texts, options, and what is refused."""

from pathlib import Path

import pytest

from tests.command_line import check_refusal, run, succeeded

TEXT = "a b c\na b c\na b d\n\na b\nb a nul d\nc a\nd d\nc\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)
    return tmp_path


def test_several_texts_are_one_and_white_space_separates_words_as_in_lmplz() -> None:
    options = ("--order", "2", "--discount-fallback")
    whole = succeeded(run("build-lm", "text", *options)).stdout
    lines = TEXT.splitlines(keepends=True)
    Path("first").write_text("".join(lines[:3]).replace("a b", " a\t b\r"))
    Path("rest").write_text("".join(lines[3:]).rstrip("\n"))
    assert succeeded(run("build-lm", "first", "rest", *options)).stdout == whole


def test_prune_has_a_number_per_order() -> None:
    options = ("--order", "3", "--discount-fallback", "--prune")
    heads = [
        succeeded(run("build-lm", "text", *options, prune)).stdout.split("\n\n")[0].split("\n")[1:]
        for prune in ("0", "0 1", "1", "0 0 2")
    ]
    # By hand: "a b" 4, "<s> a" 4, "b c" 2, "c </s>" 3, "d </s>" 3, "<s> c" 2; "<s> a b" 4,
    # "a b c" 2, "b c </s>" 2; nul is the only word that occurs once.
    assert heads[1] == ["ngram 1=8", "ngram 2=6", "ngram 3=3"]
    assert heads[2] == ["ngram 1=7", "ngram 2=6", "ngram 3=3"]
    assert heads[3] == [*heads[0][:2], "ngram 3=1"]


@pytest.mark.parametrize("word", ["<s>", "</s>", "<unk>"])
def test_symbols_in_the_text_are_refused(word: str) -> None:
    Path("text").write_text(f"a b\na {word} b\n")
    check_refusal(run("build-lm", "text", "-o", "lm"), "text:2: expected text without <")
    assert not Path("lm").exists()


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_text_without_words_is_refused(text: str) -> None:
    Path("empty").write_text(text)
    check_refusal(run("build-lm", "text", "empty"), "empty: expected a tokenised text, found no")


def test_a_model_that_cannot_be_estimated_is_refused_and_leaves_no_file(folder: Path) -> None:
    result = run("build-lm", "text", "--order", "4", "-o", "lm.gz")
    check_refusal(result, "--discount-fallback uses fixed discounts instead")
    assert sorted(path.name for path in folder.iterdir()) == ["text"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--order 0", "--order: expected a number from 1 to 10, got 0"),
        ("--prune x", "'--prune': expected whole numbers separated by spaces, got 'x'"),
        ("--prune -1", "--prune: expected at least 0, got -1"),
    ],
)
def test_wrong_options_are_usage_errors(options: str, problem: str) -> None:
    check_refusal(run("build-lm", "text", *options.split()), problem, 2)


@pytest.mark.parametrize(
    ("prune", "problem"),
    [
        ("0 2 1", "--prune: expected numbers that do not decrease, got '0 2 1'"),
        ("0 0 0 1", "--prune: expected at most one number per order (--order 3), got 4"),
    ],
)
def test_wrong_thresholds_are_usage_errors(prune: str, problem: str) -> None:
    check_refusal(run("build-lm", "text", "--order", "3", "--prune", prune), problem, 2)
