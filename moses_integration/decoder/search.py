"""Translate sentences with the embedded stack search, which follows Moses, and list the best paths.

Every hypothesis has a best arc and a list of alternative arcs. A path is represented by an earlier
path and the arc at which it deviates from it. A heap of such pairs yields the paths in exact score
order (Eppstein, 1998), which is also the order of Moses' deviations (Manager::CalcNBest).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.configuration import (
    DISTORTION,
    NUM_REORDERING_SCORES,
    REORDERING,
    STATEFUL,
    DecoderConfiguration,
)
from moses_integration.decoder.options import OptionTable, SentenceOptions, make_sentence
from moses_integration.decoder.search_tables import NUM_ORIENTATIONS, find_orientation
from moses_integration.decoder.stack_search import RequestCache, StackSearch, StatefulFeature
from phrasescore.io.characters import join_characters
from phrasescore.io.hashing import mix
from phrasescore.io.kernel_cache import borrow
from phrasescore.language_models.arpa import NgramModel
from phrasescore.language_models.kenlm_scorer import LN_10
from phrasescore.language_models.ngram_table import BEGIN, END, KERNEL, score_next
from phrasescore.records import AlignedWords

_MOST_PATHS = 1000  # Moses' limit on the number of paths with n-best-factor 0 (Manager.cpp)


class PhraseSegment(NamedTuple):
    """A source phrase and its translation."""

    start: int  # index of the first source word, 0-based
    end: int  # exclusive
    words: tuple[str, ...]
    option: int  # row number in the OptionTable


@dataclass(frozen=True)
class Derivation:
    """A derivation; the best derivation also holds the n-best list.

    If a sentence cannot be covered within the distortion limit, its translation has no words, no
    segments and a score of minus infinity. Moses writes an empty line for it.
    """

    words: tuple[str, ...]
    score: float  # the weighted sum of the values
    segments: tuple[PhraseSegment, ...]  # in target order
    # The values of each feature: the slots of the configuration, then the additional ones.
    values: tuple[tuple[float, ...], ...]
    nbest: tuple["Derivation", ...] = ()

    def of_characters(self, *, distinct: bool) -> "Derivation":
        """Return the words that these words form, which are characters.

        :param distinct: list only the best derivation for each sequence of words.
        """
        nbest = [found.of_characters(distinct=False) for found in self.nbest]
        if distinct:
            best: dict[tuple[str, ...], Derivation] = {}
            nbest = [found for found in nbest if best.setdefault(found.words, found) is found]
        return replace(self, words=tuple(join_characters(self.words)), nbest=tuple(nbest))


class StackDecoder:
    """Search for the best translations under the model of a moses.ini.

    :param option_table: the options for the sentences, computed with ``configuration``.
    :param features: additional features with their weights.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        option_table: OptionTable,
        lm: NgramModel,
        features: Sequence[tuple[StatefulFeature, float]] = (),
    ) -> None:
        self._configuration, self._table, self._lm = configuration, option_table, lm
        self.caches = [(RequestCache(feature), weight) for feature, weight in features]
        for feature, _ in features:
            feature.begin(option_table.words)

    def translate(
        self, tokens: Sequence[str], *, nbest: int = 0, distinct: bool = False
    ) -> Derivation:
        """Translate a sentence that is empty or that the option table was built for.

        :param nbest: maximum number of derivations to list, including the best one.
        :param distinct: list only the best derivation for each sequence of words.
        """
        if not tokens:
            empty = self._translate_nothing()
            return replace(empty, nbest=(empty,) if nbest else ())
        options = self._table.sentence(tokens)
        tables, search = self._lm.tables, self._configuration.search
        has_others = bool(self.caches)
        sentence = make_sentence(options, self._configuration, tables, keep_words=has_others)
        affiliations = self._table.affiliations(options) if has_others else None
        aligned = None if affiliations is None else AlignedWords(tokens, affiliations)
        stacks = StackSearch(sentence, search, self.caches, keep_arcs=nbest > 1, aligned=aligned)
        lattice = stacks.run()
        if lattice.goal < 0:
            return self._empty(-np.inf, [0.0] * len(self.caches))
        count, distinct = max(1, nbest), distinct and nbest > 1
        most = count * (search.nbest_factor or _MOST_PATHS) if distinct else count
        paths = best_paths(lattice, options.offsets, options.target, count, most, distinct)
        last = np.zeros(len(paths.options), bool)
        last[paths.offsets[1:] - 1] = True
        scores = stacks.feature_scores(lattice, paths.parents, paths.options, last)
        added = np.add.reduceat(scores, paths.offsets[:-1], axis=0)
        translations = self._translations(options, paths.offsets, paths.options, added)
        return replace(translations[0], nbest=translations) if nbest else translations[0]

    def _empty(self, score: float, added: Sequence[float]) -> Derivation:
        values = [(0.0,) * len(slot.weights) for slot in self._configuration.slots]
        return Derivation((), score, (), (*values, *((value,) for value in added)))

    def _translate_nothing(self) -> Derivation:
        """Translate an empty sentence: Moses' features are 0, and the others score ``</s>``."""
        added, score = [], 0.0
        for cache, weight in self.caches:
            history = np.full((1, cache.feature.context), -1, np.int32)
            history[:, -1:] = BEGIN
            words, ends = np.empty(0, np.int32), np.ones(1, np.bool_)
            aligned = AlignedWords((), np.empty(0, np.int64))
            (value,) = cache.feature.scores(history, words, np.zeros(2, np.int64), ends, aligned)
            added.append(float(value))
            score += weight * added[-1]
        return self._empty(score, added)

    def _translations(
        self, options: SentenceOptions, offsets: Any, chosen: Any, added: Any
    ) -> tuple[Derivation, ...]:
        rows = self._values(options, offsets, chosen, added)
        weights = [slot.weights for slot in self._configuration.slots]
        weights += [(weight,) for _, weight in self.caches]
        sizes = [len(row) for row in weights]
        # Sum row by row, because a matrix product rounds differently for other numbers of rows.
        totals = (rows * np.concatenate(weights)).sum(axis=1)
        ends = np.cumsum(sizes).tolist()
        parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        segments = {}
        for option in np.unique(chosen).tolist():
            target = options.target[options.offsets[option] : options.offsets[option + 1]]
            text = tuple(self._table.words[word] for word in target)
            start, end = int(options.start[option]), int(options.end[option])
            segments[option] = PhraseSegment(start, end, text, int(options.rows[option]))
        translations = []
        bounds, path = offsets.tolist(), chosen.tolist()
        for row, total, (begin, end) in zip(
            rows.tolist(), totals.tolist(), pairwise(bounds), strict=True
        ):
            own = tuple(segments[option] for option in path[begin:end])
            words = tuple(word for segment in own for word in segment.words)
            values = tuple(tuple(row[part]) for part in parts)
            translations.append(Derivation(words, total, own, values))
        return tuple(translations)

    def _values(self, options: SentenceOptions, offsets: Any, chosen: Any, added: Any) -> Any:
        """Return all feature values, one row per derivation."""
        count = len(offsets) - 1
        models = self._configuration.language_models()
        widths = (options.values.shape[1], NUM_REORDERING_SCORES, 1, len(models))
        stateless, reordering, distortion, lm = (np.zeros((count, width)) for width in widths)
        _score_paths(
            options, self._lm.tables, offsets, chosen, stateless, reordering, distortion, lm
        )
        columns = {slot.name: lm[:, [index]] for index, slot in enumerate(models)}
        for kind, values in ((REORDERING, reordering), (DISTORTION, distortion)):
            if (slot := self._configuration.find(kind)) is not None:
                columns[slot.name] = values
        names = [slot.name for slot in self._configuration.slots if slot.kind in STATEFUL]
        return np.concatenate([*map(columns.__getitem__, names), stateless, added], axis=1)


@KERNEL
def _score_paths(options, tables, offsets, path_options, stateless, reordering, distortion, lm):  # type: ignore[no-untyped-def]
    """Add up feature values, one row per derivation; as in Moses, an empty one has no ``</s>``."""
    options, tables = borrow((options, tables))
    context, log_probs = np.zeros(tables.order, np.int32), np.empty(lm.shape[1])
    lengths = np.empty(lm.shape[1], np.int64)
    for row in range(len(offsets) - 1):
        before, after, last = -1, 0, -1
        context[0] = BEGIN
        lengths[:] = 1
        for position in range(offsets[row], offsets[row + 1]):
            option = path_options[position]
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
                score_next(tables, context, lengths, word, log_probs)
                for model in range(len(lengths)):
                    lm[row, model] += log_probs[model]
            before, after, last = start, end, option
        if last >= 0:
            score_next(tables, context, lengths, END, log_probs)
            for model in range(len(lengths)):
                lm[row, model] += log_probs[model]
    lm *= LN_10


class Paths(NamedTuple):
    """Paths through the lattice, best first."""

    offsets: Any  # int64 (paths + 1,): where the options of each path begin
    options: Any  # int32: the options of each path in target order
    parents: Any  # int32: the hypotheses that the options extend


@KERNEL
def _walk(lattice: Any, before: Any, arcs: Any, path: int, options: Any, parents: Any) -> int:
    """Write the options and parents on a path, from end to beginning; return its length."""
    num_arcs, current = 0, path
    while current > 0:  # path 0 has no deviations
        num_arcs += 1
        current = before[current]
    turns, current = np.empty(num_arcs, np.int64), path
    for index in range(num_arcs - 1, -1, -1):
        turns[index] = arcs[current]
        current = before[current]
    node, turn, length = lattice.goal, 0, 0
    while lattice.parent[node] >= 0 or (
        turn < num_arcs and lattice.arc_target[turns[turn]] == node
    ):
        if turn < num_arcs and lattice.arc_target[turns[turn]] == node:
            options[length] = lattice.arc_option[turns[turn]]
            node = lattice.arc_parent[turns[turn]]
            turn += 1
        else:
            options[length] = lattice.option[node]
            node = lattice.parent[node]
        parents[length] = node
        length += 1
    return length


@KERNEL
def _hash_words(offsets: Any, target: Any, options: Any, length: int) -> Any:
    key = np.uint64(0)
    for index in range(length - 1, -1, -1):
        for word in range(offsets[options[index]], offsets[options[index] + 1]):
            key = mix(key ^ np.uint64(target[word] + 1))
    return key


@KERNEL
def best_paths(
    lattice: Any, offsets: Any, target: Any, count: int, most: int, distinct: bool
) -> Paths:
    """Return the best paths through a lattice that reaches its goal.

    :param offsets: the index in ``target`` of each option's first word.
    :param distinct: leave out paths with the same words as a better path. Words are compared by a
        64-bit hash; the probability of a collision among 10,000 paths is 1 in 10^11.
    """
    lattice = borrow(lattice)
    # Loss, insertion order, the path to deviate from, and the arc to take.
    heap = [(0.0, 0, -1, -1)]
    pushed = 1
    # For each path taken from the heap: the path that it deviates from, and the arc.
    before, arcs = np.empty(most, np.int64), np.empty(most, np.int64)
    options, parents = np.empty((2, len(lattice.parent) + 1), np.int32)
    begins = [0]
    out_options, out_parents = [np.int32(0)], [np.int32(0)]
    out_options.clear()
    out_parents.clear()
    texts = {np.uint64(0)}
    texts.clear()
    for path in range(most):
        if len(heap) == 0 or len(begins) > count:
            break
        loss, _, before[path], arcs[path] = heappop(heap)
        arc, node = arcs[path], lattice.goal
        if arc >= 0:
            node = lattice.arc_parent[arc]
            if arc + 1 < lattice.first_arc[lattice.arc_target[arc] + 1]:
                # The next best arc to the same hypothesis replaces this one.
                next_loss = loss - lattice.arc_loss[arc] + lattice.arc_loss[arc + 1]
                heappush(heap, (next_loss, pushed, before[path], arc + 1))
                pushed += 1
        while node >= 0:
            arc = lattice.first_arc[node]
            if arc < lattice.first_arc[node + 1]:
                heappush(heap, (loss + lattice.arc_loss[arc], pushed, path, arc))
                pushed += 1
            node = lattice.parent[node]
        length = _walk(lattice, before, arcs, path, options, parents)
        if distinct:
            key = _hash_words(offsets, target, options, length)
            if key in texts:
                continue
            texts.add(key)
        for index in range(length - 1, -1, -1):
            out_options.append(options[index])
            out_parents.append(parents[index])
        begins.append(len(out_options))
    return Paths(np.array(begins), np.array(out_options), np.array(out_parents))
