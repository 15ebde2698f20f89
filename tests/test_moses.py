"""Real Moses reads what annotate writes. Needs ``moses`` on the PATH; run with ``-m moses``."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from phrasescore.cli import main
from tests.doubles import RandomModel

pytestmark = pytest.mark.moses


def translate(folder: Path, ini: Path, text: str) -> str:
    moses = shutil.which("moses")
    if moses is None:
        pytest.skip("needs moses on the PATH")
    command = [moses, "-f", str(ini), "-threads", "1", "-v", "0"]
    result = subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    return result.stdout


def test_translations_stay_the_same_at_weight_0_and_change_with_the_weight(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = repository / "examples" / "english-french"
    model = RandomModel(tmp_path / "model", ["the", "a", "is"], ["le", "la", "un", "une", "est"])
    monkeypatch.chdir(example)
    table, ini = tmp_path / "table.gz", tmp_path / "moses.ini"
    options = ["--model", str(model.path), "--feature", "unknown_words", "-o", str(table)]
    inis = ["--moses-ini", "moses.ini", "--moses-ini-out", str(ini)]
    result = CliRunner().invoke(main, ["annotate", "phrase-table.gz", *options, *inis])
    assert result.exit_code == 0, result.output
    text = "".join((example / "dev.en").read_text("utf-8").splitlines(keepends=True)[:40])
    before = translate(example, Path("moses.ini"), text)
    assert before.count("\n") == 40
    assert translate(example, ini, text) == before
    heavy = tmp_path / "heavy.ini"
    heavy.write_text(ini.read_text().replace(" 0 0\n", " 0.5 -1\n"))
    assert heavy.read_text() != ini.read_text()
    assert translate(example, heavy, text) != before
