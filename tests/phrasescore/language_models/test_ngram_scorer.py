"""N-gram models of the library: which files they are read from, and their words."""

from pathlib import Path

import pytest

from phrasescore.language_models.ngram_scorer import load_ngrams
from tests.command_line import check_refusal, run


@pytest.mark.parametrize(
    "words",
    [
        ["score", "text", "text", "--lm", "one"],
        ["perplexity", "text", "--lm", "one"],
        ["select", "text", "--in-domain", "one", "--general", "other", "--lines", "1"],
    ],
    ids=lambda words: words[0],
)
def test_a_binary_file_of_kenlm_is_refused_with_the_cure(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("la maison\n")
    for name in ("one", "other"):
        Path(name).write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    cure = "this is a binary model of KenLM: use the ARPA file it was built from"
    check_refusal(run(*words), cure)


def test_the_words_outside_a_shortlist_are_all_others_once(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    words = ["<s>", "</s>", "<unk>", "<UNK>", " a\v", "b", "b", "c"]
    lines = [f"-1\t{word}\t-0.5\r" for word in words]
    head = ["\\data\\", "ngram 1=8", "", "\\1-grams:"]
    path.write_bytes("\n".join([*head, *lines, "\\end\\", ""]).encode())
    model = load_ngrams(str(path))
    outside = model.others(model.number(["</s>", "c"]))
    assert sorted(outside) == sorted(model.number(["<unk>", "a\v", "b"]))
