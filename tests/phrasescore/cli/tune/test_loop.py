"""``phrasescore tune --decoder`` as a user meets it, with a decoder of our own."""

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from moses_integration.moses_ini import load_weights
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from tests.command_line import (
    check_refusal,
    run,
    succeeded,
    suggested_commands,
    tuned_scores,
)
from tests.doubles import RandomModel
from tests.phrasescore.workflows.tune.loop_folder import Folder, rounds
from tests.tiny_generator import TinyGenerator
from tests.tiny_translator import tiny_translator


def test_rounds_raise_bleu_and_the_best_of_them_is_kept(folder: Folder) -> None:
    result = succeeded(folder.run())
    scores = rounds(result)
    assert len(scores) >= 2
    assert max(scores) > scores[0] + 10
    best = max(scores)
    assert tuned_scores(result) == f"BLEU {scores[0]:.2f} -> {best:.2f}"
    state = folder.state()
    first_best = state["rounds"][scores.index(best)]["weights"][1]
    assert {name: list(values) for name, values in load_weights("out").lists.items()} == first_best
    assert state["reason"]
    assert state["next"] is None


def test_the_best_is_kept_where_the_last_is_worse(folder: Folder) -> None:
    # A list of one hypothesis holds nothing to choose from: rounds go up and down.
    result = folder.run("--nbest-size", "2", "--seed", "3", "--patience", "2")
    scores = rounds(result)
    assert tuned_scores(result) == f"BLEU {scores[0]:.2f} -> {max(scores):.2f}"
    weights = load_weights("out").lists
    (folder.path / "w").write_text((folder.path / "out").read_text())
    command = [*shlex.split(folder.decoder), "--weights-file", "w", "--nbest", "list", "1"]
    source = (folder.path / "source").read_bytes()
    subprocess.run(command, input=source, check=True, capture_output=True)
    lines = (folder.path / "list").read_text().splitlines()
    (folder.path / "best").write_text(
        "".join(line.split(" ||| ")[1].strip() + "\n" for line in lines)
    )
    measured = run("evaluate", "best", "--references", "reference", "--metric", "multi-bleu")
    assert weights
    assert measured.stdout.startswith(f"BLEU = {max(scores):.2f}, ")


def test_the_working_folder_has_the_best_moses_ini_and_all_lists(folder: Folder) -> None:
    result = succeeded(folder.run("--moses-ini-out", "tuned.ini"))
    work = folder.path / "work"
    weights = load_weights("out").lists
    for ini in ("work/moses.ini", "tuned.ini"):
        found = load_weights(ini).lists
        assert "UnknownWordPenalty0= 1\n" in (folder.path / ini).read_text()
        assert {name: pytest.approx(values) for name, values in weights.items()} == found
    for number in range(1, len(rounds(result)) + 1):
        assert (work / f"run{number}.nbest").read_text().count("\n") == 30 * 4
        assert (work / f"run{number}.log").read_text() == "decoder: reading the model\n"
    assert not list(work.glob("*.part"))


def test_another_decoder_is_told_by_the_places_in_its_command(folder: Folder) -> None:
    moses = folder.run()
    (folder.path / "start").write_text("Good0= 0.1\nBad0= 0.5\nBad0= -0.5\n")
    command = f"{folder.decoder} --weights-file {{weights}} --nbest {{nbest}} {{size}}"
    result = succeeded(folder.run("--weights", "start", "--working-dir", "other", decoder=command))
    assert rounds(result)[0] == rounds(moses)[0]
    assert max(rounds(result)) > rounds(result)[0] + 10
    assert not (folder.path / "other" / "moses.ini").exists()
    check_refusal(
        folder.run("--working-dir", "third", decoder=command),
        "the start weights are missing: give --weights FILE, or a moses.ini",
        2,
    )


def test_a_command_in_place_of_mert_moses(folder: Folder) -> None:
    arguments = ["tune", "--decoder", folder.decoder, "--config", "moses.ini"]
    arguments += ["--source", "source", "--references", "reference", "--working-dir", "work"]
    arguments += ["--nbest-size", "4", "--iterations", "2", "--starts", "3"]
    arguments += ["--decoder-flags", "--references reference", "--threads", "1"]
    result = succeeded(run(*arguments))
    assert len(rounds(result)) == 2
    assert "stopped after 2 rounds: limit of 2 rounds (--iterations); the best is" in result.stderr


def test_weights_that_a_file_does_not_name_are_those_of_moses_ini(folder: Folder) -> None:
    (folder.path / "start").write_text("Good0= 0.25\n")
    result = succeeded(folder.run("--weights", "start", "--iterations", "1"))
    assert "warning: the result is the start weights: new weights" in result.stderr
    assert load_weights("work/run1.weights").lists == {"Good0": (0.25,), "Bad0": (0.5, -0.5)}


def test_a_run_that_is_there_is_neither_lost_nor_mixed_up(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    check_refusal(folder.run(), "work: the folder already has a run: continue it with --resume")
    check_refusal(
        folder.run("--resume", "--seed", "2"),
        "work was started with another value for seed (1, now 2): resume it with the same",
    )


# What goes wrong, and going on


def test_scores_of_a_network_join_each_round(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(path: str) -> Checkpoint:
        loaded.append(path)
        return load_checkpoint(path)

    monkeypatch.setattr("phrasescore.models.checkpoint.load_checkpoint", load)
    words = [f"w{number}" for number in range(40)]
    model = RandomModel(folder.path / "model", ["one", "two"], words)
    result = succeeded(
        folder.run("--rescore", str(model.path), "--iterations", "2", "--device", "cpu")
    )
    assert len(rounds(result)) == 2
    assert loaded == [str(model.path)]
    assert "EncoderDecoder0" in load_weights("out").lists
    assert "EncoderDecoder0" not in load_weights("out").search
    assert load_weights("out").search.keys() == folder.state()["rounds"][1]["weights"][0].keys()
    assert "EncoderDecoder0" not in (folder.path / "work" / "moses.ini").read_text()
    assert "EncoderDecoder0= " not in (folder.path / "work" / "run2.weights").read_text()
    assert (folder.path / "work" / "scores.cache").exists()


def test_lists_that_are_rescored_elsewhere_give_the_same_weights(folder: Folder) -> None:
    words = [f"w{number}" for number in range(40)]
    model = RandomModel(folder.path / "model", ["one", "two"], words)
    options = ["--rescore", str(model.path), "--iterations", "2", "--threads", "1"]
    found = []
    for engine in ("here", "processes"):
        work = folder.path / engine
        succeeded(folder.run(*options, "--engine", engine, "--working-dir", str(work)))
        found.append((load_weights("out"), (work / "run2.rescored.gz").read_bytes()))
    assert found[0] == found[1]


def test_programs_and_models_of_ctranslate2_join_each_round(folder: Folder, tmp_path: Path) -> None:
    tiny_translator(tmp_path / "seq2seq", positions=200)
    TinyGenerator(tmp_path / "gpt")
    starts = tmp_path / "starts"
    (tmp_path / "program.py").write_text(
        f"import sys\nopen({str(starts)!r}, 'a').write('x')\n"
        "for line in sys.stdin: print(line.count('w1'), flush=True)\n"
    )
    command = shlex.join([sys.executable, "program.py"])
    model = CTranslate2Model("seq2seq", target_language="fr")
    options = ["--rescore-command", command, "--iterations", "2"]
    result = succeeded(folder.run(*model.options("rescore-"), *options))
    assert {"CT20", "Program0"} <= load_weights("out").lists.keys()
    assert starts.read_text() == "x"  # in both rounds
    wanted = [*model.options(), "--command", command]
    assert f" TEST {shlex.join(wanted)} -o test.rescored" in suggested_commands(result)[0]
    with gzip.open("work/run2.rescored.gz", "rt") as stream:
        for line in stream:
            words, features = line.split(" ||| ")[1:3]
            assert f"Program0= {words.count('w1')}" in features
    # The printed command adds the same values to the decoder's lists.
    succeeded(run("rescore", "work/run2.nbest", "--source", "source", *wanted, "-o", "again.gz"))
    texts = [
        gzip.decompress(Path(name).read_bytes()) for name in ("again.gz", "work/run2.rescored.gz")
    ]
    assert texts[0] == texts[1]
    options = CTranslate2Model("gpt", prompt="{source}:").options("rescore-")
    succeeded(folder.run(*options, "--working-dir", "other", "--iterations", "2"))
    assert "CT20" in load_weights("out").lists


def test_what_is_no_network_joins_each_round_without_one(folder: Folder) -> None:
    (folder.path / "lex").write_text("w1 one 0.5\n")
    options = ("--rescore-lexicon", "lex", "--rescore-feature", "target_length")
    result = succeeded(folder.run(*options, "--iterations", "2", "--report", "report"))
    report = (folder.path / "report").read_text()
    (heads,) = re.findall(r"feature .*", report)
    assert heads.split()[:4] == ["feature", "start", "search", "lists"]
    (lexicon,) = re.findall(r"Lexicon0_0 .*", report)
    (good,) = re.findall(r"Good0_0 .*", report)
    both = load_weights("out")
    assert float(lexicon.split()[2]) == pytest.approx(both.lists["Lexicon0"][0], 1e-4)
    assert float(good.split()[2]) == pytest.approx(both.search["Good0"][0], 1e-4)
    assert {"Lexicon0", "TargetLength0"} <= load_weights("out").lists.keys()
    command = suggested_commands(result)[0]
    assert " TEST --lexicon lex --feature target_length -o test.rescored" in command
    assert not (folder.path / "work" / "scores.cache").exists()
    check_refusal(
        folder.run("--rescore-feature", "unknown_words"), "requires at least one model", 2
    )


def test_what_a_network_was_tuned_with_gives_the_bleu_that_was_said(folder: Folder) -> None:
    words = [f"w{number}" for number in range(40)]
    models = [RandomModel(folder.path / str(n), ["one", "two"], words, seed=n) for n in (1, 2)]
    rescore = [word for model in models for word in ("--rescore", str(model.path))]
    result = succeeded(folder.run(*rescore, "--device", "cpu", "--translations", "translations"))
    best = rounds(result).index(max(rounds(result))) + 1
    # The commands are those that are named, with the list of the best round.
    assert (
        "the decoder does not know EncoderDecoder0, EncoderDecoder1: there are two sets"
        in result.stderr
    )
    places = {"test.nbest": f"work/run{best}.nbest", "TEST": "source"}
    for command in suggested_commands(result):
        arguments = [places.get(word, word) for word in shlex.split(command)[1:]]
        if arguments[0] == "rerank":
            arguments.append("--ignore-missing")  # of the sparse feature, in this list
        done = succeeded(run("-q", *arguments))
    by_loop = gzip.decompress((folder.path / "work" / f"run{best}.rescored.gz").read_bytes())
    assert (folder.path / "test.rescored").read_bytes() == by_loop
    assert done.stdout == ""
    best_text = (folder.path / "test.reranked").read_text()
    (folder.path / "best").write_text(best_text)
    assert (folder.path / "translations").read_text() == best_text
    options = ["--references", "reference", "--metric", "multi-bleu"]
    measured = run("evaluate", "best", *options)
    assert measured.stdout.startswith(f"BLEU = {max(rounds(result)):.2f}, ")
    assert tuned_scores(result).endswith(f" -> {max(rounds(result)):.2f}")
