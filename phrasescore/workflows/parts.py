"""One part of a run, as a task of a job array makes it.

Parts are cut where a resumed run goes on, so their bytes, joined, are those of one run. Beside
a part lies ``PART.json``, which says what run it is of: `phrasescore.workflows.join` compares them.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from phrasescore.errors import ArgumentError
from phrasescore.io.output import writing
from phrasescore.io.resumable import ResumableOutput, is_resumable, packing, work_files
from phrasescore.io.state import digest_file, new_digest, read_state, write_state
from phrasescore.io.text import count_lines, is_stream, read_blocks, split_block

_logger = logging.getLogger(__name__)

# How settings of the machine begin: a part that is resumed is of one kind of machine, too.
_MACHINE = "machine's "


class AnnotatedTable(msgspec.Struct, frozen=True):
    """A phrase table that gets more scores, as moses.ini is told of it."""

    path: str
    # The number of its scores (0 in a part without lines), and of those that are added.
    num_scores: int
    added: int


class PartState(msgspec.Struct, frozen=True):
    """What is said of a finished part in the file beside it."""

    # The verb of the run.
    verb: str
    # Of the part, from 1, and of all parts.
    number: int
    count: int
    # How much of the input is in this part: lines of a table, or n-best lists.
    size: int
    unit: str
    # Of the part's file, and their digest.
    num_bytes: int = msgspec.field(name="bytes")
    digest: str
    # All that the bytes of the run depend on.
    settings: dict[str, str]
    # What their last bits may depend on as well.
    machine: dict[str, str]
    # None where the input is no table.
    table: AnnotatedTable | None = None


def state_path(output: str) -> str:
    """Return the name of the file beside a part."""
    return f"{output}.json"


class PartNumber(NamedTuple):
    """The number of a part, from 1, and how many there are."""

    number: int
    parts: int

    @classmethod
    def parse(cls, part: str) -> Self:
        """Return what ``2/4`` says.

        >>> PartNumber.parse("2/4")
        PartNumber(number=2, parts=4)
        """
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", part)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            problem = f"expected I/N, such as 2/4, with I from 1 to N, got {part!r}"
            raise ArgumentError(f"`part`: {problem}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"

    def share(self, total: int, chunk: int) -> tuple[int, int]:
        """Return the part's first thing, from 0, and the one after its last.

        :param total: of all things, which are shared evenly, by whole chunks.
        :param chunk: things of a chunk; the last one may have fewer.

        >>> [PartNumber(number, 3).share(95, 10) for number in (1, 2, 3)]
        [(0, 30), (30, 60), (60, 95)]
        """
        chunks = -(-total // chunk)
        first, after = (chunk * (chunks * n // self.parts) for n in (self.number - 1, self.number))
        return min(first, total), min(after, total)


def check_part(part: str, inputs: Sequence[str], output: str) -> PartNumber:
    """Return the number of a part, if all its inputs and its output are files.

    :param inputs: the files that are read twice.
    :raises ArgumentError: if the part is not I/N, or one of the files is a stream.
    """
    number = PartNumber.parse(part)
    if any(map(is_stream, inputs)):
        raise ArgumentError("`part`: the input is read twice: it cannot be a stream")
    if not is_resumable(output):
        raise ArgumentError("`part` needs `output` FILE: its state lies beside it")
    return number


@dataclass(frozen=True)
class InputPart:
    """The part of an input that one task does."""

    number: PartNumber
    # Lines (or lists) of the whole input.
    total: int
    # Its first line (or list), from 0, and the one after its last.
    first: int
    after: int
    # Digest of the whole input.
    digest: str

    @classmethod
    def of_lines(cls, number: PartNumber, path: str, chunk_lines: int) -> Self:
        """Read a file, decompressed, and return its part.

        :raises DataError: if it cannot be read.
        """
        total, digest = 0, new_digest()
        for block in read_blocks(path):
            total += count_lines(block)
            digest.update(block)
        return cls(number, total, *number.share(total, chunk_lines), digest.hexdigest())

    @classmethod
    def of_lists(cls, number: PartNumber, nbest: str, source: str, chunk_lists: int) -> Self:
        """Read n-best lists and what they translate, and return the part of the lists.

        :raises DataError: if they cannot be read.
        """
        total, last, digest = 0, None, new_digest()
        for block in read_blocks(nbest):
            digest.update(block)
            for line in split_block(block):
                identity = line.partition(b"|||")[0].strip(b" ").lstrip(b"0")
                total += identity != last
                last = identity
        for block in read_blocks(source):
            digest.update(block)
        return cls(number, total, *number.share(total, chunk_lists), digest.hexdigest())

    def settings(self, machine: Mapping[str, str]) -> dict[str, str]:
        """Return what the bytes of the part depend on, beside the settings of the run.

        :param machine: what their last bits may depend on.
        """
        of_machine = {f"{_MACHINE}{name}": text for name, text in machine.items()}
        return {"part": str(self.number), "input": self.digest, **of_machine}

    def is_done(self, verb: str, output: str, settings: Mapping[str, str]) -> bool:
        """Return whether an earlier run has made this part, and it is there as it was written.

        :param settings: of this run, for `open_resumable`.
        """
        state = read_state(state_path(output), PartState)
        is_unfinished = any(map(os.path.exists, work_files(output)))
        if state is None or is_unfinished or not os.path.isfile(output):
            return False
        this_run = (verb, *self.number, _of_run({**settings, **packing(output)}))
        if (state.verb, state.number, state.count, state.settings) != this_run:
            return False
        size, digest = os.path.getsize(output), digest_file(Path(output))
        if (size, digest) != (state.num_bytes, state.digest):
            return False
        _logger.info("%s is there already; there was nothing left to do", output)
        return True

    def write_state(
        self, verb: str, unit: str, target: ResumableOutput, table: AnnotatedTable | None = None
    ) -> None:
        """Write the file beside the part, of which all is done but that it appears."""
        if target.finished:  # an earlier run had come to its last step, and has written the file
            return
        settings, machine = _of_run(target.settings), _of_machine(target.settings)
        with writing(target.path):
            num_bytes, digest = os.path.getsize(target.part), digest_file(Path(target.part))
        done = self.after - self.first
        state = PartState(
            *(verb, *self.number, done, unit, num_bytes, digest, settings, machine, table)
        )
        write_state(state_path(target.path), state)


def _of_run(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that all parts of a run have."""
    return {
        name: text
        for name, text in settings.items()
        if name != "part" and not name.startswith(_MACHINE)
    }


def _of_machine(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what last bits may depend on."""
    return {
        name.removeprefix(_MACHINE): text
        for name, text in settings.items()
        if name.startswith(_MACHINE)
    }
