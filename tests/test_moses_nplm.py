"""Real Moses scores with what export writes. Needs a ``moses`` with NPLM; run with ``-m moses``."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from tests.doubles import RandomCslm

pytestmark = pytest.mark.moses

SENTENCES = 20


def run(*arguments: object) -> None:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def translate(ini: Path, text: str, *options: object) -> str:
    moses = shutil.which("moses")
    if moses is None:
        pytest.skip("needs moses on the PATH")
    command = [moses, "-f", str(ini), "-threads", "1", "-v", "0", *map(str, options)]
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    if "Feature name NeuralLM is not registered" in result.stderr:
        pytest.skip("needs a moses that is built with NPLM")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_moses_scores_as_the_network_and_translates_as_before_at_weight_0(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "examples" / "english-french")
    words = re.findall(r"\S+", Path("dev.fr").read_text("utf-8"))
    shortlist = sorted(set(words))[::2]  # the other words are unknown
    RandomCslm(shortlist, order=5, self_normalization=0.1, path=tmp_path / "cslm")
    ini, source = tmp_path / "moses.ini", tmp_path / "dev.en"
    inis = ["--moses-ini", "moses.ini", "--moses-ini-out", ini]
    run("export", tmp_path / "cslm", "-o", tmp_path / "nplm", *inis)
    text = "".join(Path("dev.en").read_text("utf-8").splitlines(keepends=True)[:SENTENCES])
    source.write_text(text, encoding="utf-8")

    before = translate(Path("moses.ini"), text)
    assert before.count("\n") == SENTENCES
    assert translate(ini, text) == before

    heavy, nbest, rescored = tmp_path / "heavy.ini", tmp_path / "nbest", tmp_path / "rescored"
    heavy.write_text(ini.read_text().replace("CSLM0= 0\n", "CSLM0= 0.5\n"))
    assert translate(heavy, text, "-n-best-list", nbest, 20) != before
    network = ["--model", tmp_path / "cslm", "--name", "Ours", "--unnormalized"]
    run("rescore", nbest, "--source", source, *network, "--threads", 1, "-o", rescored)
    lists = list(read_nbest(str(rescored)))
    assert len(lists) == SENTENCES
    for found in lists:
        for features in map(found.features, range(len(found.hypotheses))):
            # Moses writes six digits of a sum of float32.
            assert features["CSLM0"] == pytest.approx(features["Ours"], rel=1e-4, abs=1e-4)
