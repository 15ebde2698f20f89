"""``phrasescore tune`` in rounds, as a user meets it, with a decoder of our own."""

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
from tests.command_line import check_refusal, run, succeeded, suggested_commands, tuned_scores
from tests.doubles import RandomModel
from tests.phrasescore.cli.tune.loop_folder import Folder, rounds
from tests.tiny_generator import TinyGenerator
from tests.tiny_translator import tiny_translator

WORDS = [f"w{number}" for number in range(40)]


def test_rounds_raise_bleu_and_the_best_of_them_is_kept(folder: Folder) -> None:
    result = succeeded(folder.run())
    scores = rounds(result)
    assert len(scores) >= 2
    assert max(scores) > scores[0] + 10
    best = max(scores)
    assert tuned_scores(result) == f"BLEU {scores[0]:.2f} -> {best:.2f}"
    state = folder.state()
    weights = load_weights("out/weights").lists
    first_best = state["rounds"][scores.index(best)]["weights"][1]
    assert {name: list(values) for name, values in weights.items()} == first_best
    assert state["reason"]
    assert state["next"] is None
    # The system has these weights, and its moses.ini has them for Moses.
    found = load_weights("out/moses.ini").lists
    assert "UnknownWordPenalty0= 1\n" in (folder.path / "out/moses.ini").read_text()
    assert {name: pytest.approx(values) for name, values in weights.items()} == found
    assert 'decoder = { command = "' in (folder.path / "out/system.toml").read_text()
    work = folder.path / "work"
    for number in range(1, len(scores) + 1):
        assert (work / f"run{number}.nbest").read_text().count("\n") == 30 * 4
        assert (work / f"run{number}.log").read_text() == "decoder: reading the model\n"
    assert not list(work.glob("*.part"))


def test_the_best_is_kept_where_the_last_is_worse(folder: Folder) -> None:
    # A list of one hypothesis holds nothing to choose from: rounds go up and down.
    result = folder.run("--nbest-size", "2", "--seed", "3", "--patience", "2")
    scores = rounds(result)
    assert tuned_scores(result) == f"BLEU {scores[0]:.2f} -> {max(scores):.2f}"
    command = [*shlex.split(folder.decoder), "--weights-file", "out/weights", "--nbest", "list"]
    source = (folder.path / "source").read_bytes()
    subprocess.run([*command, "1"], input=source, check=True, capture_output=True)
    lines = (folder.path / "list").read_text().splitlines()
    (folder.path / "best").write_text(
        "".join(line.split(" ||| ")[1].strip() + "\n" for line in lines)
    )
    measured = run("evaluate", "best", "--references", "reference", "--metric", "multi-bleu")
    assert measured.stdout.startswith(f"BLEU = {max(scores):.2f}, ")


def test_another_decoder_is_told_by_the_places_in_its_command(folder: Folder) -> None:
    moses = folder.run()
    (folder.path / "start").write_text("Good0= 0.1\nBad0= 0.5\nBad0= -0.5\n")
    command = f"{folder.decoder} --weights-file {{weights}} --nbest {{nbest}} {{size}}"
    options = ("--working-dir", "other", "-o", "tuned")
    result = succeeded(folder.run("--weights", "start", *options, decoder=command))
    assert rounds(result)[0] == rounds(moses)[0]
    assert max(rounds(result)) > rounds(result)[0] + 10
    assert not (folder.path / "tuned" / "moses.ini").exists()
    assert load_weights("tuned/weights") == load_weights("out/weights")
    check_refusal(
        folder.run("--working-dir", "third", decoder=command), "the start weights are missing", 2
    )


def test_a_command_in_place_of_mert_moses(folder: Folder) -> None:
    arguments = ["tune", "moses.ini", "--decoder", folder.decoder, "-o", "out"]
    arguments += ["--source", "source", "--references", "reference", "--working-dir", "work"]
    arguments += ["--nbest-size", "4", "--iterations", "2", "--starts", "3"]
    arguments += ["--decoder-flags", "--references reference", "--threads", "1"]
    result = succeeded(run(*arguments))
    assert len(rounds(result)) == 2
    assert "stopped after 2 rounds: limit of 2 rounds (--iterations); the best is" in result.stderr


def test_weights_that_a_file_does_not_name_are_those_of_the_system(folder: Folder) -> None:
    (folder.path / "start").write_text("Good0= 0.25\n")
    result = succeeded(folder.run("--weights", "start", "--iterations", "1"))
    found = load_weights("work/run1.weights").lists
    assert found == {"Good0": (0.25,), "Bad0": (0.5, -0.5)}
    again = succeeded(folder.run("--weights", "out", "-o", "new", "--working-dir", "other"))
    assert rounds(again)[0] == rounds(result)[0]


def test_a_run_that_is_there_is_neither_lost_nor_mixed_up(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    check_refusal(folder.run(), "work: the folder already has a run: continue it with --resume")
    check_refusal(
        folder.run("--resume", "--seed", "2"),
        "work was started with another value for seed (1, now 2): resume it with the same",
    )


# Features of the lists


def test_scores_of_a_network_join_each_round(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(path: str) -> Checkpoint:
        loaded.append(path)
        return load_checkpoint(path)

    monkeypatch.setattr("phrasescore.models.checkpoint.load_checkpoint", load)
    RandomModel(folder.path / "model", ["one", "two"], WORDS)
    system = folder.write_system('model = "model"')
    result = succeeded(folder.run(system, "--iterations", "2", "--device", "cpu"))
    assert len(rounds(result)) == 2
    assert "the decoder does not know EncoderDecoder0: there are two sets" in result.stderr
    assert len(loaded) == 1
    both = load_weights("out/weights")
    assert both.lists.keys() - both.search.keys() == {"EncoderDecoder0"}
    assert both.search.keys() == folder.state()["rounds"][1]["weights"][0].keys()
    assert "EncoderDecoder0" not in (folder.path / "out" / "moses.ini").read_text()
    assert "EncoderDecoder0= " not in (folder.path / "work" / "run2.weights").read_text()
    assert (folder.path / "work" / "scores.cache").exists()


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
    generator = CTranslate2Model("gpt", prompt="{source}:")
    system = folder.write_system(model.to_toml(), generator.to_toml(), f'command = "{command}"')
    succeeded(folder.run(system, "--iterations", "2"))
    assert {"CT20", "CT21", "Program0"} <= load_weights("out/weights").lists.keys()
    assert starts.read_text() == "x"  # in both rounds
    with gzip.open("work/run2.nbest.gz", "rt") as stream:
        for line in stream:
            words, features = line.split(" ||| ")[1:3]
            assert f"Program0= {words.count('w1')}" in features


def test_what_is_no_network_joins_each_round_without_one(folder: Folder) -> None:
    (folder.path / "lex").write_text("w1 one 0.5\n")
    system = folder.write_system('lexicon = "lex"', 'feature = "target_length"')
    result = succeeded(folder.run(system, "--iterations", "2", "--report", "report"))
    report = (folder.path / "report").read_text()
    (heads,) = re.findall(r"feature .*", report)
    assert heads.split()[:4] == ["feature", "start", "search", "lists"]
    (lexicon,) = re.findall(r"Lexicon0_0 .*", report)
    (good,) = re.findall(r"Good0_0 .*", report)
    both = load_weights("out/weights")
    assert float(lexicon.split()[2]) == pytest.approx(both.lists["Lexicon0"][0], 1e-4)
    assert float(good.split()[2]) == pytest.approx(both.search["Good0"][0], 1e-4)
    assert {"Lexicon0", "TargetLength0"} <= both.lists.keys()
    assert suggested_commands(result) == ["phrasescore translate out TEXT -o TRANSLATIONS"]
    assert not (folder.path / "work" / "scores.cache").exists()


def test_the_lists_of_a_round_are_those_of_rescore_and_rerank_gives_its_bleu(
    folder: Folder,
) -> None:
    for number in (1, 2):
        RandomModel(folder.path / str(number), ["one", "two"], WORDS, seed=number)
    system = folder.write_system('model = "1"', 'model = "2"')
    result = succeeded(folder.run(system, "--device", "cpu"))
    best = rounds(result).index(max(rounds(result))) + 1
    assert tuned_scores(result).endswith(f" -> {max(rounds(result)):.2f}")
    lists = gzip.decompress((folder.path / "work" / f"run{best}.nbest.gz").read_bytes())
    own = re.sub(rb" EncoderDecoder[01]= [^ ]+", b"", lists)
    (folder.path / "own").write_bytes(own)
    models = ("--model", "1", "--model", "2", "--device", "cpu")
    succeeded(run("rescore", "own", "--source", "source", *models, "-o", "rescored"))
    assert (folder.path / "rescored").read_bytes() == lists
    rerank = ("rerank", "rescored", "--weights", "out/weights", "-o", "best")
    succeeded(run(*rerank))  # without the sparse feature, which not all lists have
    options = ["--references", "reference", "--metric", "multi-bleu"]
    measured = run("evaluate", "best", *options)
    assert measured.stdout.startswith(f"BLEU = {max(rounds(result)):.2f}, ")
