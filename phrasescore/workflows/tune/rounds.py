"""The rounds of ``phrasescore tune --decoder``: decoding and rescoring in a working folder."""

import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from moses_integration.decoder.moses import log_tail
from moses_integration.weights import Weights, is_sparse
from phrasescore.cli.tune_options import TuneOptions
from phrasescore.cli.tune_pool import ListReader, by_name, some_names
from phrasescore.cli.tune_state import remove_rounds
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import read_lines
from tuning.loop import NamedWeights
from tuning.pool import Pool

if TYPE_CHECKING:
    from phrasescore.cli.decode_embedded import EmbeddedSearch
    from phrasescore.workflows.rescore import ListRescorer

_logger = logging.getLogger(__name__)


class LoopDecoder(Protocol):
    """What makes n-best lists: somebody's command, or the embedded search."""

    def run(self, source: str, weights: Weights, nbest: str, size: int, *, work: str) -> None:
        """Decode a file and write n-best lists, see `moses_integration.decoder.moses.Decoder`."""


class EmbeddedDecoder:
    """The search of this package in this process: tables and networks are loaded once."""

    def __init__(self, search: "EmbeddedSearch") -> None:
        self._search = search

    def run(self, source: str, weights: Weights, nbest: str, size: int, *, work: str) -> None:
        """Decode a file and write n-best lists."""
        from moses_integration.decoder.moses_engine import Lists
        from moses_integration.decoder.source import read_source

        own = {name: weights[name] for name in weights if name in self._search.feature_names}
        lists = Lists(nbest, size, distinct=True)
        self._search.translate(read_source(source), own, f"{work}.out", lists)


class Rounds:
    """Decodes in a working folder; a round whose list is there is not decoded again.

    :param own: the features that the decoder has; None where that is not known.
    """

    def __init__(
        self,
        wanted: TuneOptions,
        decoder: LoopDecoder,
        reader: ListReader,
        own: Collection[str] | None,
        rescorer: "ListRescorer | None",
    ) -> None:
        assert wanted.source is not None
        self._wanted = wanted
        self._source = wanted.source
        self._decoder = decoder
        self._work = Path(wanted.working_dir)
        self._reader = reader
        self._own = own
        self._rescorer = rescorer

    def __call__(
        self, number: int, weights: NamedWeights, segments: Sequence[int] | None = None
    ) -> Pool:
        """Return the lists of a round: a `tuning.loop.Decode`."""
        if segments is not None:
            return self._try(weights, segments)
        nbest = self._work / f"run{number}.nbest"
        if nbest.exists():
            _logger.info("round %d: taken from %s", number, nbest)
            return self._read(f"run{number}", str(nbest), is_first=number == 1)
        _logger.info("round %d: decoding", number)
        # It gets its name when it is known to be complete.
        part = f"{nbest}.part"
        self._run(self._source, f"run{number}", weights, part)
        pool = self._read(f"run{number}", part, is_first=number == 1)
        if number == 1:
            labels = dict.fromkeys(label.name for label in pool.labels if label not in weights)
            if names := [name for name in labels if name not in self._added]:
                _logger.info("without a weight, and so from 0: %s", some_names(names))
        os.replace(part, nbest)
        return pool

    def _try(self, weights: NamedWeights, segments: Sequence[int]) -> Pool:
        """Return the lists of some of the sentences; nothing of them is kept."""
        lines = list(read_lines(self._source))
        source = self._work / "trial.source"
        source.write_bytes(b"".join(lines[segment] + b"\n" for segment in segments))
        nbest = str(self._work / "trial.nbest")
        self._run(str(source), "trial", weights, nbest)
        pool = self._read("trial", nbest, source=str(source), segments=segments)
        remove_rounds(self._work, "trial.")
        return pool

    def _run(self, source: str, name: str, weights: NamedWeights, nbest: str) -> None:
        size, work = self._wanted.nbest_size, str(self._work / name)
        self._decoder.run(source, self._for_decoder(weights), nbest, size, work=work)

    @property
    def _added(self) -> Collection[str]:
        return () if self._rescorer is None else self._rescorer.names

    def _for_decoder(self, weights: NamedWeights) -> Weights:
        """Return the weights that the decoder knows features for."""
        return {
            name: values
            for name, values in by_name(weights).items()
            if self._own is None or name in self._own or is_sparse(name)
        }

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
                path = str(self._work / f"{name}.rescored.gz")
                done = self._rescorer.rescore(nbest, source or self._source, path)
                if done.networks is not None:
                    _logger.info("%s", done.networks.summary())
            return self._reader.read(path, check=is_first, segments=segments)
        except DataError as error:
            log = str(self._work / f"{name}.log")
            said = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{said}") from error
