"""What the page of ``phrasescore serve`` says about a system that is not loaded."""

import gzip
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from phrasescore.evaluation.systems_table import TABLE
from phrasescore.systems.system import read_system
from phrasescore.workflows.serve.page import ServedSystem
from tests.phrasescore.workflows.serve.server import PLAIN, write_system

EXPERIMENT = 'metric = "bleu"\n[[row]]\nname = "A"\n[[text]]\nname = "dev"\ntuned = true\n'


def facts_of(folder: Path, rules: str = "") -> dict[str, Any]:
    (folder / "plain.toml").write_text(f"{PLAIN}[text]\n{rules}")
    page, _ = ServedSystem.of(read_system(folder / "plain.toml")).render()
    (found,) = re.findall('data-system="(.*?)">', page.decode())
    return dict(json.loads(unescape(found)))


def test_the_page_says_which_text_is_expected_and_has_an_example(tmp_path: Path) -> None:
    row = tmp_path / "A" / "seed1"
    row.mkdir(parents=True)
    write_system(row)
    expected = "Words and punctuation apart, in the casing of the system."
    facts = {"languages": [None, None], "expected": expected, "example": "", "isCalibrated": False}
    assert facts_of(row) == facts
    facts = facts_of(row, 'tokenize = "en ha"\nlowercase = true\n')
    assert facts["languages"] == ["en", "ha"]
    assert facts["expected"] == "Ordinary text; the system tokenises and lower-cases it."
    sentence = 'A <b>"sentence" {{ style }} of about as many words as a reader likes .'
    text = f"{sentence.replace('words', '&quot;')}\nshort\n{sentence}\n"
    (row / "corpus.source.gz").write_bytes(gzip.compress(text.encode()))
    assert facts_of(row)["example"] == sentence
    (tmp_path / TABLE).write_text(f'{EXPERIMENT}source = "dev.en"\n')
    assert facts_of(row)["example"] == ""  # dev is gone
    (tmp_path / "dev.en").write_text("This is the sentence of dev.\n")
    assert facts_of(row)["example"] == "This is the sentence of dev."
