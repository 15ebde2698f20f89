"""Scores from a program: it reads ``source<TAB>hypothesis`` lines, and writes a number per line.

The program runs as long as the job, in its own environment, so its packages need not fit ours. All
lines of a block are sent before their answers are read, so it may score many at once. It must
answer when its input has no more lines for the moment; otherwise both sides would wait, and the
time limit ends that. A program that ends early, or does not answer in time, ends the job.
"""

import contextlib
import hashlib
import logging
import math
import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from multiprocessing.util import Finalize
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
import numpy as np

from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.features.columns import Column, rename_file
from phrasescore.features.feature import BlockScores, CachedTally, Feature, ScoreRow
from phrasescore.io.journal import digest_file
from phrasescore.io.text import parse_number, shorten
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import PhraseBlock
from phrasescore.settings.toml_file import TomlTable

if TYPE_CHECKING:
    from phrasescore.features.request import ScoringRequest

_logger = logging.getLogger(__name__)

# Seconds to wait for the last messages, and for a program to end.
_MESSAGE_SECONDS, _END_SECONDS = 0.5, 5.0
_LONGEST = 1000  # bytes of an answer at most
_ROWS = 1000  # number of rows that `ask_all` sends at a time
_TAIL = 300  # bytes of stderr that messages show


@dataclass(frozen=True)
class Command(Column):
    """A program, as a command whose words are split as by a shell; no shell runs it."""

    feature: ClassVar[str] = "Program"

    command: str
    _: KW_ONLY
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 600.0  # seconds to wait for the next answer

    @property
    def title(self) -> str:
        """The name of the program as a metric."""
        return self.name or "Program0"

    def words(self) -> list[str]:
        """Return the words of the command."""
        return _split(self.command)

    def inputs(self) -> list[str]:
        return [word for word in self.words() if os.path.isfile(word)]

    def resolved(self, table: TomlTable) -> Self:
        program, *words = self.words()
        if "/" in program:
            program = table.resolve(program)
        if shutil.which(program) is None:
            raise table.error("command", f"there is no program {program!r}")
        return replace(self, command=shlex.join([program, *map(table.resolve, words)]))

    def with_paths(self, rename: Callable[[str], str]) -> Self:
        words = [rename_file(word, rename) for word in self.words()]
        return replace(self, command=shlex.join(words))

    def load(self, _request: "ScoringRequest") -> Feature:
        return ProgramScore(self.command, seconds=self.timeout)


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"command {command!r}: {error}") from error
    if not words:
        raise ArgumentError(f"command: expected a program, got {command!r}")
    return words


class ProgramScore(Feature):
    """The number that a program answers for each pair; threads take turns.

    :raises PhrasescoreError: if the program cannot be run, ends early, does not answer in time, or
        writes more lines than it was sent, or anything but finite numbers.
    """

    def __init__(self, command: str, *, seconds: float = 600.0) -> None:
        self._words, self._seconds = _split(command), seconds
        self._title = f"command {command!r}"
        if shutil.which(self._words[0]) is None:
            raise PhrasescoreError(f"{self._title}: there is no program {self._words[0]!r}")
        files = [Path(word) for word in self._words if os.path.isfile(word)]
        fingerprint = " ".join(["command", command, *map(digest_file, files)])
        self.rows = (ScoreRow(fingerprint, highest=math.inf),)
        self._lock = threading.Lock()
        self._program: _Program | None = None
        self._owner = 0  # the process that started the program
        self._is_stopped = False
        self._answered = 0  # number of lines, for messages

    @property
    def version(self) -> str:
        """A description for signatures, with a digest of the command and its files."""
        return f"program {hashlib.sha256(self.rows[0].fingerprint.encode()).hexdigest()[:8]}"

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """End the program when all lines are scored; it must not have written more.

        After an error it is killed: a thread that waits for an answer gets an error, too.
        """
        self._is_stopped = False
        try:
            yield
        except BaseException:
            self._is_stopped = True
            if self._program is not None and self._owner == os.getpid():
                self._program.kill()
            raise
        finally:
            with self._lock:  # until no thread waits for an answer
                more = self._end()
        if more:
            raise PhrasescoreError(f"{self._title}: {_too_many(more)}")

    def _end(self) -> bytes:
        """End this process's program, and return what it has written since the last answer."""
        program, self._program = self._program, None
        return b"" if program is None or self._owner != os.getpid() else program.end()

    def __del__(self) -> None:
        """End a program that was used outside of `computing`."""
        if getattr(self, "_program", None) is not None:
            self._end()

    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the program's answers; equal pairs are sent once."""
        answers = self.ask(tuple(map(" ".join, pair)) for pair in block.pairs())
        return BlockScores(np.array([answers], np.float64), CachedTally("a program", len(answers)))

    def ask(self, rows: Iterable[Sequence[str]]) -> list[float]:
        """Return the answer to each row of texts.

        A row is sent as a line with a tab between its texts; equal rows are sent once.
        """
        lines = [
            "\t".join(text.replace("\t", " ") for text in row).encode() + b"\n" for row in rows
        ]
        distinct = list(dict.fromkeys(lines))
        with self._lock:
            values = dict(zip(distinct, self._ask(distinct), strict=True))
        return [values[line] for line in lines]

    def ask_all(
        self, task: str, rows: Sequence[Sequence[str]], progress: ProgressCallback | None
    ) -> list[float]:
        """Return the answer to each row of texts, and end the program; see `ask`."""
        scores: list[float] = []
        with Meter(task, "sentences", progress, total=len(rows)) as meter, self.computing():
            for start in range(0, len(rows), _ROWS):
                answers = self.ask(rows[start : start + _ROWS])
                scores += answers
                meter.update(len(answers))
        return scores

    def _ask(self, lines: list[bytes]) -> list[float]:
        answers: list[float] = []
        if not lines:
            return answers
        try:
            is_running = self._program is not None and self._owner == os.getpid()
            if not is_running and not self._is_stopped:
                self._program, self._owner = _Program(self._words), os.getpid()
            if self._is_stopped or self._program is None:  # by an error in another thread
                raise DataError("", None, "the run was stopped")
            for answer in self._program.answers(lines, self._seconds):
                answers.append(parse_number(answer.strip(), "", None))
        except OSError as error:
            raise PhrasescoreError(f"{self._title}: cannot run it: {error.strerror}") from error
        except DataError as error:
            index = min(len(answers), len(lines) - 1)  # of the line that was not answered
            line = shorten(lines[index].removesuffix(b"\n"))
            where = f"line {self._answered + index + 1:,} of its input, {line}"
            self._is_stopped = True
            raise PhrasescoreError(f"{self._title}: {where}: {error.problem}") from error
        self._answered += len(answers)
        return answers


class _Program:
    """A running program; threads write its input, and read its output and its messages.

    It has a session of its own: Ctrl-C ends it only through us, and its children end with it.
    """

    def __init__(self, words: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        # What it has to read; None ends its input. The lines that it wrote; b"" is their end.
        self._unsent: SimpleQueue[bytes | None] = SimpleQueue()
        self._output: SimpleQueue[bytes] = SimpleQueue()
        self._messages = b""
        self._threads = [
            threading.Thread(target=each, daemon=True)
            for each in (self._write, self._read, self._note)
        ]
        for thread in self._threads:
            thread.start()
        if multiprocessing.parent_process() is not None:  # a worker runs only finalizers
            Finalize(self, self.end, exitpriority=1)

    def _write(self) -> None:
        assert self._process.stdin is not None
        # A program that has ended may have answered what it has read.
        with contextlib.suppress(OSError), self._process.stdin as stream:
            while (data := self._unsent.get()) is not None:
                stream.write(data)
                stream.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while line := stream.readline(_LONGEST):
                self._output.put(line)
        self._output.put(b"")

    def _note(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while data := stream.read1():  # type: ignore[attr-defined]
                self._messages = (self._messages + data)[-_TAIL:]
                _logger.debug("%s", data.decode(errors="replace").rstrip())

    def answers(self, lines: list[bytes], seconds: float) -> Iterator[bytes]:
        """Send lines, and yield the answers.

        :raises DataError: if the program ends before it has answered, or writes more lines, a very
            long one, or none in time.
        """
        self._check_output()
        self._unsent.put(b"".join(lines))
        for _ in lines:
            try:
                answer = self._output.get(timeout=seconds)
            except Empty:
                problem = f"expected a number within {seconds:g} seconds, found none"
                cure = "does the program flush its output, and answer before it reads more lines?"
                problem = f"{problem}: {cure} (timeout = {seconds:g})"
                raise DataError("", None, problem) from None
            if not answer:
                problem = f"expected a number, but the program {self._ending()}"
                raise DataError("", None, problem)
            yield answer
        self._check_output()

    def _check_output(self) -> None:
        if self._output.empty():
            return
        if line := self._output.get():
            raise DataError("", None, _too_many(line))
        self._output.put(line)  # the end, for the next answer

    def _ending(self) -> str:
        self._threads[-1].join(_MESSAGE_SECONDS)
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
        self._unsent.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self.kill()  # its children may keep the output open
        self._process.wait()
        for thread in self._threads:
            thread.join()
        return b"" if self._output.empty() else self._output.get()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _too_many(output: bytes) -> str:
    return f"expected one number per line, found more: {shorten(output)}"
