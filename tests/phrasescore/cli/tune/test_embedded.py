"""``phrasescore tune --decoder embedded``: the loop with the search in the same process."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from tests.small_system import INI, LM, TABLE

from moses_integration.decoder import phrase_tables
from moses_integration.list_features import WeightedSum
from moses_integration.moses_ini import load_weights
from moses_integration.nbest import read_nbest
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.report.tuning import read_tune_report
from phrasescore.workflows.tune.rounds import Rounds
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm, RandomModel
from tests.phrasescore.workflows.tune.loop_folder import rounds
from tuning.pool import Pool

SOURCE = "la maison\n\nxyz\nmaison bleue\nla bleue maison la maison\n"
REFERENCE = "the home\n\nxyz\nblue home\nthe blue house the home\n"


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI}
    for name, text in {**texts, "source": SOURCE, "reference": REFERENCE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def tune(*options: str, decoder: str = "embedded", config: bool = True) -> Result:
    arguments = ["tune", "--decoder", decoder, "--source", "source", "--references", "reference"]
    arguments += ["--config", "moses.ini"] if config else []
    arguments += ["--working-dir", "work", "--nbest-size", "5", "--threads", "1"]
    return run(*arguments, "-o", "out", *options)


def test_it_finds_what_the_loop_with_the_command_finds(embedded: Path) -> None:
    result = succeeded(tune("--translations", "dev.out", "--iterations", "2"))
    assert max(rounds(result)) > rounds(result)[0]
    places = "--weights {weights} --nbest {nbest} --nbest-size {size} --distinct --processes 1"
    command = f"{sys.executable} -m phrasescore decode - --config moses.ini {places}"
    options = ["--working-dir", "other", "-o", "other.out", "--iterations", "2"]
    other = succeeded(tune(*options, decoder=command))
    assert rounds(other) == rounds(result)
    assert (embedded / "out").read_bytes() == (embedded / "other.out").read_bytes()
    lists = (embedded / "other" / "run1.nbest").read_bytes()
    assert lists == (embedded / "work" / "run1.nbest").read_bytes()
    # The tuned moses.ini decodes to the translations that were measured.
    again = ["decode", "source", "--config", "work/moses.ini", "--processes", "1", "-o", "again"]
    assert run(*again).exit_code == 0
    assert (embedded / "again").read_bytes() == (embedded / "dev.out").read_bytes()


def test_the_confidence_of_a_translation_is_that_of_its_list_in_tuning(embedded: Path) -> None:
    (embedded / "lex").write_text("home maison 0.5\n")
    options = ("--rescore-lexicon", "lex", "--iterations", "2", "--report", "report")
    succeeded(tune(*options, "--format", "json"))
    report = read_tune_report("report")
    assert sum(row.sentences for row in report.reliability) == len(SOURCE.splitlines())
    curve = report.confidence
    assert curve is not None
    best = max(report.rounds, key=lambda row: row.score)
    score = WeightedSum(load_weights("out").lists)
    expected = []
    for found in read_nbest(f"work/run{best.round}.rescored.gz"):
        scores = curve.scale * score(found)
        first, *others = np.exp(np.sort(scores - scores.max()))[::-1].tolist()
        rest = (sum(others) / first) ** curve.slope * math.exp(-curve.offset)
        expected.append(1 / (1 + rest))
    (embedded / "system.toml").write_text(
        'moses_ini = "moses.ini"\nweights = "out"\nnbest_size = 5\n'
        f"[confidence]\nscale = {curve.scale}\nslope = {curve.slope}\noffset = {curve.offset}\n"
        '[[rescore]]\nlexicon = "lex"\n'
    )
    result = succeeded(run("translate", "system.toml", "source", "--confidence", "--workers", "1"))
    shown = [float(line.split("\t")[1]) for line in result.stdout.splitlines()]
    assert shown == pytest.approx(expected, abs=1e-4)
    assert len({*shown}) > 2


def test_tables_and_networks_are_loaded_once(
    embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, loaded = [], []
    read_pairs = phrase_tables.read_phrase_pairs

    def count(*arguments: object, **options: object) -> object:
        read.append(arguments)
        return read_pairs(*arguments, **options)  # type: ignore[arg-type]

    def load(path: str) -> Checkpoint:
        loaded.append(path)
        return load_checkpoint(path)

    monkeypatch.setattr("moses_integration.decoder.phrase_tables.read_phrase_pairs", count)
    monkeypatch.setattr("phrasescore.models.checkpoint.load_checkpoint", load)
    monkeypatch.setattr("phrasescore.models.checkpoint.load_checkpoint", load)
    RandomCslm(["the", "house", "home"], order=3, path=embedded / "cslm")
    model = RandomModel(embedded / "model", ["la", "maison"], ["the", "home"])
    flags = "--feature cslm --model cslm --processes 1 --stack 30"
    options = ("--decoder-flags", flags, "--rescore", str(model.path), "--device", "cpu")
    result = succeeded(tune(*options))
    assert len(rounds(result)) > 1
    assert len(read) == 1
    assert sorted(loaded) == sorted(["cslm", str(model.path)])
    both = load_weights("out")
    assert {"CSLM0", "EncoderDecoder0"} <= both.lists.keys()
    assert both.lists.keys() - both.search.keys() == {"EncoderDecoder0"}


@pytest.mark.slow
def test_several_processes_find_the_same(embedded: Path) -> None:
    RandomCslm(["the", "house", "home"], order=3, path=embedded / "cslm")
    # So many that steps are tried on some of them.
    (embedded / "source").write_text(SOURCE * 40)
    (embedded / "reference").write_text(REFERENCE * 40)
    for name, processes in (("one", 1), ("two", 2)):
        flags = f"--feature cslm --model cslm --processes {processes}"
        result = succeeded(
            tune("--decoder-flags", flags, "--working-dir", name, "-o", f"{name}.out")
        )
        assert "decode: 100 sentences in" in result.stderr
        assert [path.name for path in (embedded / name).glob("trial*")] == []
    assert (embedded / "one.out").read_bytes() == (embedded / "two.out").read_bytes()
    for path in (embedded / "one").glob("run*.nbest"):
        assert path.read_bytes() == (embedded / "two" / path.name).read_bytes()


def test_networks_in_the_search_start_one_after_another_at_the_best_weight(
    embedded: Path,
) -> None:
    for name in ("cslm", "cslm2"):
        RandomCslm(["the", "house", "home"], order=3, path=embedded / name)
    (embedded / "lex").write_text("home maison 0.5\n")
    flags = "--feature cslm --model cslm --feature cslm --model cslm2 --processes 1"
    options = ("--decoder-flags", flags, "--rescore-lexicon", "lex", "--iterations", "2")
    result = succeeded(tune(*options))
    chosen = dict(re.findall(r"start weight of (\S+): (\S+) \(BLEU of 5 sent", result.stderr))
    assert list(chosen) == ["CSLM0", "CSLM1"]  # and not the lexicon's, which lists alone have
    first = json.loads((embedded / "work" / "tune.json").read_text())["rounds"][0]["weights"][0]
    assert {name: [float(weight)] for name, weight in chosen.items()} == {
        name: first[name] for name in chosen
    }
    assert "start weight of" not in tune(*options, "--resume").stderr


def test_a_run_that_is_stopped_in_a_trial_keeps_its_round_and_goes_on(
    embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning.loop.TRIAL_SIZE", 10)
    (embedded / "source").write_text(SOURCE * 4)
    (embedded / "reference").write_text(REFERENCE * 4)
    (embedded / "work").mkdir()
    (embedded / "work" / "trial.txt").write_text("mine")
    (embedded / "lex").write_text("home maison 0.5\n")
    options = ("--rescore-lexicon", "lex", "--report", "report", "--format", "json")
    whole = succeeded(tune(*options, "--working-dir", "whole"))
    assert len(rounds(whole)) > 1
    expected = [(embedded / name).read_bytes() for name in ("out", "report")]

    def stop(*_trial: object) -> Pool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_try", stop)
        stopped = tune(*options)
    assert stopped.exit_code == 130
    # The weights of the round that is judged, and not nothing.
    first = load_weights("out")
    assert "Lexicon0" in first.lists
    resumed = succeeded(tune(*options, "--resume"))
    assert "round 1: reusing work/run1.nbest" in resumed.stderr
    assert [(embedded / name).read_bytes() for name in ("out", "report")] == expected
    assert (embedded / "work" / "trial.txt").read_text() == "mine"
    assert (embedded / "work" / "tune.json").read_bytes() == (
        embedded / "whole" / "tune.json"
    ).read_bytes()


def test_a_run_is_not_resumed_with_other_search_weights(embedded: Path) -> None:
    lists = "LM0= 0.5\nTM0= 1 0\n"
    (embedded / "start").write_text(f"[search]\n{lists}[lists]\n{lists}Lexicon0= 1\n")
    (embedded / "lex").write_text("home maison 0.5\n")
    options = ("--rescore-lexicon", "lex", "--weights", "start", "--iterations", "1")
    assert tune(*options).exit_code == 0
    (embedded / "start").write_text(f"[search]\nLM0= 0.25\n[lists]\n{lists}Lexicon0= 1\n")
    check_refusal(
        tune(*options, "--resume"),
        "work was started with another value for start weights of the search",
    )


@pytest.mark.parametrize(
    ("options", "config", "problem"),
    [
        ((), False, "--decoder embedded requires --moses-ini"),
        (("--decoder-flags", "--stak 3"), True, "No such option '--stak'"),
        (
            ("--decoder-flags", "--nbest x --nbest-size 3"),
            True,
            "--decoder-flags: the tuning loop sets --nbest itself",
        ),
        (("--decoder-flags", "--config x.ini"), True, "expected search options, found --con"),
        (("--decoder-flags", "--feature cslm"), True, "expected a --model for each --feature"),
    ],
)
@pytest.mark.usefixtures("embedded")
def test_what_does_not_go_together_is_a_wrong_command_line(
    options: tuple[str, ...], config: bool, problem: str
) -> None:
    check_refusal(tune(*options, config=config), problem, 2)
