"""Start commands from a process that has imported torch and the rest, most of what a start takes.

``python -m tests.faults.starter FD`` is that process: it forks for each command that comes through
the socket FD. What a command does from its first line to the end of its interpreter is the same.
"""

import contextlib
import importlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

import phrasescore.cli

_HEAVY = ("cli", "workflows", "features", "models", "training", "generation")


class Started:
    """A command that runs; its processes are a session of their own."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = self._read()
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or minus the signal that ended it."""
        if self._status is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("phrasescore", timeout or 0)
            self._status = self._read()
        return self._status

    def _read(self) -> int:
        return int(self._connection.recv(16))


class Starter:
    """Start one command after the other."""

    def __init__(self) -> None:
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = (sys.executable, "-m", "tests.faults.starter", str(other.fileno()))
        always = {**os.environ, "SOURCE_DATE_EPOCH": "1"}  # the date of a report
        subprocess.Popen(command, pass_fds=[other.fileno()], env=always)
        other.close()
        self._last: Started | None = None

    def start(
        self, arguments: list[str], folder: Path, stderr: int, limit: int | None = None
    ) -> Started:
        """Start a command in a folder, with a limit of the bytes of each file that it writes."""
        if self._last is not None:
            self._last.wait()
        request = json.dumps([arguments, str(folder), limit]).encode()
        socket.send_fds(self._connection, [request], [stderr])
        self._last = Started(self._connection)
        return self._last

    def run(
        self, arguments: list[str], folder: Path, seconds: float, limit: int | None = None
    ) -> tuple[int, str]:
        """Return the exit code and what was written on stderr, of which a pipe holds the whole."""
        reading, writing = os.pipe()
        with open(reading, "rb", 0) as stderr:
            try:
                started = self.start(arguments, folder, writing, limit)
            finally:
                os.close(writing)
            os.set_blocking(reading, False)
            try:
                status = started.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, 9)
                raise
            return status, (stderr.read(1 << 16) or b"").decode(errors="replace")


@cache
def starter() -> Starter:
    """Return the one of this campaign."""
    return Starter()


def _serve(connection: socket.socket) -> None:
    """Fork for each request; return in the child, or at the end of the requests."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, 1 << 16, 1)
        if not message:
            return
        number = os.fork()
        if not number:
            arguments, folder, limit = json.loads(message)
            _become(arguments, folder, limit, files[0])
            return
        os.close(files[0])
        with contextlib.suppress(BrokenPipeError):
            connection.send(str(number).encode())
            connection.send(str(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])).encode())


def _become(arguments: list[str], folder: str, limit: int | None, stderr: int) -> None:
    os.setsid()
    os.chdir(folder)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stderr, 1)
    os.dup2(stderr, 2)
    os.close(stderr)
    # Those of the parent know whether theirs can seek.
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv[1:] = arguments


def _import_all() -> None:
    house = Path(phrasescore.__file__).parent
    for path in sorted(path for room in _HEAVY for path in (house / room).rglob("*.py")):
        with contextlib.suppress(ImportError):  # of what is not installed
            name = ".".join(path.relative_to(house.parent).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))


def main() -> None:
    _import_all()
    with socket.socket(fileno=int(sys.argv.pop())) as connection:
        _serve(connection)
    if sys.argv[1:]:
        phrasescore.cli.main(prog_name="phrasescore")


if __name__ == "__main__":
    main()
