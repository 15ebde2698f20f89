"""Promises of moses_integration.decoder.moses: the command that is run, and what may go wrong."""

import sys
from functools import partial
from pathlib import Path

import pytest

from moses_integration.decoder.moses import DecoderCommand, ListRequest
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import PhrasescoreError
from phrasescore.records import Weights

WEIGHTS: Weights = {"LM0": (0.5,), "TM0": (0.25, -1e-7)}
distinct = partial(ListRequest, distinct=True)
DATA = Path(__file__).parents[2] / "data"


def test_moses_gets_weights_and_lists_by_its_own_options() -> None:
    decoder = DecoderCommand("'/a b/moses' -f moses.ini -threads 2")
    assert decoder.arguments(WEIGHTS, "out.nbest", "weights", distinct(100)) == [
        *("/a b/moses", "-f", "moses.ini", "-threads", "2"),
        *("-weight-overwrite", "LM0= 0.5 TM0= 0.25 -0.0000001"),
        *("-n-best-list", "out.nbest", "100", "distinct"),
    ]
    assert decoder.ini_path() == "moses.ini"


def test_another_decoder_gets_what_its_command_has_places_for() -> None:
    decoder = DecoderCommand("search --lists={nbest}:{size} -w {weights}")
    found = decoder.arguments(WEIGHTS, "out.nbest", "weights", distinct(50))
    assert found == ["search", "--lists=out.nbest:50", "-w", "weights"]
    assert not decoder.is_moses


def test_the_ini_is_named_where_the_command_does_not() -> None:
    ini = MosesIni.read(str(DATA / "several.moses.ini"))
    found = DecoderCommand("moses", ini).arguments({"First": (0.5,)}, "out", "weights", distinct(9))
    # First has tuneable-components=true,false: the second weight stays.
    assert found == [
        *("moses", "-f", str(DATA / "several.moses.ini"), "-weight-overwrite", "First= 0.5 x"),
        *("-n-best-list", "out", "9", "distinct"),
    ]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "--decoder: expected a command, found nothing"),
        ("moses 'x", "--decoder: cannot split the command: No closing quotation"),
        ("search {weights}", "--decoder: expected {nbest} where the decoder is to write its lists"),
    ],
)
def test_a_command_that_cannot_work_is_refused(command: str, problem: str) -> None:
    with pytest.raises(PhrasescoreError, match=problem.replace("{", r"\{")):
        DecoderCommand(command)


class Runner:
    """Runs a Python program as a decoder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nbest = folder / "run1.nbest"
        (folder / "source").write_text("one\ntwo\n")

    def run(self, code: str) -> None:
        program = self.folder / "program.py"
        program.write_text(f"import os, sys, signal\n{code}")
        decoder = DecoderCommand(f"{sys.executable} {program} {{nbest}} {{weights}}")
        source = str(self.folder / "source")
        decoder(source, WEIGHTS, distinct(5), str(self.nbest))

    def refusal(self, code: str) -> str:
        with pytest.raises(PhrasescoreError) as caught:
            self.run(code)
        return str(caught.value).replace(f"{self.folder}/", "")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_decoder_reads_the_source_and_the_weights(runner: Runner) -> None:
    runner.run("open(sys.argv[1], 'w').write(sys.stdin.read() + open(sys.argv[2]).read())")
    assert runner.nbest.read_text() == "one\ntwo\nLM0= 0.5\nTM0= 0.25\nTM0= -1e-07\n"


def test_the_end_of_what_a_dying_decoder_said_is_shown(runner: Runner) -> None:
    code = "for n in range(9): print('line', n, file=sys.stderr)\nsys.exit(3)"
    assert runner.refusal(code) == (
        "the decoder ended with exit code 3 (log: run1.log): line 4 | line 5 | line 6 | line 7 | "
        "line 8"
    )


def test_a_signal_is_named(runner: Runner) -> None:
    code = "os.kill(os.getpid(), signal.SIGKILL)"
    assert runner.refusal(code) == (
        "the decoder was killed by SIGKILL; it wrote nothing to stderr (log: run1.log)"
    )


def test_an_old_list_is_not_taken_for_a_new_one(runner: Runner) -> None:
    runner.nbest.write_text("old\n")
    for code in ("pass", "open(sys.argv[1], 'w').close()"):
        assert runner.refusal(code).startswith(
            "the decoder wrote no n-best list to run1.nbest; it wrote"
        )


def test_a_list_that_is_cut_off_is_refused(runner: Runner) -> None:
    code = "open(sys.argv[1], 'w').write('0 ||| a ||| LM0= 1 ||| -1.2')"
    assert runner.refusal(code).startswith(
        "run1.nbest: the last line is truncated; is the disk full?"
    )


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("one\n")
    decoder = DecoderCommand("/nowhere/moses -f moses.ini")
    with pytest.raises(PhrasescoreError, match="cannot run the decoder '/nowhere/moses': No such"):
        decoder(str(tmp_path / "source"), {}, distinct(5), str(tmp_path / "run1.nbest"))
