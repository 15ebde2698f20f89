"""Promises of phrasescore.io.output: what is written, whole or not at all."""

import errno
import fcntl
import gzip
import io
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import check_output, open_output
from phrasescore.io.text import read_blocks, same_file
from tests.streams import MANY_LINES, Stream


class FullDisk(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:  # noqa: ARG002
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class GonePipe(FullDisk):
    def write(self, data: object) -> int:  # noqa: ARG002
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_what_is_written_is_what_is_read(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with open_output(path) as output:
        for line in MANY_LINES.splitlines(keepends=True):
            output.write(line)
    assert b"".join(read_blocks(path)) == MANY_LINES
    unpack = gzip.decompress if name == "out.gz" else bytes
    assert unpack(Path(path).read_bytes()) == MANY_LINES
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(("ending", "program"), [("bz2", "bzip2"), ("xz", "xz")])
def test_bzip2_and_xz_are_refused(tmp_path: Path, ending: str, program: str) -> None:
    path = str(tmp_path / f"out.{ending}")
    problem = f"cannot write {program}; name a file that ends in .gz, .* | {program} > FILE"
    for check in (check_output, lambda name: open_output(name).__enter__()):
        with pytest.raises(PhrasescoreError, match=problem.replace("|", r"\|")):
            check(path)
    assert os.listdir(tmp_path) == []


def test_the_same_data_make_the_same_gzip_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with open_output(str(tmp_path / name)) as output:
            output.write(MANY_LINES)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [b"old", None], ids=["old", "none"])
def test_an_exception_leaves_the_folder_as_it_was(
    tmp_path: Path, name: str, raised: type[BaseException], old: bytes | None
) -> None:
    path = tmp_path / name
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(raised), open_output(str(path)) as output:
        output.write(MANY_LINES)
        raise raised
    assert os.listdir(tmp_path) == ([name] if old is not None else [])
    assert old is None or path.read_bytes() == old


def test_the_target_is_untouched_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with open_output(str(path)) as output:
        output.write(MANY_LINES)
        output.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == MANY_LINES


def test_what_a_killed_run_has_left_is_replaced_by_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    program = (
        "import os, signal, sys\n"
        "from phrasescore.io.output import open_output\n"
        "with open_output(sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == -9
    assert os.listdir(tmp_path) == ["out.phrasescore-part"]
    with open_output(path) as output:
        output.write(b"new")
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"new"


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_output(str(path)) as first:
        with pytest.raises(PhrasescoreError, match="part: another run is writing this file"):
            open_output(str(path)).__enter__()
        first.write(b"first")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_locks_has_outputs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = str(tmp_path / "out")
    with open_output(path) as first:
        first.write(b"first")
    assert (tmp_path / "out").read_bytes() == b"first"


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with open_output(str(tmp_path / "out")) as output:
            output.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_a_replaced_file_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to("real")
    with open_output(str(tmp_path / "link")) as output:
        output.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o604


def test_a_device_is_written_and_not_replaced() -> None:
    with open_output("/dev/null") as output:
        output.write(MANY_LINES)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_missing_folder_or_a_folder_as_target_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PhrasescoreError, match=r"out: cannot write: there is no folder .*none"):
        open_output(str(tmp_path / "none" / "out")).__enter__()
    with pytest.raises(PhrasescoreError, match="expected a file, found a folder"):
        open_output(str(tmp_path)).__enter__()
    with pytest.raises(PhrasescoreError, match="expected the name of a file to write, found ''"):
        open_output("").__enter__()
    with pytest.raises(
        PhrasescoreError, match=r"expected the name of a file to write, found '.*/'"
    ):
        open_output(str(tmp_path / "none") + "/").__enter__()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PhrasescoreError, match="loop: cannot write: Too many levels"):
        open_output(str(tmp_path / "loop")).__enter__()


def test_a_pipe_is_written_under_the_name_that_a_shell_gives_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"/dev/fd/{writing}")
    for name in (f"/dev/fd/{writing}", f"/proc/self/fd/{writing}", str(link)):
        check_output(name)
        with open_output(name) as output:
            output.write(b"some text\n")
        assert os.read(reading, 100) == b"some text\n"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("size", [1000, 1_000_000, 4_000_000])
def test_a_full_disk_is_an_error_that_names_the_file_and_not_its_own_context(
    tmp_path: Path, name: str, size: int
) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(PhrasescoreError) as caught, open_output(str(tmp_path / name)) as output:
        output.write(os.urandom(size))
    assert str(caught.value).endswith(f"{name}: cannot write: No space left on device")
    # An ExitStack, as of `generate`, looks for the end of the contexts.
    contexts = [caught.value.__context__]
    while contexts[-1] is not None and len(contexts) < 10:
        contexts.append(contexts[-1].__context__)
    assert contexts[-1] is None


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_full_disk_leaves_the_old_file_and_no_part(tmp_path: Path, name: str) -> None:
    # A limit on the size of files stands in for the disk: the write fails half-way in the same way.
    (tmp_path / name).write_bytes(b"old")
    program = (
        "import os, sys\n"
        "from phrasescore.io.output import open_output\n"
        "from phrasescore.errors import PhrasescoreError\n"
        "try:\n"
        "    with open_output(sys.argv[1]) as output:\n"
        "        for _ in range(100):\n"
        "            output.write(os.urandom(100_000))\n"
        "except PhrasescoreError as error:\n"
        "    sys.stdout.write(str(error))\n"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    path = str(tmp_path / name)
    ran = subprocess.run(
        [sys.executable, "-c", program, path],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout == f"{path}: cannot write: File too large"
    assert ran.stderr == ""
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"old"


def test_an_error_while_reading_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_output(str(tmp_path / "out")):
        os.stat(tmp_path / "something else")


def test_a_dash_writes_stdout_and_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Stream(raw))
    with open_output("-") as output:
        output.write(MANY_LINES)
    assert raw.getvalue() == MANY_LINES


def test_stdout_on_a_full_disk_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(FullDisk()))
    message = r"^<stdout>: cannot write: No space left"
    with pytest.raises(PhrasescoreError, match=message), open_output("-") as output:
        output.write(MANY_LINES)


def test_a_closed_pipe_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(GonePipe()))
    with pytest.raises(BrokenPipeError), open_output("-") as output:
        output.write(MANY_LINES)


def test_same_file_sees_through_links_and_dots(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"")
    (tmp_path / "symbolic").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for other in ("symbolic", "hard", f"../{tmp_path.name}/table"):
        assert same_file(str(path), str(tmp_path / other))
    assert same_file(str(tmp_path / "new"), f"{tmp_path}/./new")
    assert not same_file(str(path), str(tmp_path / "new"))
    assert not same_file("-", "-")
