"""``phrasescore tune --decoder`` as a user meets it, with a decoder of our own."""

import errno
import gzip
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moses_integration.weights import read_weights
from phrasescore.checkpoint import Checkpoint, load_checkpoint
from phrasescore.cli import main, tune_loop, tune_search
from phrasescore.cli.tune_state import write_state
from tests.doubles import RandomModel
from tuning.loop import LoopResult
from tuning.methods import load_method

DECODER = Path(__file__).parent / "tiny_decoder.py"
INI = """\
[feature]
Good
Bad
Edit
UnknownWordPenalty
[weight]
Good0= 0.1
Bad0= 0.5 -0.5
UnknownWordPenalty0= 1
"""


class Folder:
    """A folder with source, references and a moses.ini, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        numbers = random.Random(3)
        words = [f"w{number}" for number in range(40)]
        references = [" ".join(numbers.choices(words, k=12)) for _ in range(30)]
        (path / "reference").write_text("".join(f"{line}\n" for line in references))
        (path / "source").write_text("one two\n" * 30)
        (path / "moses.ini").write_text(INI)
        self.decoder = shlex.join([sys.executable, str(DECODER), "--references", "reference"])
        self.decoder += " --mood mood"

    def arguments(self, *options: str, decoder: str = "") -> list[str]:
        usual = ["--source", "source", "--references", "reference", "--working-dir", "work"]
        command = decoder or f"{self.decoder} -f moses.ini"
        arguments = ["tune", "--decoder", command, *usual, "--nbest-size", "4"]
        return [*arguments, "--threads", "1", "-o", "out", *options]

    def run(self, *options: str, decoder: str = "") -> Result:
        return CliRunner().invoke(main, self.arguments(*options, decoder=decoder))

    def state(self) -> dict:
        return json.loads((self.path / "work" / "tune.json").read_text())

    def set_mood(self, mood: str) -> None:
        (self.path / "mood").write_text(mood)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


def rounds(result: Result) -> list[float]:
    """Return the BLEU of each round as it was shown."""
    return [float(text) for text in re.findall(r"round \d+: BLEU ([0-9.]+)", result.stderr)]


def test_rounds_raise_bleu_and_the_best_of_them_is_kept(folder: Folder) -> None:
    result = folder.run()
    assert result.exit_code == 0, result.output
    scores = rounds(result)
    assert len(scores) >= 2
    assert max(scores) > scores[0] + 10
    best = max(scores)
    assert result.stderr.endswith(f"phrasescore: BLEU {best:.2f}\n")
    state = folder.state()
    first_best = state["rounds"][scores.index(best)]["weights"]
    assert {name: list(values) for name, values in read_weights("out").items()} == first_best
    assert state["reason"]
    assert state["next"] is None


def test_the_best_is_kept_where_the_last_is_worse(folder: Folder) -> None:
    # A list of one hypothesis holds nothing to choose from: rounds go up and down.
    result = folder.run("--nbest-size", "2", "--seed", "3", "--patience", "2")
    scores = rounds(result)
    assert result.stderr.endswith(f"phrasescore: BLEU {max(scores):.2f}\n")
    weights = read_weights("out")
    (folder.path / "w").write_text((folder.path / "out").read_text())
    command = [*shlex.split(folder.decoder), "--weights-file", "w", "--nbest", "list", "1"]
    source = (folder.path / "source").read_bytes()
    subprocess.run(command, input=source, check=True, capture_output=True)
    lines = (folder.path / "list").read_text().splitlines()
    (folder.path / "best").write_text(
        "".join(line.split(" ||| ")[1].strip() + "\n" for line in lines)
    )
    measured = CliRunner().invoke(
        main, ["evaluate", "best", "--references", "reference", "--metric", "multi-bleu"]
    )
    assert weights
    assert measured.stdout.startswith(f"BLEU = {max(scores):.2f}, ")


def test_the_working_folder_has_the_best_moses_ini_and_all_lists(folder: Folder) -> None:
    result = folder.run("--moses-ini-out", "tuned.ini")
    assert result.exit_code == 0, result.output
    work = folder.path / "work"
    weights = read_weights("out")
    for ini in ("work/moses.ini", "tuned.ini"):
        found = read_weights(ini)
        assert "UnknownWordPenalty0= 1\n" in (folder.path / ini).read_text()
        assert {name: pytest.approx(values) for name, values in weights.items()} == found
    for number in range(1, len(rounds(result)) + 1):
        assert (work / f"run{number}.nbest").read_text().count("\n") == 30 * 4
        assert (work / f"run{number}.log").read_text() == "decoder: reading the model\n"
    assert not list(work.glob("*.part"))


def test_the_same_seed_gives_the_same_weights_and_another_folder_changes_nothing(
    folder: Folder,
) -> None:
    assert folder.run().exit_code == 0
    first = (folder.path / "out").read_bytes()
    assert folder.run("--working-dir", "other").exit_code == 0
    assert (folder.path / "out").read_bytes() == first


def test_another_decoder_is_told_by_the_places_in_its_command(folder: Folder) -> None:
    moses = folder.run()
    (folder.path / "start").write_text("Good0= 0.1\nBad0= 0.5\nBad0= -0.5\n")
    command = f"{folder.decoder} --weights-file {{weights}} --nbest {{nbest}} {{size}}"
    result = folder.run("--weights", "start", "--working-dir", "other", decoder=command)
    assert result.exit_code == 0, result.output
    assert rounds(result)[0] == rounds(moses)[0]
    assert max(rounds(result)) > rounds(result)[0] + 10
    assert not (folder.path / "other" / "moses.ini").exists()
    result = folder.run("--working-dir", "third", decoder=command)
    assert result.exit_code == 2
    assert "the weights to start from are needed" in result.stderr


def test_names_of_mert_moses_options_are_understood(folder: Folder) -> None:
    arguments = ["tune", "--decoder", folder.decoder, "--config", "moses.ini"]
    arguments += ["--input", "source", "--refs", "reference", "--working-dir", "work"]
    arguments += ["--nbest", "4", "--maximum-iterations", "2", "--random-restarts", "3"]
    arguments += ["--decoder-flags", "--references reference", "--threads", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert len(rounds(result)) == 2
    assert "2 rounds: 2 rounds are done" in result.stderr


def test_weights_that_a_file_does_not_name_are_those_of_moses_ini(folder: Folder) -> None:
    (folder.path / "start").write_text("Good0= 0.25\n")
    assert folder.run("--weights", "start", "--iterations", "1").exit_code == 0
    assert read_weights("work/run1.weights") == {"Good0": (0.25,), "Bad0": (0.5, -0.5)}


def test_a_run_that_is_there_is_neither_lost_nor_mixed_up(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    again = folder.run()
    assert again.exit_code == 1
    assert "work: there is a run here already: --resume goes on with it" in again.stderr
    other = folder.run("--resume", "--seed", "2")
    assert other.exit_code == 1
    assert "work: this run was begun with another seed: 1, not 2" in other.stderr


# What goes wrong, and going on


@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        ("die", "the decoder ended with exit code 7 (log: work/run2.log): decoder: reading the mo"),
        ("silent", "the decoder wrote no n-best list to work/run2.nbest.part (log: work/run2.lo"),
        ("fewer", "expected lists of 30 sentences, as there are references, the last has id 28"),
        ("cut", "work/run2.nbest.part: the last line is cut off; is the disk full?"),
    ],
)
def test_a_decoder_that_fails_is_quoted_and_the_loop_goes_on_later(
    folder: Folder, mood: str, problem: str
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out").read_bytes()
    (folder.path / "out").unlink()
    assert folder.run("--iterations", "1").exit_code == 0
    assert folder.run("--resume", "--iterations", "1").exit_code == 0
    (folder.path / "out").unlink()
    folder.set_mood(mood)
    failed = folder.run("--resume")
    assert failed.exit_code == 1
    assert problem in failed.stderr
    assert "decoder: reading the model" in failed.stderr
    assert not (folder.path / "out").exists()
    assert failed.stderr.splitlines()[-1].startswith("Error: ")
    folder.set_mood("")
    resumed = folder.run("--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "round 1: taken from work/run1.nbest" in resumed.stderr
    assert (folder.path / "out").read_bytes() == expected
    assert rounds(resumed) == rounds(whole)


@pytest.mark.parametrize("full_in", [1, 2])
def test_a_full_disk_leaves_the_state_of_the_round_before_and_the_loop_goes_on_later(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, full_in: int
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out").read_bytes()
    (folder.path / "out").unlink()
    state = folder.path / "work" / "tune.json"
    before = []

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(work: Path, about: dict, result: LoopResult) -> None:
        if len(result.rounds) == full_in:
            before.extend([state.read_bytes()] if state.exists() else [])
            patch.setattr(os, "fsync", full)
        write_state(work, about, result)

    with monkeypatch.context() as patch:
        patch.setattr(tune_loop, "write_state", write)
        failed = folder.run()
    assert failed.exit_code == 1
    (line,) = [line for line in failed.stderr.splitlines() if not line.startswith("phrasescore: ")]
    assert line.startswith("Error: work/tune.json: cannot write: No space left on device; free")
    assert [path.name for path in folder.path.glob("out*")] == []
    assert [path.name for path in (folder.path / "work").glob("*.part")] == []
    assert [state.read_bytes()] == before
    assert len(json.loads(before[0])["rounds"]) == full_in - 1
    resumed = folder.run("--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "round 1: decoding" not in resumed.stderr
    assert rounds(resumed) == rounds(whole)
    assert (folder.path / "out").read_bytes() == expected


def test_a_first_round_that_was_decoded_is_not_decoded_again(folder: Folder) -> None:
    failed = folder.run("--fix", "Godo0")
    assert failed.exit_code == 1
    assert "--fix Godo0: there is no such feature" in failed.stderr
    again = folder.run("--fix", "Godo0", "--resume")
    assert "round 1: taken from work/run1.nbest" in again.stderr
    assert "there is a run here already" in folder.run().stderr  # and is not lost


def test_a_run_that_decoded_nothing_is_begun_anew(folder: Folder) -> None:
    folder.set_mood("die")
    assert "ended with exit code 7" in folder.run().stderr
    folder.set_mood("")
    assert folder.run("--iterations", "1", "--seed", "2").exit_code == 0


@pytest.mark.parametrize("change", [-1, 1])
def test_a_source_of_another_number_of_lines_is_not_decoded(folder: Folder, change: int) -> None:
    (folder.path / "source").write_text("one two\n" * (30 + change))
    result = folder.run()
    assert result.exit_code == 1
    expected = f"Error: source: expected 30 lines, as there are references, found {30 + change}"
    assert result.stderr.splitlines() == [expected]


def test_a_packed_source_is_not_given_to_the_decoder(folder: Folder) -> None:
    (folder.path / "source").write_bytes(gzip.compress(b"one two\n" * 30))
    result = folder.run()
    assert result.exit_code == 1
    assert "source: the decoder is given this file as it is: unpack it" in result.stderr


def test_a_state_of_another_kind_is_refused(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    for text in ("", "[]", '{"format": 9, "about": {}, "rounds": [], "next": null}', "{}"):
        (folder.path / "work" / "tune.json").write_text(text)
        result = folder.run("--resume")
        assert result.exit_code == 1
        assert "work/tune.json: expected the state of a run of this version" in result.stderr


def test_ctrl_c_while_decoding_ends_the_decoder_and_keeps_the_best(folder: Folder) -> None:
    slow = folder.path / "slow.py"
    slow.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "if Path('work/run1.nbest').exists():\n"
        "    Path('decoding').write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        f"sys.argv[0] = {str(DECODER)!r}\n"
        f"os.execv(sys.executable, [sys.executable, *sys.argv])\n"
    )
    command = f"{sys.executable} slow.py --references reference -f moses.ini"
    code = "from phrasescore.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *folder.arguments(decoder=command)],
        stderr=subprocess.PIPE,
        cwd=folder.path,
        text=True,
    )
    deadline = time.monotonic() + 120
    mark = folder.path / "decoding"
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "phrasescore: interrupted"
    assert read_weights(str(folder.path / "out"))["Good0"] == (0.1,)
    with pytest.raises(ProcessLookupError):
        signal_decoder(int(mark.read_text()))
    resumed = folder.run("--resume", decoder=command.replace("slow.py", str(DECODER)))
    assert resumed.exit_code == 1  # another command
    assert "begun with another decoder" in resumed.stderr


def test_ctrl_c_while_optimising_keeps_the_best_and_the_loop_goes_on_as_if_nothing_was(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out").read_bytes()
    with monkeypatch.context() as patch:

        def load(name: str):  # type: ignore[no-untyped-def]
            optimise = load_method(name)

            def interrupted(pool, metric, start, settings, *, seed, report):  # type: ignore[no-untyped-def]
                signal.raise_signal(signal.SIGINT)
                return optimise(pool, metric, start, settings, seed=seed, report=report)

            return interrupted

        patch.setattr(tune_search, "load_method", load)
        stopped = folder.run()
    assert stopped.exit_code == 130
    assert stopped.stderr.endswith(f"BLEU {rounds(whole)[0]:.2f}\nphrasescore: interrupted\n")
    assert read_weights("out") == {"Good0": (0.1,), "Bad0": (0.5, -0.5)}
    resumed = folder.run("--resume")
    assert "round 1: taken from work/run1.nbest" in resumed.stderr
    assert rounds(resumed) == rounds(whole)
    assert (folder.path / "out").read_bytes() == expected


def signal_decoder(number: int) -> None:
    os.kill(number, 0)


def test_scores_of_a_network_join_each_round(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(path: str) -> Checkpoint:
        loaded.append(path)
        return load_checkpoint(path)

    monkeypatch.setattr("phrasescore.checkpoint.load_checkpoint", load)
    words = [f"w{number}" for number in range(40)]
    model = RandomModel(folder.path / "model", ["one", "two"], words)
    result = folder.run("--rescore", str(model.path), "--iterations", "2", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert len(rounds(result)) == 2
    assert loaded == [str(model.path)]
    assert "without a weight, and so from 0: RNN0" in result.stderr
    assert "RNN0" in read_weights("out")
    assert "RNN0" not in (folder.path / "work" / "moses.ini").read_text()
    assert "RNN0= " not in (folder.path / "work" / "run2.weights").read_text()
    assert (folder.path / "work" / "scores.cache").exists()


def test_what_a_network_was_tuned_with_gives_the_bleu_that_was_said(folder: Folder) -> None:
    words = [f"w{number}" for number in range(40)]
    models = [RandomModel(folder.path / str(n), ["one", "two"], words, seed=n) for n in (1, 2)]
    rescore = [word for model in models for word in ("--rescore", str(model.path))]
    result = folder.run(*rescore, "--device", "cpu")
    assert result.exit_code == 0, result.output
    best = rounds(result).index(max(rounds(result))) + 1
    # The commands are those that the warning names, with the list of the best round.
    (line,) = [line for line in result.stderr.splitlines() if "does not know RNN0, RNN1" in line]
    assert "work/moses.ini lacks these weights" in line
    assert "all weights are in out. To translate with them: " in line
    commands = line.partition("with them: phrasescore ")[2].split(", then phrasescore ")
    places = {"NBEST": f"work/run{best}.nbest", "SOURCE": "source"}
    for command in commands:
        arguments = [places.get(word, word) for word in shlex.split(command)]
        if arguments[0] == "rerank":
            arguments.append("--ignore-missing")  # of the sparse feature, in this list
        done = CliRunner().invoke(main, ["-q", *arguments])
        assert done.exit_code == 0, done.output
    by_loop = gzip.decompress((folder.path / "work" / f"run{best}.rescored.gz").read_bytes())
    assert (folder.path / "RESCORED").read_bytes() == by_loop
    (folder.path / "best").write_text(done.stdout)
    options = ["--references", "reference", "--metric", "multi-bleu"]
    measured = CliRunner().invoke(main, ["evaluate", "best", *options])
    assert measured.stdout.startswith(f"BLEU = {max(rounds(result)):.2f}, ")
    assert result.stderr.endswith(f"phrasescore: BLEU {max(rounds(result)):.2f}\n")
