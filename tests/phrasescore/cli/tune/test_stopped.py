"""``phrasescore tune`` in rounds, when something fails or Ctrl-C stops it: nothing is lost."""

import errno
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from moses_integration.moses_ini import load_weights
from moses_integration.nbest import NbestList
from phrasescore.records import Weights
from phrasescore.systems import rounds as rounds_module
from phrasescore.systems import tuning as tuning_module
from phrasescore.systems.round_files import write_rounds
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.translator import Translator
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomCslm
from tests.forked import Forked, run_command
from tests.phrasescore.cli.tune.loop_folder import DECODER, INI, Folder, rounds
from tuning.loop import LoopResult
from tuning.methods import optimise


@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        ("die", "the decoder ended with exit code 7 (log: work/run2.log): decoder: reading the mo"),
        pytest.param(
            "silent",
            "the decoder wrote no n-best list to work/run2.nbest.part (log: work/run2.lo",
            marks=pytest.mark.slow,
        ),
        (
            "fewer",
            "work/run2.nbest: there is no n-best list of sentence 30 (log: work/run2.log): d",
        ),
        pytest.param(
            "cut",
            "work/run2.nbest.part: the last line is truncated; is the disk full?",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_decoder_that_fails_is_quoted_and_the_loop_goes_on_later(
    folder: Folder, mood: str, problem: str
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out/weights").read_bytes()
    shutil.rmtree(folder.path / "out")
    assert folder.run("--iterations", "1").exit_code == 0
    assert folder.run("--resume", "--iterations", "1").exit_code == 0
    shutil.rmtree(folder.path / "out")
    folder.set_mood(mood)
    failed = folder.run("--resume")
    assert failed.exit_code == 1
    assert problem in failed.stderr
    assert "decoder: reading the model" in failed.stderr
    assert not (folder.path / "out").exists()
    assert failed.stderr.splitlines()[-1].startswith("Error: ")
    folder.set_mood("")
    resumed = succeeded(folder.run("--resume"))
    assert "round 1: reusing work/run1.nbest" in resumed.stderr
    assert (folder.path / "out/weights").read_bytes() == expected
    assert rounds(resumed) == rounds(whole)


@pytest.mark.parametrize("full_in", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_full_disk_leaves_the_state_of_the_round_before_and_the_loop_goes_on_later(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, full_in: int
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out/weights").read_bytes()
    shutil.rmtree(folder.path / "out")
    state = folder.path / "work" / "tune.json"
    before = []

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(work: Path, about: dict, result: LoopResult) -> None:
        if len(result.rounds) == full_in:
            before.extend([state.read_bytes()] if state.exists() else [])
            patch.setattr(os, "fsync", full)
        write_rounds(work, about, result)

    with monkeypatch.context() as patch:
        patch.setattr(rounds_module, "write_rounds", write)
        failed = folder.run()
    assert failed.exit_code == 1
    (line,) = [line for line in failed.stderr.splitlines() if not line.startswith("phrasescore: ")]
    assert line.startswith("Error: work/tune.json: cannot write: No space left on device")
    assert [path.name for path in folder.path.glob("out*")] == []
    assert [path.name for path in (folder.path / "work").glob("*.part")] == []
    assert [state.read_bytes()] == before
    assert len(json.loads(before[0])["rounds"]) == full_in - 1
    resumed = succeeded(folder.run("--resume"))
    assert "round 1: decoding" not in resumed.stderr
    assert rounds(resumed) == rounds(whole)
    assert (folder.path / "out/weights").read_bytes() == expected


def test_a_first_round_that_was_decoded_is_not_decoded_again(folder: Folder) -> None:
    check_refusal(folder.run("--fix", "Godo0"), "--fix Godo0: expected one of the features")
    again = folder.run("--fix", "Godo0", "--resume")
    assert "round 1: reusing work/run1.nbest" in again.stderr
    assert "the folder already has a run" in folder.run().stderr  # and is not lost


NEW = INI.replace("Good0= 0.1", "Good0= 0")


def test_a_new_feature_starts_at_the_weight_that_translates_a_sample_best(folder: Folder) -> None:
    (folder.path / "moses.ini").write_text(NEW)
    result = succeeded(folder.run("--iterations", "2"))
    line = re.search(
        r"start weight of Good0: (\S+) \(BLEU of 30 sentences (\S+), with 0: (\S+), with",
        result.stderr,
    )
    assert line is not None
    assert float(line[2]) > float(line[3])
    assert float(line[2]) == rounds(result)[0]  # the sample has all sentences
    assert folder.state()["rounds"][0]["weights"][0]["Good0"] == [float(line[1])]
    assert [path.name for path in (folder.path / "work").glob("trial*")] == []
    # Other weights are as they were.
    assert folder.state()["rounds"][0]["weights"][0]["Bad0"] == [0.5, -0.5]
    fixed = folder.run("--fix", "Good0", "--working-dir", "fixed", "--iterations", "2")
    assert "start weight of" not in fixed.stderr


@pytest.mark.parametrize("stopped", ["trial", "round"])
def test_a_run_that_is_stopped_after_trials_has_the_same_start(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    (folder.path / "moses.ini").write_text(NEW)
    whole = folder.run("--working-dir", "whole")
    translate = Translator.lists

    def stop(
        self: Translator, sentences: Sequence[SystemSentence], weights: Weights, prefix: str
    ) -> Iterator[NbestList]:
        is_trial = prefix.endswith("trial")
        if "Good0" in weights and weights["Good0"][0] > 0 and is_trial == (stopped == "trial"):
            raise KeyboardInterrupt
        return translate(self, sentences, weights, prefix)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "lists", stop)
        assert folder.run().exit_code == 130
    resumed = succeeded(folder.run("--resume"))
    assert rounds(resumed) == rounds(whole)
    ends = [(folder.path / name / "tune.json").read_bytes() for name in ("work", "whole")]
    assert ends[0] == ends[1]


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
    expected = f"Error: source: expected 30 lines, one per reference, found {30 + change}"
    assert result.stderr.splitlines() == [expected]


def test_links_and_pipes_in_the_place_of_files_of_a_round_are_replaced(folder: Folder) -> None:
    assert folder.run("--iterations", "2").exit_code == 0
    expected = (folder.path / "out/weights").read_bytes()
    work, other = folder.path / "work", folder.path / "other"
    other.write_text("somebody's")
    for path in work.glob("run2.*"):
        path.unlink()
    for name in ("run2.out", "run2.nbest.part"):
        (work / name).symlink_to(other)
    os.mkfifo(work / "run2.log")
    succeeded(folder.run("--iterations", "2", "--resume"))
    assert (folder.path / "out/weights").read_bytes() == expected
    assert other.read_text() == "somebody's"


def test_a_state_of_another_kind_is_refused(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    begun = (folder.path / "work" / "tune.json").read_text()
    state = '"run": {}, "rounds": [], "next": null'
    for text in ("", "[]", f'{{"format": 9, {state}}}', "{}", begun.replace('"run"', '"runs"')):
        (folder.path / "work" / "tune.json").write_text(text)
        check_refusal(
            folder.run("--resume"), "work/tune.json: expected the state of a run of this version"
        )


def decoding(folder: Folder) -> tuple[Forked, int, str]:
    """Start a run whose second round never ends; return it, its decoder's number and command."""
    slow = folder.path / "slow.py"
    slow.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "if Path('work/run1.nbest').exists():\n"
        "    Path('decoding').write_text(str(os.getpid()))\n"
        "    end, parent = time.monotonic() + 60, os.getppid()\n"
        "    while time.monotonic() < end and os.getppid() == parent:\n"
        "        time.sleep(0.05)\n"
        f"sys.argv[0] = {str(DECODER)!r}\n"
        f"os.execv(sys.executable, [sys.executable, *sys.argv])\n"
    )
    command = f"{sys.executable} slow.py --references reference -f moses.ini"
    process = Forked(run_command, *folder.arguments(decoder=command), cwd=folder.path)
    deadline = time.monotonic() + 120
    mark = folder.path / "decoding"
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process, int(mark.read_text()), command


STOPPED = pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(signal.SIGTERM, 143, "ended by SIGTERM", marks=pytest.mark.slow),
    ],
)


@STOPPED
def test_a_signal_while_decoding_ends_the_decoder_and_keeps_the_best(
    folder: Folder, number: int, code: int, said: str
) -> None:
    process, decoder, command = decoding(folder)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code, errors
    assert errors.decode().splitlines()[-1] == f"phrasescore: {said}"
    assert load_weights(str(folder.path / "out/weights")).lists["Good0"] == (0.1,)
    wait_for_end(decoder)
    check_refusal(
        folder.run("--resume", decoder=command.replace("slow.py", str(DECODER))),
        "started with another value for decoder",
    )


@STOPPED
def test_a_signal_while_optimising_keeps_the_best_and_the_loop_goes_on_as_if_nothing_was(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, number: int, code: int, said: str
) -> None:
    whole = folder.run("--working-dir", "whole")
    expected = (folder.path / "out/weights").read_bytes()
    with monkeypatch.context() as patch:

        def interrupted(*arguments, **options):  # type: ignore[no-untyped-def]
            signal.raise_signal(number)
            return optimise(*arguments, **options)

        patch.setattr(tuning_module, "optimise", interrupted)
        stopped = folder.run()
    assert stopped.exit_code == code
    assert stopped.stderr.endswith(f"-> {rounds(whole)[0]:.2f}\nphrasescore: {said}\n")
    assert load_weights("out/weights").lists == {"Good0": (0.1,), "Bad0": (0.5, -0.5)}
    resumed = folder.run("--resume")
    assert "round 1: reusing work/run1.nbest" in resumed.stderr
    assert rounds(resumed) == rounds(whole)
    assert (folder.path / "out/weights").read_bytes() == expected


def wait_for_end(number: int) -> None:
    """Wait for a process that was killed: Python waits a quarter of a second for it, no longer."""
    deadline = time.monotonic() + 30  # it would sleep for 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(number, 0)
            time.sleep(0.05)


# What is in a folder, or in another file, that the loop would write to


@pytest.mark.parametrize("name", ["run1.out", "run12.nbest.gz", "scores.cache"])
def test_a_folder_of_another_program_is_left_alone(folder: Folder, name: str) -> None:
    # mert-work is mert-moses.pl's own, too.
    work = folder.path / "work"
    work.mkdir()
    for each in (name, "run1.notes.txt"):
        (work / each).write_text("precious")
    check_refusal(
        folder.run(), f"Error: work/{name}: the run needs this name, and the file is not an"
    )
    (work / name).unlink()
    assert folder.run().exit_code == 0
    assert (work / "run1.notes.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-o", "."], "moses.ini: would overwrite another file"),
        (["-o", ""], "-o: expected the name of a folder, found ''"),
        (["--working-dir", ""], "--working-dir: expected the name of a folder, found ''"),
        (["--report", "source"], "source: would overwrite another file"),
        (["lists.toml", "--report", "lex"], "lex: would overwrite another file"),
        (["--report", "good.gz"], "good.gz: would overwrite another file"),
        (["--report", "work/tune.json"], "work/tune.json: the run needs this name in work"),
        (["--weights", "work/run3.weights"], "work/run3.weights: the run needs this name in work"),
    ],
)
def test_no_file_of_the_decoder_or_the_loop_is_overwritten(
    folder: Folder, options: list[str], problem: str
) -> None:
    # Files of the decoder are known by its command and its moses.ini alone.
    ini = (folder.path / "moses.ini").read_text().replace("Good\n", "Good path=good\n", 1)
    (folder.path / "moses.ini").write_text(ini)
    (folder.path / "work").mkdir()
    (folder.path / "work" / "run3.weights").write_text("Good0= 0.25\n")
    (folder.path / "work" / "tune.json").write_text("{}")
    for name in ("lex", "good.gz"):
        (folder.path / name).write_text("precious")
    (folder.path / folder.write_system('lexicon = "lex"')).rename(folder.path / "lists.toml")
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    code = 2 if "" in options else 1
    check_refusal(folder.run(*options), problem, code)
    after = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    assert after == before


def test_a_run_with_another_moses_ini_is_not_gone_on_with(folder: Folder) -> None:
    assert folder.run("--iterations", "1").exit_code == 0
    (folder.path / "moses.ini").write_text(INI + "[distortion-limit]\n2\n")
    check_refusal(folder.run("--resume"), "work was started with another value for moses.ini (")


def test_a_run_with_another_model_is_not_gone_on_with(folder: Folder) -> None:
    lexicon = folder.path / "lex"
    lexicon.write_text("one w1 0.5\ntwo w2 0.5\n")
    RandomCslm(["w1", "w2"], self_normalization=0.5, path=folder.path / "cslm")
    options = ["system.toml", "--iterations", "1"]
    folder.write_system('lexicon = "lex"', 'model = "cslm"')
    succeeded(folder.run(*options))
    resumed = "work was started with another value for "
    lexicon.write_text("one w1 0.25\ntwo w2 0.5\n")
    check_refusal(folder.run(*options, "--resume"), f"{resumed}content of the models (")
    folder.write_system('lexicon = "lex"', 'model = "cslm", unnormalized = true')
    check_refusal(folder.run(*options, "--resume"), resumed)
