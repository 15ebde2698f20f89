"""The rounds of tuning with a decoder: decoding and rescoring in a working folder."""

import functools
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from moses_integration.decoder.moses import log_tail
from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.plain_file import check_plain
from phrasescore.io.text import read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.rescore import rescore_file
from phrasescore.workflows.tune.pooling import ListReader, some_names
from phrasescore.workflows.tune.state import remove_rounds
from tuning.pool import Pool

if TYPE_CHECKING:
    from phrasescore.workflows.scoring.list_scorer import ListScorer

_logger = logging.getLogger(__name__)


class Decoder(Protocol):
    """A decoder for the tuning loop: any callable that translates a file into n-best lists."""

    def __call__(self, source: str, weights: Weights, size: int, nbest: str, /) -> None:
        """Translate each line of a file, and write its n-best list, in the order of the lines.

        :param source: the path of the text, a sentence per line.
        :param weights: of the decoder's features; a feature that is not named has weight 0.
        :param size: hypotheses per list, at most; a translation should come only once.
        :param nbest: the path where the lists go, in Moses' format with the names of features:
            ``id ||| words ||| Name= value ... ||| total``. The first hypothesis of a list is the
            decoder's own translation.
        """


class Rounds:
    """Decodes in a working folder; a round whose lists are there is not decoded again.

    :param size: hypotheses per list.
    :param open_rescorer: opens the rescorer of the lists; None where they are not rescored.
    :ivar ini: the moses.ini whose weights are tuned, where it is known.
    :ivar added: the features that rescoring adds, from `opened` on.
    """

    def __init__(
        self,
        decoder: Decoder | EmbeddedSearch,
        ini: MosesIni | None,
        source: str,
        work: Path,
        size: int,
        reader: ListReader,
        open_rescorer: "Callable[[], ListScorer] | None",
        progress: ProgressCallback | None,
    ) -> None:
        self._decoder: Decoder = decoder
        self.ini, self.source, self.work = ini, source, work
        self.reader, self._size, self._progress = reader, size, progress
        self._open_rescorer = open_rescorer
        self._rescorer: ListScorer | None = None
        self.added: Sequence[str] = ()
        # The features that the decoder has; None where they are not known.
        self._own: Collection[str] | None = None if ini is None else ini.tuneable_weights().keys()

    @contextmanager
    def opened(self, weights: Weights, lock: int) -> Iterator[None]:
        """Load the embedded search and the rescorer, and close them at the end.

        :param weights: of the first round.
        :param lock: a descriptor that the search's processes do not keep: after kill -9 the lock
            must be free at once.
        """
        with ExitStack() as stack:
            search = self._decoder
            # First, because it forks, and the rescorer may start threads.
            if isinstance(search, EmbeddedSearch):
                self._own = names = search.feature_names
                known = {name: values for name, values in weights.items() if name in names}
                sentences = search.read_source(self.source)
                stack.enter_context(search).open(sentences, known, closed=(lock,))
                self._decoder = functools.partial(search, progress=self._progress)
            if self._open_rescorer is not None:
                self._rescorer = stack.enter_context(self._open_rescorer())
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
        # It gets its name when it is known to be complete.
        part = f"{nbest}.part"
        remove_rounds(self.work, f"run{number}.")  # links and pipes among them
        self._decode(self.source, weights, part)
        pool = self._read(f"run{number}", part, is_first=number == 1)
        if number == 1:
            names = dict.fromkeys(label.name for label in pool.labels)
            unnamed = [name for name in names if name not in weights and name not in self.added]
            if unnamed:
                _logger.info("without a weight, and so from 0: %s", some_names(unnamed))
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
        """Decode with the weights that the decoder knows features for."""
        own = {
            name: values
            for name, values in weights.items()
            if self._own is None or name in self._own or is_sparse(name)
        }
        self._decoder(source, own, self._size, nbest)

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
                done = rescore_file(self._rescorer, nbest, source, path, progress=self._progress)
                if done.networks is not None:
                    _logger.info("%s", done.summary()[0])
            return self.reader.read(path, check=is_first, segments=segments)
        except DataError as error:
            log = str(self.work / f"{name}.log")
            said = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{said}") from error
