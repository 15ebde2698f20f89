"""A system that translates for ever does not keep every word that it has seen."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from moses_integration.decoder.options import PhraseOptions
from phrasescore.settings.compute import Compute
from phrasescore.systems.ranking import Translation
from phrasescore.systems.translator import load_system
from tests.doubles import RandomCslm
from tests.phrasescore.workflows.serve.server import PLAIN, write_system

WEIGHTS = "WordPenalty0= -0.5\nTM0= 1 0\nDistortion0= 1\nLM0= 0.5\nCSLM0= 1\n"
# Unknown words between words of the table, so that numbers would be mixed up.
SENTENCES = [f"la x{number} maison y{number} bleue maison x{number // 2}" for number in range(12)]


@pytest.mark.timeout(600)  # may compile the search
def test_forgotten_words_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_system(tmp_path)
    RandomCslm(["the", "house", "x3"], order=3, path=tmp_path / "cslm")
    (tmp_path / "weights").write_text(WEIGHTS)
    system = tmp_path / "cslm.toml"
    system.write_text(f'{PLAIN}weights = "weights"\nsearch_models = ["cslm"]\n')
    lengths: list[int] = []
    read = PhraseOptions._read

    def measure(self: PhraseOptions, phrases: Sequence[bytes]) -> None:
        lengths.append(len(self._numbers.words))
        read(self, phrases)

    monkeypatch.setattr(PhraseOptions, "_read", measure)

    def translate() -> list[Translation]:
        lengths.clear()
        with load_system(system, compute=Compute(workers=1, device="cpu")) as loaded:
            return list(loaded.translate(SENTENCES, nbest=3, explain=True))

    expected = translate()
    assert max(lengths) > 20
    monkeypatch.setattr("moses_integration.decoder.options._MOST_WORDS", 4)
    assert translate() == expected
    assert max(lengths) <= 6 + 4
