"""Translation options: which phrases may translate the spans of a sentence, and what they score.

What Moses does in TranslationOptionCollection and TargetPhrase::EvaluateInIsolation: an option has
the values of all features that need nothing but the phrase pair; options of a source phrase are
ranked by these plus an estimate of the language model on its own; the best ones, up to the table
limit, are kept; and the best sums of scores that cover a span are the estimate of its future.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.configuration import (
    LANGUAGE_MODEL,
    NUM_REORDERING_SCORES,
    PHRASE_TABLE,
    PHRASES,
    REORDERING,
    STATELESS,
    UNKNOWN_WORDS,
    WORDS,
    DecoderConfiguration,
)
from moses_integration.decoder.language_model import NgramModel, NgramTables, score_word
from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.phrase_filter import PhrasePairs, read_phrase_pairs
from moses_integration.decoder.reordering import read_reordering
from moses_integration.table_line import LOWEST_LOG

LN_10 = math.log(10)  # Moses: 2.30258509299405f (moses/Util.h, TransformLMScore)


class PhraseTables(NamedTuple):
    """What the tables of a model say about the phrases of some sentences; without weights."""

    # The last groups are the unknown words, each with one pair.
    pairs: PhrasePairs
    # Groups before this one are of the phrase table.
    num_known: int
    # float64 (pairs, 6): natural logarithms.
    reordering: Any


class SentenceOptions(NamedTuple):
    """The options of a sentence, by start, end, and falling score with the estimate of the LM."""

    # int32 (options,): the source words, end exclusive.
    start: Any
    end: Any
    # int32 (options + 1,), and word ids int32 (offsets[-1],).
    offsets: Any
    target: Any
    # float64 (options, columns): of the stateless features, in the order of the slots.
    values: Any
    # float64 (options,): the weighted sum of these.
    score: Any
    # float64 (options,): weighted, of the target phrase on its own.
    lm_estimate: Any
    # float64 (options,): what features that are language models as well are expected to say.
    other_estimate: Any
    # float64 (options, 6): of the reordering table, natural logarithms.
    reordering: Any
    # float64 (length, length + 1): [i, j] is the best sum of scores and estimates of options that
    # cover the words i .. j - 1; -inf if none do, or j <= i.
    future: Any
    # int32 (options,): the rows of the table.
    rows: Any


def read_tables(
    configuration: DecoderConfiguration, sentences: Iterable[Sequence[str]]
) -> PhraseTables:
    """Read of the phrase and the reordering table what some sentences need.

    A word that is no source phrase of its own is an unknown word, and becomes its own translation,
    or none with ``[drop-unknown]`` (TranslationOptionCollection::ProcessOneUnknownWord).

    :raises DataError: with file and line, if a table is not what it should be.
    """
    sentences = list(sentences)
    slot = configuration.find(PHRASE_TABLE)
    assert slot is not None
    longest = configuration.search.max_phrase_length
    pairs = read_phrase_pairs(slot.arguments["path"], sentences, longest, len(slot.weights))
    num_known = len(pairs.sources)
    words = dict.fromkeys(word.encode() for sentence in sentences for word in sentence)
    unknown = list(words.keys() - set(pairs.sources))
    unknown.sort()
    for word in unknown:
        dropped = configuration.search.drop_unknown and not any(map(_is_digit, word))
        pairs.sources.append(word)
        pairs.targets.append(b"" if dropped else word)
        pairs.alignments.append(b"" if dropped else b"0-0")
    starts = np.append(pairs.starts, pairs.starts[-1] + 1 + np.arange(len(unknown)))
    zeros = np.zeros((len(unknown), len(slot.weights)))
    pairs = pairs._replace(starts=starts, log_probs=np.concatenate([pairs.log_probs, zeros]))
    return PhraseTables(pairs, num_known, _read_reordering(configuration, pairs))


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _read_reordering(configuration: DecoderConfiguration, pairs: PhrasePairs) -> Any:
    slot = configuration.find(REORDERING)
    if slot is None:
        return np.zeros((len(pairs.targets), NUM_REORDERING_SCORES))
    sources = np.repeat(np.arange(len(pairs.sources)), np.diff(pairs.starts))
    keys = [
        (pairs.sources[row], target) for row, target in zip(sources, pairs.targets, strict=True)
    ]
    given = slot.arguments.get("default-scores")
    default = [math.log(float(score)) for score in given.split(",")] if given else None
    path = slot.arguments["path"]
    zeros = [0.0] * NUM_REORDERING_SCORES
    return read_reordering(path, keys, NUM_REORDERING_SCORES, default or zeros)


class OptionTable:
    """The options of all phrases that some sentences have, under one set of weights.

    :param other_language_weight: the sum of the weights of other features that are language models.
        A search compares hypotheses that have different words still to come: what such a feature
        will say of these is estimated by the n-gram model, whose scores it is near to.
    :ivar words: the words of ids, the language model's first.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        model: NgramModel,
        tables: PhraseTables,
        other_language_weight: float = 0.0,
    ) -> None:
        self.words = list(model.words)
        self.columns, weights = _columns(configuration)
        pairs = tables.pairs
        offsets, ids, unique = self._target_ids(pairs.targets)
        slot = configuration.find(LANGUAGE_MODEL)
        assert slot is not None
        log_probs = LN_10 * _estimate(model.tables, offsets, ids)
        lengths = np.diff(offsets)[unique]
        values = _values(self.columns, tables, lengths)
        score, estimate = values @ weights, slot.weights[0] * log_probs[unique]
        other = other_language_weight * log_probs[unique]
        kept, starts = _prune(configuration, pairs.starts, score + estimate + other)
        self._spans = {
            source.decode(): (int(start), int(end))
            for source, start, end in zip(pairs.sources, starts[:-1], starts[1:], strict=True)
        }
        self._values, self._score = values[kept], score[kept]
        self._estimate, self._other_estimate = estimate[kept], other[kept]
        self._reordering = tables.reordering[kept]
        self._unique, self._offsets, self._ids = unique[kept], offsets, ids
        self._alignments: list[bytes] = [pairs.alignments[row] for row in kept]
        self._longest = configuration.search.max_phrase_length

    @classmethod
    def read(
        cls,
        configuration: DecoderConfiguration,
        sentences: Iterable[Sequence[str]],
        model: NgramModel | None = None,
        other_language_weight: float = 0.0,
    ) -> "OptionTable":
        """Read the tables that a moses.ini names, for some sentences.

        :param model: its language model, if it has been read.
        :raises DataError: with file and line, if a file is not what it should be.
        """
        tables = read_tables(configuration, sentences)
        model = model or read_language_model(configuration)
        return cls(configuration, model, tables, other_language_weight)

    def _target_ids(self, targets: list[bytes]) -> tuple[Any, Any, Any]:
        """Return offsets and ids of the different targets, and which of them each target is.

        Words that the language model does not know are added to the list.
        """
        places: dict[bytes, int] = {}
        unique = [places.setdefault(target, len(places)) for target in targets]
        ids = {word.encode(): place for place, word in enumerate(self.words)}
        found: list[int] = []
        offsets = [0]
        for target in places:
            for word in target.split(b" ") if target else ():
                place = ids.setdefault(word, len(ids))
                if place == len(self.words):
                    self.words.append(word.decode())
                found.append(place)
            offsets.append(len(found))
        return np.array(offsets, np.int64), np.array(found, np.int32), np.array(unique, np.int64)

    def sentence(self, tokens: Sequence[str]) -> SentenceOptions:
        """Return the options of a sentence.

        :param tokens: the words of one of the sentences that the tables were read for.
        :raises ValueError: if there is a word that no table was read for.
        """
        table = self._rows_of_spans(tokens)
        sizes = table[:, 3] - table[:, 2]
        rows = _ranges(table[:, 2], sizes)
        starts, ends = (np.repeat(table[:, column], sizes).astype(np.int32) for column in (0, 1))
        unique = self._unique[rows]
        lengths = self._offsets[unique + 1] - self._offsets[unique]
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        score, estimate, other = (
            column[rows] for column in (self._score, self._estimate, self._other_estimate)
        )
        return SentenceOptions(
            start=starts,
            end=ends,
            offsets=offsets,
            target=self._ids[_ranges(self._offsets[unique], lengths)],
            values=self._values[rows],
            score=score,
            lm_estimate=estimate,
            other_estimate=other,
            reordering=self._reordering[rows],
            future=_future(len(tokens), starts, ends, score + estimate + other),
            rows=rows.astype(np.int32),
        )

    def _rows_of_spans(self, tokens: Sequence[str]) -> Any:
        """Return start, end, first row and last row + 1 of the spans that have options."""
        spans: list[tuple[int, int, int, int]] = []
        for start in range(len(tokens)):
            if tokens[start] not in self._spans:
                raise ValueError(f"the tables were not read for the word {tokens[start]!r}")
            for end in range(start + 1, min(len(tokens), start + self._longest) + 1):
                found = self._spans.get(" ".join(tokens[start:end]))
                if found is not None:
                    spans.append((start, end, *found))
        return np.array(spans, np.int64).reshape(-1, 4)

    def alignment(self, row: int) -> str:
        """Return the word alignment of an option, ``0-0 1-2``; empty where the table has none."""
        return self._alignments[row].decode()


def read_language_model(configuration: DecoderConfiguration) -> NgramModel:
    """Read the language model that a moses.ini names.

    :raises DataError: with file and line, if it is none.
    """
    slot = configuration.find(LANGUAGE_MODEL)
    assert slot is not None
    return NgramModel.read(slot.arguments["path"])


def _columns(configuration: DecoderConfiguration) -> tuple[dict[str, slice], Any]:
    """Return where the values of each class of stateless features stand, and all their weights."""
    columns: dict[str, slice] = {}
    weights: list[float] = []
    for slot in configuration.slots:
        if slot.kind in STATELESS:
            columns[slot.kind] = slice(len(weights), len(weights) + len(slot.weights))
            weights += slot.weights
    return columns, np.array(weights)


def _values(columns: dict[str, slice], tables: PhraseTables, lengths: Any) -> Any:
    """Return the values of the stateless features of all pairs."""
    num_columns = max(column.stop for column in columns.values())
    values = np.zeros((len(lengths), num_columns))
    values[:, columns[PHRASE_TABLE]] = tables.pairs.log_probs
    first_unknown = tables.pairs.starts[tables.num_known]
    values[first_unknown:, columns[UNKNOWN_WORDS]] = LOWEST_LOG
    if WORDS in columns:
        values[:, columns[WORDS]] = -lengths[:, None]
    if PHRASES in columns:
        values[:, columns[PHRASES]] = 1.0
    return values


def _prune(configuration: DecoderConfiguration, starts: Any, rank: Any) -> tuple[Any, Any]:
    """Return which rows stay, best first in their groups, and where the groups begin then.

    Of equal ones those that come first in the table are the better ones.
    """
    search = configuration.search
    sizes = np.diff(starts)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-rank, groups))
    place = np.arange(len(order)) - np.repeat(starts[:-1], sizes)
    limits = [limit for limit in (search.table_limit, search.max_options) if limit > 0]
    stay = place < min(limits, default=len(order))
    if search.option_threshold > 0:
        best = rank[order[starts[:-1]]]
        stay &= rank[order] >= best[groups] + math.log(search.option_threshold)
    kept_sizes = np.bincount(groups[stay], minlength=len(sizes))
    return order[stay], np.concatenate([[0], np.cumsum(kept_sizes)])


def _ranges(starts: Any, sizes: Any) -> Any:
    """Return start, start + 1, .. of each size, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)


@KERNEL
def _estimate(tables: NgramTables, offsets: Any, ids: Any) -> Any:
    """Return log10 p of phrases without what stands before them (LanguageModelKen::CalcScore)."""
    totals = np.zeros(len(offsets) - 1)
    context = np.zeros(tables.order, np.int32)
    for phrase in range(len(totals)):
        length: Any = 0
        for position in range(offsets[phrase], offsets[phrase + 1]):
            word = ids[position]
            if position == offsets[phrase] and word == 1:  # <s> has no score
                length = 1
            else:
                log_prob, length = score_word(tables, context, length, word)
                totals[phrase] += log_prob
            for place in range(length - 1, 0, -1):
                context[place] = context[place - 1]
            context[0] = word
    return totals


@KERNEL
def _future(length: int, start: Any, end: Any, score: Any) -> Any:
    """Return the best sums that cover spans (TranslationOptionCollection::CalcEstimatedScore)."""
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
