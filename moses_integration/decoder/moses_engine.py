"""Moses' own search, driven as the embedded one is: text in, translations and n-best lists out."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moses_integration.decoder.moses import log_tail, run_command
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import read_blocks, read_lines
from phrasescore.records import Weights


@dataclass(frozen=True)
class NbestRequest:
    """The n-best lists that are wanted."""

    path: str
    size: int
    # Each text once in a list.
    distinct: bool = False
    # With the word alignment of the phrase table.
    alignment: bool = False


@dataclass(frozen=True)
class MosesEngine:
    """The binary of Moses, its weights and its settings."""

    binary: str
    ini: MosesIni
    weights: Weights
    threads: int = 1
    # More settings, by the names of moses.ini's sections.
    limits: Mapping[str, str] = field(default_factory=dict)

    def command(self, request: NbestRequest | None, path: str) -> list[str]:
        """Return the command that translates stdin.

        :param path: where it writes the lists, if there are any.
        """
        command = [self.binary, "-f", self.ini.path, "-threads", str(self.threads)]
        for name, value in self.limits.items():
            command += [f"-{name}", value]
        if self.weights:
            command += ["-weight-overwrite", self.ini.weight_overwrite(self.weights)]
        if request is not None:
            command += ["-n-best-list", path, str(request.size)]
            command += ["distinct"] if request.distinct else []
            command += ["-print-alignment-info-in-n-best"] if request.alignment else []
        return command

    def translate(
        self, sentences: Sequence[Sequence[str]], output: str, request: NbestRequest | None
    ) -> None:
        """Translate sentences; files appear whole, and only if all went well.

        :param output: gets a line per sentence, without the blank that Moses puts at its end.
        :raises PhrasescoreError: if Moses cannot be run, fails, or translates fewer sentences,
            with the end of what it said.
        """
        with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
            source, found, nbest, log = (
                os.path.join(folder, name) for name in ("source", "output", "nbest", "log")
            )
            with open(source, "wb") as stream:
                stream.writelines(f"{' '.join(words)}\n".encode() for words in sentences)
            run_command(self.command(request, nbest), source, found, log, keeps_log=False)
            lines = [line.strip(b" ") for line in read_lines(found)]
            if len(lines) != len(sentences):
                problem = f"expected {len(sentences):,} translations of Moses, found {len(lines):,}"
                raise PhrasescoreError(f"{problem}{log_tail(log, is_named=False)}")
            if request is not None:
                if sentences and not os.path.exists(nbest):
                    raise PhrasescoreError(
                        f"Moses wrote no n-best lists{log_tail(log, is_named=False)}"
                    )
                with open_output(request.path) as stream:
                    stream.writelines(read_blocks(nbest))
            with open_output(output) as stream:
                stream.writelines(line + b"\n" for line in lines)
