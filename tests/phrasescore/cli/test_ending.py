"""What ends a command and what does not: signals, and a stderr that takes nothing."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import leashed
from tests.forked import Forked, run_command

COMMAND = [sys.executable, "-m", "phrasescore"]


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
def test_a_signal_ends_a_run_with_one_line(
    tmp_path: Path, number: int, code: int, said: str
) -> None:
    # A named pipe lets the test know that the command is in the middle of reading.
    pipe = tmp_path / "lists"
    os.mkfifo(pipe)
    (tmp_path / "weights").write_text("LM0= 1\n")
    command = ("-q", "rerank", str(pipe), "--weights", str(tmp_path / "weights"))
    with Forked(run_command, *command) as process:
        with open(pipe, "wb") as lists:  # returns when the command has opened it, too
            lists.write(b"0 ||| the ||| LM0= -1 ||| -1\n")
            lists.flush()
            for _ in range(5):
                # One that comes just before Python asks for more to read waits for what it gets.
                process.send_signal(number)
                if process.wait(20) is not None:
                    break
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (code, b"", f"phrasescore: {said}\n".encode())


GROUP_THAT_IMPORTS = """
import click
from phrasescore.cli import VerbGroup

@click.group(cls=VerbGroup)
def group():
    pass

@group.command()
def verb():
    import slow
    print("the verb goes on", flush=True)

group(["verb"])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_an_import_swallows_ends_the_command(
    tmp_path: Path, number: int, code: int
) -> None:
    # As torch does when it imports numpy, the module swallows what comes.
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "try:\n"
        "    print('begins', flush=True)\n"
        "    time.sleep(20)\n"
        "except BaseException:\n"
        "    pass\n"
    )
    with subprocess.Popen(
        leashed([sys.executable, "-c", GROUP_THAT_IMPORTS]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begins\n"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert stdout == b"the verb goes on\n"
    assert process.returncode == code, stderr
    assert stderr.count(b"\n") == 1


def test_a_closed_stderr_stops_nothing(tiny_table: Path) -> None:
    words = ["annotate", str(tiny_table), "--feature", "number_mismatch"]
    command = shlex.join([*COMMAND, *words])
    done = subprocess.run(["sh", "-c", f"{command} 2>&-"], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 4
