"""Scores of whole translations, as of n-best lists, under one or several networks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.devices import GPU_THREADS
from phrasescore.engines.worker_threads import map_in_threads
from phrasescore.errors import ModelError
from phrasescore.features.score_cache import ScoreCache, score_keys
from phrasescore.io.state import digest_content
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import USUAL, CslmOptions, WordScorer, score_tree
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList
from phrasescore.scoring.prefix_tree import HypothesisTexts, Ids, Sequences
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeLogProbs, TreeScorer, log_mean_exp
from phrasescore.vocabulary import Vocabulary

# Distinct hypotheses that are scored together: enough to fill the matrix products of most levels,
# and few enough for every thread to get a group where a file has few lists.
GROUP_SIZE = {"cpu": 1024, "cuda": 65536}

Floats = NDArray[np.float64]


class ListScores(NamedTuple):
    """The scores of one list under the networks."""

    # A column per network, in their order, and the ensemble's last if there is one: the natural
    # log-probability of each hypothesis and its </s>, (hypotheses,).
    columns: list[Floats]
    # For each column and hypothesis the log-probabilities of the predicted words, </s> last; None
    # unless they are asked for.
    words: list[list[Floats]] | None


@dataclass
class SentenceWork:
    """The work of scoring lists."""

    lists: int = 0
    # Of each list the distinct ones.
    hypotheses: int = 0
    # Hypotheses that were scored, identical ones once.
    scored: int = 0
    # Hypotheses found in the cache; None without a cache.
    cached: int | None = None
    # Distinct prefixes: decoder steps of one network.
    steps: int = 0
    # Words outside the shortlists, over all models: in sentences that were read, and in distinct
    # prefixes of predicted ones.
    unknown_read: int = 0
    unknown_words: int = 0

    def summary(self) -> str:
        """Return the figures as one line."""
        parts = [
            f"{self.hypotheses:,} different hypotheses in {self.lists:,} lists",
            f"{self.scored:,} scored in {self.steps:,} decoder steps",
            f"unknown words: {self.unknown_read:,} read, {self.unknown_words:,} predicted",
        ]
        if self.cached is not None:
            parts.append(f"{self.cached:,} found in the cache")
        return "; ".join(parts)


class SentenceScores:
    """log p(hypothesis ``</s>`` | source), or log p(source ``</s>`` | hypothesis).

    Natural logarithms, summed over the words of the predicted side and its ``</s>``, not divided
    by length. Each model predicts the side that it was trained for; a word outside its shortlist is
    scored as ``<unk>``. A value depends on source and hypothesis alone, to the last bit: not on
    other lists, the number of threads, or a cache.

    :param precision: of the matrix products.
    :param threads: CPU threads, each with lists of its own. A GPU has `GPU_THREADS`.
    :param ensemble: whether to add a column in which the models' probabilities are averaged at
        every word; they must then be of one direction.
    :param words: whether to give the log-probabilities of single words, too.
    :param cache: where scores of hypotheses are looked up and kept; it is not used with ``words``.
    :param cslm: of the language models among the networks, which score the hypothesis alone.
    :raises ModelError: if the models cannot be an ensemble, or have weights that are not finite;
        with a cache the weights are checked when the first hypothesis is scored.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
        threads: int = 1,
        ensemble: bool = False,
        words: bool = False,
        cache: ScoreCache | None = None,
        cslm: CslmOptions = USUAL,
    ) -> None:
        if ensemble and len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
            raise ModelError("an ensemble is of models of one direction, not with some reverse")
        self._precision = Precision(precision, device)
        self._models: list[NetworkScores | CslmScores] = [
            CslmScores(checkpoint, device, self._precision, cslm)
            if checkpoint.config.kind in LANGUAGE_MODELS
            else NetworkScores(checkpoint, device, self._precision)
            for checkpoint in checkpoints
        ]
        self._is_ready = False
        self._ensemble = ensemble
        self._words = words
        self._cache = None if words else cache
        self._threads = threads if device.type == "cpu" else GPU_THREADS
        self._group_size = GROUP_SIZE[device.type]
        # The names of the columns in the cache.
        self._names = [""] * len(self._models)
        if self._cache is not None:
            self._names = [
                f"{model.fingerprint()} {precision} {device.type}" for model in self._models
            ]
        if ensemble:
            # The mean is summed in the order of the models.
            self._names.append(" + ".join(self._names))
        self.start_counting()
        if cache is None:
            self._get_ready()

    def start_counting(self) -> None:
        """Begin a new count of the work, ``self.work``."""
        self.work = SentenceWork(cached=None if self._cache is None else 0)

    def values(self, lists: Iterable[HypothesisList]) -> Iterator[ListScores]:
        """Yield the scores of each list, in order; lists are read ahead in groups.

        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        """
        with self._precision.active():
            for group, found, work in map_in_threads(
                self._score_missing, self._groups(lists), self._threads, self._start_thread
            ):
                self.work.scored += work.scored
                self.work.steps += work.steps
                self.work.unknown_read += work.unknown_read
                self.work.unknown_words += work.unknown_words
                yield from self._finish(group, iter(found))

    def _start_thread(self) -> None:
        torch.set_num_threads(1)

    def _groups(self, lists: Iterable[HypothesisList]) -> Iterator["_ListGroup"]:
        """Yield the lists in groups, with the scores that the cache has."""
        group: list[HypothesisList] = []
        size = 0
        for hypothesis_list in lists:
            group.append(hypothesis_list)
            size += len(set(hypothesis_list.hypotheses))
            if size >= self._group_size:
                yield self._look_up(group)
                group, size = [], 0
        if group:
            yield self._look_up(group)

    def _look_up(self, lists: list[HypothesisList]) -> "_ListGroup":
        """Return the lists with their scores in the cache; lay the networks out if one lacks."""
        shapes = [(len(self._names), len(item.hypotheses)) for item in lists]
        keys: list[list[list[bytes]]] = []
        if self._cache is None:
            known = [np.full(shape, np.nan) for shape in shapes]
        else:
            keys = [[score_keys(name, item) for name in self._names] for item in lists]
            wanted = [key for of_list in keys for of_column in of_list for key in of_column]
            values = iter(self._cache.lookup(wanted))
            known = [
                np.array(list(islice(values, columns * size)), np.float64).reshape(columns, size)
                for columns, size in shapes
            ]
        missing = [np.flatnonzero(np.isnan(scores).any(axis=0)) for scores in known]
        if any(map(len, missing)):
            self._get_ready()
        return _ListGroup(lists, keys, known, missing)

    def _get_ready(self) -> None:
        """Lay out the weights; where all scores are in the cache, this is never needed."""
        if not self._is_ready:
            # Compiles the kernels before several threads do so at once.
            self._score([HypothesisList(("a",), [("a",)])])
            self._is_ready = True

    def _score_missing(
        self, group: "_ListGroup"
    ) -> "tuple[_ListGroup, list[ListScores], SentenceWork]":
        """Return the group, and the scores of the hypotheses that the cache lacks."""
        wanted = [
            HypothesisList(item.source, [item.hypotheses[place] for place in places])
            for item, places in zip(group.lists, group.missing, strict=True)
            if len(places)
        ]
        return group, *(self._score(wanted) if wanted else ([], SentenceWork()))

    def _score(self, lists: list[HypothesisList]) -> tuple[list[ListScores], SentenceWork]:
        work = SentenceWork()
        texts = HypothesisTexts(lists)
        work.scored = texts.count_distinct()
        found: list[TreeLogProbs] = []
        for model in self._models:
            log_probs, unknown_read = model.score(texts)
            tree = log_probs.tree
            work.steps += tree.num_nodes + tree.num_roots
            work.unknown_read += unknown_read
            work.unknown_words += sum(
                int((level.words == Vocabulary.UNKNOWN).sum()) for level in tree.levels
            )
            found.append(log_probs)
        if self._ensemble:
            mean = log_mean_exp([log_probs.values for log_probs in found])
            found.append(TreeLogProbs(found[0].tree, mean))
        columns = [log_probs.totals() for log_probs in found]
        words = [log_probs.words() for log_probs in found] if self._words else None
        scores = []
        start = 0
        for item in lists:
            part = slice(start, start + len(item.hypotheses))
            start = part.stop
            of_words = None if words is None else [column[part] for column in words]
            scores.append(ListScores([column[part] for column in columns], of_words))
        return scores, work

    def _finish(self, group: "_ListGroup", found: Iterator[ListScores]) -> list[ListScores]:
        """Return the scores of all hypotheses of a group, and store the new ones."""
        results = []
        keys: list[bytes] = []
        values: list[float] = []
        for number, (item, scores, missing) in enumerate(
            zip(group.lists, group.known, group.missing, strict=True)
        ):
            self.work.lists += 1
            self.work.hypotheses += len(item.hypotheses)
            words = None
            if len(missing):
                new = next(found)
                scores[:, missing] = new.columns
                words = new.words
            if self._cache is not None:
                self.work.cached = (self.work.cached or 0) + len(item.hypotheses) - len(missing)
                keys += [of_column[place] for of_column in group.keys[number] for place in missing]
                values += scores[:, missing].ravel().tolist()
            results.append(ListScores(list(scores), words))
        if self._cache is not None and keys:
            self._cache.store(keys, values)
        return results


class _ListGroup(NamedTuple):
    """Some lists that are scored together."""

    lists: list[HypothesisList]
    # By list and column; empty without a cache.
    keys: list[list[list[bytes]]]
    # By list: (columns, hypotheses), NaN where the cache has no score.
    known: list[Floats]
    # By list: the places of hypotheses that lack a score.
    missing: list[Ids]


class NetworkScores:
    """The scores of lists under a network that reads a sentence and predicts its translation."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, precision: Precision) -> None:
        self._checkpoint = checkpoint
        self._products = FixedProducts(precision, device)

    @cached_property
    def _scorer(self) -> TreeScorer:
        return TreeScorer(self._checkpoint.config.kind, self._checkpoint.model, self._products)

    def fingerprint(self) -> str:
        """Return a fingerprint of everything that scores depend on but precision and device."""
        return self._checkpoint.fingerprint

    def score(self, texts: HypothesisTexts) -> tuple[TreeLogProbs, int]:
        """Return the predicted words' log-probabilities, and the number of unknown words read."""
        plan, sources = texts.plan(reverse=self._checkpoint.reverse)
        tree = plan.renumber(_ids(self._checkpoint.target_vocabulary, texts))
        source_ids = _ids(self._checkpoint.source_vocabulary, texts)
        read = Sequences(source_ids[sources.ids], sources.lengths)
        unknown_read = int((read.ids == Vocabulary.UNKNOWN).sum())
        return self._scorer.score(read, tree), unknown_read


class CslmScores:
    """The scores of lists under a feed-forward language model, which reads nothing.

    A distinct context is computed once for all lists that are scored together.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        options: CslmOptions,
    ) -> None:
        self._checkpoint = checkpoint
        self._place = (device, precision)
        self._options = options

    @cached_property
    def _scorer(self) -> WordScorer:
        normalized, backoff = self._options
        return WordScorer(self._checkpoint, *self._place, normalized=normalized, backoff=backoff)

    def fingerprint(self) -> str:
        """Return a fingerprint of everything that scores depend on but precision and device."""
        parts = [self._checkpoint.fingerprint]
        if not self._options.normalized:
            parts.append("without log Z")
        if self._options.backoff is not None:
            parts.append(f"backoff {digest_content(self._options.backoff)}")
        return " ".join(parts)

    def score(self, texts: HypothesisTexts) -> tuple[TreeLogProbs, int]:
        """See :meth:`NetworkScores.score`; a hypothesis is predicted, and no word is read."""
        tree, _ = texts.plan(reverse=False)
        values = score_tree(self._scorer, tree, texts.words).values
        ids = _ids(self._checkpoint.target_vocabulary, texts)
        return TreeLogProbs(tree.renumber(ids), values), 0


def _ids(vocabulary: Vocabulary, texts: HypothesisTexts) -> Ids:
    """Return a vocabulary's id of each distinct word of the texts."""
    return np.array(vocabulary.ids(texts.words), np.int64)
