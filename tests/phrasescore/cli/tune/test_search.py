"""``phrasescore tune SYSTEM``: rounds with the search in the same process."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from moses_integration.decoder.phrase_tables import PhraseTables
from moses_integration.list_features import WeightedSum
from moses_integration.moses_ini import load_weights
from moses_integration.nbest import read_nbest
from phrasescore.evaluation.tune_report import read_tune_report
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.systems.round_files import Rounds
from phrasescore.systems.system import read_system
from phrasescore.workflows.tune_system import tune_system
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm, RandomModel
from tests.log import warnings
from tests.phrasescore.cli.tune.loop_folder import rounds
from tests.small_system import INI, LM, TABLE
from tuning.pool import Pool

SOURCE = "la maison\n\nxyz\nmaison bleue\nla bleue maison la maison\n"
REFERENCE = "the home\n\nxyz\nblue home\nthe blue house the home\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "lex": "home maison 0.5\n"}
    for name, text in {**texts, "source": SOURCE, "reference": REFERENCE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def write_system(search: str = "", lists: str = "") -> None:
    """Write a system with networks in the search, and with features of lists."""
    text = f'moses_ini = "moses.ini"\nsearch = [{search}]\nlists = [{lists}]\n'
    Path("system.toml").write_text(text)


def tune(*options: str, system: str = "moses.ini") -> Result:
    arguments = ["tune", system, "--source", "source", "--references", "reference"]
    arguments += ["--working-dir", "work", "--nbest-size", "5", "--threads", "1"]
    return run(*arguments, "--workers", "1", "-o", "out", *options)


def test_it_finds_what_a_command_of_the_same_search_finds(folder: Path) -> None:
    result = succeeded(tune("--iterations", "2"))
    assert max(rounds(result)) > rounds(result)[0]
    program = folder / "program.py"
    program.write_text(
        "import sys\nfrom phrasescore.cli import main\n"
        "source, weights, nbest, size = ['-', *sys.argv[1:]]\n"
        "from dataclasses import replace\nfrom pathlib import Path\n"
        "from moses_integration.moses_ini import load_weights\n"
        "from phrasescore.systems.system import read_system\n"
        "from phrasescore.systems.translator import Translator\n"
        "translator = Translator(replace(read_system('moses.ini'), nbest_size=int(size)))\n"
        "lines = enumerate(sys.stdin.buffer, start=1)\n"
        "sentences = [translator.prepare(n, line.rstrip(b'\\n')) for n, line in lines]\n"
        "with translator.open(sentences):\n"
        "    lists = translator.lists(sentences, load_weights(weights).search)\n"
        "    Path(nbest).write_bytes(b''.join(found.raw for found in lists))\n"
    )
    command = f"{sys.executable} program.py {{weights}} {{nbest}} {{size}}"
    options = ["--working-dir", "other", "-o", "other.out", "--iterations", "2"]
    other = succeeded(tune(*options, "--decoder", command))
    assert rounds(other) == rounds(result)
    assert load_weights("other.out/weights") == load_weights("out/weights")
    lists = (folder / "other" / "run1.nbest").read_bytes()
    assert lists == (folder / "work" / "run1.nbest").read_bytes()


def test_the_tuned_system_translates_to_what_was_measured_and_may_move(folder: Path) -> None:
    write_system(lists='{ lexicon = "lex" }')
    found = tune_system("system.toml", "source", ["reference"], "out")
    done = succeeded(run("translate", "out", "source", "--workers", "1"))
    assert done.stdout.encode() == b"".join(line + b"\n" for line in found.translations())
    assert 'lists = [{ lexicon = "../lex" }]' in (folder / "out" / "system.toml").read_text()
    assert not (folder / "out.work").joinpath("run1.nbest").exists()
    (folder / "deeper").mkdir()
    for name in ("out", "table", "lm.arpa", "lex"):
        (folder / name).rename(folder / "deeper" / name)
    again = succeeded(run("translate", "deeper/out", "source", "--workers", "1"))
    assert again.stdout == done.stdout


@pytest.mark.usefixtures("folder")
def test_the_confidence_of_a_translation_is_that_of_its_list_in_tuning() -> None:
    write_system(lists='{ lexicon = "lex" }')
    options = ("--iterations", "2", "--report", "report.json")
    succeeded(tune(*options, system="system.toml"))
    report = read_tune_report("report.json")
    curve = report.confidence
    assert curve is not None
    assert read_system("out").confidence == curve
    best = max(report.rounds, key=lambda row: row.score)
    score = WeightedSum(load_weights("out/weights").lists)
    expected = []
    for found in read_nbest(f"work/run{best.round}.nbest.gz"):
        scores = curve.scale * score(found)
        first, *others = np.exp(np.sort(scores - scores.max()))[::-1].tolist()
        rest = (sum(others) / first) ** curve.slope * math.exp(-curve.offset)
        expected.append(1 / (1 + rest))
    result = succeeded(run("translate", "out", "source", "--confidence", "--workers", "1"))
    shown = [float(line.split("\t")[1]) for line in result.stdout.splitlines()]
    assert shown == pytest.approx(expected, abs=1e-4)
    assert len({*shown}) > 2


def test_tables_and_networks_are_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, loaded = [], []
    pairs = PhraseTables.pairs

    def count(tables: PhraseTables, *arguments: Any, **options: Any) -> Any:
        read.append(tables)
        return pairs(tables, *arguments, **options)

    def load(path: str) -> Checkpoint:
        loaded.append(Path(path).name)
        return load_checkpoint(path)

    monkeypatch.setattr(PhraseTables, "pairs", count)
    monkeypatch.setattr("phrasescore.models.checkpoint.load_checkpoint", load)
    RandomCslm(["the", "house", "home"], order=3, path=folder / "cslm")
    RandomModel(folder / "model", ["la", "maison"], ["the", "home"])
    write_system('{ model = "cslm" }', '{ model = "model" }')
    options = ("--device", "cpu", "--set", "limits.stack=30")
    result = succeeded(tune(*options, system="system.toml"))
    assert len(rounds(result)) > 1
    assert len(read) == 1
    assert sorted(loaded) == ["cslm", "model"]
    both = load_weights("out/weights")
    assert {"CSLM0", "EncoderDecoder0"} <= both.lists.keys()
    assert both.lists.keys() - both.search.keys() == {"EncoderDecoder0"}
    assert read_system("out").limits == {"stack": 30}


@pytest.mark.slow
def test_several_processes_find_the_same(folder: Path) -> None:
    RandomCslm(["the", "house", "home"], order=3, path=folder / "cslm")
    write_system('{ model = "cslm" }')
    # So many that steps are tried on some of them.
    (folder / "source").write_text(SOURCE * 40)
    (folder / "reference").write_text(REFERENCE * 40)
    for workers in ("1", "2"):
        own = ("--workers", workers, "--working-dir", workers, "-o", f"{workers}.out")
        result = succeeded(tune(*own, system="system.toml"))
        assert "decode: 100 sentences in" in result.stderr
        assert [path.name for path in (folder / workers).glob("trial*")] == []
    assert load_weights("1.out/weights") == load_weights("2.out/weights")
    for path in (folder / "1").glob("run*.nbest"):
        assert path.read_bytes() == (folder / "2" / path.name).read_bytes()


def test_networks_in_the_search_start_one_after_another_at_the_best_weight(folder: Path) -> None:
    for name in ("cslm", "cslm2"):
        RandomCslm(["the", "house", "home"], order=3, path=folder / name)
    write_system('{ model = "cslm" }, { model = "cslm2" }', '{ lexicon = "lex" }')
    result = succeeded(tune("--iterations", "2", system="system.toml"))
    chosen = dict(re.findall(r"start weight of (\S+): (\S+) \(BLEU of 5 sent", result.stderr))
    assert list(chosen) == ["CSLM0", "CSLM1"]  # and not the lexicon's, which lists alone have
    first = json.loads((folder / "work" / "tune.json").read_text())["rounds"][0]["weights"][0]
    assert {name: [float(weight)] for name, weight in chosen.items()} == {
        name: first[name] for name in chosen
    }
    again = tune("--iterations", "2", "--resume", system="system.toml")
    assert "start weight of" not in succeeded(again).stderr


def test_a_run_that_is_stopped_in_a_trial_keeps_its_round_and_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning.loop.TRIAL_SIZE", 10)
    (folder / "source").write_text(SOURCE * 4)
    (folder / "reference").write_text(REFERENCE * 4)
    (folder / "work").mkdir()
    (folder / "work" / "trial.txt").write_text("mine")
    write_system(lists='{ lexicon = "lex" }')
    options = ("--report", "report.json")
    whole = succeeded(tune(*options, "--working-dir", "whole", system="system.toml"))
    assert len(rounds(whole)) > 1
    names = ("out/weights", "out/system.toml", "report.json")
    expected = [(folder / name).read_bytes() for name in names]

    def stop(*_trial: object) -> Pool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_try", stop)
        stopped = tune(*options, system="system.toml")
    assert stopped.exit_code == 130
    # The weights of the round that is judged, and not nothing.
    assert "Lexicon0" in load_weights("out/weights").lists
    resumed = succeeded(tune(*options, "--resume", system="system.toml"))
    assert "round 1: reusing work/run1.nbest.gz" in resumed.stderr
    assert [(folder / name).read_bytes() for name in names] == expected
    assert (folder / "work" / "trial.txt").read_text() == "mine"
    states = [(folder / name / "tune.json").read_bytes() for name in ("work", "whole")]
    assert states[0] == states[1]


def test_a_run_is_not_resumed_with_other_search_weights(folder: Path) -> None:
    lists = "LM0= 0.5\nTM0= 1 0\n"
    (folder / "start").write_text(f"[search]\n{lists}[lists]\n{lists}Lexicon0= 1\n")
    write_system(lists='{ lexicon = "lex" }')
    options = ("--weights", "start", "--iterations", "1")
    succeeded(tune(*options, system="system.toml"))
    (folder / "start").write_text(f"[search]\nLM0= 0.25\n[lists]\n{lists}Lexicon0= 1\n")
    check_refusal(
        tune(*options, "--resume", system="system.toml"),
        "work was started with another value for start weights of the search",
    )


RAW_INI = INI + '# phrasescore: tokenize = "fr en"\n# phrasescore: lowercase = true\n'


def test_raw_texts_are_prepared_by_the_rules_of_the_system(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = succeeded(tune("--iterations", "2"))
    (folder / "moses.ini").write_text(RAW_INI)
    # In both texts, the capitals and the marks change by the rules.
    for name, text in (("source", SOURCE), ("reference", REFERENCE)):
        lines = [line.capitalize() for line in text.splitlines()]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    raw = succeeded(tune("--iterations", "2", "--working-dir", "raw", "-o", "raw.out"))
    assert rounds(raw) == rounds(words)
    assert load_weights("raw.out/weights") == load_weights("out/weights")
    cased = succeeded(tune("--tokenized", "--working-dir", "cased", "--iterations", "1"))
    assert rounds(cased)[0] < rounds(raw)[0]
    assert not any("looks" in warning for warning in warnings(caplog))
    (folder / "source").write_text("la maison , bleue .\n" * 5)
    succeeded(tune("--working-dir", "marks", "--iterations", "1"))
    (warning,) = [text for text in warnings(caplog) if "looks" in text]
    assert warning.startswith("source looks tokenised, and it is tokenised again: give it as raw")
