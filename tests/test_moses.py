"""Real Moses takes what phrasescore writes: tables, lists and NPLM files."""

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from phrasescore.features.model import Network
from phrasescore.systems.sourced_lists import SourcedList
from tests.command_line import column_options, succeeded
from tests.doubles import RandomCslm, RandomJoint, RandomModel

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
    new, ini = str(tmp_path / "new"), tmp_path / "moses.ini"
    options = ["--model", str(model.path), "--feature", "unknown_words", "-o", new]
    succeeded(CliRunner().invoke(main, ["annotate", "moses.ini", *options]))
    succeeded(CliRunner().invoke(main, ["export", new, "--format", "moses", "-o", str(ini)]))
    text = "".join((example / "dev.en").read_text("utf-8").splitlines(keepends=True)[:40])
    before = translate(example, Path("moses.ini"), text)
    assert before.count("\n") == 40
    assert translate(example, ini, text) == before
    heavy = tmp_path / "heavy.ini"
    heavy.write_text(ini.read_text().replace(" 0 0\n", " 0.5 -1\n"))
    assert heavy.read_text() != ini.read_text()
    assert translate(example, heavy, text) != before


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
    options = ["--model", str(model.path), "--feature", "unknown_words"]
    succeeded(
        CliRunner().invoke(main, ["rescore", *inputs, *options, "-o", str(tmp_path / "rescored")])
    )

    scorer = ["--sctype", "BLEU", "--scconfig", "case:true", "--ffile", "features", "--scfile"]
    run_tool(tmp_path, "extractor", *scorer, "scores", "-r", "reference", "-n", "rescored")
    header, *values = (tmp_path / "features").read_text().splitlines()
    assert header.split()[3:] == ["3", "LM0_0", "EncoderDecoder0_0", "UnknownWords0_0"]
    first = (tmp_path / "rescored").read_text().split(" ||| ")[2].split(" ")
    # extractor reads float32 and writes six digits.
    assert [float(value) for value in values[0].split()] == pytest.approx(
        [float(value) for value in first[1::2]], rel=1e-5
    )
    (tmp_path / "start").write_text("1 0 0\n0 0 0\n1 1 1\n")
    files = ["--ifile", "start", "-d", "3", "-n", "2", "-r", "1"]
    found = run_tool(tmp_path, "mert", *scorer, "scores", *files)
    weights = found.split("Best point: ")[1].split(" => ")[0].split()
    assert len(weights) == 3
    assert any(float(weight) for weight in weights[1:])


SENTENCES = 20


def run(*arguments: object) -> None:
    succeeded(CliRunner().invoke(main, [str(argument) for argument in arguments]))


def translate_with_nplm(ini: Path, text: str, *options: object) -> str:
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
    before = translate_with_nplm(Path("moses.ini"), text)
    assert before.count("\n") == SENTENCES
    assert translate_with_nplm(ini, text) == before
    heavy.write_text(ini.read_text().replace(f"{name}= 0\n", f"{name}= 0.5\n"))
    assert (
        translate_with_nplm(heavy, text, "-n-best-list", folder / "nbest", 20, *options) != before
    )


def score_again(folder: Path, *options: object) -> list[dict[str, float]]:
    """Return the features for each hypothesis, the network's own value as ``Ours``."""
    column = Network(str(folder / "model"), name="Ours", unnormalized=True)
    network = [*column_options(column), "--threads", 1]
    files = [folder / "nbest", "--source", folder / "dev.en", "-o", folder / "rescored"]
    run("rescore", *files, *network, *options)
    lists = list(read_nbest(str(folder / "rescored")))
    assert len(lists) == SENTENCES
    return [
        {name: values[0] for name, values in found.features(place).items()}
        for found in lists
        for place in range(len(found.hypotheses))
    ]


def ends_of_hypotheses(folder: Path, joint: RandomJoint) -> Iterator[float]:
    """Yield log p of the ``</s>`` of each hypothesis, which Moses' search does not score."""
    sources = (folder / "dev.en").read_text("utf-8").splitlines()
    for nbest in read_nbest(str(folder / "rescored")):
        found = SourcedList(0, nbest, tuple(sources[nbest.id].split(" ")), aligned=True)
        places = found.block.affiliations
        assert places is not None
        for index, pair in enumerate(found.numbering[1].tolist()):
            words = nbest.words(index)
            yield joint.word_scores(found.source, words, places[pair], normalized=False)[-1]


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
    joint = RandomJoint(*shortlists, upper_size=upper_size, path=tmp_path / "model")
    # With both, rescore affiliates unaligned words as the search.
    fields = ["-print-alignment-info-in-n-best", "-include-segmentation-in-n-best"]
    translate_as_before_and_list(tmp_path, text, "Joint0", *fields)
    found = score_again(tmp_path)
    for features, end in zip(found, ends_of_hypotheses(tmp_path, joint), strict=True):
        assert features["Joint0"] == near(features["Ours"] - end)
