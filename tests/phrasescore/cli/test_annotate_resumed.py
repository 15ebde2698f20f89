"""Promises of ``phrasescore annotate`` that is stopped, and goes on: what it leaves behind."""

import gzip
import json
import resource
import signal
import time
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomModel
from tests.forked import Forked, run_command
from tests.random_tables import make_model, make_table

# Small enough that a table of 2,007 lines is read and written in many steps.
CHUNK = 100
SIZES = {
    "phrasescore.io.text.BLOCK_SIZE": 4096,
    "phrasescore.workflows.annotate.CHUNK_LINES": CHUNK,
    "phrasescore.systems.scoring.BLOCK_SIZE": {"cpu": CHUNK},
}


def annotate_in_small_chunks(*arguments: str) -> None:
    for name, size in SIZES.items():
        module, _, constant = name.rpartition(".")
        setattr(resolve_name(module), constant, size)
    run_command("annotate", *arguments)


def annotate_on_a_small_disk(limit: str, *arguments: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    annotate_in_small_chunks(*arguments)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in SIZES.items():
        monkeypatch.setattr(name, size)


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return make_model(tmp_path / "model")


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "long", 20 * CHUNK + 7)


@pytest.fixture
def whole(tmp_path: Path, model: RandomModel, long_table: Path) -> bytes:
    out = tmp_path / "whole"
    assert run(long_table, "--model", model.path, "-o", out).exit_code == 0
    data = out.read_bytes()
    out.unlink()
    return data


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["annotate", *map(str, arguments)])


def start(*arguments: object) -> Forked:
    return Forked(annotate_in_small_chunks, *map(str, arguments))


def finish(process: Forked) -> tuple[int | None, bytes, str]:
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr.decode()


def feed(process: Forked, table: Path) -> None:
    process.stdin.write(b"".join(table.read_bytes().splitlines(keepends=True)[: 15 * CHUNK]))
    process.stdin.flush()


def stop_in_the_middle(process: Forked, out: Path, table: Path, number: int) -> str:
    """Feed some of the table, wait until some of it is written, and send a signal."""
    feed(process, table)
    journal = Path(f"{out}.part.json")
    deadline = time.monotonic() + 100
    while not journal.exists() or json.loads(journal.read_text())["lines"] < 3 * CHUNK:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(number)
    return finish(process)[2]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("out", signal.SIGKILL),
        ("out.gz", signal.SIGINT),
        pytest.param("out.gz", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("out", signal.SIGTERM, marks=pytest.mark.slow),
    ],
    ids=["kill -9", "Ctrl-C, gzip", "kill -9, gzip", "kill"],
)
def test_a_stopped_run_resumes_to_the_same_bytes(
    tmp_path: Path, model: RandomModel, long_table: Path, whole: bytes, name: str, number: int
) -> None:
    out = tmp_path / name
    out.write_bytes(b"older")
    options = ["--model", model.path, "--threads", "2", "-o", out]
    process = start("-", *options)
    stderr = stop_in_the_middle(process, out, long_table, number)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert "--resume" in stderr
        assert "Traceback" not in stderr
    assert out.read_bytes() == b"older"
    # Not by accident: without --resume, nothing that is done is thrown away.
    result = run(long_table, *options)
    assert result.exit_code == 1
    assert "--resume" in result.stderr
    result = succeeded(run(long_table, *options, "--resume"))
    assert "continuing after line" in result.stderr
    if name == "out":
        assert out.read_bytes() == whole
    else:
        again = tmp_path / "again.gz"
        assert run(long_table, *options[:-1], again).exit_code == 0
        assert out.read_bytes() == again.read_bytes()
        assert gzip.decompress(out.read_bytes()) == whole
        again.unlink()
    assert {path.name for path in tmp_path.iterdir()} == {"model", "long", name}


def test_a_full_disk_keeps_the_old_output_and_says_how_to_go_on(
    tmp_path: Path, model: RandomModel, long_table: Path, whole: bytes
) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"older")
    limit = len(whole) // 2

    options = ["--model", model.path, "-o", out]
    arguments = map(str, (limit, long_table, *options))
    code, _, stderr = finish(Forked(annotate_on_a_small_disk, *arguments))
    assert code == 1
    assert f"Error: {out}: cannot write: File too large" in stderr
    assert "Traceback" not in stderr
    assert out.read_bytes() == b"older"
    assert run(long_table, *options, "--resume").exit_code == 0
    assert out.read_bytes() == whole


@pytest.mark.slow
def test_two_runs_cannot_write_one_file(
    tmp_path: Path, model: RandomModel, long_table: Path
) -> None:
    out = tmp_path / "out"
    first = start("-", "--model", model.path, "-o", out)
    feed(first, long_table)
    while not Path(f"{out}.part").exists():
        assert first.poll() is None
        time.sleep(0.02)
    check_refusal(
        run(long_table, "--model", model.path, "-o", out, "--resume"),
        "another run is writing this file",
    )
    assert finish(first)[0] == 0
    assert out.read_bytes().count(b"\n") == 15 * CHUNK
