"""The working folder of tuning in rounds: a journal, and the n-best lists of each round.

The journal, ``tune.json``, has everything that the run depends on, and each round with its weights.
It is written before the first round, and replaced after each round. The lists are next to it:
``run1.nbest`` and so on, or ``run1.nbest.gz`` if the system adds features to them. A file of lists
gets its name only when it is complete.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from moses_integration.decoder.moses import log_tail
from moses_integration.nbest import NbestList, read_every_list
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.features.columns import Column
from phrasescore.features.named import NamedFeature
from phrasescore.io.journal import (
    FileDigests,
    check_settings,
    digest_content,
    digest_text,
    read_journal,
    write_journal,
)
from phrasescore.io.output import open_output
from phrasescore.io.plain_file import check_plain
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair, Weights
from phrasescore.settings.training import RoundTuning
from phrasescore.systems.system import System
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.translator import Translator
from phrasescore.systems.tuning import ListReader
from tuning.loop import LoopResult, Round
from tuning.pool import Pool

_logger = logging.getLogger(__name__)

JOURNAL, CACHE = "tune.json", "scores.cache"
_ROUND = re.compile(r"(run[1-9][0-9]*|trial)\.(nbest(\.part|\.gz)?|weights|out|log|source)")
_OTHER_FOLDER = "name another working folder"


class TuneJournal(msgspec.Struct):
    """The content of ``tune.json``."""

    run: dict[str, Any]  # everything that a run must have in common with the run that it resumes
    rounds: tuple[Round, ...]
    next: Weights | None  # the weights for the next decoding; None if the loop has ended
    reason: str = ""


def describe_run(
    system: System,
    start: WeightPair,
    texts: Sequence[Iterable[Sequence[str]]],
    settings: RoundTuning,
) -> dict[str, Any]:
    """Return all properties that a run must have in common with the run that it resumes.

    The folders of files and models are not among them: they may move.

    :param texts: the words of the source, and of each set of references.
    """
    ini, decoder, columns = system.moses_ini, system.decoder, (*system.search, *system.lists)
    digests = FileDigests({}, {})
    source, *references = (
        digest_text("".join(f"{' '.join(words)}\n" for words in text)) for text in texts
    )
    named = (column.find_class() for column in columns if isinstance(column, NamedFeature))
    return {
        "decoder": getattr(decoder, "command", type(decoder).__name__),
        "source": source,
        "references": references,
        "moses.ini": None if ini is None else digest_content(str(ini)),
        "limits": dict(system.limits),
        "start weights": start.lists,
        "start weights of the search": None if start.search == start.lists else start.search,
        "n-best size": system.nbest_size,
        "models of the search": list(map(_without_folders, system.search)),
        "models": list(map(_without_folders, system.lists)),
        "content of the models": [
            digests.digest(Path(path)) for column in columns for path in column.inputs()
        ],
        "packages": [each.package for each in named if each is not None],
        "method": settings.method,
        "metric": settings.metric,
        "starts": settings.starts,
        "fixed features": list(settings.fixed),
        "seed": settings.seed,
    }


def _without_folders(column: Column) -> str:
    return column.with_paths(os.path.basename).to_toml()


def check_folder(work: Path, named: Iterable[str]) -> None:
    """Check that a run overwrites and removes only files from earlier runs in its folder.

    :raises PhrasescoreError: if one of them, or an unknown file, has a name that the run will use.
    """
    folder = os.path.realpath(work)
    for name in named:
        above, base = os.path.split(os.path.realpath(name))
        if above == folder and _is_of_a_run(base):
            problem = f"{name}: the run needs this name in {work};"
            raise PhrasescoreError(f"{problem} name another file, or another working folder")
    if (work / JOURNAL).exists() or not work.is_dir():
        return
    theirs = sorted(filter(_is_of_a_run, os.listdir(work)))
    if theirs:
        problem = f"{work / theirs[0]}: the run needs this name, and the file is not an earlier"
        raise PhrasescoreError(f"{problem} run's (there is no {JOURNAL}); {_OTHER_FOLDER}")


def _is_of_a_run(name: str) -> bool:
    return name.startswith((JOURNAL, CACHE)) or _ROUND.fullmatch(name) is not None


def read_rounds(work: Path, run: Mapping[str, Any], *, resume: bool) -> LoopResult | None:
    """Return the rounds of an earlier run; None for a new run.

    A run that has not decoded its first round starts again.

    :raises PhrasescoreError: if there is a different run, or ``resume`` is false.
    """
    journal = read_journal(work / JOURNAL, TuneJournal, _OTHER_FOLDER)
    if journal is None:
        return None
    if not journal.rounds and not any((work / f"run1.nbest{end}").exists() for end in ("", ".gz")):
        remove_rounds(work)
        return None
    if not resume:
        raise PhrasescoreError(
            f"{work}: the folder already has a run: continue it with --resume, or {_OTHER_FOLDER}"
        )
    # The JSON journal has lists instead of tuples.
    now = msgspec.json.decode(msgspec.json.encode(run))
    check_settings(journal.run, now, str(work), _OTHER_FOLDER)
    return LoopResult(journal.rounds, journal.next, journal.reason)


def write_rounds(work: Path, run: Mapping[str, Any], result: LoopResult) -> None:
    """Write the journal after a round."""
    journal = TuneJournal(dict(run), result.rounds, result.next_weights, result.reason)
    write_journal(work / JOURNAL, journal)


def remove_rounds(work: Path, beginning: str = "") -> None:
    """Remove files from rounds and trials whose names start with ``beginning``."""
    for name in os.listdir(work):
        if _ROUND.fullmatch(name) and name.startswith(beginning):
            os.unlink(work / name)


@dataclass
class Rounds:
    """Translates in a working folder; a round whose lists exist is not translated again."""

    translator: Translator
    sentences: Sequence[SystemSentence]
    work: Path
    reader: ListReader
    progress: ProgressCallback | None
    most: int  # rounds

    def read(self, number: int) -> Iterator[NbestList]:
        """Return the lists from a round that is complete."""
        return read_every_list(str(self.path(number)), self.reader.num_segments)

    def path(self, number: int) -> Path:
        """Return the file of the lists from a round."""
        return self.work / f"run{number}.nbest{'.gz' if self.translator.list_names else ''}"

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        """Return the lists from a round, as `tuning.loop.Decode` requires."""
        if segments is not None:
            return self._try(weights, segments)
        path = self.path(number)
        checked = str(path) if number == 1 else None
        if path.exists():
            check_plain(path)
            _logger.info("round %d: reusing %s", number, path)
            return self.reader.read(self.read(number), checked)
        _logger.info("round %d: decoding", number)
        lists = self._lists(f"run{number}", self.sentences, weights, number)
        with open_output(str(path)) as stream:
            pool = self.reader.read(_written(lists, stream), checked)
        for ending in ("nbest.part", "source"):  # of a decoder's program
            (self.work / f"run{number}.{ending}").unlink(missing_ok=True)
        return pool

    def _try(self, weights: Weights, segments: Sequence[int]) -> Pool:
        sentences = [self.sentences[each] for each in segments]
        pool = self.reader.read(self._lists("trial", sentences, weights), segments=segments)
        remove_rounds(self.work, "trial.")
        return pool

    def _lists(
        self, name: str, sentences: Sequence[SystemSentence], weights: Weights, number: int = 0
    ) -> Iterator[NbestList]:
        """Yield the list of each sentence, lazily; errors quote what a decoder wrote to stderr.

        :param number: of the round; progress is the share of all rounds.
        """
        remove_rounds(self.work, f"{name}.")  # links and pipes among them
        prefix = str(self.work / name)
        total = len(sentences) * (self.most if number else 1)
        meter = Meter("decode", "sentences", self.progress, total=total)
        meter.skipped = len(sentences) * max(number - 1, 0)
        try:
            with meter:
                for found in self.translator.lists(sentences, weights, prefix):
                    if found.id != meter.done:
                        break
                    meter.update()
                    yield found
                if meter.done < len(sentences):
                    problem = f"there is no n-best list of sentence {meter.done + 1:,}"
                    raise DataError(f"{prefix}.nbest", None, problem)
        except DataError as error:
            log = f"{prefix}.log"
            tail = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{tail}") from error


def _written(lists: Iterable[NbestList], stream: BinaryIO) -> Iterator[NbestList]:
    for found in lists:
        stream.write(found.raw)
        yield found
