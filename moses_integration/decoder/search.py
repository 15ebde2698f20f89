"""Translate sentences with the embedded stack search, as Moses would."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.configuration import (
    DISTORTION,
    LANGUAGE_MODEL,
    NUM_REORDERING_SCORES,
    REORDERING,
    STATEFUL,
    DecoderConfiguration,
)
from moses_integration.decoder.kbest import best_paths
from moses_integration.decoder.language_model import NgramModel
from moses_integration.decoder.ngram_table import (
    BEGIN,
    END,
    KERNEL,
    LN_10,
    score_next,
    score_word,
)
from moses_integration.decoder.options import OptionTable, SentenceOptions
from moses_integration.decoder.search_kernels import NUM_ORIENTATIONS, find_orientation
from moses_integration.decoder.sentence import make_sentence
from moses_integration.decoder.stack_search import StackSearch
from moses_integration.decoder.stateful import (
    DEFAULT_BUFFER_SIZE,
    AlignedWords,
    RequestBuffer,
    StatefulFeature,
)

# What n-best-factor 0, no limit, is in Moses (Manager.cpp).
_MOST_PATHS = 1000


class PhraseSegment(NamedTuple):
    """A source phrase and its translation."""

    # Source words, 0-based, end exclusive.
    start: int
    end: int
    words: tuple[str, ...]
    # Row of the OptionTable.
    option: int


@dataclass(frozen=True)
class Translation:
    """A derivation and, for the best one, the n-best list.

    A sentence that no order of phrases within the distortion limit covers has no words, no
    segments, and a score of minus infinity; Moses writes an empty line.
    """

    words: tuple[str, ...]
    # Weighted sum of the values.
    score: float
    # In the order of the target.
    segments: tuple[PhraseSegment, ...]
    # Of each feature, in the order of ``StackDecoder.names``.
    values: tuple[tuple[float, ...], ...]
    nbest: tuple["Translation", ...] = ()


class StackDecoder:
    """Search for the best translations under the model of a moses.ini.

    :param configuration: features, weights, and how far to search.
    :param option_table: of the sentences that will be translated, under the same weights; those of
        ``features`` that are language models, too, or the search errs more.
    :param lm: the language model.
    :param features: more features, and their weights.
    :param buffer_size: requests that such a feature gets in a call; 1 for no buffering. It
        changes speed only.
    :ivar names: of the features, as ``values`` has them.
    :ivar buffers: the requests to more features, with their counts.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        option_table: OptionTable,
        lm: NgramModel,
        features: Sequence[tuple[StatefulFeature, float]] = (),
        *,
        buffer_size: int = DEFAULT_BUFFER_SIZE,
    ) -> None:
        self._configuration, self._table, self._lm = configuration, option_table, lm
        self.buffers = [
            (RequestBuffer(feature, buffer_size), weight) for feature, weight in features
        ]
        for feature, _ in features:
            feature.begin(option_table.words)
        self.names = (
            *(slot.name for slot in configuration.slots),
            *(feature.name for feature, _ in features),
        )

    def translate(
        self, tokens: Sequence[str], *, nbest: int = 0, distinct: bool = False
    ) -> Translation:
        """Translate a sentence.

        :param tokens: one of the sentences that the option table was made for; may be empty, and
            its translation is then.
        :param nbest: how many derivations to list, the best one included.
        :param distinct: list only the best derivation of each sequence of words.
        :raises ValueError: if there is a word that no table was read for.
        """
        if not tokens:
            empty = self._translate_nothing()
            return replace(empty, nbest=(empty,) if nbest else ())
        options = self._table.sentence(tokens)
        tables, search = self._lm.tables, self._configuration.search
        keep_words = bool(self.buffers)
        sentence = make_sentence(options, self._configuration, tables, keep_words=keep_words)
        affiliations = self._table.affiliations(options) if self.buffers else None
        aligned = None if affiliations is None else AlignedWords(tokens, affiliations)
        stacks = StackSearch(
            *(sentence, tables, search, self.buffers), keep_arcs=nbest > 1, aligned=aligned
        )
        lattice = stacks.run()
        if lattice.goal < 0:
            return self._empty(-np.inf, [0.0] * len(self.buffers))
        paths = best_paths(
            *(lattice, options.offsets, options.target, max(1, nbest)),
            distinct=distinct and nbest > 1,
            factor=search.nbest_factor or _MOST_PATHS,
        )
        last = np.zeros(len(paths.options), bool)
        last[paths.offsets[1:] - 1] = True
        scores = stacks.feature_scores(lattice, paths.parents, paths.options, last)
        added = np.add.reduceat(scores, paths.offsets[:-1], axis=0)
        found = self._translations(options, paths.offsets, paths.options, added)
        return replace(found[0], nbest=found) if nbest else found[0]

    def _empty(self, score: float, added: Sequence[float]) -> Translation:
        values = [(0.0,) * len(slot.weights) for slot in self._configuration.slots]
        return Translation((), score, (), (*values, *((value,) for value in added)))

    def _translate_nothing(self) -> Translation:
        """Translate an empty sentence: Moses' features are 0, and the others score ``</s>``."""
        added, score = [], 0.0
        for buffer, weight in self.buffers:
            history = np.full((1, buffer.feature.context), -1, np.int32)
            history[:, -1:] = BEGIN
            words, ends = np.empty(0, np.int32), np.ones(1, np.bool_)
            aligned = AlignedWords((), words)
            (value,) = buffer.feature.scores(history, words, np.zeros(2, np.int64), ends, aligned)
            added.append(float(value))
            score += weight * added[-1]
        return self._empty(score, added)

    def _translations(
        self, options: SentenceOptions, offsets: Any, chosen: Any, added: Any
    ) -> tuple[Translation, ...]:
        """Return derivations with their values.

        :param added: float64 (derivations, features), the values of more features.
        """
        rows = self._values(options, offsets, chosen, added)
        weights = [slot.weights for slot in self._configuration.slots]
        weights += [(weight,) for _, weight in self.buffers]
        sizes = [len(row) for row in weights]
        # Row by row: a product of matrices gives other last bits to other numbers of rows.
        totals = (rows * np.concatenate(weights)).sum(axis=1)
        ends = np.cumsum(sizes)
        segments = self._segments(options, chosen)
        found = []
        for number, row in enumerate(rows.tolist()):
            own = tuple(
                segments[option] for option in chosen[offsets[number] : offsets[number + 1]]
            )
            words = tuple(word for segment in own for word in segment.words)
            values = tuple(
                tuple(row[end - size : end]) for end, size in zip(ends, sizes, strict=True)
            )
            found.append(Translation(words, float(totals[number]), own, values))
        return tuple(found)

    def _values(self, options: SentenceOptions, offsets: Any, chosen: Any, added: Any) -> Any:
        """Return all values of derivations, a row each, in the order of ``names``."""
        count = len(offsets) - 1
        stateless = np.zeros((count, options.values.shape[1]))
        stateful = {
            REORDERING: np.zeros((count, NUM_REORDERING_SCORES)),
            DISTORTION: np.zeros((count, 1)),
            LANGUAGE_MODEL: np.zeros((count, 1)),
        }
        tables = self._lm.tables
        _score_paths(options, tables, offsets, chosen, stateless, *stateful.values())
        columns = [
            stateful[slot.kind] for slot in self._configuration.slots if slot.kind in STATEFUL
        ]
        return np.concatenate([*columns, stateless, added], axis=1)

    def _segments(self, options: SentenceOptions, chosen: Any) -> dict[int, PhraseSegment]:
        """Return the segments of options, each made once."""
        words = self._table.words
        segments = {}
        for option in np.unique(chosen).tolist():
            target = options.target[options.offsets[option] : options.offsets[option + 1]]
            text = tuple(words[word] for word in target)
            start, end = int(options.start[option]), int(options.end[option])
            segments[option] = PhraseSegment(start, end, text, int(options.rows[option]))
        return segments


@KERNEL
def _score_paths(
    options: Any,
    tables: Any,
    offsets: Any,
    path_options: Any,
    stateless: Any,
    reordering: Any,
    distortion: Any,
    language_model: Any,
) -> None:
    """Add up the values of derivations, a row each; the empty one has no ``</s>``, as in Moses.

    :param offsets: where the options of each derivation begin.
    """
    context = np.zeros(tables.order, np.int32)
    for row in range(len(offsets) - 1):
        before, after, last, total = -1, 0, -1, 0.0
        context[0] = BEGIN
        length: Any = min(1, tables.order - 1)
        for place in range(offsets[row], offsets[row + 1]):
            option = path_options[place]
            start, end = options.start[option], options.end[option]
            orientation = find_orientation(before, after, start, end)
            distortion[row, 0] -= abs(after - start)
            for column in range(stateless.shape[1]):
                stateless[row, column] += options.values[option, column]
            reordering[row, orientation] += options.reordering[option, orientation]
            if last >= 0:
                column = NUM_ORIENTATIONS + orientation
                reordering[row, column] += options.reordering[last, column]
            for word in options.target[options.offsets[option] : options.offsets[option + 1]]:
                log_prob, length = score_next(tables, context, length, word)
                total += log_prob
            before, after, last = start, end, option
        if last >= 0:
            log_prob, _ = score_word(tables, context, length, END)
            total += log_prob
        language_model[row, 0] = total * LN_10
