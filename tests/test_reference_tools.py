"""``evaluate`` prints what multi-bleu.perl and sacrebleu's own command line print."""

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from tests.command_line import run, succeeded
from tuning.metrics import Bleu


def evaluate(systems: Sequence[Path], references: Path, *options: str) -> str:
    names = [str(path) for path in systems]
    arguments = ["-q", "evaluate", *names, "--references", str(references), *options]
    result = succeeded(run(*arguments))
    return result.stdout


def sacrebleu(systems: Sequence[Path], references: Path, *options: str) -> str:
    names = [str(path) for path in systems]
    command = [sys.executable, "-m", "sacrebleu", str(references), "-i", *names, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def multi_bleu(system: Path, references: Path) -> str:
    script = shutil.which("multi-bleu.perl")
    if script is None or shutil.which("perl") is None:
        pytest.skip("needs perl, and multi-bleu.perl on the PATH")
    done = subprocess.run(
        ["perl", script, str(references)],
        input=system.read_bytes(),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """References of the shipped example, and systems that get some of their words wrong."""
    folder = tmp_path_factory.mktemp("damaged")
    example = Path(__file__).parent.parent / "examples" / "english-french" / "test.fr"
    lines = example.read_text(encoding="utf-8").split("\n")[:200]
    lines[7] = "\u00e9t\u00e9 apr\u00e8s\u00a0demain  .\t"  # odd blanks
    references = folder / "references"
    references.write_text("\n".join(lines) + "\n", encoding="utf-8")
    systems = []
    for number in range(3):
        numbers = random.Random(number)
        system = folder / f"system{number}"
        damaged_lines = [
            " ".join(word for word in line.split(" ") if numbers.random() > 0.1 + 0.02 * number)
            for line in lines
        ]
        damaged_lines[3] = ""
        system.write_text("\n".join(damaged_lines) + "\n", encoding="utf-8")
        systems.append(system)
    return references, systems


@pytest.mark.parametrize("tokenize", ["none", "13a", "intl", "char"])
def test_sacrebleu_prints_the_same_lines(damaged: tuple[Path, list[Path]], tokenize: str) -> None:
    references, systems = damaged
    metrics = ["--metric=bleu", "--metric=chrf", "--metric=ter"]
    ours = evaluate(systems[:1], references, *metrics, "--tokenize", tokenize).splitlines()
    options = ["-m", "bleu", "chrf", "ter", "-w", "2", "-f", "text", "-tok", tokenize]
    theirs = sacrebleu(systems[:1], references, *options).splitlines()
    assert [" ".join(line.split()) for line in theirs] == ours


@pytest.mark.parametrize(
    ("test", "option"), [("bootstrap", "--paired-bs"), ("approximate", "--paired-ar")]
)
def test_p_values_are_those_of_sacrebleu(
    damaged: tuple[Path, list[Path]], test: str, option: str
) -> None:
    references, systems = damaged
    metrics = ["--metric=bleu", "--metric=chrf"]
    options = ["--paired", test, "--format", "json"]
    ours = json.loads(evaluate(systems, references, *metrics, *options))["paired"]["metrics"]
    # Its JSON cannot be written for a bootstrap; the table has the same figures, with 4 digits.
    settings = ["-m", "bleu", "chrf", "-tok", "none", "-f", "latex", "-w", "4"]
    table = sacrebleu(systems, references, *settings, option)
    for number, system in enumerate(systems):
        (row,) = [line for line in table.splitlines() if re.search(rf" {system} +&", line)]
        for metric, cell in zip(ours, row.split("&")[1:], strict=True):
            found = metric["systems"][number]
            names = ("score", "mean", "confidence", "p_value")
            expected = [f"{found[name]:.4f}" for name in names if found[name] is not None]
            assert re.findall(r"[0-9]+\.[0-9]{4}", cell) == expected
        assert len(expected) == (4 if test == "bootstrap" else 2) - (number == 0)


def test_multi_bleu_prints_the_same_line(damaged: tuple[Path, list[Path]]) -> None:
    references, systems = damaged
    for system in systems:
        ours = evaluate([system], references, "--metric", "multi-bleu")
        assert ours == multi_bleu(system, references)


@pytest.mark.slow
def test_the_oracle_of_real_lists_is_the_one_that_was_found_before(shared_data: Path) -> None:
    # Measured when the data were made (shared/data/README.md).
    for name, first, best in (("val", "57.09", "73.06"), ("test_2016_flickr", "57.64", "75.15")):
        nbest = str(shared_data / f"{name}.1000best.gz")
        report = evaluate([], shared_data / f"{name}.fr", "--lists", nbest)
        lines = [line.split()[3].removesuffix(",") for line in report.splitlines()[1:3]]
        assert lines == [first, best]


@pytest.mark.moses
def test_bleu_of_real_lists_is_that_of_moses_evaluator_and_of_sacrebleu(
    shared_data: Path, tmp_path: Path
) -> None:
    evaluator = shutil.which("evaluator")
    if evaluator is None:
        pytest.skip("needs Moses' evaluator on the PATH")
    references = shared_data / "test_2016_flickr.fr"
    wanted = [line.split(" ") for line in references.read_text(encoding="utf-8").split("\n")[:-1]]
    metric = Bleu([wanted])
    chosen: dict[int, list[list[str]]] = {}
    lists = shared_data / "test_2016_flickr.1000best.gz"
    with gzip.open(lists, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            number, words, *_ = line.split(" ||| ")
            chosen.setdefault(int(number), []).append(words.strip(" ").split(" "))
    for rank in (0, 9, -1):
        system = [chosen[number][min(rank, len(chosen[number]) - 1)] for number in sorted(chosen)]
        sums = metric.statistics(system, range(len(wanted))).sum(axis=0)
        texts = [" ".join(words) for words in system]
        (tmp_path / "system").write_text("\n".join(texts) + "\n", encoding="utf-8")
        command = [evaluator, "--sctype", "BLEU", "--reference", str(references)]
        done = subprocess.run(
            [*command, "--candidate", "system"], cwd=tmp_path, capture_output=True, check=True
        )
        assert done.stdout.decode().split()[-1] == f"{float(metric.score(sums)):.4f}"
        theirs = corpus_bleu(
            texts, [[" ".join(words) for words in wanted]], tokenize="none", force=True
        )
        assert 100 * float(metric.score(sums)) == pytest.approx(theirs.score, rel=1e-14)
