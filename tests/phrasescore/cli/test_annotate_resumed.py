"""Promises of ``phrasescore annotate`` that is stopped, and goes on: what it leaves behind."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from phrasescore.cli import main
from tests.doubles import RandomModel
from tests.random_tables import make_model, make_table

CHUNK = 500
SMALL_CHUNKS = f"""
import sys
import phrasescore.workflows.annotate as annotate
import phrasescore.features.neural as neural
annotate.CHUNK_LINES = {CHUNK}
neural.BLOCK_SIZE["cpu"] = {CHUNK}
from phrasescore.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return make_model(tmp_path / "model")


def start(
    *arguments: object, preexec_fn: Callable[[], None] | None = None
) -> "subprocess.Popen[bytes]":
    """Start annotate with small chunks in a process of its own."""
    command = [sys.executable, "-c", SMALL_CHUNKS, "annotate", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=preexec_fn)


def finish(process: "subprocess.Popen[bytes]", data: bytes = b"") -> tuple[int, bytes, str]:
    stdout, stderr = process.communicate(data, timeout=120)
    return process.returncode, stdout, stderr.decode()


def stop_in_the_middle(
    process: "subprocess.Popen[bytes]", out: Path, data: bytes, number: int
) -> str:
    """Feed some of the table, wait until some of it is written, and send a signal."""
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()
    journal = Path(f"{out}.part.json")
    deadline = time.monotonic() + 100
    while not journal.exists() or json.loads(journal.read_text())["lines"] < 3 * CHUNK:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(number)
    return finish(process)[2]


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "long", 20 * CHUNK + 7)


def head(table: Path, num_lines: int) -> bytes:
    return b"".join(line + b"\n" for line in table.read_bytes().split(b"\n")[:num_lines])


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("out", signal.SIGKILL),
        ("out.gz", signal.SIGKILL),
        ("out.gz", signal.SIGINT),
        ("out.gz", signal.SIGTERM),
    ],
    ids=["kill -9", "kill -9, gzip", "Ctrl-C, gzip", "kill, gzip"],
)
def test_a_stopped_run_resumes_to_the_same_bytes(
    tmp_path: Path, model: RandomModel, long_table: Path, name: str, number: int
) -> None:
    out, whole = tmp_path / name, tmp_path / f"whole.{name}"
    out.write_bytes(b"older")
    options = ["--model", model.path, "--threads", "2"]
    process = start("-", *options, "-o", out)
    stderr = stop_in_the_middle(process, out, head(long_table, 15 * CHUNK), number)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert "--resume" in stderr
        assert "Traceback" not in stderr
    assert out.read_bytes() == b"older"
    # Not by accident: without --resume, nothing that is done is thrown away.
    again = ["annotate", *map(str, [long_table, *options, "-o", out])]
    result = CliRunner().invoke(main, again)
    assert result.exit_code == 1
    assert "--resume" in result.stderr
    code, _, stderr = finish(start(long_table, *options, "-o", out, "--resume"))
    assert code == 0, stderr
    assert "going on after line" in stderr
    assert finish(start(long_table, *options, "-o", whole))[0] == 0
    assert out.read_bytes() == whole.read_bytes()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"model", "long", name, f"whole.{name}"}


def test_a_resumed_run_must_have_the_same_table_and_columns(
    tmp_path: Path, model: RandomModel, long_table: Path
) -> None:
    out = tmp_path / "out"
    other = make_model(tmp_path / "other", seed=8)
    process = start("-", "--model", model.path, "-o", out)
    stop_in_the_middle(process, out, head(long_table, 15 * CHUNK), signal.SIGKILL)
    part = Path(f"{out}.part").read_bytes()
    code, _, stderr = finish(start(long_table, "--model", other.path, "-o", out, "--resume"))
    assert (code, stderr.count("\n")) == (1, 1)
    assert "another column 1" in stderr
    assert Path(f"{out}.part").read_bytes() == part
    changed = tmp_path / "changed"
    changed.write_bytes(long_table.read_bytes().replace(b"0.5 1 ", b"0.5 2 ", 1))
    code, _, stderr = finish(start(changed, "--model", model.path, "-o", out, "--resume"))
    assert (code, stderr.count("\n")) == (1, 2)
    assert f"{changed}: its first" in stderr
    assert "out.part still holds the first" in stderr
    assert "the same command" not in stderr
    # What was done for the right table is still there.
    good = json.loads(Path(f"{out}.part.json").read_text())["bytes"]
    assert Path(f"{out}.part").read_bytes()[:good] == part[:good]
    assert finish(start(long_table, "--model", model.path, "-o", out, "--resume"))[0] == 0


def test_a_full_disk_keeps_the_old_output_and_says_how_to_go_on(
    tmp_path: Path, model: RandomModel, long_table: Path
) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"older")

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    options = ["--model", model.path, "-o", out]
    code, _, stderr = finish(start(long_table, *options, preexec_fn=limit_file_size))
    assert code == 1
    assert f"Error: {out}: cannot write: File too large" in stderr
    assert "Traceback" not in stderr
    assert out.read_bytes() == b"older"
    assert finish(start(long_table, *options, "--resume"))[0] == 0
    assert len(out.read_bytes().split(b"\n")) == 20 * CHUNK + 8


def test_a_closed_pipe_ends_quietly(model: RandomModel, long_table: Path) -> None:
    with start(long_table, "--model", model.path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        stderr = process.stderr.read().decode()
    assert process.returncode == 141
    assert "Traceback" not in stderr
    assert "Error" not in stderr


def test_a_pipe_may_be_named_as_the_shell_names_it(
    tmp_path: Path, model: RandomModel, long_table: Path
) -> None:
    whole = tmp_path / "whole"
    assert finish(start(long_table, "--model", model.path, "-o", whole))[0] == 0
    code, stdout, stderr = finish(start(long_table, "--model", model.path, "-o", "/dev/stdout"))
    assert code == 0, stderr
    assert stdout == whole.read_bytes()


def test_two_runs_cannot_write_one_file(
    tmp_path: Path, model: RandomModel, long_table: Path
) -> None:
    out = tmp_path / "out"
    first = start("-", "--model", model.path, "-o", out)
    data = head(long_table, 15 * CHUNK)
    assert first.stdin is not None
    first.stdin.write(data)
    first.stdin.flush()
    while not Path(f"{out}.part").exists():
        assert first.poll() is None
        time.sleep(0.02)
    code, _, stderr = finish(start(long_table, "--model", model.path, "-o", out, "--resume"))
    assert code == 1
    assert "another run is writing this file" in stderr
    assert finish(first)[0] == 0
    assert out.read_bytes().count(b"\n") == 15 * CHUNK
