"""Commands in processes of their own that begin at once: a server imports torch for all of them.

Each process is a fork of that server. It does not run the last steps of Python's own exit, so a
test of these steps starts a new Python.
"""

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from phrasescore.cli import VERBS, main
from tests.compile_once import share_compiled_functions

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("pytest", "torch", "numba", "phrasescore.cli.progress", "phrasescore.training.run"),
        *(f"phrasescore.cli.{module}" for module in sorted(set(VERBS.values()))),
        *("phrasescore.workflows.annotate", "phrasescore.workflows.rescore"),
        *("phrasescore.workflows.train", "phrasescore.workflows.translate"),
        *("phrasescore.workflows.experiment.run", "phrasescore.workflows.serve.application"),
    ]
)


def run_command(*arguments: str) -> None:
    """Run a verb."""
    main(arguments, prog_name="phrasescore")


def run_script(path: str) -> None:
    """Run a file as Python runs a program."""
    runpy.run_path(path, run_name="__main__")


class Forked:
    """A program that runs, with pipes in the place of its streams; as a ``subprocess.Popen``.

    :param program: a function of a module; the program is a call of it.
    :param log: a file that gets what it writes to stderr.
    """

    def __init__(
        self,
        program: Callable[..., None],
        *arguments: str,
        cwd: Path | None = None,
        log: Path | None = None,
    ) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [Connection(pipes[0][0], writable=False), *(Connection(w) for _, w in pipes[1:])]
        if log is not None:
            with log.open("wb") as file:
                os.dup2(file.fileno(), pipes[2][1])
        self._process = _FORKS.Process(
            target=_run, args=(program, arguments, cwd or Path.cwd(), dict(os.environ), theirs)
        )
        self._process.start()
        for each in theirs:
            each.close()
        self.stdin = os.fdopen(pipes[0][1], "wb")
        self.stdout, self.stderr = (os.fdopen(read, "rb") for read, _ in pipes[1:])

    def __enter__(self) -> "Forked":
        """Return the program itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the program, which a failed test kills."""
        if kind is not None:
            self.kill()
        self.wait()
        self._close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None of a program that runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the program; return its exit code."""
        self._process.join(timeout)
        return self._process.exitcode

    def communicate(self) -> tuple[bytes, bytes]:
        """Close its input, wait for the program; return what it wrote to stdout and to stderr."""
        with ThreadPoolExecutor(2) as threads:
            self.stdin.close()
            stdout, stderr = threads.map(lambda stream: stream.read(), (self.stdout, self.stderr))
        self.wait()
        self._close()
        return stdout, stderr

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def _run(
    program: Callable[..., None],
    arguments: tuple[str, ...],
    cwd: Path,
    environment: dict[str, str],
    streams: list[Connection],
) -> None:
    # It ends with the server, and this with the tests: 1 is PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    # Those there are remember what the files were that they wrote to.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    if "PYTEST_XDIST_WORKER" in environment:
        share_compiled_functions()
    program(*arguments)
