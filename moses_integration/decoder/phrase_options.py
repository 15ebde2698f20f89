"""The options of sentences, under weights that may change."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.options import OptionTable, TargetNumbers
from moses_integration.decoder.phrase_tables import PhrasePairs, PhraseTables, join_pairs, keys_of
from moses_integration.source_text import keys_of_sentences
from phrasescore.language_models.arpa import NgramModel

_MOST_PAIRS = 500_000  # phrase pairs of a stream that are kept in memory
_MOST_WORDS = 200_000  # numbered words of a stream that no language model has


class PhraseOptions:
    """Makes the options of sentences, under weights that may change.

    :param sentences: the text, if it is known: its lines of the tables are read once, and new
        weights sort and prune their pairs in memory. Otherwise lines are found as they are needed,
        and the best pairs of the latest source phrases are kept.
    :ivar num_copied: the number of words of a known text that are not in the table.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        model: NgramModel,
        *,
        aligned: bool,
        sentences: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self._model, self._longest = model, configuration.search.max_phrase_length
        self._tables = PhraseTables(configuration, aligned=aligned, indexed=sentences is None)
        self._is_known = sentences is not None
        words = Counter(word for sentence in sentences or () for word in sentence)
        phrases = keys_of_sentences(sentences or (), self._longest)
        pairs, unknown = self._find(phrases, map(str.encode, words))
        self._pairs = self._tables.reorder(pairs)  # of a known text; for a stream, none
        self.num_copied = sum(words[word.decode()] for word in unknown)

    def _find(self, phrases: Any, words: Iterable[bytes]) -> tuple[PhrasePairs, list[bytes]]:
        """Return the pairs without reordering scores, and the words that are not in the table."""
        pairs = self._tables.pairs(phrases)
        unknown = sorted(set(words).difference(pairs.sources))
        return join_pairs([pairs, self._tables.copied(unknown)]), unknown

    def use(self, configuration: DecoderConfiguration, other_language_weight: float) -> None:
        """Use the weights of a configuration; see `OptionTable` for the other weight."""
        self._configuration, self._other_weight = configuration, other_language_weight
        self._numbers = TargetNumbers(self._model)
        # The pairs of source phrases of a stream, the latest used last.
        self._groups: OrderedDict[bytes, PhrasePairs] = OrderedDict()
        self._num_pairs = 0
        self._table = self._table_of(self._pairs)

    def of(self, sentence: Sequence[str]) -> OptionTable:
        """Return the options of a sentence, which must be one of a known text."""
        if self._is_known:
            return self._table
        self._numbers.forget(_MOST_WORDS)
        words = [word.encode() for word in sentence]
        phrases = dict.fromkeys(
            b" ".join(words[start:end])
            for start in range(len(words))
            for end in range(start + 1, min(len(words), start + self._longest) + 1)
        )
        self._read([phrase for phrase in phrases if phrase not in self._groups])
        known = [phrase for phrase in phrases if phrase in self._groups]
        for phrase in known:
            self._groups.move_to_end(phrase)
        pairs = join_pairs([self._pairs, *(self._groups[phrase] for phrase in known)])
        while self._num_pairs > _MOST_PAIRS:
            self._num_pairs -= len(self._groups.popitem(last=False)[1].targets)
        return self._table_of(pairs)

    def _read(self, phrases: Sequence[bytes]) -> None:
        words = (phrase for phrase in phrases if b" " not in phrase)
        pairs, _ = self._find(keys_of(phrases, 1), words)
        rows = self._table_of(pairs).kept
        kept = self._tables.reorder(pairs.take(pairs.sources, rows.values.tolist(), rows.starts))
        for source, (first, after) in zip(
            kept.sources, pairwise(kept.starts.tolist()), strict=True
        ):
            starts = np.array([0, after - first])
            self._groups[source] = kept.take([source], range(first, after), starts)
        self._num_pairs += len(kept.targets)

    def _table_of(self, pairs: PhrasePairs) -> OptionTable:
        return OptionTable(
            self._configuration, self._model, pairs, self._other_weight, self._numbers
        )
