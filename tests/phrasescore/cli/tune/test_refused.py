"""``phrasescore tune`` where something is wrong, or the user stops it on lists."""

import signal
from pathlib import Path

import pytest

from moses_integration.moses_ini import load_weights
from phrasescore.systems import tuning as tuning_module
from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.cli.tune.tune_folder import NBEST, WEIGHTS, TuneFolder
from tests.small_system import write_system

# What is wrong with the input


def test_dense_and_sparse_features_may_be_mixed(lists: TuneFolder) -> None:
    (lists.path / "nbest").write_text(NBEST.replace("o  ||| ", "o  ||| WT_o= 1 "))
    succeeded(lists.run("-o", "out"))
    assert set(load_weights("out").lists) == {"LM0", "TM0", "EncoderDecoder0", "WT_o"}
    (lists.path / "nbest").write_text(NBEST.replace("o  ||| ", "o  ||| WT_o= 1 2 "))
    assert "nbest:7: the feature WT_o has '_' in its name" in lists.refusal()


def test_weights_that_are_not_one_a_value_are_refused(lists: TuneFolder) -> None:
    (lists.path / "weights").write_text(WEIGHTS + "EncoderDecoder0= 1\n")
    problem = "expected 1 weights for EncoderDecoder0, one per value, found 2"
    assert lists.refusal() == f"weights: {problem}"


def test_start_weights_that_are_all_zero_are_refused(lists: TuneFolder) -> None:
    (lists.path / "weights").write_text("LM0= 0\nTM0= 0\nTM0= 0\nEncoderDecoder0= 0\n")
    assert lists.refusal() == "weights: expected weights that are not all zero"


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_folder_that_is_not_there_is_said_before_tuning(lists: TuneFolder, option: str) -> None:
    options = {"-o": "out", option: "nowhere/file"}
    check_refusal(
        lists.run(*(text for pair in options.items() for text in pair)),
        "Error: nowhere/file: cannot write: there is no folder",
    )
    assert not (lists.path / "out").exists()


# The user


def test_ctrl_c_writes_the_best_weights_so_far(
    lists: TuneFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuning.methods import StopTuning, optimise

    calls = []

    def interrupted(*arguments, seed, report):  # type: ignore[no-untyped-def]
        found = optimise(*arguments, seed=seed)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(StopTuning):
            report("half way")
        calls.append(seed)
        return found

    monkeypatch.setattr(tuning_module, "optimise", interrupted)
    result = lists.run("-o", "out")
    assert (result.exit_code, calls) == (130, [1])
    assert result.stderr.endswith("-> 100.00\nphrasescore: interrupted\n")
    assert load_weights("out").lists["EncoderDecoder0"][0] > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_report_keeps_the_weights_found(
    lists: TuneFolder, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def interrupted(*_: object, **_more: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("phrasescore.workflows.tune_lists.feature_rows", interrupted)
    result = lists.run("-o", "out", "--report", "report")
    assert result.exit_code == code
    assert load_weights("out").lists["EncoderDecoder0"][0] > 0
    assert not Path("report").exists()


LISTS = "--lists nbest --references reference --weights weights"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", "expected one SYSTEM, or --lists, or --decoder"),
        ("moses.ini nbest", "expected one SYSTEM, or --lists, or --decoder"),
        ("--lists nbest --decoder x", "--decoder cannot be used with --lists"),
        ("--lists nbest --method pro", "--method pro is gone: use --method xbleu or mira"),
        ("--features f --scores s", "--features is gone: give the n-best lists and --references"),
        ("--lists nbest", "--references is required"),
        ("--lists nbest --references reference", "--weights, with which the lists"),
        (f"{LISTS} --resume", "--resume cannot be used with --lists"),
        (f"{LISTS} --nbest-size 5 --working-dir x", "--nbest-size, --working-dir cannot be used"),
        (f"{LISTS} --refs reference", "--refs is gone: it is --references"),
        (f"{LISTS} --metric bleu=2", "'bleu=2' is not one of 'bleu', 'word_accuracy'"),
        ("--decoder moses --references reference", "--source is required"),
        ("moses.ini --references r --source s", "-o, the folder for the tuned system is required"),
        ("moses.ini --allow-missing", "--allow-missing requires --lists"),
        ("--decoder embedded", "--decoder embedded is gone: give the moses.ini as SYSTEM"),
        ("--lists - --references - --weights weights", "two files cannot share stdin or std"),
        (f"{LISTS} --report -", "two files cannot share stdin"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command_line(
    lists: TuneFolder, options: str, problem: str
) -> None:
    check_refusal(lists.call(*options.split()), problem, 2)


def test_lists_in_place_of_a_system_are_named_before_missing_options(lists: TuneFolder) -> None:
    check_refusal(lists.call("nbest", "--references", "reference"), "nbest:1: expected a system")


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_name_that_is_none_is_said_before_tuning(lists: TuneFolder, option: str) -> None:
    before = sorted(lists.path.iterdir())
    options = {"-o": "out", option: ""}
    result = lists.run(*(text for pair in options.items() for text in pair))
    assert result.exit_code == 1
    assert result.stderr == "Error: expected the name of a file to write, found ''\n"
    assert sorted(lists.path.iterdir()) == before


def test_a_feature_of_the_lists_has_one_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_system(tmp_path)
    Path("weights").write_text(
        Path("weights").read_text().replace("RNNsearch0= 3", "RNNsearch0= 3 3")
    )
    Path("text").write_text("la maison\n")
    options = "--source text --references text --tokenized --threads 1 --workers 1 -o out"
    problem = f"Error: system.toml: weights: {tmp_path}/weights: expected 1 weights for RNNsearch0"
    check_refusal(run("tune", "system.toml", *options.split()), problem)


def test_a_decoder_s_list_that_is_not_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("decoder").write_text("#!/bin/sh\nprintf '0 ||| \\377 ||| LM0= 1 ||| 1\\n' > \"$1\"\n")
    Path("decoder").chmod(0o755)
    Path("text").write_text("la maison\n")
    Path("start").write_text("LM0= 1\n")
    options = "--source text --references text --weights start -o out"
    result = run("tune", "--decoder", "./decoder {nbest} {weights} {size}", *options.split())
    check_refusal(result, "Error: out.work/run1.nbest.part:1: expected UTF-8, found byte 0xff")
