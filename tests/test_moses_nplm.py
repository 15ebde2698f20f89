"""Real Moses scores with what export writes. Needs a ``moses`` with NPLM; run with ``-m moses``."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from tests.doubles import RandomCslm, RandomJoint

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
    if re.search("Feature name (NeuralLM|BilingualNPLM) is not registered", result.stderr):
        pytest.skip("needs a moses that is built with NPLM")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def text(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sentences, also in ``dev.en`` of ``tmp_path``, in the folder of a model for them."""
    monkeypatch.chdir(repository / "examples" / "english-french")
    found = "".join(Path("dev.en").read_text("utf-8").splitlines(keepends=True)[:SENTENCES])
    (tmp_path / "dev.en").write_text(found, encoding="utf-8")
    return found


def every_second_word(path: str) -> list[str]:
    """Return a shortlist; the other words of the text are unknown."""
    return sorted(set(re.findall(r"\S+", Path(path).read_text("utf-8"))))[::2]


def translate_as_before_and_list(folder: Path, text: str, name: str, *options: str) -> None:
    """Export ``model``; translate with weight 0, then write 20-best lists with another weight."""
    ini, heavy = folder / "moses.ini", folder / "heavy.ini"
    inis = ["--moses-ini", "moses.ini", "--moses-ini-out", ini]
    run("export", folder / "model", "-o", folder / "nplm", *inis)
    before = translate(Path("moses.ini"), text)
    assert before.count("\n") == SENTENCES
    assert translate(ini, text) == before
    heavy.write_text(ini.read_text().replace(f"{name}= 0\n", f"{name}= 0.5\n"))
    assert translate(heavy, text, "-n-best-list", folder / "nbest", 20, *options) != before


def score_again(folder: Path, *options: object) -> list[dict[str, float]]:
    """Return the features of each hypothesis, the network's own value as ``Ours``."""
    network = ["--model", folder / "model", "--name", "Ours", "--unnormalized", "--threads", 1]
    files = [folder / "nbest", "--source", folder / "dev.en", "-o", folder / "rescored"]
    run("rescore", *files, *network, *options)
    lists = list(read_nbest(str(folder / "rescored")))
    assert len(lists) == SENTENCES
    return [
        {name: values[0] for name, values in found.features(place).items()}
        for found in lists
        for place in range(len(found.hypotheses))
    ]


# Moses writes six digits of a sum of float32.
near = partial(pytest.approx, rel=1e-5, abs=1e-4)


def test_moses_scores_as_a_language_model_and_translates_as_before_at_weight_0(
    text: str, tmp_path: Path
) -> None:
    shortlist = every_second_word("dev.fr")
    RandomCslm(shortlist, order=5, self_normalization=0.1, path=tmp_path / "model")
    translate_as_before_and_list(tmp_path, text, "CSLM0")
    for features in score_again(tmp_path):
        assert features["CSLM0"] == near(features["Ours"])


@pytest.mark.parametrize("upper_size", [6, 0])
def test_moses_scores_as_a_joint_model_and_translates_as_before_at_weight_0(
    text: str, tmp_path: Path, upper_size: int
) -> None:
    shortlists = every_second_word("dev.en"), every_second_word("dev.fr")
    RandomJoint(*shortlists, upper_size=upper_size, path=tmp_path / "model")
    # With both, rescore affiliates unaligned words as the search.
    fields = ["-print-alignment-info-in-n-best", "-include-segmentation-in-n-best"]
    translate_as_before_and_list(tmp_path, text, "Joint0", *fields)
    words = tmp_path / "words"
    found = score_again(tmp_path, "--word-scores", words)
    for features, line in zip(found, words.read_text().splitlines(), strict=True):
        # Moses' phrase-based search does not score </s>.
        end = float(line.rpartition(" </s>=")[2])
        assert features["Joint0"] == near(features["Ours"] - end)
