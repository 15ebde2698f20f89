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
    DecoderConfiguration,
)
from moses_integration.decoder.derivations import ModelWeights, make_sentence, score_paths
from moses_integration.decoder.kbest import best_paths
from moses_integration.decoder.language_model import NgramModel
from moses_integration.decoder.options import OptionTable, SentenceOptions
from moses_integration.decoder.stack_search import StackLimits, StackSearch
from moses_integration.decoder.stateful import (
    DEFAULT_BUFFER_SIZE,
    RequestBuffer,
    Requests,
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
    # Row of the OptionTable, -1 where it is not known.
    option: int = -1


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
    :param candidates: hypotheses of a stack that such features score, the best without them; 0 for
        all. Ten times the stack size if None.
    :ivar names: of the features, as ``values`` has them.
    :ivar buffers: the requests to more features, with their counts.
    :raises ConfigError: for a setting that this search does not have.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        option_table: OptionTable,
        lm: NgramModel,
        features: Sequence[tuple[StatefulFeature, float]] = (),
        *,
        buffer_size: int = DEFAULT_BUFFER_SIZE,
        candidates: int | None = None,
    ) -> None:
        search = configuration.search
        search.check_supported(configuration.path)
        self._configuration, self._table, self._lm = configuration, option_table, lm
        self.buffers = [
            (RequestBuffer(feature, buffer_size), weight) for feature, weight in features
        ]
        self._num_words = 0
        self._candidates = 10 * search.stack_size if candidates is None else candidates
        self.names = (
            *(slot.name for slot in configuration.slots),
            *(feature.name for feature, _ in features),
        )
        self._weights = ModelWeights(
            self._weight(DISTORTION, 1)[0],
            self._weight(LANGUAGE_MODEL, 1)[0],
            self._weight(REORDERING, NUM_REORDERING_SCORES),
        )

    def _weight(self, kind: str, count: int) -> tuple[float, ...]:
        slot = self._configuration.find(kind)
        return (0.0,) * count if slot is None else slot.weights

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
            empty = self._empty(0.0)
            return Translation((), 0.0, (), empty.values, (empty,) if nbest else ())
        options = self._table.sentence(tokens)
        self._begin()
        tables, search = self._lm.tables, self._configuration.search
        sentence = make_sentence(
            *(options, self._weights, tables, search.distortion_limit),
            keep_words=bool(self.buffers),
        )
        limits = StackLimits(
            *(search.stack_size, search.beam_width, self._candidates, nbest > 1),
            pop_limit=search.pop_limit if search.algorithm == "cube" else 0,
            diversity=search.diversity,
        )
        stacks = StackSearch(sentence, tables, limits, self.buffers)
        lattice = stacks.run()
        if lattice.goal < 0:
            return self._empty(-np.inf)
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

    def score_derivation(
        self, tokens: Sequence[str], segments: Sequence[PhraseSegment]
    ) -> Translation:
        """Return a given derivation with its values and its score.

        :param segments: in the order of the target, covering the source; their ``option`` is not
            looked at.
        :raises ValueError: if one of them is no option of the sentence.
        """
        if not segments:
            return self._empty(0.0)
        options = self._table.sentence(tokens)
        self._begin()
        chosen = np.array([self._find(options, segment) for segment in segments], np.int32)
        offsets = np.array([0, len(chosen)], np.int64)
        requests = self._derivation_requests(options, chosen)
        added = [buffer.feature.scores(*requests(buffer.feature.context)).sum()
                 for buffer, _ in self.buffers]  # fmt: skip
        return self._translations(options, offsets, chosen, np.array([added]))[0]

    def _derivation_requests(self, options: SentenceOptions, chosen: Any) -> Any:
        """Return a function from a number of preceding words to a derivation's requests."""
        phrases = [
            options.target[options.offsets[option] : options.offsets[option + 1]]
            for option in chosen
        ]
        words = np.concatenate(phrases)
        offsets = np.cumsum([0, *map(len, phrases)])
        ends = np.arange(len(chosen)) == len(chosen) - 1

        def requests(context: int) -> Requests:
            padded = np.concatenate([np.full(context, -1), [1], words])
            rows = [padded[place + 1 : place + 1 + context] for place in offsets[:-1]]
            return Requests(np.array(rows, np.int32), words, offsets.astype(np.int64), ends)

        return requests

    def _find(self, options: SentenceOptions, segment: PhraseSegment) -> int:
        words = self._table.words
        there = np.flatnonzero((options.start == segment.start) & (options.end == segment.end))
        for option in there:
            target = options.target[options.offsets[option] : options.offsets[option + 1]]
            if tuple(words[word] for word in target) == tuple(segment.words):
                return int(option)
        found = f"{segment.start}..{segment.end} -> {' '.join(segment.words)}"
        raise ValueError(f"expected segments that are options, found {found}")

    def _begin(self) -> None:
        """Tell other features about new words."""
        words = self._table.words
        if len(words) > self._num_words:
            self._num_words = len(words)
            for buffer, _ in self.buffers:
                buffer.feature.begin(words)

    def _empty(self, score: float) -> Translation:
        values = [(0.0,) * len(slot.weights) for slot in self._configuration.slots]
        return Translation((), score, (), (*values, *((0.0,) for _ in self.buffers)))

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
        values = score_paths(options, self._lm.tables, offsets, chosen)
        columns = []
        stateless = 0
        for slot in self._configuration.slots:
            if slot.kind == REORDERING:
                columns.append(values.reordering)
            elif slot.kind == DISTORTION:
                columns.append(values.distortion[:, None])
            elif slot.kind == LANGUAGE_MODEL:
                columns.append(values.language_model[:, None])
            else:
                size = len(slot.weights)
                columns.append(values.stateless[:, stateless : stateless + size])
                stateless += size
        return np.concatenate([*columns, added], axis=1)

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
