"""An output file that a killed run leaves in a state to go on from.

Lines are written in chunks. A chunk that is on the disk as a whole, in ``OUT.part``, is then
promised by ``OUT.part.json``, which says how far the file is good, in lines and bytes; so at no
moment is more promised than there is. A gzip file gets one member a chunk, and a resumed run makes
the same bytes as one that was never stopped. At the end the part file becomes the output.
"""

import contextlib
import fcntl
import json
import logging
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from zlib_ng import zlib_ng

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.digests import new_digest

_logger = logging.getLogger(__name__)

FORMAT = 1
# Files as large as Moses' own scripts make them (zlib at level 6), in less than half the time.
COMPRESSION_LEVEL = 5
# Pieces that wait for the thread that compresses and writes them.
WAITING = 4


def is_resumable(path: str) -> bool:
    """Return whether an output is a file of its own: not stdout, a device or a pipe."""
    return path != "-" and (os.path.isfile(path) or not os.path.exists(path))


@dataclass(frozen=True, slots=True)
class Done:
    """How far a run has come."""

    lines: int = 0
    num_bytes: int = 0
    # blake2b of the input lines that are done: the rest is only worth doing for the same input.
    input_digest: str = ""
    complete: bool = False


class ResumableOutput:
    """Writes lines to a file that appears whole at the end, or goes on after a kill.

    A context manager. Left by an error in the data or the model, it removes what this process has
    begun; left by anything else (Ctrl-C, a full disk), and whatever an earlier run had done, it
    keeps, and says how to go on. ``finished`` is true where the earlier run had nothing left to do:
    then ``done`` says what it was made from.

    :param path: the file that will appear; compressed where the name ends in ``.gz``.
    :param settings: everything that the bytes depend on, but for the input; kept to be compared.
    :param resume: whether to go on with an unfinished run where there is one.
    """

    def __init__(self, path: str, settings: Mapping[str, str], *, resume: bool) -> None:
        self.path = path
        self.part, self.journal, self._new_journal = work_files(path)
        self._settings = dict(settings)
        if path.endswith(".gz"):
            self._settings["gzip"] = f"zlib-ng {zlib_ng.ZLIBNG_RUNTIME_VERSION}"
        self._resume = resume
        self._digest = new_digest()
        self.done = Done()
        self.finished = False
        self._failed = False

    def __enter__(self) -> "ResumableOutput":
        """Lock the part file, and find out how far it is good.

        :raises PhrasescoreError: if another run has it; if it is not ours; if it holds an
            unfinished run that is not to be resumed, or one with other settings; if it is damaged.
        """
        with contextlib.ExitStack() as stack:
            made = [path for path in (self.part, self.journal) if not os.path.exists(path)]
            with _writing(self.path):
                # Unbuffered: what a full disk refuses must not be tried again when it is closed.
                self._file = stack.enter_context(open(self.part, "ab", buffering=0))
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
        """Bring the part file, and the promise of what is in it, to where the run begins."""
        self._begun = self.done = self._find()
        # What follows may be half a chunk; of a finished output, all is elsewhere.
        self._num_bytes = 0 if self.finished else self.done.num_bytes
        with _writing(self.path):
            self._file.truncate(self._num_bytes)
        self._promise(self.done)
        with _writing(self.path), contextlib.suppress(FileNotFoundError):
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

    def _find(self) -> Done:
        """Return how far the file at :attr:`part` is good."""
        size = os.fstat(self._file.fileno()).st_size
        anew = f"delete it and {self.journal} to start anew"
        try:
            with open(self.journal, encoding="utf-8") as file:
                state: dict[str, Any] = json.load(file)
            done = Done(
                int(state["lines"]), int(state["bytes"]), str(state["input"]), state["complete"]
            )
            settings = dict(state["settings"])
            if done.lines < 0 or done.num_bytes < 0:
                raise ValueError(f"{done.lines} lines of {done.num_bytes} bytes")
        except FileNotFoundError as error:
            if size:
                raise PhrasescoreError(
                    f"{self.part}: this name is needed for the unfinished output; there is a file "
                    "of this name that no run of phrasescore has left"
                ) from error
            return Done()
        except (ValueError, KeyError, TypeError) as error:
            raise PhrasescoreError(f"{self.journal}: unreadable ({error}); {anew}") from error
        if done.lines == 0:
            return Done()
        finished = done.complete and size == 0 and os.path.isfile(self.path)
        if state.get("format") != FORMAT or (size < done.num_bytes and not finished):
            raise PhrasescoreError(f"{self.part} is damaged, or is not there; {anew}")
        if finished and not self._resume:
            return Done()  # nobody misses it
        if not self._resume:
            raise PhrasescoreError(
                f"{self.part} holds {done.lines:,} lines of an unfinished run: go on with "
                f"--resume, or {anew}"
            )
        for key in sorted({*settings, *self._settings}):
            old, new = settings.get(key), self._settings.get(key)
            if old != new:
                raise PhrasescoreError(
                    f"{self.part} was begun with another {key} ({old}, now {new}): resume it as it "
                    f"was begun, or {anew}"
                )
        self.finished = finished  # killed between its last two steps
        return done

    def skip(self, input_data: bytes) -> None:
        """Take input lines that are done already; see :meth:`check_skipped`."""
        self._digest.update(input_data)

    def check_skipped(self, path: str) -> None:
        """Check that the skipped lines are those that the earlier run has read.

        :raises DataError: if they differ.
        """
        if self.done.lines and self._digest.hexdigest() != self.done.input_digest:
            lines = f"its first {self.done.lines:,} lines are not those"
            if self.finished:
                raise DataError(path, None, f"{lines} that {self.path} was made from")
            raise DataError(path, None, f"{lines} of {self.part}")

    def check_end(self, following: object, path: str) -> None:
        """Check that the earlier run had come to the end of the input.

        :param following: what comes behind the skipped lines; None if nothing does.
        :raises DataError: if there are more lines.
        """
        if following is not None:
            name = self.path if self.finished else self.part
            made_from = f"the {self.done.lines:,} that {name} was made from"
            raise DataError(path, None, f"has more lines than {made_from}")
        if self.finished:
            _logger.info("%s is there already; there was nothing left to do", self.path)

    def write(self, data: bytes, input_data: bytes) -> None:
        """Append a piece of a chunk, some whole lines.

        :param input_data: the input lines that it was made from.
        """
        self._digest.update(input_data)
        self._submit(lambda: self._append(self._compressor.compress(data)))

    def settle(self) -> None:
        """Wait until all that was written is on the disk.

        :raises PhrasescoreError: if it cannot be written.
        """
        while self._waiting:
            self._waiting.popleft().result()

    def end_chunk(self, num_lines: int) -> None:
        """End a chunk of ``num_lines``: what was written until here will be on the disk."""
        lines, digest = self.done.lines + num_lines, self._digest.hexdigest()
        self.done = Done(lines, self.done.num_bytes, digest)
        self._submit(lambda: self._finish_chunk(lines, digest))

    def _submit(self, work: Callable[[], None]) -> None:
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._writer.submit(self._do, work))

    def _do(self, work: Callable[[], None]) -> None:
        # After a failure nothing may follow: it would promise what was not written.
        if self._failed:
            return
        self._failed = True
        work()
        self._failed = False

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        with _writing(self.path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._num_bytes += len(data)

    def _finish_chunk(self, lines: int, digest: str) -> None:
        self._append(self._compressor.flush())
        self._compressor = self._new_compressor()
        with _writing(self.path):
            os.fsync(self._file.fileno())
        self._promise(Done(lines, self._num_bytes, digest))

    def _promise(self, done: Done) -> None:
        """Replace the journal. Its new text has a fixed name, which the next run writes over."""
        state = {
            "format": FORMAT,
            "lines": done.lines,
            "bytes": done.num_bytes,
            "input": done.input_digest,
            "complete": done.complete,
            "settings": self._settings,
        }
        with _writing(self.path):
            with open(self._new_journal, "w", encoding="utf-8") as file:
                json.dump(state, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._new_journal, self.journal)
        self._promised = done

    def _new_compressor(self) -> "_Plain | zlib_ng._Compress":
        if self.path.endswith(".gz"):
            return zlib_ng.compressobj(COMPRESSION_LEVEL, wbits=31)  # gzip, with no name and time 0
        return _Plain()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        with self._stack:
            if kind is not None:
                self._leave(kind)
                return
            try:
                self.settle()
                if not self.finished:
                    last = self._promised
                    self._promise(Done(last.lines, last.num_bytes, last.input_digest, True))
                    with _writing(self.path):
                        os.replace(self.part, os.path.realpath(self.path))
            except BaseException as problem:
                self._leave(type(problem))
                raise
            _remove(self.journal, self._new_journal, *([self.part] if self.finished else []))

    def _leave(self, kind: type[BaseException]) -> None:
        """Keep the part file if it is worth it."""
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
        lines = f"{self._promised.lines:,}"
        if wrong:
            _logger.info("%s still holds the first %s lines", self.part, lines)
            return
        _logger.info(
            "%s holds the first %s lines; the same command with --resume goes on from there",
            *(self.part, lines),
        )


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def work_files(path: str) -> tuple[str, str, str]:
    """Return the names of an output's part file, its journal, and the journal that replaces it."""
    part = f"{os.path.realpath(path)}.part"
    return part, f"{part}.json", f"{part}.json.new"


class _Plain:
    """A compressor that leaves bytes as they are."""

    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Turn an OSError into a PhrasescoreError that says which file could not be written."""
    try:
        yield
    except OSError as error:
        raise PhrasescoreError(f"{path}: cannot write: {error.strerror}") from error
