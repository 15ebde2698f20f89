"""N-gram models with and without kenlm, which has to be compiled."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.language_models.kenlm_scorer import MISSING, import_kenlm
from phrasescore.language_models.ngram_scorer import load_ngrams, read_ngram_order
from tests.command_line import run
from tests.tiny_arpa import TINY_ARPA

VERBS = [
    ["score", "text", "text", "--lm", "one", "-o", "output"],
    ["perplexity", "text", "--lm", "one"],
    ["select", "text", "--in-domain", "one", "--general", "other", "--lines", "1", "-o", "output"],
]


@pytest.fixture(name="folder")
def without_kenlm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "kenlm", None)
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("la maison\n")
    return tmp_path


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_binary_file_without_kenlm_is_refused_in_one_line(
    words: list[str], folder: Path, repository: Path
) -> None:
    for name in ("one", "other"):
        shutil.copy(repository / "tests" / "data" / "tiny.trie.kenlm", name)
    done = run(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"Error: {MISSING}\n")
    assert not (folder / "output").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_arpa_files_are_read_without_kenlm(words: list[str]) -> None:
    for name in ("one", "other"):
        Path(name).write_text(TINY_ARPA)
    assert run("-q", *words).exit_code == 0


def test_the_order_of_either_format_is_read(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "lm").write_text(TINY_ARPA)
    assert read_ngram_order(str(tmp_path / "lm")) == 2
    assert read_ngram_order(str(repository / "tests" / "data" / "tiny.probing.kenlm")) == 2


def test_a_kenlm_that_cannot_be_loaded_is_told_from_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kenlm.py").write_text("raise ImportError('libstdc++.so.6: not found')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kenlm", raising=False)
    with pytest.raises(PhrasescoreError, match=r"kenlm cannot be loaded: libstdc\+\+.so.6"):
        import_kenlm()


def test_the_page_on_installing_quotes_the_message(repository: Path) -> None:
    page = (repository / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"Error: {MISSING}\n" in page


def test_the_words_outside_a_shortlist_are_all_others_once(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    words = ["<s>", "</s>", "<unk>", "<UNK>", " a\v", "b", "b", "c"]
    lines = [f"-1\t{word}\t-0.5\r" for word in words]
    head = ["\\data\\", "ngram 1=8", "", "\\1-grams:"]
    path.write_bytes("\n".join([*head, *lines, "\\end\\", ""]).encode())
    model: Any = load_ngrams(str(path))
    outside = model.others(model.number(["</s>", "c"]))
    assert sorted(outside) == sorted(model.number(["<unk>", "a\v", "b"]))
