"""Moses' own tuning reads rescored lists. Needs its programs on the PATH; run with ``-m moses``."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from phrasescore.cli import main
from tests.doubles import RandomModel

pytestmark = pytest.mark.moses

WORDS = ["la", "maison", "rue", "une", "est", "grande"]


def run_tool(folder: Path, name: str, *arguments: str) -> str:
    tool = shutil.which(name)
    if tool is None:
        pytest.skip(f"needs {name} on the PATH")
    done = subprocess.run(
        [tool, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout + done.stderr


def test_extractor_and_mert_take_the_new_features_for_dense_ones(tmp_path: Path) -> None:
    generator = random.Random(8)
    references = [generator.choices(WORDS, k=8) for _ in range(20)]
    lines = []
    for number, reference in enumerate(references):
        for _ in range(30):
            words = [generator.choice([word, *WORDS[:2]]) for word in reference]
            value = generator.uniform(-9, 0)
            lines.append(f"{number} ||| {' '.join(words)}  ||| LM0= {value:g} ||| {value:g}\n")
    (tmp_path / "nbest").write_text("".join(lines))
    (tmp_path / "reference").write_text("".join(f"{' '.join(words)}\n" for words in references))
    (tmp_path / "source").write_text("the house\n" * 20)
    model = RandomModel(tmp_path / "model", ["the", "house"], WORDS)
    inputs = [str(tmp_path / "nbest"), "--source", str(tmp_path / "source")]
    options = ["--model", str(model.path), "--feature", "unknown_words", "--normalize"]
    result = CliRunner().invoke(
        main, ["rescore", *inputs, *options, "-o", str(tmp_path / "rescored")]
    )
    assert result.exit_code == 0, result.output

    scorer = ["--sctype", "BLEU", "--scconfig", "case:true", "--ffile", "features", "--scfile"]
    run_tool(tmp_path, "extractor", *scorer, "scores", "-r", "reference", "-n", "rescored")
    header, *values = (tmp_path / "features").read_text().splitlines()
    assert header.split()[3:] == ["4", "LM0_0", "RNN0_0", "RNN0Norm_0", "UnknownWords0_0"]
    first = (tmp_path / "rescored").read_text().split(" ||| ")[2].split(" ")
    # extractor reads float32 and writes six digits.
    assert [float(value) for value in values[0].split()] == pytest.approx(
        [float(value) for value in first[1::2]], rel=1e-5
    )
    (tmp_path / "start").write_text("1 0 0 0\n0 0 0 0\n1 1 1 1\n")
    files = ["--ifile", "start", "-d", "4", "-n", "2", "-r", "1"]
    found = run_tool(tmp_path, "mert", *scorer, "scores", *files)
    weights = found.split("Best point: ")[1].split(" => ")[0].split()
    assert len(weights) == 4
    assert any(float(weight) for weight in weights[1:])
