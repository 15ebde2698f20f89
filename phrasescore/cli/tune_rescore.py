"""How the lists of each round of ``phrasescore tune --decoder`` get the networks' scores."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from moses_integration.nbest import read_nbest, with_sources
from phrasescore.cli.rescore_columns import make_columns
from phrasescore.cli.rescore_lists import read_items, write_lists
from phrasescore.cli.rescore_networks import check_cslm, load_models, network_scores
from phrasescore.features.column_spec import ColumnSpec
from phrasescore.features.score_cache import ScoreCache
from phrasescore.features.sentences import SentenceWork

_logger = logging.getLogger(__name__)


class Rescorer:
    """Adds features to one file of lists after another; networks and files are loaded once.

    A context manager, which closes the cache. The lists are those of ``phrasescore rescore`` with
    the same columns, byte for byte.

    :ivar names: of the features that are added.
    :param order: the features.
    :param cache: the file that keeps the networks' scores.
    :param backoff_lm: of the models of the kind cslm, as is ``unnormalized``.
    :raises ModelError: if one of them is no model.
    """

    def __init__(
        self,
        order: Sequence[ColumnSpec],
        *,
        cache: str,
        device: str,
        threads: int | None,
        backoff_lm: str | None = None,
        unnormalized: bool = False,
    ) -> None:
        models = [wanted.value for wanted in order if wanted.kind == "model"]
        checkpoints = load_models(models, device)
        configs = [checkpoint.config for checkpoint in checkpoints]
        check_cslm(configs, backoff_lm, unnormalized=unnormalized)
        self._columns = make_columns(order, checkpoints, (), ensemble=False)
        self.names = [column.name for column in self._columns]
        self._stack = ExitStack()
        self._scores = None
        if checkpoints:
            self._scores = network_scores(
                checkpoints,
                device,
                self._stack.enter_context(ScoreCache(cache)),
                precision="float32",
                threads=threads,
                ensemble=False,
                words=False,
                backoff_lm=backoff_lm,
                unnormalized=unnormalized,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def rescore(self, nbest: str, source: str, output: str) -> None:
        """Write lists with the networks' scores at the end of field 3.

        :param source: the file with what was translated.
        :raises DataError: if the lists are not as they should be, or have such features already.
        """
        lists = read_nbest(nbest, self.names)
        items = read_items(with_sources(lists, source))
        if self._scores is not None:
            self._scores.work = SentenceWork()
        write_lists(items, self._columns, self._scores, output, None, replace=False)
        if self._scores is not None:
            _logger.info("%s", self._scores.summary())
