"""Run a decoder's command: Moses, or any program that writes n-best lists.

A command is split as a shell splits it, and run without one. It gets the source on stdin. Moses
gets weights and lists by its own options (``-weight-overwrite``, ``-n-best-list FILE N distinct``,
as mert-moses.pl does); a command with ``{nbest}`` in it is another decoder, which gets these values
in their places:

============ =====================================================================
``{nbest}``   the file where the lists have to go
``{weights}`` a text of weights, a line per value: ``LM0= 0.5``
``{size}``    how many hypotheses a list may have
============ =====================================================================
"""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

from moses_integration.moses_ini import MosesIni, format_weight
from moses_integration.weights import write_weights
from phrasescore.errors import PhrasescoreError
from phrasescore.records import Weights

NBEST, WEIGHTS, SIZE = "{nbest}", "{weights}", "{size}"

# Linux takes no argument of more than 128 KiB (MAX_ARG_STRLEN).
_MAX_ARGUMENT = 131_000
# Lines of the decoder's stderr that a message shows, and bytes of it that are looked at.
_TAIL_LINES = 5
_TAIL_BYTES = 4096
_INI_OPTIONS = ("-f", "-config", "--config", "--f")


@dataclass(frozen=True)
class DecoderCommand:
    """A decoder's command.

    :raises PhrasescoreError: if the text cannot be split, or names some places and not ``{nbest}``.
    """

    # As the user gave it.
    command: str
    # Of Moses, where it is known: which weights lists do not show.
    ini: MosesIni | None = None

    def __post_init__(self) -> None:
        words = self.words()
        if not words:
            raise PhrasescoreError("--decoder: expected a command, found nothing")
        if not self._has(words, NBEST) and (self._has(words, WEIGHTS) or self._has(words, SIZE)):
            problem = f"expected {NBEST} where the decoder is to write its lists"
            raise PhrasescoreError(f"--decoder: {problem}, found {self.command!r}")

    def words(self) -> list[str]:
        """Return the command as it is split."""
        try:
            return shlex.split(self.command)
        except ValueError as error:
            problem = f"cannot split the command: {error}"
            raise PhrasescoreError(f"--decoder: {problem}: {self.command!r}") from error

    @staticmethod
    def _has(words: Sequence[str], place: str) -> bool:
        return any(place in word for word in words)

    @property
    def is_moses(self) -> bool:
        """Whether Moses' own options are given to it."""
        return not self._has(self.words(), NBEST)

    def ini_path(self) -> str | None:
        """Return the moses.ini that the command names, None where it names none."""
        words = self.words()
        for option, value in pairwise(words):
            if option in _INI_OPTIONS:
                return value
        return None

    def arguments(self, weights: Weights, nbest: str, weights_path: str, size: int) -> list[str]:
        """Return the command that decodes with weights.

        :param nbest: where the lists go.
        :param weights_path: a file of these weights.
        """
        words = self.words()
        if not self.is_moses:
            values = {NBEST: nbest, WEIGHTS: weights_path, SIZE: str(size)}
            for place, value in values.items():
                words = [word.replace(place, value) for word in words]
            return words
        if self.ini is not None and self.ini_path() is None:
            words += ["-f", self.ini.path]
        overwrite = _overwrite(weights) if self.ini is None else self.ini.weight_overwrite(weights)
        if len(overwrite) > _MAX_ARGUMENT:
            problem = f"{len(weights):,} features are too many for moses -weight-overwrite"
            raise PhrasescoreError(f"{problem}; use a decoder command with {WEIGHTS} and {NBEST}")
        lists = ["-n-best-list", nbest, str(size), "distinct"]
        return [*words, "-weight-overwrite", overwrite, *lists]

    def __call__(self, source: str, weights: Weights, size: int, nbest: str) -> None:
        """Decode a file and write n-best lists.

        What it says goes beside the lists: ``run1.nbest`` has ``run1.weights``, ``run1.out`` and
        ``run1.log``.

        :param source: a sentence per line; the decoder's stdin.
        :param size: hypotheses per list, at most.
        :param nbest: where the lists go; a file of that name is replaced.
        :raises PhrasescoreError: if the command cannot be started, fails or writes no lists, with
            the end of what it said on stderr.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(nbest)
        work = nbest.removesuffix(".part").removesuffix(".nbest")
        weights_path, log = f"{work}.weights", f"{work}.log"
        write_weights(weights_path, weights)
        command = self.arguments(weights, nbest, weights_path, size)
        run_command(command, source, f"{work}.out", log)
        if not os.path.exists(nbest) or not os.path.getsize(nbest):
            raise PhrasescoreError(f"the decoder wrote no n-best list to {nbest}{log_tail(log)}")
        if not _ends_with_newline(nbest):
            problem = f"{nbest}: the last line is cut off; is the disk full?"
            raise PhrasescoreError(f"{problem}{log_tail(log)}")


def run_command(
    command: list[str], source: str, output: str, log: str, *, keeps_log: bool = True
) -> None:
    """Run a decoder's command to its end.

    :param source: what is on its stdin.
    :param output: the file for its stdout.
    :param log: the file for its stderr.
    :param keeps_log: whether that stays, and messages may name it.
    :raises PhrasescoreError: if it cannot be started or fails, with the end of what it said.
    """
    with (
        open(source, "rb") as text,
        open(output, "wb") as out,
        open(log, "wb") as errors,
    ):
        code = _wait(_start(command, text, out, errors))
    if code != 0:
        tail = log_tail(log, is_named=keeps_log)
        raise PhrasescoreError(f"the decoder {_how_it_died(code)}{tail}")


def _ends_with_newline(path: str) -> bool:
    with open(path, "rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"


def _overwrite(weights: Weights) -> str:
    return " ".join(
        " ".join([f"{name}=", *map(format_weight, values)]) for name, values in weights.items()
    )


def _start(
    command: list[str], text: BinaryIO, out: BinaryIO, errors: BinaryIO
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(command, stdin=text, stdout=out, stderr=errors)
    except OSError as error:
        raise PhrasescoreError(
            f"cannot run the decoder {command[0]!r}: {error.strerror}"
        ) from error


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the decoder; it ends where waiting is interrupted, too."""
    try:
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _how_it_died(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def log_tail(log: str, *, is_named: bool = True) -> str:
    """Return the end of a decoder's stderr as the end of a message.

    :param is_named: whether the message says where it is.
    """
    with open(log, "rb") as stream:
        stream.seek(max(0, os.path.getsize(log) - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    name = f" (log: {log})" if is_named else ""
    if not lines:
        return f"; it said nothing{name}"
    return f"{name}: {' | '.join(lines[-_TAIL_LINES:])}"
