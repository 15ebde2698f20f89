"""The tuning loop's working folder: its journal, and the lists from each round.

The journal, ``tune.json``, has everything that the run depends on, and each round with its weights.
It is written before the first round, and replaced after each round. The lists are next to
it: ``run1.nbest`` and so on; a file gets its final name only when it is complete. At the end,
``moses.ini`` has the best weights.
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
from phrasescore.errors import DataError, PhrasescoreError, some_names
from phrasescore.io.journal import check_settings, read_journal, write_journal
from phrasescore.io.plain_file import check_plain
from phrasescore.io.text import read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.rescore import rescore_file
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.optimiser import ListReader
from tuning.loop import Decided, LoopResult, Round
from tuning.pool import Pool

if TYPE_CHECKING:
    from phrasescore.systems.scoring import Scoring

_logger = logging.getLogger(__name__)

JOURNAL, INI, CACHE = "tune.json", "moses.ini", "scores.cache"
_ROUND = re.compile(
    r"(run[1-9][0-9]*|trial)\.(nbest|nbest\.part|rescored\.gz|weights|out|log|source)"
)
_OTHER_FOLDER = "name another working folder"


class TuneJournal(msgspec.Struct):
    """The content of ``tune.json``."""

    settings: dict[str, Any]
    rounds: tuple[Round, ...]
    next: Weights | None  # the weights for the next decoding; None if the loop has ended
    reason: str = ""


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
    return name.startswith((JOURNAL, CACHE)) or name == INI or _ROUND.fullmatch(name) is not None


def read_decisions(
    work: Path, settings: Mapping[str, Any], *, resume: bool
) -> tuple[Weights, list[Decided]] | None:
    """Return the first round's weights of an earlier run, and its decisions; None for a new run.

    There is a decision after each round except the last. A run that has not decoded its first round
    starts again.

    :param settings: all properties that a run must share with a run that it resumes.
    :raises PhrasescoreError: if there is a run with different settings, or ``resume`` is false.
    """
    journal = read_journal(work / JOURNAL, TuneJournal, _OTHER_FOLDER)
    if journal is None:
        return None
    if not journal.rounds and not (work / "run1.nbest").exists():
        remove_rounds(work)
        return None
    if not resume:
        raise PhrasescoreError(
            f"{work}: the folder already has a run: continue it with --resume, or {_OTHER_FOLDER}"
        )
    # The JSON journal has lists instead of tuples.
    now = msgspec.json.decode(msgspec.json.encode(settings))
    check_settings(journal.settings, now, str(work), _OTHER_FOLDER)
    first, *following = [*(done.weights.search for done in journal.rounds), journal.next]
    assert first is not None  # a loop ends only after a round
    return first, [
        Decided(done.weights.lists, after, done.found_score)
        for done, after in zip(journal.rounds, following, strict=True)
        if after is not None
    ]


def write_rounds(work: Path, settings: Mapping[str, Any], result: LoopResult) -> None:
    """Write the journal after a round."""
    journal = TuneJournal(dict(settings), result.rounds, result.next_weights, result.reason)
    write_journal(work / JOURNAL, journal)


def remove_rounds(work: Path, beginning: str = "") -> None:
    """Remove files from rounds and trials whose names start with ``beginning``."""
    for name in os.listdir(work):
        if _ROUND.fullmatch(name) and name.startswith(beginning):
            os.unlink(work / name)


class ListDecoder(Protocol):
    """A decoder for the tuning loop: any callable that translates a file into n-best lists."""

    def __call__(self, source: str, weights: Weights, size: int, nbest: str, /) -> None:
        """Translate each line of a file, and write the n-best lists in the order of the lines.

        :param source: the path of the text, one sentence per line.
        :param weights: the weights of the decoder's features; a missing weight is 0.
        :param size: maximum number of hypotheses per list; translations should be distinct.
        :param nbest: the path for the lists, in Moses' format with feature names:
            ``id ||| words ||| Name= value ... ||| total``. The first hypothesis of a list is the
            decoder's own translation.
        """


def about_decoder(decoder: ListDecoder | SearchSettings | str) -> dict[str, object]:
    """Return the properties of a decoder that must not change when a run is resumed."""
    if isinstance(decoder, SearchSettings):
        return {"decoder": "embedded", "search": about_search(decoder)}
    if isinstance(decoder, str):
        return {"decoder": decoder}
    named = decoder if hasattr(decoder, "__qualname__") else type(decoder)
    return {"decoder": f"{named.__module__}.{named.__qualname__}"}


def about_search(search: SearchSettings) -> dict[str, Any] | None:
    """Return the search's settings that change translations and differ from the defaults.

    Models have no folders, which may move.
    """
    usual = SearchSettings()
    changed = {
        name: value
        for name, value in msgspec.json.decode(msgspec.json.encode(search)).items()
        if getattr(search, name) != getattr(usual, name)
        and name not in ("processes", "threads", "buffer_size")
    }
    for key in {"models", "backoff_lm"} & changed.keys():
        given = changed[key]
        is_list = isinstance(given, list)
        changed[key] = [*map(os.path.basename, given)] if is_list else os.path.basename(given)
    return changed or None


@dataclass
class Rounds:
    """Decodes in a working folder; a round whose lists exist is not decoded again."""

    decoder: ListDecoder | EmbeddedSearch
    ini: MosesIni | None  # the moses.ini to tune; None if unknown
    source: str
    work: Path
    size: int  # number of hypotheses per list
    reader: ListReader
    # Opens the rescorer for the lists; None if they are not rescored.
    open_rescorer: "Callable[[], Scoring] | None"
    progress: ProgressCallback | None
    # Names of the features that rescoring adds; `opened` sets them.
    added: Sequence[str] = field(default=(), init=False)
    _rescorer: "Scoring | None" = field(default=None, init=False)
    # Names of the decoder's features; None if they are unknown.
    _own: Collection[str] | None = field(default=None, init=False)
    _networks: Sequence[str] = field(default=(), init=False)  # its features that moses.ini lacks

    @contextmanager
    def opened(self, weights: Weights, lock: int) -> Iterator[None]:
        """Load the embedded search and the rescorer, and close them at the end.

        :param lock: a file descriptor that the search's processes close, so that the lock is free
            at once after kill -9.
        """
        self._own = None if self.ini is None else self.ini.tuneable_weights().keys()
        with ExitStack() as stack:
            search = self.decoder
            # Open the search first: it forks, and the rescorer may start threads.
            if isinstance(search, EmbeddedSearch):
                self._own = names = search.feature_names
                self._networks = search.network_names
                known = {name: values for name, values in weights.items() if name in names}
                sentences = search.read_source(self.source)
                stack.enter_context(search).open(sentences, known, closed=(lock,))
                self.decoder = functools.partial(search, progress=self.progress)
            if self.open_rescorer is not None:
                self._rescorer = stack.enter_context(self.open_rescorer())
                self.added = self._rescorer.names
            yield

    def new_features(self, weights: Weights) -> list[str]:
        """Return the names of the decoder's features whose weights are all 0, or missing."""
        names = filter(self._is_own, dict.fromkeys((*weights, *self._networks)))
        return [name for name in names if not any(weights.get(name, ())) and not is_sparse(name)]

    def _is_own(self, name: str) -> bool:
        if self._own is None:
            return name not in self.added
        return name in self._own or is_sparse(name)

    def lists(self, number: int) -> Path:
        """Return the path of a round's lists, including the features that rescoring adds."""
        return self.work / f"run{number}.{'rescored.gz' if self.added else 'nbest'}"

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        """Return the lists from a round, as `tuning.loop.Decode` requires."""
        if segments is not None:
            return self._try(weights, segments)
        nbest = self.work / f"run{number}.nbest"
        if nbest.exists():
            check_plain(nbest)
            _logger.info("round %d: reusing %s", number, nbest)
            return self._read(f"run{number}", str(nbest), is_first=number == 1)
        _logger.info("round %d: decoding", number)
        # The file is renamed when it is complete.
        part = f"{nbest}.part"
        remove_rounds(self.work, f"run{number}.")  # links and pipes among them
        self._decode(self.source, weights, part)
        pool = self._read(f"run{number}", part, is_first=number == 1)
        if number == 1:
            names = dict.fromkeys(label.name for label in pool.labels)
            unnamed = [name for name in names if name not in weights and name not in self.added]
            if unnamed:
                _logger.info("features without a weight start at 0: %s", some_names(unnamed))
        os.replace(part, nbest)
        return pool

    def _try(self, weights: Weights, segments: Sequence[int]) -> Pool:
        """Return the lists for the given sentences, and remove the files."""
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
        own = {name: values for name, values in weights.items() if self._is_own(name)}
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
            tail = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{tail}") from error
