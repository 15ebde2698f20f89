"""What is said where kenlm, which has to be compiled, is missing."""

import sys
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.language_models.kenlm_model import MISSING, _outside, import_kenlm
from tests.command_line import run


@pytest.mark.parametrize(
    "words",
    [
        ["score", "text", "text", "--lm", "model.arpa"],
        ["perplexity", "text", "--lm", "model.arpa"],
        ["select", "text", "--in-domain", "model.arpa", "--general", "other.arpa", "--lines", "1"],
    ],
)
def test_who_needs_kenlm_says_so_in_one_line_where_it_is_missing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)
    monkeypatch.chdir(tmp_path)
    for name in ("text", "model.arpa", "other.arpa"):
        Path(name).write_text("a b\n")
    output = [] if words[0] == "perplexity" else ["-o", "output"]
    done = run(*words, *output)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"Error: {MISSING}\n")
    assert not Path("output").exists()


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


def test_a_word_that_an_arpa_file_has_twice_is_summed_once(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    words = ["<s>", "</s>", "<unk>", "<UNK>", " a\v", "b", "b", "c"]
    lines = [f"-1\t{word}\t-0.5\r" for word in words]
    path.write_bytes("\n".join(["\\data\\", "", "\\1-grams:", *lines, "\\2-grams:"]).encode())
    assert _outside(str(path), {"</s>", "c"}) == ["<unk>", "a\v", "b"]
