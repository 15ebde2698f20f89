"""An output file that can be resumed after a killed run.

Lines are written in chunks to ``OUT.part``. When a whole chunk is on the disk, the journal
``OUT.part.json`` records the number of lines and bytes so far. A compressed file gets one member
per chunk, and a resumed run writes the same bytes as an uninterrupted run. At the end the part file
becomes the output.
"""

import contextlib
import logging
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import BinaryIO, NamedTuple, Self, TypeVar

import msgspec

from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.io.compression import GZIP_VERSION, is_gzip_name, new_compressor
from phrasescore.io.journal import Number, check_settings, new_digest, read_journal, write_journal
from phrasescore.io.output import PART, lock_part, open_output, writing
from phrasescore.io.plain_file import open_at_end, open_plain
from phrasescore.io.text import InputLines

_logger = logging.getLogger(__name__)

WAITING = 4  # maximum number of pieces that wait for the thread that compresses and writes them

_Lines = TypeVar("_Lines", bound=InputLines)


def is_resumable(path: str) -> bool:
    """Return whether an output is a regular file: not stdout, a device or a pipe."""
    return path != "-" and (os.path.isfile(path) or not os.path.exists(path))


def work_files(path: str) -> tuple[str, ...]:
    """Return the paths of an output's part file, journal and new journal; () for a stream."""
    if not is_resumable(path):
        return ()
    part = f"{os.path.realpath(path)}.part"
    return part, f"{part}.json", f"{part}.json{PART}"


class _Stream(NamedTuple):
    """Stdout, a device or a pipe, as a `ResumableOutput`, but without an earlier run."""

    file: BinaryIO

    def remaining(self, lines: Iterable[_Lines], _path: str) -> Iterator[_Lines]:
        return iter(lines)

    def write(self, data: bytes, *_input: object, **_chunk: object) -> None:
        self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


@contextlib.contextmanager
def open_resumable(
    path: str, settings: Mapping[str, str], *, resume: bool, chunk_lines: int | None = None
) -> "Iterator[ResumableOutput | _Stream]":
    """Yield a resumable output, or a stream for stdout, devices and pipes."""
    if is_resumable(path):
        with ResumableOutput(path, settings, resume, chunk_lines) as output:
            yield output
    else:
        with open_output(path) as stream:
            yield _Stream(stream)


def check_resume(path: str, resume: bool) -> None:
    """Raise an ArgumentError if the output to resume is a stream."""
    if resume and not is_resumable(path):
        raise ArgumentError("--resume needs --output FILE: a stream cannot be resumed")


class OutputJournal(msgspec.Struct, frozen=True):
    """The progress of an output."""

    settings: dict[str, str]  # everything on which the bytes depend, except the input
    lines: Number = 0
    num_bytes: Number = msgspec.field(default=0, name="bytes")
    # Digests of the finished input lines, and of the part file.
    input: str = ""
    output: str = ""


class ResumableOutput:
    """Writes lines to a file that appears whole at the end, or can be resumed after a kill.

    A context manager. After an error in the data or the model, it removes a part file created by
    this process. After any other exception (Ctrl-C, a full disk), it keeps the file, and logs how
    to resume. It always keeps the work of an earlier run.

    :param settings: everything on which the bytes depend, except the input and the compression.
    :param chunk_lines: lines per chunk; None if the caller of `write` decides where chunks end.
    """

    def __init__(
        self, path: str, settings: Mapping[str, str], resume: bool, chunk_lines: int | None = None
    ) -> None:
        self.path = path
        self.part, self.journal, _ = work_files(path)
        self._start_over = f"delete it and {self.journal} to start over"
        self._is_packed = is_gzip_name(path)
        form = {"gzip": GZIP_VERSION} if self._is_packed else {}
        self._resume, self._chunk_lines = resume, chunk_lines
        self._input, self._output = new_digest(), new_digest()
        # The journals of the earlier run and of this run.
        self._begun = self._promised = OutputJournal({**settings, **form})
        # Number of lines written, the earlier run's included, and of lines in whole chunks.
        self._lines = self._lines_in_chunks = 0
        self._failed = False

    def __enter__(self) -> Self:
        """Lock the part file, and determine how much of it is valid."""
        with contextlib.ExitStack() as stack:
            created = [path for path in (self.part, self.journal) if not os.path.exists(path)]
            with writing(self.path):
                self._file = stack.enter_context(open_at_end(self.part))
            lock_part(self.part, self._file)
            try:
                self._begin()
            except BaseException:
                _remove(*created)
                raise
            self._writer = stack.enter_context(ThreadPoolExecutor(1))
            self._waiting: deque[Future[None]] = deque()
            self._stack = stack.pop_all()
        return self

    def _begin(self) -> None:
        self._begun = self._earlier() or self._begun
        self._lines = self._lines_in_chunks = self._begun.lines
        self._num_bytes = self._begun.num_bytes
        with writing(self.path):
            self._file.truncate(self._num_bytes)
        self._promise(self._begun)
        with writing(self.path), contextlib.suppress(FileNotFoundError):
            os.fchmod(self._file.fileno(), stat.S_IMODE(os.stat(self.path).st_mode))
        self._compressor = new_compressor() if self._is_packed else None

    def _earlier(self) -> OutputJournal | None:
        size = os.fstat(self._file.fileno()).st_size
        journal = read_journal(self.journal, OutputJournal, f"delete it and {self.part}")
        if journal is None and size:
            problem = f"{self.part}: expected the file of an unfinished run, found another file;"
            raise PhrasescoreError(f"{problem} rename it, since the output needs this name")
        # Without a part file no work is lost: a run that is killed at its end has renamed it.
        if journal is None or journal.lines == 0 or size == 0:
            return None
        if not self._is_good(journal):
            raise PhrasescoreError(f"{self.part} is damaged; {self._start_over}")
        if not self._resume:
            problem = f"{self.part} holds {journal.lines:,} lines of an unfinished run:"
            raise PhrasescoreError(f"{problem} continue it with --resume, or {self._start_over}")
        check_settings(journal.settings, self._begun.settings, self.part, self._start_over)
        return journal

    def _is_good(self, journal: OutputJournal) -> bool:
        """Return whether the part file begins with the bytes recorded in the journal."""
        left = journal.num_bytes
        with open_plain(self.part) as file:
            while data := file.read(min(left, 1 << 20)):
                self._output.update(data)
                left -= len(data)
        return not left and journal.output == self._output.hexdigest()

    def remaining(self, blocks: Iterable[_Lines], path: str) -> Iterator[_Lines]:
        """Return the lines that no earlier run has finished. Call it once, after entering."""
        blocks = self._skip(self._cut(blocks), path)
        done = self._begun.lines
        at_end = bool(self._chunk_lines and done % self._chunk_lines)
        # New lines after the end of the earlier run would not start a new chunk.
        if at_end and next(blocks, None) is not None:
            problem = f"has more lines than the {done:,} from which {self.part} was written"
            raise DataError(path, None, problem)
        if done:
            _logger.info("continuing after line %s", f"{done:,}")
        elif self._resume:
            _logger.info("there is nothing to resume: starting with the first line")
        return blocks

    def _cut(self, blocks: Iterable[_Lines]) -> Iterator[_Lines]:
        """Yield the same lines in blocks that end at the ends of chunks."""
        for block in blocks:
            size, first = self._chunk_lines or block.num_lines, 0
            while first < block.num_lines:
                after = first + size - ((block.before + first) % size if self._chunk_lines else 0)
                part = block.lines(first, min(after, block.num_lines))
                yield part
                first += part.num_lines

    def _skip(self, blocks: Iterator[_Lines], path: str) -> Iterator[_Lines]:
        """Skip the finished lines, after checking that they have not changed."""
        left = self._begun.lines
        for block in blocks if left else ():
            done = block.lines(0, min(left, block.num_lines))
            self._input.update(done.raw)
            left -= done.num_lines
            if left == 0:
                if done.num_lines < block.num_lines:
                    blocks = chain([block.lines(done.num_lines, block.num_lines)], blocks)
                break
        if self._begun.lines and self._input.hexdigest() != self._begun.input:
            problem = f"its first {self._begun.lines:,} lines differ from the lines that"
            raise DataError(path, None, f"{problem} {self.part} was made from")
        return blocks

    def write(
        self, data: bytes, input_data: bytes, num_lines: int, *, ends_chunk: bool = True
    ) -> None:
        """Append whole lines. When a chunk ends, all lines up to its end are synced to the disk.

        :param input_data: the input lines from which the data were computed.
        :param ends_chunk: whether a chunk ends here; ignored with ``chunk_lines``.
        """
        self._submit(lambda: self._append_lines(data, input_data))
        self._lines += num_lines
        if self._chunk_lines is not None:
            ends_chunk = self._lines % self._chunk_lines == 0
        if ends_chunk:
            self._end_chunk()

    def flush(self) -> None:
        """End the last chunk, and wait until all data are on the disk."""
        if self._lines > self._lines_in_chunks:
            self._end_chunk()
        while self._waiting:
            self._waiting.popleft().result()

    def _end_chunk(self) -> None:
        self._lines_in_chunks = lines = self._lines
        self._submit(lambda: self._finish_chunk(lines))

    def _submit(self, work: Callable[[], None]) -> None:
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._writer.submit(self._do, work))

    def _do(self, work: Callable[[], None]) -> None:
        # Nothing may follow a failure, or the journal would promise bytes that are not there.
        if not self._failed:
            self._failed = True
            work()
            self._failed = False

    def _append_lines(self, data: bytes, input_data: bytes) -> None:
        self._input.update(input_data)
        self._append(self._compressor.compress(data) if self._compressor else data)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        with writing(self.path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._num_bytes += len(data)
        self._output.update(data)

    def _finish_chunk(self, lines: int) -> None:
        if self._compressor is not None:
            self._append(self._compressor.flush())
            self._compressor = new_compressor()
        with writing(self.path):
            os.fsync(self._file.fileno())
        digest, output = self._input.hexdigest(), self._output.hexdigest()
        settings = self._promised.settings
        self._promise(OutputJournal(settings, lines, self._num_bytes, digest, output))

    def _promise(self, journal: OutputJournal) -> None:
        write_journal(self.journal, journal)
        self._promised = journal

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Rename the part file to the output; after an error, keep or remove it."""
        with self._stack:
            if kind is not None:
                self._leave(kind)
                return
            try:
                self.flush()
                with writing(self.path):
                    os.replace(self.part, os.path.realpath(self.path))
            except BaseException as problem:
                self._leave(type(problem))
                raise
            _remove(self.journal)

    def _leave(self, kind: type[BaseException]) -> None:
        """Keep the part file if a later run can resume from it."""
        for future in self._waiting:
            future.cancel()
        self._writer.shutdown()
        # Wrong data or a wrong model would fail again; an interrupted run can be resumed.
        wrong = issubclass(kind, PhrasescoreError) and kind is not PhrasescoreError
        if self._promised.lines == 0 or (wrong and self._begun.lines == 0):
            _remove(self.part, self.journal)
            return
        text = "%s holds the first %s lines; the same call with --resume continues from there"
        text = "%s still holds the first %s lines" if wrong else text
        _logger.info(text, self.part, f"{self._promised.lines:,}")


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
