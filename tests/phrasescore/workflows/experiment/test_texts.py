"""The texts of a new experiment, prepared as the system's own text."""

from pathlib import Path

import pytest

from phrasescore.systems.text import TextProcessing
from phrasescore.workflows.experiment.texts import SystemText


@pytest.mark.parametrize(("keeps", "words"), [(False, "see us us\n"), (True, "see US us\n")])
def test_texts_are_truecased_as_the_training_text_was(
    tmp_path: Path, keeps: bool, words: str
) -> None:
    (tmp_path / "case").write_text("us (5/7) US (2)\n")
    table = tmp_path / "phrase-table"
    table.write_text("".join(f"{word} ||| {word} ||| 1\n" for word in ("US", "see", "us")))
    text = tmp_path / "text"
    text.write_text("see US us\n")
    case = tmp_path / "case"
    rules = TextProcessing("", False, case, case, changes_known_case=not keeps)
    system = SystemText(rules, False, table)
    written = system.prepare({"train": (text, text), "dev": (text, text)}, tmp_path / "new")
    assert [path.read_text() for path in written["dev"]] == [words, words]
