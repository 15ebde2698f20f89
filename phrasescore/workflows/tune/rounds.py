"""The working folder of the tuning loop: its journal, and the lists of each round.

``tune.json`` is the journal: all that the run depends on, and each round with its weights. It is
written before the first round, and replaced after each. The lists are beside it, ``run1.nbest`` and
so on; a list has its name only when it is complete. At the end the best weights are in
``moses.ini``.
"""

import functools
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from moses_integration.decoder.moses import log_tail
from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.journal import check_settings, read_journal, write_journal
from phrasescore.io.plain_file import check_plain
from phrasescore.io.text import read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.rescore import rescore_file
from phrasescore.workflows.tune.pooling import ListReader, some_names
from tuning.loop import Decided, LoopResult
from tuning.pool import Pool

if TYPE_CHECKING:
    from phrasescore.workflows.scoring.list_scorer import ListScorer

_logger = logging.getLogger(__name__)

JOURNAL, INI, CACHE = "tune.json", "moses.ini", "scores.cache"
_ROUND = re.compile(
    r"(run[1-9][0-9]*|trial)\.(nbest|nbest\.part|rescored\.gz|weights|out|log|source)"
)
_OTHER_FOLDER = "name another working folder"


class RoundRecord(msgspec.Struct):
    """A completed round; scores are from 0 to 1, as in `tuning.loop.Round`."""

    score: float
    hypotheses: int
    new: int
    pool_score: float
    found_score: float | None
    # The weights it was decoded with, and the weights that rerank its lists.
    weights: Weights
    list_weights: Weights


class TuneJournal(msgspec.Struct):
    """The content of ``tune.json``."""

    settings: dict[str, Any]
    rounds: list[RoundRecord]
    # The weights to decode with next; None if the loop has ended.
    next: Weights | None
    reason: str = ""


def check_folder(work: Path, named: Iterable[str]) -> None:
    """Check that a run writes and removes only an earlier run's files in its folder.

    :param named: the files that the run reads, and those that it writes elsewhere.
    :raises PhrasescoreError: if one of them, or another file, has a name that the run needs.
    """
    folder = os.path.realpath(work)
    for name in named:
        above, base = os.path.split(os.path.realpath(name))
        if above == folder and _is_of_a_run(base):
            raise PhrasescoreError(
                f"{name}: this name in {work} is needed for the run itself; name another file, or "
                "another working folder"
            )
    if (work / JOURNAL).exists() or not work.is_dir():
        return
    theirs = sorted(filter(_is_of_a_run, os.listdir(work)))
    if theirs:
        raise PhrasescoreError(
            f"{work / theirs[0]}: this name is needed for the run, and is not of an earlier one "
            f"(there is no {JOURNAL}); {_OTHER_FOLDER}"
        )


def _is_of_a_run(name: str) -> bool:
    return name.startswith((JOURNAL, CACHE)) or name == INI or _ROUND.fullmatch(name) is not None


def read_decisions(
    work: Path, settings: Mapping[str, Any], *, resume: bool
) -> list[Decided] | None:
    """Return an earlier run's decisions after each round except the last; None to start.

    A run that has decoded nothing starts over.

    :param settings: all that a run must have in common with the one that it resumes.
    :raises PhrasescoreError: if there is a run that is not to be resumed, or has other settings.
    """
    journal = read_journal(work / JOURNAL, TuneJournal, _OTHER_FOLDER)
    if journal is None:
        return None
    if not journal.rounds and not (work / "run1.nbest").exists():
        remove_rounds(work)
        return None
    if not resume:
        raise PhrasescoreError(
            f"{work}: there is a run here already: continue it with --resume, or {_OTHER_FOLDER}"
        )
    # As they come out of a file: lists for tuples.
    now = msgspec.json.decode(msgspec.json.encode(settings))
    check_settings(journal.settings, now, str(work), _OTHER_FOLDER)
    following = [*(done.weights for done in journal.rounds[1:]), journal.next]
    return [
        Decided(done.list_weights, after, done.found_score)
        for done, after in zip(journal.rounds, following, strict=False)
        if after is not None
    ]


def write_rounds(work: Path, settings: Mapping[str, Any], result: LoopResult) -> None:
    """Write the journal after a round."""
    rounds = [
        RoundRecord(
            done.score,
            done.hypotheses,
            done.new,
            done.pool_score,
            done.found_score,
            done.weights.search,
            done.weights.lists,
        )
        for done in result.rounds
    ]
    journal = TuneJournal(dict(settings), rounds, result.next_weights, result.reason)
    write_journal(work / JOURNAL, journal)


def remove_rounds(work: Path, beginning: str = "") -> None:
    """Remove the files of rounds and trials whose names start with ``beginning``."""
    for name in os.listdir(work):
        if _ROUND.fullmatch(name) and name.startswith(beginning):
            os.unlink(work / name)


class Decoder(Protocol):
    """A decoder for the tuning loop: any callable that translates a file into n-best lists."""

    def __call__(self, source: str, weights: Weights, size: int, nbest: str, /) -> None:
        """Translate each line of a file, and write its n-best list, in the order of the lines.

        :param source: the path of the text, a sentence per line.
        :param weights: the weights of the decoder's features; a missing weight is 0.
        :param size: maximum number of hypotheses per list; translations should be distinct.
        :param nbest: the path where the lists go, in Moses' format with the names of features:
            ``id ||| words ||| Name= value ... ||| total``. The first hypothesis of a list is the
            decoder's own translation.
        """


@dataclass
class Rounds:
    """Decodes in a working folder; a round with existing lists is not decoded again."""

    decoder: Decoder | EmbeddedSearch
    # The moses.ini whose weights are tuned, if it is known.
    ini: MosesIni | None
    source: str
    work: Path
    # Hypotheses per list.
    size: int
    reader: ListReader
    # Opens the rescorer of the lists; None if they are not rescored.
    open_rescorer: "Callable[[], ListScorer] | None"
    progress: ProgressCallback | None
    # Names of the features that rescoring adds; set by `opened`.
    added: Sequence[str] = field(default=(), init=False)
    _rescorer: "ListScorer | None" = field(default=None, init=False)
    # Names of the decoder's features; None if they are unknown.
    _own: Collection[str] | None = field(default=None, init=False)

    @contextmanager
    def opened(self, weights: Weights, lock: int) -> Iterator[None]:
        """Load the embedded search and the rescorer, and close them at the end.

        :param weights: the weights of the first round.
        :param lock: a descriptor that the search's processes close: after kill -9 the lock must be
            free at once.
        """
        self._own = None if self.ini is None else self.ini.tuneable_weights().keys()
        with ExitStack() as stack:
            search = self.decoder
            # Open the search first: it forks, and the rescorer may start threads.
            if isinstance(search, EmbeddedSearch):
                self._own = names = search.feature_names
                known = {name: values for name, values in weights.items() if name in names}
                sentences = search.read_source(self.source)
                stack.enter_context(search).open(sentences, known, closed=(lock,))
                self.decoder = functools.partial(search, progress=self.progress)
            if self.open_rescorer is not None:
                self._rescorer = stack.enter_context(self.open_rescorer())
                self.added = self._rescorer.names
            yield

    def lists(self, number: int) -> Path:
        """Return the file of a round's lists, with the features that rescoring adds."""
        return self.work / f"run{number}.{'rescored.gz' if self.added else 'nbest'}"

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        """Return the lists of a round: a `tuning.loop.Decode`."""
        if segments is not None:
            return self._try(weights, segments)
        nbest = self.work / f"run{number}.nbest"
        if nbest.exists():
            check_plain(nbest)
            _logger.info("round %d: taken from %s", number, nbest)
            return self._read(f"run{number}", str(nbest), is_first=number == 1)
        _logger.info("round %d: decoding", number)
        # The file is renamed once it is known to be complete.
        part = f"{nbest}.part"
        remove_rounds(self.work, f"run{number}.")  # links and pipes among them
        self._decode(self.source, weights, part)
        pool = self._read(f"run{number}", part, is_first=number == 1)
        if number == 1:
            names = dict.fromkeys(label.name for label in pool.labels)
            unnamed = [name for name in names if name not in weights and name not in self.added]
            if unnamed:
                _logger.info("no weight given, starting at 0: %s", some_names(unnamed))
        os.replace(part, nbest)
        return pool

    def _try(self, weights: Weights, segments: Sequence[int]) -> Pool:
        """Return the lists of some of the sentences; their files are removed."""
        remove_rounds(self.work, "trial.")
        lines = list(read_lines(self.source))
        source = self.work / "trial.source"
        source.write_bytes(b"".join(lines[segment] + b"\n" for segment in segments))
        nbest = str(self.work / "trial.nbest")
        self._decode(str(source), weights, nbest)
        pool = self._read("trial", nbest, source=str(source), segments=segments)
        remove_rounds(self.work, "trial.")
        return pool

    def _decode(self, source: str, weights: Weights, nbest: str) -> None:
        """Decode with the weights of the features that the decoder has."""
        own = {
            name: values
            for name, values in weights.items()
            if self._own is None or name in self._own or is_sparse(name)
        }
        assert not isinstance(self.decoder, EmbeddedSearch)
        self.decoder(source, own, self.size, nbest)

    def _read(
        self,
        name: str,
        nbest: str,
        *,
        source: str | None = None,
        segments: Sequence[int] | None = None,
        is_first: bool = False,
    ) -> Pool:
        try:
            path = nbest
            if self._rescorer is not None:
                path = str(self.work / f"{name}.rescored.gz")
                remove_rounds(self.work, f"{name}.rescored.gz")
                source = source or self.source
                done = rescore_file(self._rescorer, nbest, source, path, progress=self.progress)
                if done.networks is not None:
                    _logger.info("%s", done.summary()[0])
            return self.reader.read(path, check=is_first, segments=segments)
        except DataError as error:
            log = str(self.work / f"{name}.log")
            said = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{said}") from error
