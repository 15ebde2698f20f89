"""The command line as a user meets it: exit codes, stdout, stderr."""

import errno
import gzip
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

from phrasescore import __version__
from phrasescore.cli import VerbGroup, main
from phrasescore.errors import DataError
from tests.command_line import check_refusal, run
from tests.doubles import RandomModel

COMMAND = [sys.executable, "-m", "phrasescore"]


def _group_whose_verb_raises(error: BaseException) -> click.Group:
    @click.group(cls=VerbGroup)
    def group() -> None:
        pass

    @group.command()
    def verb() -> None:
        raise error

    return group


@pytest.mark.parametrize(
    ("error", "exit_code", "stderr"),
    [
        pytest.param(
            DataError("t.gz", 3, "expected a number"),
            1,
            "Error: t.gz:3: expected a number\n",
            id="data",
        ),
        pytest.param(
            DataError("a\nb", 3, "is bad"), 1, "Error: a\\nb:3: is bad\n", id="line-break-in-a-name"
        ),
        pytest.param(
            DataError("t", 3, "\x1b[2J\x9b2J\x7f\x07\t\u202e\u2028 été \U0001f600"),
            1,
            "Error: t:3: \\u001b[2J\\u009b2J\\u007f\\u0007\t\\u202e\\u2028 été \U0001f600\n",
            id="control-characters",
        ),
        pytest.param(KeyboardInterrupt(), 130, "phrasescore: interrupted\n", id="ctrl-c"),
        pytest.param(BrokenPipeError(), 141, "", id="closed-pipe"),
        pytest.param(
            PermissionError(errno.EACCES, "Permission denied", "out.gz"),
            1,
            "Error: out.gz: Permission denied\n",
            id="permission",
        ),
        pytest.param(
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "Error: No space left on device\n",
            id="full-disk",
        ),
    ],
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(
    error: BaseException, exit_code: int, stderr: str
) -> None:
    result = CliRunner().invoke(_group_whose_verb_raises(error), ["verb"])
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", stderr)


@pytest.mark.parametrize("bug", [ValueError("a bug"), OSError(errno.EBADF, "Bad descriptor")])
def test_a_bug_keeps_its_traceback(bug: Exception) -> None:
    result = CliRunner().invoke(_group_whose_verb_raises(bug), ["verb"])
    assert result.exception is bug


def test_control_characters_of_a_file_are_shown_and_not_sent(tmp_path: Path) -> None:
    RandomModel(tmp_path / "model", ["a"], ["b"])
    path = tmp_path / "model" / "training.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"stopped_by": "\x1b[2J\x9bx\u202ey"})
    )
    result = run("show", tmp_path / "model")
    assert "stopped by \\u001b[2J\\u009bx\\u202ey\n" in re.sub(r"\n {5,}", " ", result.stdout)
    assert "\x1b" not in result.stdout
    as_json = run("show", tmp_path / "model", "--format", "json")
    assert "\x9b" not in as_json.stdout
    assert json.loads(as_json.stdout)["training"]["stopped_by"] == "\x1b[2J\x9bx\u202ey"


def test_control_characters_in_a_warning_are_shown_and_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger("phrasescore.workflows.show").warning("\x1b[2J\x07")
    assert capsys.readouterr().err == "phrasescore: warning: \\u001b[2J\\u0007\n"


def test_usage_errors_exit_2() -> None:
    check_refusal(run("show"), "Missing argument", 2)


@pytest.mark.parametrize(
    ("verb", "problem"),
    [
        ("anotate", "No such command 'anotate'. Did you mean 'annotate'?"),
        ("build_lm", "No such command 'build_lm'. Did you mean 'build-lm'?"),
        ("shwo", "No such command 'shwo'. Did you mean 'show'?"),
        ("quit", "No such command 'quit'."),
    ],
)
def test_an_unknown_verb_is_a_usage_error_that_names_the_nearest(verb: str, problem: str) -> None:
    check_refusal(run(verb), f"Error: {problem}\n", 2)


def test_an_unknown_option_before_the_verb_is_a_usage_error() -> None:
    check_refusal(run("--quite", "show"), "No such option '--quite'", 2)


def test_version_goes_to_stdout() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"phrasescore {__version__}\n")


def test_a_reader_that_goes_away_is_no_error_on_stderr(tiny_table: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stdout:
        done = subprocess.run(
            [*COMMAND, "-q", "show", str(tiny_table)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_stdout_is_one_line_and_exit_1(tiny_table: Path) -> None:
    with open("/dev/full", "wb") as stdout:
        done = subprocess.run(
            [*COMMAND, "-q", "show", str(tiny_table)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")


def test_without_a_folder_for_compiled_code_it_is_said_what_to_do() -> None:
    error = RuntimeError("cannot cache function 'f': no locator available for file 'g.py'")
    check_refusal(
        CliRunner().invoke(_group_whose_verb_raises(error), ["verb"]),
        "Error: no folder for compiled code is writable; set NUMBA_CACHE_",
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has\n..."),
            "out of memory: CUDA out of memory",
        ),
        (RuntimeError("can't allocate memory: you tried 8 bytes"), "out of memory: can't allocate"),
        (MemoryError(), "out of memory\n"),
        (
            RuntimeError("CUDA error: out of memory\nCUDA kernel errors"),
            "out of memory: CUDA error",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when"), "out of memory: CUDA error"),
    ],
)
def test_short_memory_is_one_line(error: Exception, said: str) -> None:
    check_refusal(CliRunner().invoke(_group_whose_verb_raises(error), ["verb"]), f"Error: {said}")


def test_another_error_is_a_bug_and_shows_where_it_is() -> None:
    result = CliRunner().invoke(_group_whose_verb_raises(RuntimeError("a bug")), ["verb"])
    assert isinstance(result.exception, RuntimeError)


def test_show_reports_a_table_as_aligned_text(tiny_table: Path) -> None:
    result = run("-q", "show", tiny_table)
    assert (result.exit_code, result.stderr) == (0, "")
    # Logarithms: mean of ln 0.25, ln 0.25, ln 0.5, ln 1 = -5 ln 2 / 4 = -0.8664; of three times
    # ln 0.5 and ln 0.125 = -6 ln 2 / 4 = -1.0397.
    assert result.stdout == (
        "lines                 4\n"
        "distinct sources      2\n"
        "distinct targets      4\n"
        "targets per source    mean 2.00, median 2, max 3 (of 'la maison')\n"
        "times extracted       7 in all (joint counts)\n"
        "lines extracted once  2 (50.0%)\n"
        "lines without counts  0\n"
        "\n"
        "words  source phrases         target phrases\n"
        "    1               1  25.0%               1  25.0%\n"
        "    2               3  75.0%               3  75.0%\n"
        "\n"
        "column  lowest  highest  mean of ln\n"
        "     1    0.25        1     -0.8664\n"
        "     2   0.125      0.5     -1.0397\n"
    )


def test_show_reports_a_table_as_json(tiny_table: Path) -> None:
    result = run("show", tiny_table, "--format", "json", "-q")
    report = json.loads(result.stdout)
    assert report["path"] == str(tiny_table)
    assert report["source_lengths"] == {"1": 1, "2": 3}
    assert report["targets_per_source"]["max_source"] == "la maison"
    assert report["coverage"] is None


@pytest.mark.parametrize("reverse", [False, True])
def test_show_measures_what_a_models_shortlists_cover(
    tiny_table: Path, tmp_path: Path, reverse: bool
) -> None:
    import torch

    from phrasescore.models.checkpoint import (
        FORWARD,
        REVERSE,
        Checkpoint,
        TrainingRecord,
        save_checkpoint,
    )
    from phrasescore.models.encoder_decoder import EncoderDecoder
    from phrasescore.settings.config import Config
    from phrasescore.settings.kinds import EncoderDecoderConfig
    from phrasescore.vocabulary import Vocabulary

    sizes = EncoderDecoderConfig(hidden_size=4, embedding_size=3, maxout_size=2, output_rank=2)
    read, predicted = Vocabulary(["la", "maison"]), Vocabulary(["the", "house"])
    if reverse:
        read, predicted = predicted, read
    network = EncoderDecoder(sizes, len(read), len(predicted))
    network.initialize(torch.Generator().manual_seed(1))
    record = TrainingRecord(direction=REVERSE if reverse else FORWARD)
    model = Checkpoint(network, Config(model=sizes), read, predicted, record)
    save_checkpoint(tmp_path / "model", model)
    arguments = ["-q", "show", str(tiny_table), "--model", str(tmp_path / "model")]
    result = run(*arguments)
    # 6 of 7 source words (all but "rue"), 8 of 11 by count; 4 of 7 target words, 6 of 11 by count.
    assert [line.split("  ", 1) for line in result.stdout.splitlines()[7:10]] == [
        ["source words in shortlist", "85.71% of the running words; 72.73% weighted by the counts"],
        ["target words in shortlist", "57.14% of the running words; 54.55% weighted by the counts"],
        ["pairs without <unk>", "      25.00% of the lines"],
    ]


def test_show_reads_stdin(tiny_table: Path) -> None:
    result = run("-q", "show", "-", "--format", "json", stdin=tiny_table.read_bytes())
    assert json.loads(result.stdout)["lines"] == 4


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"0 ||| la rue  ||| LM0= -1 ||| -1\n", "expected a number as score, found 'LM0='"),
        (b"# of Moses\n[input-factors]\n0\n", "expected at least 3 fields separated by '|||'"),
        (b"\x08\x00\x00\x00", "expected at least 3 fields separated by '|||'"),
    ],
)
def test_show_names_the_first_line_that_is_not_one_of_a_table(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    for name, data in (("plain", content), ("packed.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        check_refusal(run("-q", "show", path), f"Error: {path}:1: {problem}")


@pytest.mark.parametrize("content", ["b ||| x ||| 1\na ||| y ||| 1\nb ||| z ||| 1\n", "bad\n"])
def test_show_reads_a_pipe_once(tmp_path: Path, content: str) -> None:
    # Of the table, in which a source stands apart, and of what is none, a file is read again.
    plain, pipe = tmp_path / "plain", tmp_path / "pipe"
    plain.write_text(content)
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(plain), str(pipe)]):
        done = run("-q", "show", pipe)
    if content == "bad\n":
        check_refusal(done, f"Error: {pipe}:1: expected at least 3 fields")
    else:
        assert (done.exit_code, done.stderr) == (0, "")
        assert "distinct sources      2\n" in done.stdout
        assert "targets per source    mean 1.50, median 1.5, max 2\n" in done.stdout


def test_letters_that_a_locale_lacks_cost_no_report(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("œil ||| eye ||| 1\nœil ||| view ||| 1\n", "utf-8")
    done = CliRunner(charset="latin-1").invoke(main, ["-q", "show", str(table)])
    assert (done.exit_code, done.stderr_bytes) == (0, b"")
    assert b"max 2 (of '\\u0153il')" in done.stdout_bytes


def test_show_refuses_a_folder_that_is_no_model(tmp_path: Path) -> None:
    result = run("show", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {tmp_path}: expected the folder of a model, of build or of an experiment, found "
        "none of their files\n"
    )


def test_quiet_and_verbose_may_stand_before_or_after_the_verb(tiny_table: Path) -> None:
    loud = run("show", tiny_table)
    assert loud.stderr.startswith("phrasescore: show: 4 lines in ")
    for arguments in (["-q", "show", str(tiny_table)], ["show", "-q", str(tiny_table)]):
        assert run(*arguments).stderr == ""


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_a_device_that_torch_has_no_name_for_is_a_usage_error(device: str) -> None:
    check_refusal(
        run("annotate", "t", "--model", "m", "--device", device),
        f"expected auto, cpu, cuda or cuda:N, got {device!r}",
        2,
    )


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["evaluate", "x", "--references", "y", "--paired"], "approximate or bootstrap"),
        (["evaluate", "x", "--references", "y", "--by-length"], "source or reference"),
        (["rescore", "x", "--source"], "SRC"),
    ],
)
def test_an_option_without_its_value_says_what_it_takes(arguments: list[str], values: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr == f"Error: Option '{arguments[-1]}' requires an argument: {values}\n"


def test_a_model_that_is_none_is_told_from_a_file_and_from_another_folder(
    tmp_path: Path, tiny_table: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name, found in (
        ("nothing", "nothing of this name"),
        ("file", "a file"),
        ("folder", "a folder without any file of a model"),
    ):
        model = str(tmp_path / name)
        result = run("annotate", tiny_table, "--model", model)
        assert result.exit_code == 1
        problem = f"expected the folder of a trained model, found {found}"
        assert result.stderr == f"Error: {model}: {problem}\n"
