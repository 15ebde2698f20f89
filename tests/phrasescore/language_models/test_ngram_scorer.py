"""The n-gram models of features, perplexities and data selection."""

from pathlib import Path

import pytest

from phrasescore.language_models.ngram_scorer import NgramScorer
from tests.command_line import run

VERBS = [
    ["score", "text", "text", "--lm", "one", "-o", "output"],
    ["perplexity", "text", "--lm", "one"],
    ["select", "text", "--in-domain", "one", "--general", "other", "--lines", "1", "-o", "output"],
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_binary_file_of_kenlm_is_refused_with_the_cure(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("la maison\n")
    for name in ("one", "other"):
        Path(name).write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    done = run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "binary model of KenLM: use the ARPA file it was built from\n" in done.stderr
    assert not Path("output").exists()


def test_the_words_outside_a_shortlist_are_all_others_once(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    words = ["<s>", "</s>", "<unk>", "<UNK>", " a\v", "b", "b", "c"]
    lines = [f"-1\t{word}\t-0.5\r" for word in words]
    head = ["\\data\\", "ngram 1=8", "", "\\1-grams:"]
    path.write_bytes("\n".join([*head, *lines, "\\end\\", ""]).encode())
    model = NgramScorer(str(path))
    outside = model.others(model.number(["</s>", "c"]))
    assert sorted(outside) == sorted(model.number(["<unk>", "a\v", "b"]))
