"""Run the command of a decoder: Moses, or any program that writes n-best lists.

A command is split into words as a shell does it, and runs without a shell. It reads the source from
stdin. Moses gets the options that mert-moses.pl uses: ``-weight-overwrite`` and
``-n-best-list FILE N distinct``. A command that contains ``{nbest}`` runs another decoder: this is
replaced by the file for the n-best lists, ``{weights}`` by a text file of weights, one line per
value, and ``{size}`` by the largest number of hypotheses per list.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import write_weights
from phrasescore.errors import PhrasescoreError
from phrasescore.records import Weights

NBEST, WEIGHTS, SIZE = "{nbest}", "{weights}", "{size}"

# How much of the end of the decoder's stderr a message shows, in lines, and is read, in bytes.
_TAIL_LINES, _TAIL_BYTES = 5, 4096
_INI_OPTIONS = ("-f", "-config", "--config", "--f")


class ListRequest(NamedTuple):
    """What n-best lists should contain."""

    size: int
    distinct: bool = False  # whether each text appears only once per list
    alignment: bool = False  # whether to add word alignments
    segmentation: bool = False  # whether to add the phrase segmentation


@dataclass(frozen=True)
class DecoderCommand:
    """The command line of a decoder, quoted as for a shell."""

    command: str  # the command line as the user typed it
    ini: MosesIni | None = None  # Moses' own, if known; determines which weights lists omit

    def __post_init__(self) -> None:
        if not self.words():
            raise PhrasescoreError("--decoder: expected a command, found nothing")
        if self.is_moses and any(name in self.command for name in (WEIGHTS, SIZE)):
            problem = f"expected {NBEST} where the decoder is to write its lists"
            raise PhrasescoreError(f"--decoder: {problem}, found {self.command!r}")

    def words(self) -> list[str]:
        """Split the command into words; placeholders are not yet replaced."""
        try:
            return shlex.split(self.command)
        except ValueError as error:
            problem = f"cannot split the command: {error}: {self.command!r}"
            raise PhrasescoreError(f"--decoder: {problem}") from error

    @property
    def is_moses(self) -> bool:
        """Whether the command gets Moses' own options."""
        return NBEST not in self.command

    def ini_path(self) -> str | None:
        """Return the path of the moses.ini in the command, or None."""
        pairs = pairwise(self.words())
        return next((value for option, value in pairs if option in _INI_OPTIONS), None)

    def arguments(
        self,
        weights: Weights,
        nbest: str,
        weights_path: str,
        request: ListRequest,
        ini_path: str = "",
    ) -> list[str]:
        """Return the command's words for ``weights``, which ``weights_path`` also contains.

        :param weights: without any weights, Moses uses those of its moses.ini.
        :param ini_path: the moses.ini that Moses gets if the command names none.
        """
        words = self.words()
        if not self.is_moses:
            values = {NBEST: nbest, WEIGHTS: weights_path, SIZE: str(request.size)}
            for placeholder, value in values.items():
                words = [word.replace(placeholder, value) for word in words]
            return words
        if self.ini is not None and self.ini_path() is None:
            words += ["-f", ini_path or self.ini.path]
        if weights:
            ini = self.ini or MosesIni("", b"")
            words += ["-weight-overwrite", ini.weight_overwrite(weights)]
        words += ["-n-best-list", nbest, str(request.size)]
        words += ["distinct"] if request.distinct else []
        words += ["-print-alignment-info-in-n-best"] if request.alignment else []
        words += ["-include-segmentation-in-n-best"] if request.segmentation else []
        return words

    def __call__(
        self,
        source: str,
        weights: Weights,
        request: ListRequest,
        nbest: str,
        *,
        keeps_log: bool = True,
    ) -> None:
        """Decode a file and write n-best lists.

        Next to ``run1.nbest``, the weights are written to ``run1.weights``, and the decoder's
        stdout and stderr to ``run1.out`` and ``run1.log``.

        :param keeps_log: whether errors name the log.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(nbest)
        work = nbest.removesuffix(".part").removesuffix(".nbest")
        weights_path, log = f"{work}.weights", f"{work}.log"
        write_weights(weights_path, weights)
        ini = self.ini if self.is_moses else None
        changed = weights
        if ini is not None and weights == ini.tuneable_weights():
            changed = {}  # Moses rounds the digits of its moses.ini itself
        with _for_moses(self.ini) as path:
            words = self.arguments(changed, nbest, weights_path, request, path)
            _run(words, source, f"{work}.out", log, keeps_log=keeps_log)
        tail = log_tail(log, is_named=keeps_log)
        if not os.path.exists(nbest) or not os.path.getsize(nbest):
            where = f" to {nbest}" if keeps_log else ""
            raise PhrasescoreError(f"the decoder wrote no n-best list{where}{tail}")
        with open(nbest, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            if stream.read() != b"\n":
                problem = f"{nbest}: the last line is truncated; is the disk full?"
                raise PhrasescoreError(f"{problem}{tail}")


@contextlib.contextmanager
def _for_moses(ini: MosesIni | None) -> Iterator[str]:
    """Yield the path of a moses.ini with absolute paths, for Moses in any working folder."""
    # It is a temporary file, unless the paths are absolute or start in the working folder.
    if ini is None or not ini.folder or all(map(os.path.isabs, ini.named_paths())):
        yield "" if ini is None else ini.path
        return
    copy = MosesIni(ini.path, ini.to_bytes(), ini.folder)
    copy.rename_files(lambda path: os.path.abspath(ini.resolve(path)))
    with tempfile.NamedTemporaryFile(prefix="phrasescore-", suffix=".ini") as file:
        file.write(copy.to_bytes())
        file.flush()
        yield file.name


def _run(command: list[str], source: str, output: str, log: str, *, keeps_log: bool) -> None:
    with open(source, "rb") as text, open(output, "wb") as out, open(log, "wb") as errors:
        try:
            code = subprocess.run(command, stdin=text, stdout=out, stderr=errors).returncode
        except OSError as error:  # such as too many weights for one argument
            problem = f"cannot run the decoder {command[0]!r}: {error.strerror}"
            raise PhrasescoreError(problem) from error
    if code != 0:
        how = f"ended with exit code {code}"
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"was killed by {names.get(-code, f'signal {-code}')}"
        raise PhrasescoreError(f"the decoder {how}{log_tail(log, is_named=keeps_log)}")


def log_tail(log: str, *, is_named: bool = True) -> str:
    """Return the end of a decoder's stderr for a message, with the log's name if ``is_named``."""
    with open(log, "rb") as stream:
        stream.seek(max(0, os.path.getsize(log) - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    name = f" (log: {log})" if is_named else ""
    if not lines:
        return f"; it wrote nothing to stderr{name}"
    return f"{name}: {' | '.join(lines[-_TAIL_LINES:])}"
