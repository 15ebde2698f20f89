"""Compute translation options: the phrases that may translate each span of a sentence.

This follows Moses' TranslationOptionCollection and TargetPhrase::EvaluateInIsolation. The options
for a source phrase are ranked by the weighted sum of their values plus a language model estimate,
and the best ones are kept, up to the table limit.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder import configuration as kinds
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.phrase_tables import (
    PhraseAlignment,
    PhrasePairs,
    PhraseTables,
    join_pairs,
    keys_of,
)
from moses_integration.decoder.search_tables import NUM_ORIENTATIONS
from moses_integration.decoder.stack_search import Sentence
from moses_integration.source_text import keys_of_sentences
from phrasescore.io.kernel_cache import borrow
from phrasescore.io.ragged import RaggedArray
from phrasescore.language_models.arpa import NgramModel
from phrasescore.language_models.kenlm_scorer import LN_10
from phrasescore.language_models.ngram_table import BEGIN, KERNEL, NgramTables, score_next

_MOST_PAIRS = 500_000  # phrase pairs of a stream that are kept in memory
_MOST_WORDS = 200_000  # numbered words of a stream that no language model has


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
        self._numbers = {word.encode(): number for number, word in enumerate(self.words)}

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
        columns = [slot.kind for slot in slots for _ in slot.weights]
        self._copying = columns.index(kinds.UNKNOWN_WORDS)
        self._targets, unique = _distinct(numbers, pairs.targets)
        weights, targets = configuration.language_weights(), self._targets
        log_probs = LN_10 * _estimate(model.tables, len(weights), targets.starts, targets.values)
        # A matrix product rounds differently for other numbers of phrases.
        score = (pairs.values * np.concatenate([slot.weights for slot in slots])).sum(axis=1)
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

    def unknown_words(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Return the different words of a sentence that are no phrase of the table, in order."""
        first = {word: self.kept.starts[self._sources[word]] for word in tokens}
        return tuple(word for word, row in first.items() if self._values[row, self._copying])

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


class PhraseOptions:
    """Makes the options of sentences, under weights that may change.

    :param sentences: the text, if it is known: its lines of the tables are read once. Otherwise
        lines are found as needed, and the best pairs of the latest source phrases are kept.
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
        if len(self._numbers.words) > len(self._model.words) + _MOST_WORDS:
            self._numbers = TargetNumbers(self._model)
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
def _estimate(tables: NgramTables, num_models: int, offsets: Any, ids: Any) -> Any:
    """Return log10 probabilities of phrases without context (LanguageModelKen::CalcScore)."""
    tables = borrow(tables)
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
    tables = borrow(tables)
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
