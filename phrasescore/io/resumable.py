"""An output file that a killed run leaves in a state to go on from.

Lines are written in chunks. A chunk that is on the disk as a whole, in ``OUT.part``, is then
entered in the journal ``OUT.part.json``, which says how far the file is good, in lines and bytes;
so at no moment does the journal promise more than there is. A compressed file gets one member per
chunk, and a resumed run makes the same bytes as one that was never stopped. At the end the part
file becomes the output.

Stdout, a device or a pipe is written as it comes, and has the same methods.
"""

import contextlib
import fcntl
import logging
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from itertools import chain
from typing import Annotated, Self, TypeVar
from weakref import WeakSet

import msgspec

from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.io.compression import Compressor, compression_by_name
from phrasescore.io.output import StreamOutput, writing
from phrasescore.io.plain_file import open_at_end, open_plain
from phrasescore.io.state import check_same_run, new_digest, read_state, write_state
from phrasescore.io.text import InputLines

_logger = logging.getLogger(__name__)

# Pieces that wait for the thread that compresses and writes them.
WAITING = 4

# Files that this process has locked.
_locked: "WeakSet[FileIO]" = WeakSet()


def _close_locked() -> None:
    for file in list(_locked):
        file.close()


# A forked worker would keep them locked for a moment after this process is killed.
os.register_at_fork(after_in_child=_close_locked)

_Count = Annotated[int, msgspec.Meta(ge=0)]


_Lines = TypeVar("_Lines", bound=InputLines)


def is_resumable(path: str) -> bool:
    """Return whether an output is a file of its own: not stdout, a device or a pipe."""
    return path != "-" and (os.path.isfile(path) or not os.path.exists(path))


def work_files(path: str) -> tuple[str, ...]:
    """Return an output's part file, its journal, and the journal's new text; () for a stream."""
    if not is_resumable(path):
        return ()
    part = f"{os.path.realpath(path)}.part"
    return part, f"{part}.json", f"{part}.json.new"


def open_resumable(
    path: str, settings: Mapping[str, str], *, resume: bool, chunk_lines: int | None = None
) -> "ResumableOutput | StreamOutput":
    """Return an output that can be resumed, or a stream; see :class:`ResumableOutput`."""
    if not is_resumable(path):
        return StreamOutput(path)
    return ResumableOutput(path, settings, resume=resume, chunk_lines=chunk_lines)


def check_resume(path: str, resume: bool) -> None:
    """Raise an ArgumentError if a stream is to be resumed."""
    if resume and not is_resumable(path):
        raise ArgumentError("--resume needs --output FILE: a stream cannot be resumed")


class Journal(msgspec.Struct, frozen=True):
    """How far a run has come, as its journal says."""

    lines: _Count
    # Of the part file.
    num_bytes: _Count = msgspec.field(name="bytes")
    # Digest of the input lines that are done: the rest is only worth doing for the same input.
    input: str
    # Whether all lines are done.
    complete: bool
    # Everything that the bytes depend on, but for the input.
    settings: dict[str, str]
    # Digest of the part file.
    output: str


class ResumableOutput:
    """Writes lines to a file that appears whole at the end, or goes on after a kill.

    A context manager. Left by an error in the data or the model, it removes what this process has
    begun; left by anything else (Ctrl-C, a full disk) it keeps that, and says how to go on. It
    always keeps what an earlier run had done.

    :ivar settings: all that the bytes depend on, but for the input: also how they are compressed.
    :ivar finished: whether the earlier run had nothing left to do.
    :ivar last_skipped: the last of the lines that `remaining` left out; None if there are none.

    :param path: the file that will appear; compressed where the name says so, as by ``.gz``.
    :param settings: everything that the bytes depend on, but for the input; kept to be compared.
    :param resume: whether to go on with an unfinished run where there is one.
    :param chunk_lines: lines of a chunk; None where the writer says at which pieces chunks end.
    """

    def __init__(
        self,
        path: str,
        settings: Mapping[str, str],
        *,
        resume: bool,
        chunk_lines: int | None = None,
    ) -> None:
        self.path = path
        self.part, self.journal, self._new_journal = work_files(path)
        self._form = compression_by_name(path)
        self.settings = dict(settings)
        if self._form is not None:
            self.settings[self._form.name] = self._form.version
        self._resume = resume
        self._chunk_lines = chunk_lines
        self._digest, self._output_digest = new_digest(), new_digest()
        # What an earlier run had done, and what the journal says now.
        self._begun = self._promised = Journal(0, 0, "", False, self.settings, "")
        # Lines handed to this object, those of the earlier run counted, and those in whole chunks.
        self._lines = self._lines_in_chunks = 0
        self.finished = False
        self.last_skipped: InputLines | None = None
        self._failed = False

    def __enter__(self) -> Self:
        """Lock the part file, and find out how far it is good.

        :raises PhrasescoreError: if another run has it; if it is not ours; if it holds an
            unfinished run that is not to be resumed, or one with other settings; if it is damaged.
        """
        with contextlib.ExitStack() as stack:
            made = [path for path in (self.part, self.journal) if not os.path.exists(path)]
            with writing(self.path):
                self._file = stack.enter_context(open_at_end(self.part))
            self._lock()
            try:
                self._begin()
            except BaseException:
                _remove(*made, self._new_journal)
                raise
            self._compressor = self._new_compressor()
            self._writer = stack.enter_context(ThreadPoolExecutor(1))
            self._waiting: deque[Future[None]] = deque()
            self._stack = stack.pop_all()
        return self

    def _begin(self) -> None:
        """Cut the part file to its whole chunks, and write the journal."""
        self._begun = self._read_journal()
        self._lines = self._lines_in_chunks = self._begun.lines
        # The part file of a finished output is empty: its bytes are in the output.
        self._num_bytes = 0 if self.finished else self._begun.num_bytes
        with writing(self.path):
            self._file.truncate(self._num_bytes)
        self._write_journal(self._begun)
        with writing(self.path), contextlib.suppress(FileNotFoundError):
            os.fchmod(self._file.fileno(), stat.S_IMODE(os.stat(self.path).st_mode))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The run that had the lock may have renamed the file meanwhile.
            there = os.fstat(self._file.fileno()).st_ino == os.stat(self.part).st_ino
        except (BlockingIOError, FileNotFoundError):
            there = False
        if not there:
            raise PhrasescoreError(f"{self.part}: another run is writing this file")
        _locked.add(self._file)

    def _read_journal(self) -> Journal:
        """Return how far the part file is good."""
        size = os.fstat(self._file.fileno()).st_size
        anew = f"delete it and {self.journal} to start anew"
        try:
            found = read_state(self.journal, Journal)
        except DataError as error:
            raise PhrasescoreError(f"{error}; {anew}") from error
        if found is None and size:
            raise PhrasescoreError(
                f"{self.part}: this name is needed for the unfinished output; there is a file "
                "of this name that no run of phrasescore has left"
            )
        if found is None or found.lines == 0:
            return self._begun
        is_output = found.complete and size == 0 and os.path.isfile(self.path)
        if is_output and not self._resume:
            return self._begun  # no work is lost
        finished = is_output and self._is_good(found, self.path)
        if not finished and not self._is_good(found, self.part):
            raise PhrasescoreError(f"{self.part} is damaged, or is not there; {anew}")
        if not self._resume:
            raise PhrasescoreError(
                f"{self.part} holds {found.lines:,} lines of an unfinished run: go on with "
                f"--resume, or {anew}"
            )
        check_same_run(found.settings, self.settings, self.part, anew)
        self.finished = finished  # killed between its last two steps
        return found

    def _is_good(self, journal: Journal, path: str) -> bool:
        """Return whether a file begins with the bytes that the journal promises."""
        self._output_digest = new_digest()
        left = journal.num_bytes
        with open_plain(path) as file:
            while data := file.read(min(left, 1 << 20)):
                self._output_digest.update(data)
                left -= len(data)
        return not left and journal.output == self._output_digest.hexdigest()

    def remaining(self, blocks: Iterable[_Lines], path: str) -> Iterator[_Lines]:
        """Return the lines that no earlier run has done; to be called once, on entering.

        :param blocks: all lines of the input; with ``chunk_lines`` they are cut where chunks end.
        :param path: of the input, for messages.
        :raises DataError: if the lines before are not those that the earlier run has read, or if
            that run had come to the end of the input, and there are more lines now.
        """
        blocks = self._skip(self._cut(blocks), path)
        done = self._begun.lines
        at_end = self.finished or bool(self._chunk_lines and done % self._chunk_lines)
        # Where the earlier run has come to the end, new lines have no chunk of their own.
        if at_end and next(blocks, None) is not None:
            made = self.path if self.finished else self.part
            problem = f"has more lines than the {done:,} that {made} was made from"
            raise DataError(path, None, problem)
        if self.finished:
            _logger.info("%s is there already; there was nothing left to do", self.path)
        elif done:
            _logger.info("going on after line %s", f"{done:,}")
        elif self._resume:
            _logger.info("there is nothing to resume: starting with the first line")
        return blocks

    def _cut(self, blocks: Iterable[_Lines]) -> Iterator[_Lines]:
        """Yield the same lines in blocks that end where a chunk does."""
        for block in blocks:
            size, first = self._chunk_lines or block.num_lines, 0
            while first < block.num_lines:
                after = first + size - ((block.before + first) % size if self._chunk_lines else 0)
                part = block.lines(first, min(after, block.num_lines))
                yield part
                first += part.num_lines

    def _skip(self, blocks: Iterator[_Lines], path: str) -> Iterator[_Lines]:
        """Return the lines after those that are done, which must be the same as they were."""
        left = self._begun.lines
        for block in blocks if left else ():
            self.last_skipped = done = block.lines(0, min(left, block.num_lines))
            self._digest.update(done.raw)
            left -= done.num_lines
            if left == 0:
                if done.num_lines < block.num_lines:
                    blocks = chain([block.lines(done.num_lines, block.num_lines)], blocks)
                break
        if self._begun.lines and self._digest.hexdigest() != self._begun.input:
            those = f"that {self.path} was made from" if self.finished else f"of {self.part}"
            problem = f"its first {self._begun.lines:,} lines are not those {those}"
            raise DataError(path, None, problem)
        return blocks

    def write(
        self, data: bytes, input_data: bytes, num_lines: int, *, ends_chunk: bool = True
    ) -> None:
        """Append some whole lines; at the end of a chunk, all before will be on the disk.

        :param input_data: the input lines that they were made from.
        :param num_lines: how many input lines these are.
        :param ends_chunk: without ``chunk_lines``, whether a chunk ends here.
        """
        self._digest.update(input_data)
        self._submit(
            lambda: self._append(self._compressor.compress(data) if self._compressor else data)
        )
        self._lines += num_lines
        if self._chunk_lines is not None:
            ends_chunk = self._lines % self._chunk_lines == 0
        if ends_chunk:
            self._end_chunk()

    def flush(self) -> None:
        """End the last chunk, and wait until all that was written is on the disk.

        :raises PhrasescoreError: if it cannot be written.
        """
        if self._lines > self._lines_in_chunks:
            self._end_chunk()
        while self._waiting:
            self._waiting.popleft().result()

    def _end_chunk(self) -> None:
        self._lines_in_chunks = lines = self._lines
        digest = self._digest.hexdigest()
        self._submit(lambda: self._finish_chunk(lines, digest))

    def _submit(self, work: Callable[[], None]) -> None:
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._writer.submit(self._do, work))

    def _do(self, work: Callable[[], None]) -> None:
        # Nothing may follow a failure: the journal would promise bytes that are not there.
        if self._failed:
            return
        self._failed = True
        work()
        self._failed = False

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        with writing(self.path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._num_bytes += len(data)
        self._output_digest.update(data)

    def _finish_chunk(self, lines: int, digest: str) -> None:
        if self._compressor is not None:
            self._append(self._compressor.flush())
            self._compressor = self._new_compressor()
        with writing(self.path):
            os.fsync(self._file.fileno())
        output = self._output_digest.hexdigest()
        self._write_journal(Journal(lines, self._num_bytes, digest, False, self.settings, output))

    def _write_journal(self, journal: Journal) -> None:
        write_state(self.journal, journal)
        self._promised = journal

    def _new_compressor(self) -> Compressor | None:
        return None if self._form is None else self._form.new_compressor()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Let the file appear; after an error, keep or remove the part file."""
        with self._stack:
            if kind is not None:
                self._leave(kind)
                return
            try:
                self.flush()
                if not self.finished:
                    self._write_journal(msgspec.structs.replace(self._promised, complete=True))
                    with writing(self.path):
                        os.replace(self.part, os.path.realpath(self.path))
            except BaseException as problem:
                self._leave(type(problem))
                raise
            _remove(self.journal, self._new_journal, *([self.part] if self.finished else []))

    def _leave(self, kind: type[BaseException]) -> None:
        """Keep the part file if a later run can go on from it."""
        for future in self._waiting:
            future.cancel()
        self._writer.shutdown()
        if self.finished:
            os.unlink(self.part)  # all is in the output; the journal still says so
            return
        # A wrong line or model will be wrong again; what was stopped from outside may go on.
        wrong = issubclass(kind, PhrasescoreError) and kind is not PhrasescoreError
        if self._promised.lines == 0 or (wrong and self._begun.lines == 0):
            _remove(self.part, self.journal, self._new_journal)
            return
        text = "%s holds the first %s lines; the same call with --resume goes on from there"
        text = "%s still holds the first %s lines" if wrong else text
        _logger.info(text, self.part, f"{self._promised.lines:,}")


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
