"""The command line as a user meets it: exit codes, stdout, stderr."""

import errno
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

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
    check_refusal(run("translate"), "Missing argument", 2)


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


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "œil.ini"
    path.write_text("[feature]\nWordPenalty\n\n[weight]\nWordPenalty0= -1\n", "utf-8")
    return path


def show(system: Path, stdout: BinaryIO) -> tuple[int, bytes]:
    command = [*COMMAND, "-q", "show", str(system)]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr


def test_a_reader_that_goes_away_is_no_error_on_stderr(system: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stdout:
        assert show(system, stdout) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_stdout_is_one_line_and_exit_1(system: Path) -> None:
    with open("/dev/full", "wb") as stdout:
        assert show(system, stdout) == (1, b"Error: No space left on device\n")


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
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors"), "out of memory: CUDA"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when"), "out of memory: CUDA error"),
    ],
)
def test_short_memory_is_one_line(error: Exception, said: str) -> None:
    check_refusal(CliRunner().invoke(_group_whose_verb_raises(error), ["verb"]), f"Error: {said}")


def test_another_error_is_a_bug_and_shows_where_it_is() -> None:
    result = CliRunner().invoke(_group_whose_verb_raises(RuntimeError("a bug")), ["verb"])
    assert isinstance(result.exception, RuntimeError)


def test_letters_that_a_locale_lacks_cost_no_report(system: Path) -> None:
    done = CliRunner(charset="latin-1").invoke(main, ["-q", "show", str(system)])
    assert (done.exit_code, done.stderr_bytes) == (0, b"")
    assert b"\\u0153il.ini\n" in done.stdout_bytes


def test_show_refuses_what_it_does_not_know(tmp_path: Path, tiny_table: Path) -> None:
    for path, found in (
        (tmp_path, ": expected a system: a folder with system.toml, or a moses.ini"),
        (tiny_table, ":1: expected a system: a folder with system.toml, or a moses.ini"),
        (tmp_path / "nothing", ": cannot open: No such file or directory"),
    ):
        result = run("show", path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {path}{found}")


def test_quiet_and_verbose_may_stand_before_or_after_the_verb(tiny_table: Path) -> None:
    words = ["annotate", str(tiny_table), "--feature", "number_mismatch"]
    assert run(*words).stderr.startswith("phrasescore: ")
    for arguments in (["-q", *words], [*words, "-q"]):
        assert run(*arguments).stderr == ""


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_a_device_that_torch_has_no_name_for_is_a_usage_error(device: str) -> None:
    check_refusal(
        run("annotate", "t", "--model", "m", "--device", device),
        f"expected auto, cpu, cuda or cuda:N, got {device!r}",
        2,
    )


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
