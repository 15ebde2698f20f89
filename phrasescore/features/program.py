"""Scores from a program: it reads ``source<TAB>hypothesis`` lines, and writes a number per line.

The program runs as long as the job, in its own environment, so its packages need not fit ours. All
lines of a block are sent before their answers are read, so it may score many at once. It must
answer when its input has no more lines for the moment; otherwise both sides would wait, and the
time limit ends that.
"""

import contextlib
import logging
import math
import multiprocessing
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

import numpy as np

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.features import BlockScores, ColumnSpec, Feature, column_inputs, command_words
from phrasescore.io.journal import digest_file
from phrasescore.io.text import NUMBER, shorten
from phrasescore.records import PhraseBlock, Tally

_logger = logging.getLogger(__name__)

MAX_RESTARTS = 3  # for the lines of one block
# Seconds to wait for more output than one answer, for the last messages, and for a program to end.
_EXTRA_SECONDS, _MESSAGE_SECONDS, _END_SECONDS = 0.05, 0.5, 5.0
_CHUNK, _LONGEST = 1 << 16, 1000  # bytes: of one read, and of an answer at most
_TAIL = 300  # bytes of stderr that messages show
_NOTHING = memoryview(b"")
_NUMBER = re.compile(NUMBER.encode())
_LARGEST = float(np.finfo(np.float32).max)  # Moses reads floats


@dataclass(frozen=True, slots=True)
class ProgramTally(Tally):
    """Counts from scoring with a program."""

    scores: int = 0  # that the program computed
    cached: int = 0  # that were found in the cache
    restarts: int = 0

    def __str__(self) -> str:
        cached = f", {self.cached:,} of them from the cache" if self.cached else ""
        restarts = f"; it was restarted {self.restarts:,} times" if self.restarts else ""
        return f"{self.scores + self.cached:,} scores by a program{cached}{restarts}"


class _EndedError(Exception):
    """The program ended, or closed its output, before it had answered."""


class ProgramScore(Feature):
    """The number that a program answers for each pair; threads take turns.

    If it ends early, it is started again, and the unanswered lines are sent again.

    :param seconds: how long to wait for the next answer.
    :raises PhrasescoreError: if the program cannot be run, ends early too often, does not answer in
        time, or writes more lines than it was sent, or anything but finite numbers.
    """

    highest = (math.inf,)

    def __init__(self, command: str, *, seconds: float = 600.0) -> None:
        self._words, self._seconds = command_words(command), seconds
        self._title = f"--command {command!r}"
        if shutil.which(self._words[0]) is None:
            raise PhrasescoreError(f"{self._title}: there is no program {self._words[0]!r}")
        files = column_inputs(ColumnSpec("command", command))
        digests = [digest_file(Path(path)) for path in files]
        self.fingerprints = (" ".join(["command", command, *digests]),)
        self._lock = threading.Lock()
        self._program: _Program | None = None
        self._owner = 0  # the process that started the program
        self._is_stopped = False
        self._answered = 0  # number of lines, for messages

    def cache_keys(self, block: PhraseBlock) -> list[list[bytes]]:
        """Return the cache keys, which do not depend on alignments."""
        from phrasescore.features.score_cache import score_keys  # imports torch

        return [score_keys(self.fingerprints[0], block._replace(affiliations=None))]

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """End the program when all lines are scored; it must not have written more."""
        self._is_stopped = False
        yield
        if self._program is None or self._owner != os.getpid():
            return
        more = self._program.end()
        self._program = None
        if more and not self._is_stopped:
            raise PhrasescoreError(f"{self._title}: {_too_many(more)}")

    def stop(self) -> None:
        """End the program at once; a thread that waits for an answer gets an error."""
        self._is_stopped = True
        program = self._program
        if program is not None and self._owner == os.getpid():
            program.kill()

    def __del__(self) -> None:
        """End a program that was used outside of `computing`."""
        program = getattr(self, "_program", None)
        if program is not None and self._owner == os.getpid():
            program.kill()
            program.end()

    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the program's answers; equal pairs are sent once."""
        answers, restarts = self.ask(tuple(map(" ".join, pair)) for pair in block.pairs())
        row = np.array(answers, np.float64)
        return BlockScores(row[None], ProgramTally(len(answers), 0, restarts))

    def ask(self, rows: Iterable[Sequence[str]]) -> tuple[list[float], int]:
        """Return the answer to each row of texts, and the number of restarts.

        A row is sent as a line with a tab between its texts; equal rows are sent once.
        """
        lines = [
            "\t".join(text.replace("\t", " ") for text in row).encode() + b"\n" for row in rows
        ]
        distinct = list(dict.fromkeys(lines))
        with self._lock:
            answers, restarts = self._ask(distinct)
        values = dict(zip(distinct, answers, strict=True))
        return [values[line] for line in lines], restarts

    def _ask(self, lines: list[bytes]) -> tuple[list[float], int]:
        """Return the answer to each line, and the number of restarts."""
        answers: list[float] = []
        restarts = 0
        while len(answers) < len(lines):
            try:
                if self._program is None or self._owner != os.getpid():
                    self._program, self._owner = _Program(self._words), os.getpid()
                if self._is_stopped:  # since another thread called `stop`
                    raise _EndedError("the run was stopped")
                for answer in self._program.answers(lines[len(answers) :], self._seconds):
                    answers.append(_number(answer.strip()))
                    self._answered += 1
            except OSError as error:
                raise PhrasescoreError(f"{self._title}: cannot run it: {error.strerror}") from error
            except (_EndedError, DataError) as error:
                index = min(len(answers), len(lines) - 1)  # of the line that was not answered
                number = self._answered - len(answers) + index + 1
                problem = error.problem if isinstance(error, DataError) else str(error)
                line = shorten(lines[index].removesuffix(b"\n"))
                problem = f"{self._title}: line {number:,} of its input, {line}: {problem}"
                restarts += 1
                is_final = self._is_stopped or restarts > MAX_RESTARTS
                if self._program is not None:
                    self._program.kill()
                    self._program.end()
                self._program = None
                if is_final or isinstance(error, DataError):
                    raise PhrasescoreError(problem) from error
                _logger.warning("%s; it is started again", problem)
        return answers, restarts


class _Program:
    """A running program with pipes for its input, output and messages.

    It has a session of its own: Ctrl-C ends it only through us, and its children end with it.
    """

    def __init__(self, words: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._open = selectors.DefaultSelector()
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        for stream in (stdout, stderr):
            self._open.register(stream, selectors.EVENT_READ)
        self._output = self._messages = b""
        self._is_new = True
        if multiprocessing.parent_process() is not None:  # a worker runs only finalizers
            Finalize(self, self.end, exitpriority=1)

    def answers(self, lines: list[bytes], seconds: float) -> Iterator[bytes]:
        """Send lines, and yield the answers.

        :raises _EndedError: if the program ends before it has answered.
        :raises DataError: if it writes more lines, a very long one, or none in time.
        """
        if self._is_new:  # finds a program that writes a title, or two numbers per line
            yield from self._exchange(lines[:1], seconds)
            self._is_new, lines = False, lines[1:]
            self._pump(_EXTRA_SECONDS)
        yield from self._exchange(lines, seconds)

    def _exchange(self, lines: list[bytes], seconds: float) -> Iterator[bytes]:
        self._pump(0)
        self._check_output()
        unsent, missing = memoryview(b"".join(lines)), len(lines)
        limit = time.monotonic() + seconds
        while missing:
            if not self._is_open(self._stdout):
                raise _EndedError(f"expected a number, but the program {self._ending()}")
            unsent = self._pump(max(limit - time.monotonic(), 0), unsent)
            *answers, self._output = self._output.split(b"\n")
            if len(answers) > missing:
                self._output = b"\n".join([*answers[missing:], self._output])
            if answers:
                limit = time.monotonic() + seconds
            yield from answers[:missing]
            missing -= min(len(answers), missing)
            if not missing:
                self._check_output()
            elif len(self._output) > _LONGEST:
                raise DataError("", None, f"expected a number, found {shorten(self._output)}")
            elif time.monotonic() >= limit:
                problem = f"expected a number within {seconds:g} seconds, found none"
                cure = "does the program flush its output, and answer before it reads more lines?"
                raise DataError("", None, f"{problem}: {cure} (--answer-timeout)")

    def _check_output(self) -> None:
        if self._output:
            raise DataError("", None, _too_many(self._output))

    def _is_open(self, stream: IO[bytes]) -> bool:
        return not stream.closed and stream in self._open.get_map()

    def _pump(self, seconds: float, unsent: memoryview = _NOTHING) -> memoryview:
        """Wait until something can be written or read, do it, and return what is left to write."""
        if self._is_open(self._stdin) and not unsent:
            self._open.unregister(self._stdin)
        elif unsent and not self._is_open(self._stdin):
            self._open.register(self._stdin, selectors.EVENT_WRITE)
        for key, _ in self._open.select(seconds):
            if key.fileobj is self._stdin:
                try:
                    unsent = unsent[os.write(key.fd, unsent[:_CHUNK]) :]
                except BrokenPipeError:  # it may still answer what it has read
                    unsent = _NOTHING
                continue
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._open.unregister(key.fileobj)
            elif key.fileobj is self._stdout:
                self._output += data
            else:
                self._messages = (self._messages + data)[-_TAIL:]
                _logger.debug("%s", data.decode(errors="replace").rstrip())
        return unsent

    def _ending(self) -> str:
        """Say how the program ended, with the end of its messages."""
        limit = time.monotonic() + _MESSAGE_SECONDS
        while self._is_open(self._stderr) and time.monotonic() < limit:
            self._pump(_EXTRA_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_MESSAGE_SECONDS)
        code = self._process.poll()
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"was killed by {names.get(-code, f'signal {-code}')}"
        lines = self._messages.decode(errors="replace").split("\n")
        said = " | ".join(filter(None, map(str.strip, lines)))
        return f"{how}, and wrote: {said}" if said else how

    def end(self) -> bytes:
        """End the program, wait for it, and return output that was not read before."""
        if self._stdin.closed:
            return b""
        self._pump(0)
        self._stdin.close()
        limit = time.monotonic() + _END_SECONDS
        # Its children may keep the output open.
        while self._process.poll() is None and time.monotonic() < limit:
            self._pump(_EXTRA_SECONDS)
            if len(self._output) > _LONGEST:
                break
        self.kill()
        self._process.wait()
        self._pump(0)
        self._open.close()
        self._stdout.close()
        self._stderr.close()
        return self._output

    def kill(self) -> None:
        """Kill the program and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _number(answer: bytes) -> float:
    # float() would also accept nan, inf and 1_0.
    value = float(answer) if _NUMBER.fullmatch(answer) else math.nan
    if not abs(value) <= _LARGEST:
        raise DataError("", None, f"expected a number, found {shorten(answer)}")
    return value


def _too_many(output: bytes) -> str:
    return f"expected one number per line, found more: {shorten(output)}"
