"""Options for one sentence after another, from tables whose lines are found as they are needed."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from moses_integration.alignments import Affiliations
from moses_integration.decoder import configuration as kinds
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.options import OptionTable, TargetNumbers
from moses_integration.decoder.phrase_tables import (
    PhrasePairs,
    PhraseTables,
    default_reordering,
    keys_of,
    no_reordering,
    read_phrase_pairs,
    read_reordering,
    with_unknown_words,
)
from moses_integration.source_text import keys_of_sentences
from moses_integration.table_index import TableIndex
from phrasescore.language_models.arpa import NgramModel

_MOST_PAIRS = 500_000  # phrase pairs that are kept in memory
_MOST_WORDS = 200_000  # numbered words that no language model has


class _Group(NamedTuple):
    """The pairs of a source phrase that are kept, best first; see `PhrasePairs`."""

    targets: list[bytes]
    log_probs: Any
    alignments: list[bytes]
    affiliations: list[Affiliations]
    reordering: Any


class SentenceTables:
    """Makes the options for any sentence, under one set of weights.

    `phrasescore.decode` reads the tables for a whole text, and makes the same options.

    :param aligned: whether the affiliations of the words are needed.
    :param other_language_weight: see `OptionTable`.
    :param sentences: the sentences that will be translated; None if they are not known yet, so
        that all lines of the tables are kept.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        model: NgramModel,
        *,
        aligned: bool,
        other_language_weight: float = 0.0,
        sentences: Iterable[Sequence[str]] | None = None,
    ) -> None:
        self._configuration, self._model, self._aligned = configuration, model, aligned
        self._other_weight, self._numbers = other_language_weight, TargetNumbers(model)
        slot = configuration.slot(kinds.PHRASE_TABLE)
        self._longest = configuration.search.max_phrase_length
        phrases = None if sentences is None else keys_of_sentences(sentences, self._longest)
        self._table = TableIndex(slot.arguments["path"], 1, phrases)
        self._num_scores = len(slot.weights)
        self._order = configuration.find(kinds.REORDERING)
        self._orders: TableIndex | None = None
        if self._order is not None:
            self._orders = TableIndex(self._order.arguments["path"], 2, phrases)
        # By source phrase, the latest used last.
        self._groups: OrderedDict[bytes, _Group] = OrderedDict()
        self._num_pairs = 0

    def options(self, sentence: Sequence[str]) -> OptionTable:
        """Return the options for a sentence."""
        self._numbers.forget(_MOST_WORDS)
        words = [word.encode() for word in sentence]
        phrases = dict.fromkeys(
            b" ".join(words[start:end])
            for start in range(len(words))
            for end in range(start + 1, min(len(words), start + self._longest) + 1)
        )
        self._read([phrase for phrase in phrases if phrase not in self._groups])
        known = [phrase for phrase in phrases if phrase in self._groups]
        groups = []
        for phrase in known:
            self._groups.move_to_end(phrase)
            groups.append(self._groups[phrase])
        sizes = [len(group.targets) for group in groups]
        pairs = PhrasePairs(
            known,
            np.cumsum([0, *sizes]),
            list(chain.from_iterable(group.targets for group in groups)),
            np.concatenate([np.empty((0, self._num_scores)), *(each.log_probs for each in groups)]),
            list(chain.from_iterable(group.alignments for group in groups)),
            list(chain.from_iterable(each.affiliations for each in groups))
            if self._aligned
            else None,
        )
        num_known = len(pairs.targets)
        pairs = with_unknown_words(self._configuration, pairs, set(words) - set(known))
        of_unknown = self._reordering(keys_of(pairs)[num_known:])
        reordering = np.concatenate([*(each.reordering for each in groups), of_unknown])
        while self._num_pairs > _MOST_PAIRS:
            self._num_pairs -= len(self._groups.popitem(last=False)[1].targets)
        return self._table_of(PhraseTables(pairs, len(known), reordering))

    def _read(self, phrases: Sequence[bytes]) -> None:
        """Read the pairs of source phrases that are in the table, and keep the best ones."""
        lines = self._table.lines(phrases)
        pairs = read_phrase_pairs(self._table.path, lines, self._num_scores, aligned=self._aligned)
        if not pairs.sources:
            return
        tables = PhraseTables(pairs, len(pairs.sources), no_reordering(pairs))
        kept = self._table_of(tables).kept
        rows, keys = kept.values.tolist(), keys_of(pairs)
        reordering = self._reordering([keys[row] for row in rows])
        for phrase, (first, after) in zip(pairs.sources, pairwise(kept.starts), strict=True):
            own = rows[first:after]
            self._groups[phrase] = _Group(
                [pairs.targets[row] for row in own],
                pairs.log_probs[own],
                [pairs.alignments[row] for row in own],
                [] if pairs.affiliations is None else [pairs.affiliations[row] for row in own],
                reordering[first:after],
            )
            self._num_pairs += len(own)

    def _reordering(self, keys: Sequence[tuple[bytes, bytes]]) -> Any:
        if self._order is None or self._orders is None or not keys:
            return np.zeros((len(keys), kinds.NUM_REORDERING_SCORES))
        lines = self._orders.lines(dict.fromkeys(b"%b|||%b" % key for key in keys))
        default = default_reordering(self._order)
        return read_reordering(self._orders.path, keys, default, lines)

    def _table_of(self, tables: PhraseTables) -> OptionTable:
        return OptionTable(
            self._configuration, self._model, tables, self._other_weight, self._numbers
        )
