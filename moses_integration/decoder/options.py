"""Compute translation options: the phrases that may translate each span of a sentence.

This follows Moses' TranslationOptionCollection and TargetPhrase::EvaluateInIsolation. An option has
the values of all features that depend only on the phrase pair. The options for a source phrase are
ranked by their weighted sum plus a language model estimate, and the best ones are kept, up to the
table limit. The future estimate for a span is the highest total score of options that cover it.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder import configuration as kinds
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.phrase_tables import PhraseAlignment, PhrasePairs
from moses_integration.decoder.search_tables import NUM_ORIENTATIONS
from phrasescore.io.ragged import RaggedArray
from phrasescore.language_models.arpa import NgramModel, read_arpa
from phrasescore.language_models.ngram_table import BEGIN, KERNEL, LN_10, NgramTables, score_next


class SentenceOptions(NamedTuple):
    """The options for a sentence, by start, end, and descending score with the LM estimate."""

    start: Any  # int32 (options,): index of the first source word
    end: Any  # int32 (options,): exclusive
    offsets: Any  # int32 (options + 1,): where the words of each option begin in ``target``
    target: Any  # int32: word ids
    values: Any  # float64 (options, columns): the stateless features, in the order of the slots
    score: Any  # float64 (options,): the weighted sum of ``values``
    other_estimate: Any  # float64 (options,): estimate for other features that are language models
    reordering: Any  # float64 (options, 6): scores in the reordering table, natural logarithms
    # float64 (length, length + 1): [i, j] is the highest sum of scores and estimates for options
    # that cover the words i .. j - 1; -inf if none do, or if j <= i.
    future: Any
    rows: Any  # int32 (options,): row numbers in the OptionTable


class TargetNumbers:
    """Numbers the words of language models, and further words of translations."""

    def __init__(self, model: NgramModel) -> None:
        self.words = list(model.words)
        self._num_known = len(self.words)
        self._numbers = {word.encode(): number for number, word in enumerate(self.words)}

    def forget(self, most: int) -> None:
        """Begin a new list without the further words if there are more than ``most``."""
        if len(self.words) - self._num_known > most:
            for word in self.words[self._num_known :]:
                del self._numbers[word.encode()]
            self.words = self.words[: self._num_known]

    def number(self, phrase: bytes) -> list[int]:
        """Return the numbers of the words of a phrase."""
        row = []
        for word in filter(None, phrase.split(b" ")):
            number = self._numbers.setdefault(word, len(self.words))
            if number == len(self.words):
                self.words.append(word.decode())
            row.append(number)
        return row


class OptionTable:
    """The options for all source phrases of the given pairs, under one set of weights.

    :param other_language_weight: the total weight of other features that are language models. The
        first n-gram model estimates their scores for words that are not yet translated.
    :param numbers: the words by number, to which new ones are added.
    :ivar words: the words by id, starting with the words of the language models.
    :ivar kept: the rows in ``pairs`` that are kept for each source phrase, best first.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        model: NgramModel,
        pairs: PhrasePairs,
        other_language_weight: float,
        numbers: TargetNumbers,
    ) -> None:
        self.words = numbers.words
        slots = [slot for slot in configuration.slots if slot.kind in kinds.STATELESS]
        self._targets, unique = _distinct(numbers, pairs.targets)
        log_probs = LN_10 * _estimate(model.tables, self._targets.starts, self._targets.values)
        # A matrix product rounds differently for other numbers of phrases.
        score = (pairs.values * np.concatenate([slot.weights for slot in slots])).sum(axis=1)
        weights = configuration.language_weights()
        estimate = (weights[:, None] * log_probs).sum(axis=0)[unique]
        other = other_language_weight * log_probs[0, unique]
        kept, starts = _prune(configuration, pairs.starts, score + estimate + other)
        self._sources = {source.decode(): number for number, source in enumerate(pairs.sources)}
        self.kept = RaggedArray(kept, starts)
        self._values, self._score = pairs.values[kept], score[kept]
        self._estimate, self._other_estimate = estimate[kept], other[kept]
        self._reordering = pairs.reordering[kept]
        self._unique = unique[kept]
        self._alignments: list[PhraseAlignment] = [pairs.alignments[row] for row in kept]
        self._longest = configuration.search.max_phrase_length

    def sentence(self, tokens: Sequence[str]) -> SentenceOptions:
        """Return the options for a sentence whose phrases the pairs have."""
        spans = self._spans(tokens)
        rows_of_spans = self.kept.positions(spans[:, 2])
        rows, sizes = rows_of_spans.values, rows_of_spans.lengths
        starts, ends = (np.repeat(spans[:, column], sizes).astype(np.int32) for column in (0, 1))
        targets = self._targets.take(self._unique[rows])
        score, other = self._score[rows], self._other_estimate[rows]
        return SentenceOptions(
            start=starts,
            end=ends,
            offsets=targets.starts.astype(np.int32),
            target=targets.values,
            values=self._values[rows],
            score=score,
            other_estimate=other,
            reordering=self._reordering[rows],
            future=_future(len(tokens), starts, ends, score + self._estimate[rows] + other),
            rows=rows.astype(np.int32),
        )

    def _spans(self, tokens: Sequence[str]) -> Any:
        """Return start, end and number of the source phrase for each span that has options."""
        spans: list[tuple[int, int, int]] = []
        for start in range(len(tokens)):
            for end in range(start + 1, min(len(tokens), start + self._longest) + 1):
                number = self._sources.get(" ".join(tokens[start:end]))
                if number is not None:
                    spans.append((start, end, number))
        return np.array(spans, np.int64).reshape(-1, 3)

    def affiliations(self, options: SentenceOptions) -> Any | None:
        """Return the affiliation of each word in ``options.target``, a source word's index.

        None is returned if the tables were read without alignments. As in Moses, an unaligned word
        gets the affiliation of a word in the same phrase (BilingualLM::getSourceWords).
        """
        alignments = [self._alignments[row] for row in options.rows.tolist()]
        rows = [each.affiliations for each in alignments if each.affiliations is not None]
        if len(rows) < len(alignments):
            return None
        in_phrases = RaggedArray.from_rows(rows).values
        return in_phrases + np.repeat(options.start, np.diff(options.offsets))

    def alignment(self, row: int) -> str:
        """Return an option's word alignment, such as ``0-0 1-2``; empty if the table has none."""
        return self._alignments[row].text.decode()


def read_language_models(configuration: DecoderConfiguration) -> NgramModel:
    """Read the language models that a moses.ini names."""
    return read_arpa(*(slot.arguments["path"] for slot in configuration.language_models()))


def _distinct(numbers: TargetNumbers, targets: list[bytes]) -> tuple[RaggedArray, Any]:
    index_of: dict[bytes, int] = {}
    unique = [index_of.setdefault(target, len(index_of)) for target in targets]
    distinct = RaggedArray.from_rows(list(map(numbers.number, index_of)))
    distinct = RaggedArray(distinct.values.astype(np.int32), distinct.starts)
    return distinct, np.array(unique, np.int64)


def _prune(configuration: DecoderConfiguration, starts: Any, rank: Any) -> tuple[Any, Any]:
    """Return the rows to keep, best first within each group, and where each group starts."""
    # lexsort is stable: equal ranks keep the order of the table.
    search = configuration.search
    sizes = np.diff(starts)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-rank, groups))
    rank_in_group = np.arange(len(order)) - np.repeat(starts[:-1], sizes)
    limits = [limit for limit in (search.table_limit, search.max_options) if limit > 0]
    is_kept = rank_in_group < min(limits, default=len(order))
    if search.option_threshold > 0:
        best = rank[order[starts[:-1]]]
        is_kept &= rank[order] >= best[groups] + math.log(search.option_threshold)
    kept_sizes = np.bincount(groups[is_kept], minlength=len(sizes))
    return order[is_kept], np.concatenate([[0], np.cumsum(kept_sizes)])


@KERNEL
def _estimate(tables: NgramTables, offsets: Any, ids: Any) -> Any:
    """Return log10 probabilities of phrases without context (LanguageModelKen::CalcScore)."""
    num_models = len(tables.ids)
    totals = np.zeros((num_models, len(offsets) - 1))
    context, log_probs = np.zeros(tables.order, np.int32), np.empty(num_models)
    lengths = np.empty(num_models, np.int64)
    for phrase in range(len(offsets) - 1):
        lengths[:] = 0
        for position in range(offsets[phrase], offsets[phrase + 1]):
            score_next(tables, context, lengths, ids[position], log_probs)
            is_begin = position == offsets[phrase] and ids[position] == BEGIN  # not scored
            for model in range(num_models):
                if is_begin:
                    lengths[model] = 1
                else:
                    totals[model, phrase] += log_probs[model]
    return totals


@KERNEL
def _future(length: int, start: Any, end: Any, score: Any) -> Any:
    """Return the future estimates, as in `SentenceOptions` (Moses' CalcEstimatedScore)."""
    future = np.full((length, length + 1), -np.inf)
    for option in range(len(start)):
        if score[option] > future[start[option], end[option]]:
            future[start[option], end[option]] = score[option]
    for size in range(2, length + 1):
        for first in range(length - size + 1):
            best = future[first, first + size]
            for middle in range(first + 1, first + size):
                best = max(best, future[first, middle] + future[middle, first + size])
            future[first, first + size] = best
    return future


class Sentence(NamedTuple):
    """A sentence to translate. All scores are weighted."""

    ngrams: NgramTables  # the language models
    length: int  # source words
    distortion_limit: int  # words; -1 for no limit
    distortion_weight: float
    language_weights: Any  # float64 (models,): multiplied by log10 probabilities
    keep_words: bool  # whether to pad states with the target words that other features need
    spans: Any  # int32 (length, longest + 2): options of a span: [start, size] .. [start, size + 1]
    start: Any  # see `SentenceOptions`, also for the next three
    end: Any
    offsets: Any
    target: Any
    score: Any  # float64 (options,): including the estimate for other features
    expected: Any  # float64 (options,): only the estimate for other features
    backward: Any  # float64 (options, orientations): scores of an option after another
    forward: Any  # float64 (options, orientations): scores of what follows an option
    group: Any  # int32 (options,): see `_groups`
    future: Any  # float64 (length, length + 1): see `SentenceOptions`
    # float64 (models, words + 1): the language model score for a phrase from this word to its end,
    # with only the preceding words of the phrase as context.
    tail: Any
    # int32 (models, options): words in the LM state after the phrase without context
    last_length: Any
    bound: Any  # float64 (options,): an upper bound on the sum of the language model scores


def make_sentence(
    options: SentenceOptions,
    configuration: DecoderConfiguration,
    tables: NgramTables,
    *,
    keep_words: bool,
) -> Sentence:
    """Combine a sentence's options, the weights and the limits for the search."""
    length, count = len(options.future), len(options.start)
    # The index of each span's first option; options are sorted by start and size.
    sizes = options.end - options.start
    width = int(sizes.max(initial=0)) + 2
    keys = options.start.astype(np.int64) * width + sizes
    spans = np.searchsorted(keys, np.arange(length * width)).astype(np.int32)
    reordering = configuration.weights(kinds.REORDERING, kinds.NUM_REORDERING_SCORES)
    weighted = options.reordering * np.array(reordering)
    language_weights = configuration.language_weights() * LN_10
    models = len(language_weights)
    tail, lengths = np.zeros((models, len(options.target) + 1)), np.zeros((models, count), np.int32)
    bound = np.zeros(count)
    _score_phrases(tables, language_weights, options.offsets, options.target, tail, lengths, bound)
    return Sentence(
        ngrams=tables,
        length=length,
        distortion_limit=configuration.search.distortion_limit,
        distortion_weight=configuration.weights(kinds.DISTORTION)[0],
        language_weights=language_weights,
        keep_words=keep_words,
        spans=spans.reshape(length, width),
        start=options.start,
        end=options.end,
        offsets=options.offsets,
        target=options.target,
        score=options.score + options.other_estimate,
        expected=options.other_estimate,
        backward=np.ascontiguousarray(weighted[:, :NUM_ORIENTATIONS]),
        forward=np.ascontiguousarray(weighted[:, NUM_ORIENTATIONS:]),
        group=_groups(options, has_reordering=configuration.find(kinds.REORDERING) is not None),
        future=options.future,
        tail=tail,
        last_length=lengths,
        bound=bound,
    )


def _groups(options: Any, *, has_reordering: bool) -> Any:
    """Return a group number for each option; later phrases cannot distinguish options in a group.

    Options in a group end at the same word. With a reordering model, they also begin at the same
    word, which determines a swap, and have the same forward scores
    (PhraseBasedReorderingState::operator==).
    """
    if not has_reordering:
        return options.end
    spans = np.stack([options.start, options.end], axis=1).astype(np.float64)
    rows = np.hstack([spans, options.reordering[:, NUM_ORIENTATIONS:]])
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


@KERNEL
def _score_phrases(tables, weights, offsets, target, tail, last_length, bound):  # type: ignore[no-untyped-def]
    """Fill ``tail``, ``last_length`` and ``bound``: phrase scores that do not depend on contexts.

    The state after a phrase is valid after any context if the phrase fills the whole state.
    """
    context, log_probs = np.zeros(tables.order, np.int32), np.empty(len(weights))
    lengths = np.empty(len(weights), np.int64)
    for option in range(len(bound)):
        begin, end = offsets[option], offsets[option + 1]
        lengths[:] = 0
        for position in range(begin, end):
            score_next(tables, context, lengths, target[position], log_probs)
            for model in range(len(weights)):
                tail[model, position] = log_probs[model] * weights[model]
        inner = begin + tables.order - 1
        for model in range(len(weights)):
            for position in range(end - 2, begin - 1, -1):
                tail[model, position] += tail[model, position + 1]
            last_length[model, option] = lengths[model]
            if inner < end:
                bound[option] += tail[model, inner]
            if weights[model] < 0:
                bound[option] = np.inf
