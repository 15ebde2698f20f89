"""Search one sentence stack by stack, filling each stack from all smaller ones.

Moses pushes the extensions of a hypothesis into later stacks (SearchNormal). Here a stack *pulls*
them from the smaller stacks, which are final by then. The hypotheses are the same, but other
features, such as networks, can score them in batches: the search sends the requests of a whole
stack to a :class:`RequestCache`, which passes the new ones on.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from moses_integration.decoder import SearchLimits
from moses_integration.decoder import search_tables as tables
from moses_integration.decoder import stack_kernels as kernels
from phrasescore.io.ragged import RaggedArray
from phrasescore.language_models.ngram_table import BEGIN, NgramTables
from phrasescore.records import AlignedWords

_MOST_REQUESTS = 4096  # per call of another feature
# Initial numbers of rows, sufficient for a few words: new tables take longer to fill than to grow.
_FEW, _MANY = 1 << 9, 1 << 13
_CANDIDATES = 10  # candidates that other features score, per hypothesis that a stack keeps


class Sentence(NamedTuple):
    """A sentence to translate. All scores are weighted."""

    ngrams: NgramTables  # the language models
    length: int  # source words
    distortion_limit: int  # words; -1 for no limit
    distortion_weight: float
    language_weights: Any  # float64 (models,): multiplied by log10 probabilities
    keep_words: bool  # whether to pad states with the target words that other features need
    spans: Any  # int32 (length, longest + 2): options of a span: [start, size] .. [start, size + 1]
    start: Any  # see `options.SentenceOptions`, also for the next three
    end: Any
    offsets: Any
    target: Any
    score: Any  # float64 (options,): including the estimate for other features
    expected: Any  # float64 (options,): only the estimate for other features
    backward: Any  # float64 (options, orientations): scores of an option after another
    forward: Any  # float64 (options, orientations): scores of what follows an option
    group: Any  # int32 (options,): see `options._groups`
    future: Any  # float64 (length, length + 1): see `options.SentenceOptions`
    # float64 (models, words + 1): the language model score for a phrase from this word to its end,
    # with only the preceding words of the phrase as context.
    tail: Any
    # int32 (models, options): words in the LM state after the phrase without context
    last_length: Any
    bound: Any  # float64 (options,): an upper bound on the sum of the language model scores


# The arguments of `StatefulFeature.scores`.
Requests = tuple[Any, Any, Any, Any, AlignedWords | None]


class StatefulFeature(Protocol):
    """A feature that scores target words given the words before them."""

    context: int  # the number of preceding words that a score depends on, such as 6 for 7-grams

    def begin(self, words: Sequence[str]) -> None:
        """Set the words by id: <unk>, <s>, </s>, ... This is called whenever words are added."""

    def scores(
        self, histories: Any, phrases: Any, offsets: Any, ends: Any, aligned: AlignedWords | None, /
    ) -> Any:
        """Return log p(phrase | history) for each row: float64 (rows,), natural logarithms.

        Rows may repeat. A score must depend only on its row, to the last bit.

        :param histories: int32 (rows, context): word ids, the latest word last. The beginning of
            the sentence is 1, and -1 pads the positions before it.
        :param phrases: int32: the word ids of all phrases.
        :param offsets: int64 (rows + 1,): where each phrase begins.
        :param ends: bool (rows,): whether </s> follows and is also scored.
        :param aligned: the affiliations of the phrases; None if the tables lack alignments.
        """


class RequestCache:
    """The scores of the requests for one sentence; only new requests are passed on."""

    def __init__(self, feature: StatefulFeature) -> None:
        self.feature = feature

    def start(self) -> None:
        """Begin a sentence."""
        self._known, self._scores = np.empty(0, np.int64), np.empty(0)  # sorted by key

    def request(self, keys: Any, rows: Callable[[Any, int], Requests]) -> Any:
        """Return the scores for keys; the feature is called if some are new.

        :param rows: turns keys (int64) and a number of words into requests.
        """
        fresh = np.setdiff1d(np.unique(keys), self._known, assume_unique=True)
        known, scores = [self._known], [self._scores]
        for begin in range(0, len(fresh), _MOST_REQUESTS):
            known.append(fresh[begin : begin + _MOST_REQUESTS])
            requests = rows(known[-1], self.feature.context)
            scores.append(np.asarray(self.feature.scores(*requests), np.float64))
        self._known = np.concatenate(known)
        order = np.argsort(self._known, kind="stable")  # fast, because its parts are sorted
        self._known, self._scores = self._known[order], np.concatenate(scores)[order]
        return self.scores(keys)

    def scores(self, keys: Any) -> Any:
        """Return the scores for keys that have been requested."""
        return self._scores[np.searchsorted(self._known, keys)]


class Lattice(NamedTuple):
    """The hypotheses of a sentence, and the arcs that lead to each."""

    # Indexed by hypothesis: its predecessor (-1 for the empty hypothesis), option and state.
    parent: Any
    option: Any
    state: Any
    # The alternative arcs of a hypothesis are first_arc[number] .. first_arc[number + 1], best
    # first. An arc has its loss compared to the best arc, a predecessor, an option, and the
    # hypothesis that it leads to.
    first_arc: Any
    arc_loss: Any
    arc_parent: Any
    arc_option: Any
    arc_target: Any
    goal: int  # the complete hypothesis; -1 if the sentence cannot be covered


class StackSearch:
    """The search for one sentence. For n-best lists it keeps the arcs of recombined hypotheses."""

    def __init__(
        self,
        sentence: Sentence,
        limits: SearchLimits,
        caches: Sequence[tuple[RequestCache, float]] = (),
        *,
        keep_arcs: bool,
        aligned: AlignedWords | None = None,
    ) -> None:
        self._sentence, self._aligned = sentence, aligned
        self._caches, self._limits = caches, limits
        self._last = kernels.Limits(
            limits.stack_size, limits.beam_width, keep_arcs, by_request=False
        )
        self._first = self._last
        if caches:
            size = _CANDIDATES * limits.stack_size
            self._first = self._last._replace(stack_size=size, by_request=True)
        order, models = sentence.ngrams.order, len(sentence.language_weights)
        self._width = max([order - 1, 1, *(cache.feature.context for cache, _ in caches)])
        columns = self._width + models
        pool = 1 << max(2 * self._first.stack_size, 512).bit_length()
        arcs = _MANY if keep_arcs else 1
        self._tables = tables.make_tables(sentence.length, columns, _FEW, _MANY, pool, arcs)
        # For each stack, the target, loss, parent and option of each arc into it.
        self._kept_arcs = [(np.empty(0, np.int32), np.empty(0), *np.empty((2, 0), np.int32))]
        longest = int(np.diff(sentence.offsets).max(initial=0))
        # The score of each option plus its language model estimate.
        self._promise = sentence.score + sentence.tail[:, sentence.offsets[:-1]].sum(axis=0)
        self._scratch = np.zeros(longest + columns, np.int32)
        for cache, _ in caches:
            cache.start()

    def run(self) -> Lattice:
        """Run the search and return the lattice of hypotheses."""
        self._add_empty_hypothesis()
        for stack in range(1, self._sentence.length + 1):
            blocks = self._blocks(stack)
            pool = self._tables.pool
            pool.count[0] = self._tables.arcs.count[0] = 0
            pool.limits.fill(-np.inf)
            pool.slots.fill(-1)
            if self._limits.algorithm == "cube":
                self._expand_cubes(blocks)
            else:
                self._expand(blocks)
            if self._caches:
                self._score_requests()
            kernels.prune(self._tables.pool, self._tables.arcs, self._last)
            self._store(stack)
        return self._lattice()

    def _add_empty_hypothesis(self) -> None:
        hypotheses, coverages, states, *_ = self._tables
        tables.add_row(coverages, coverages.keys[0])
        tables.describe_coverage(self._sentence, coverages, 0)
        state = np.full(states.keys.shape[1], -1, np.int32)
        state[0], state[self._width :] = BEGIN, 1
        tables.add_row(states, state)
        hypotheses.stacks[1] = 1
        hypotheses.score[0], hypotheses.parent[0], hypotheses.option[0] = 0.0, -1, -1
        hypotheses.coverage[0] = hypotheses.state[0] = 0

    def _blocks(self, stack: int) -> Any:
        blocks = np.empty((0, tables.BLOCK_COLUMNS), np.int32)
        count = tables.list_blocks(self._sentence, self._tables, stack, blocks, False)
        blocks = np.empty((count, tables.BLOCK_COLUMNS), np.int32)
        # One extra row, because a coverage is written before it is known to be new.
        coverages = self._tables.coverages
        coverages = tables.grow(coverages, int(coverages.count[0]) + count + 1)
        self._tables = self._tables._replace(coverages=coverages)
        tables.list_blocks(self._sentence, self._tables, stack, blocks, True)
        # Start with the most promising block, so that bad extensions are rejected immediately.
        promise = self._tables.hypotheses.score[blocks[:, 0]] + self._promise[blocks[:, 4]]
        promise += coverages.future[blocks[:, 6]]
        return blocks[np.argsort(-promise, kind="stable")]

    def _expand(self, blocks: Any) -> None:
        done = 0
        while done < len(blocks):
            done = kernels.expand(
                self._sentence, self._tables, self._first, blocks, done, self._scratch
            )
            if done < len(blocks):
                first, last, _, _, begin, end, _ = blocks[done]
                self._make_room(int(last - first) * int(end - begin))

    def _expand_cubes(self, blocks: Any) -> None:
        cubes = kernels.make_cubes(self._sentence, self._tables, blocks)
        pops = self._limits.pop_limit
        # Each pop pushes at most two neighbours.
        self._make_room(min(len(cubes.seen), len(blocks) + 2 * pops))
        kernels.expand_cubes(
            self._sentence, self._tables, self._first, blocks, cubes, pops, self._scratch
        )

    def _make_room(self, extensions: int) -> None:
        names = ["states", "memo"]
        names += ["arcs"] if self._first.keep_arcs else []
        names += ["pool"] if self._first.stack_size == 0 else []
        for name in names:
            table = getattr(self._tables, name)
            table = tables.grow(table, int(table.count[0]) + extensions)
            self._tables = self._tables._replace(**{name: table})

    def _score_requests(self) -> None:
        """Add the scores of other features to the best candidates, then recombine these."""
        hypotheses, coverages, _, _, pool, arcs = self._tables
        kernels.prune(pool, arcs, self._first)
        count, num_arcs = int(pool.count[0]), int(arcs.count[0])
        parents, options = pool.parent[:count], pool.option[:count]
        complete = coverages.first_gap[pool.keys[:count, 0]] == self._sentence.length
        keys = self._keys(hypotheses.state[parents], options, complete)
        added = -self._sentence.expected[options]
        for cache, weight in self._caches:
            added += weight * cache.request(keys, self._requests)
        pool.score[:count] += added
        if self._last.keep_arcs:
            # An arc has the same option and state as its target, and therefore the same scores.
            arcs.score[:num_arcs] += added[arcs.target[:num_arcs]]
            self._tables = self._tables._replace(arcs=tables.grow(arcs, num_arcs + count))
        kernels.recombine(self._sentence, self._tables, self._last.keep_arcs)

    def _keys(self, states: Any, options: Any, complete: Any) -> Any:
        return 2 * (states.astype(np.int64) * len(self._sentence.score) + options) + complete

    def _requests(self, keys: Any, context: int) -> Requests:
        ends = keys % 2 == 1
        states, options = np.divmod(keys // 2, len(self._sentence.score))
        histories = self._tables.states.keys[states, :context][:, ::-1]
        target, aligned = self._sentence.target, self._aligned
        words = RaggedArray(target, self._sentence.offsets).positions(options)
        if aligned is not None:
            aligned = aligned._replace(affiliations=aligned.affiliations[words.values])
        phrases = target[words.values]
        return np.ascontiguousarray(histories), phrases, words.starts, ends, aligned

    def _store(self, stack: int) -> None:
        """Store the pool as a stack, sorted by coverage, then by descending score."""
        hypotheses, coverages, _, _, pool, arcs = self._tables
        count, begin = int(pool.count[0]), int(hypotheses.stacks[stack])
        end = begin + count
        hypotheses = tables.grow(hypotheses, end)
        self._tables = self._tables._replace(hypotheses=hypotheses)
        hypotheses.stacks[stack + 1] = end
        order = np.lexsort((-pool.score[:count], pool.keys[:count, 0]))
        coverage = pool.keys[order, 0]
        hypotheses.score[begin:end] = pool.score[order] - coverages.future[coverage]
        hypotheses.coverage[begin:end] = coverage
        for name in ("parent", "option", "state"):
            getattr(hypotheses, name)[begin:end] = getattr(pool, name)[order]
        numbers = np.empty(count, np.int32)
        numbers[order] = np.arange(begin, end)
        num_arcs = int(arcs.count[0])
        rows = arcs.target[:num_arcs]
        # An arc has the same coverage as its target, and therefore the same future estimate.
        loss = pool.score[rows] - arcs.score[:num_arcs]
        parent, option = arcs.parent[:num_arcs].copy(), arcs.option[:num_arcs].copy()
        self._kept_arcs.append((numbers[rows], loss, parent, option))

    def _lattice(self) -> Lattice:
        hypotheses, length = self._tables.hypotheses, self._sentence.length
        begin, end = int(hypotheses.stacks[length]), int(hypotheses.stacks[length + 1])
        target, loss, parent, option = map(np.concatenate, zip(*self._kept_arcs, strict=True))
        order = np.lexsort((loss, target))
        return Lattice(
            parent=hypotheses.parent[:end],
            option=hypotheses.option[:end],
            state=hypotheses.state[:end],
            first_arc=np.searchsorted(target[order], np.arange(end + 1)),
            arc_loss=loss[order],
            arc_parent=parent[order],
            arc_option=option[order],
            arc_target=target[order],
            goal=begin if end > begin else -1,
        )

    def feature_scores(self, lattice: Lattice, parents: Any, options: Any, last: Any) -> Any:
        """Return the scores of extensions with other features: float64 (extensions, features)."""
        keys = self._keys(lattice.state[parents], options, last)
        columns = [cache.scores(keys) for cache, _ in self._caches]
        return np.stack(columns, axis=1) if columns else np.empty((len(options), 0))
