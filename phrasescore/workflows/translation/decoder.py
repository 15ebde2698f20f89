"""The model of a moses.ini in memory, for translations from Python."""

import os
from collections.abc import Sequence
from pathlib import Path

from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from phrasescore.arguments import StrPath, whole_number
from phrasescore.features.columns import Column, as_columns
from phrasescore.settings.compute import Compute
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.translation.system import TranslationSystem
from phrasescore.workflows.translation.translate import SystemTranslator


class Decoder(SystemTranslator):
    """The embedded search with the model of a moses.ini, which is loaded at once.

    It translates words as `decode` does; with ``columns``, as `decode`, `rescore` and `rerank` do.

    :param moses_ini: relative paths in it start at its folder.
    :param weights: weights that replace those in the moses.ini; with ``columns``, all weights.
    :param search: networks in the search, which need weights, and limits.
    :param columns: features of the n-best lists, as for `rescore`.
    :param compute: ``workers`` and ``device``; by default, this process translates.
    :raises ConfigError: if the weights do not fit the features.
    """

    def __init__(
        self,
        moses_ini: StrPath,
        *,
        weights: WeightsSource | None = None,
        search: SearchSettings = SearchSettings(),
        columns: Sequence[Column | StrPath] = (),
        nbest_size: int = 100,
        compute: Compute = Compute(workers=1),
    ) -> None:
        search.check()
        ini = Path(moses_ini)
        system = TranslationSystem(
            weights_path(weights) or os.fspath(moses_ini),
            ini,
            ini.absolute().parent,
            search=search,
            columns=as_columns(columns),
            weights=None if weights is None else load_weights(weights),
            nbest_size=whole_number(nbest_size=nbest_size),
        )
        super().__init__(system, compute, tokenized=True)
        self.open()

    def __repr__(self) -> str:
        names = [*self.system.read_ini().tuneable_weights(), *self.system.search.feature_names]
        names += [column.argument for column in self.system.columns]
        return f"Decoder({os.fspath(self.system.moses_ini)!r}): {', '.join(names)}"
