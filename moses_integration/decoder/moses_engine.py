"""Moses' own search, driven as the embedded one is: text in, translations and n-best lists out."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moses_integration.decoder.moses import log_tail, run_command
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import Weights
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import read_blocks, read_lines


@dataclass(frozen=True)
class Lists:
    """The n-best lists that are wanted."""

    path: str
    size: int
    # Each text once in a list.
    distinct: bool = False
    # With the word alignment of the phrase table.
    alignment: bool = False


@dataclass(frozen=True)
class MosesEngine:
    """The binary of Moses, and what it is told."""

    binary: str
    ini: MosesIni
    weights: Weights
    threads: int = 1
    # More settings, by the names of moses.ini's sections.
    limits: Mapping[str, str] = field(default_factory=dict)

    def command(self, lists: Lists | None, path: str) -> list[str]:
        """Return the command that translates stdin.

        :param path: where it writes the lists, if there are any.
        """
        command = [self.binary, "-f", self.ini.path, "-threads", str(self.threads)]
        for name, value in self.limits.items():
            command += [f"-{name}", value]
        if self.weights:
            command += ["-weight-overwrite", self.ini.weight_overwrite(self.weights)]
        if lists is not None:
            command += ["-n-best-list", path, str(lists.size)]
            command += ["distinct"] if lists.distinct else []
            command += ["-print-alignment-info-in-n-best"] if lists.alignment else []
        return command

    def translate(
        self, sentences: Sequence[Sequence[str]], output: str, lists: Lists | None
    ) -> None:
        """Translate sentences; files appear whole, and only if all went well.

        :param output: a line a sentence, without the blank that Moses puts at its end.
        :raises PhrasescoreError: if Moses cannot be run, fails, or translates fewer sentences,
            with the end of what it said.
        """
        with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
            source, found, nbest, log = (
                os.path.join(folder, name) for name in ("source", "output", "nbest", "log")
            )
            with open(source, "wb") as stream:
                stream.writelines(f"{' '.join(words)}\n".encode() for words in sentences)
            run_command(self.command(lists, nbest), source, found, log, keeps_log=False)
            lines = [line.strip(b" ") for line in read_lines(found)]
            if len(lines) != len(sentences):
                problem = f"expected {len(sentences):,} translations of Moses, found {len(lines):,}"
                raise PhrasescoreError(f"{problem}{log_tail(log, is_named=False)}")
            if lists is not None:
                if sentences and not os.path.exists(nbest):
                    raise PhrasescoreError(
                        f"Moses wrote no n-best lists{log_tail(log, is_named=False)}"
                    )
                with open_output(lists.path) as stream:
                    stream.writelines(read_blocks(nbest))
            with open_output(output) as stream:
                stream.writelines(line + b"\n" for line in lines)
