"""An output file that a killed run leaves in a state to go on from.

The lines are collected into chunks. A finished chunk is appended to ``OUT.part`` and synced to the
disk, and then ``OUT.part.json`` says how far the file is good, in lines and bytes; both replace one
another in that order, so at no moment does the second promise what the first lacks. A gzip file
gets one member a chunk, so that a resumed run makes the same bytes as one that was never stopped.
At the end the part file becomes the output.
"""

import contextlib
import fcntl
import gzip
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from phrasescore.errors import DataError, PhrasescoreError

_logger = logging.getLogger(__name__)

FORMAT = 1
# As Moses' own scripts compress; more costs much time for little space.
COMPRESSION_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Done:
    """How far an unfinished run has come."""

    lines: int = 0
    num_bytes: int = 0
    # blake2b of the input lines that are done: the rest is only worth doing for the same input.
    input_digest: str = ""


def is_resumable(path: str) -> bool:
    """Return whether an output is a file of its own: not stdout, a device or a pipe."""
    return path != "-" and (os.path.isfile(path) or not os.path.exists(path))


class ResumableOutput:
    """Writes chunks of lines to a file that appears whole at the end, or goes on after a kill.

    A context manager. Left by an error in the data or the model, it removes the part file; left by
    anything else (Ctrl-C, a full disk) it keeps what is done, and says how to go on.

    :param path: the file that will appear; compressed where the name ends in ``.gz``.
    :param settings: everything that the bytes depend on, but for the input; kept to be compared.
    :param resume: whether to go on with a part file where there is one.
    :raises PhrasescoreError: if there is a part file and ``resume`` is false, or it was made with
        other settings, or is damaged.
    """

    def __init__(self, path: str, settings: Mapping[str, str], *, resume: bool) -> None:
        self.path = path
        self.part = f"{os.path.realpath(path)}.part"
        self.journal = f"{self.part}.json"
        self._settings = dict(settings)
        self.done = self._find(resume)
        self._writer = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self._digest = hashlib.blake2b(digest_size=16)

    def _find(self, resume: bool) -> Done:
        if not os.path.exists(self.journal):
            return Done()
        try:
            with open(self.journal, encoding="utf-8") as file:
                state: dict[str, Any] = json.load(file)
            done = Done(int(state["lines"]), int(state["bytes"]), str(state["input"]))
            settings = dict(state["settings"])
            size = os.path.getsize(self.part)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PhrasescoreError(
                f"{self.journal}: unreadable ({error}); delete it and {self.part} to start anew"
            ) from error
        if not resume:
            raise PhrasescoreError(
                f"{self.part} holds {done.lines:,} lines of an unfinished run: go on with "
                f"--resume, or delete it and {self.journal} to start anew"
            )
        for key in sorted({*settings, *self._settings}):
            old, new = settings.get(key), self._settings.get(key)
            if old != new:
                raise PhrasescoreError(
                    f"{self.part} was begun with another {key} ({old}, now {new}): "
                    f"resume it as it was begun, or delete it and {self.journal} to start anew"
                )
        if state.get("format") != FORMAT or size < done.num_bytes:
            raise PhrasescoreError(
                f"{self.part} is damaged; delete it and {self.journal} to start anew"
            )
        return done

    def __enter__(self) -> "ResumableOutput":
        self._file = open(self.part, "ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            self._writer.shutdown()
            raise PhrasescoreError(f"{self.part}: another run is writing this file") from error
        # What came after the last promise may be half a chunk.
        self._file.truncate(self.done.num_bytes)
        return self

    def skip(self, data: bytes) -> None:
        """Take input lines that are done already; see :meth:`check_skipped`."""
        self._digest.update(data)

    def check_skipped(self, path: str) -> None:
        """Check that the skipped lines are those that the unfinished run has read.

        :raises DataError: if they differ.
        """
        if self.done.lines and self._digest.hexdigest() != self.done.input_digest:
            raise DataError(
                path, None, f"its first {self.done.lines:,} lines are not those of {self.part}"
            )

    def write(self, data: bytes, input_data: bytes, num_lines: int) -> None:
        """Append a chunk of whole lines; it is on the disk when the next call returns.

        :param data: what to write.
        :param input_data: the input lines that it was made from.
        """
        self._digest.update(input_data)
        self._wait()
        self._pending = self._writer.submit(self._append, data, num_lines, self._digest.hexdigest())

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _append(self, data: bytes, num_lines: int, digest: str) -> None:
        if self.path.endswith(".gz"):
            data = gzip.compress(data, COMPRESSION_LEVEL, mtime=0)
        try:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise PhrasescoreError(f"{self.path}: cannot write: {error.strerror}") from error
        done = Done(self.done.lines + num_lines, self.done.num_bytes + len(data), digest)
        state = {
            "format": FORMAT,
            "lines": done.lines,
            "bytes": done.num_bytes,
            "input": done.input_digest,
            "settings": self._settings,
        }
        self._promise(json.dumps(state, indent=1))
        self.done = done

    def _promise(self, state: str) -> None:
        """Replace the journal. Its new text has a fixed name, which the next run writes over."""
        new = f"{self.journal}.new"
        try:
            with open(new, "w", encoding="utf-8") as file:
                file.write(state)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.journal)
        except OSError as error:
            raise PhrasescoreError(f"{self.path}: cannot write: {error.strerror}") from error

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._wait()
        except BaseException as problem:
            self._leave(type(problem))
            raise
        finally:
            self._writer.shutdown()
            with contextlib.suppress(OSError):  # its buffer may not fit on the disk
                self._file.close()
        if kind is None:
            os.replace(self.part, os.path.realpath(self.path))
            self._remove(self.journal, f"{self.journal}.new")
        else:
            self._leave(kind)

    def _leave(self, kind: type[BaseException]) -> None:
        """Keep the part file if it is worth it."""
        # A wrong line or model will be wrong again; what was stopped from outside may go on.
        wrong = issubclass(kind, PhrasescoreError) and kind is not PhrasescoreError
        if wrong or self.done.lines == 0:
            self._remove(self.part, self.journal, f"{self.journal}.new")
            return
        _logger.info(
            "%s holds the first %s lines; the same command with --resume goes on from there",
            self.part,
            f"{self.done.lines:,}",
        )

    def _remove(self, *paths: str) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
