"""The work of scoring lists under networks, as each worker of an engine does it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.devices import choose_device, torch_threads
from phrasescore.io.digests import digest_content
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import (
    CslmOptions,
    JointScorer,
    WordScorer,
    score_aligned,
    score_tree,
)
from phrasescore.models.checkpoint import Checkpoint, ModelFolder
from phrasescore.records import HypothesisList
from phrasescore.scoring.prefix_tree import HypothesisTexts, PrefixTree
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import (
    PieceTree,
    TreeLogProbs,
    TreeScorer,
    count_words_with,
    join_pieces,
    log_mean_exp,
    split_words,
)
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]


class ListScores(NamedTuple):
    """The scores of one list under the networks."""

    # A column per network, in their order, and the ensemble's last if there is one: the natural
    # log-probability of each hypothesis and its </s>, (hypotheses,).
    columns: list[Floats]
    # For each column and hypothesis the log-probabilities of the predicted words in the order of
    # the text, </s> last; None unless they are asked for.
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
    # Words over all models: of sentences that were read, and of distinct prefixes of predicted
    # ones; and those of them outside the shortlists.
    read: int = 0
    predicted: int = 0
    unknown_read: int = 0
    unknown_words: int = 0

    def summary(self) -> str:
        """Return the figures as one line."""
        return (
            f"{self.hypotheses:,} different hypotheses in {self.lists:,} lists; {self.computed()}"
        )

    def computed(self) -> str:
        """Return the figures but for the number of lists and hypotheses, as a line."""
        read = f"{self.unknown_read:,} of {self.read:,}"
        predicted = f"{self.unknown_words:,} of {self.predicted:,}"
        parts = [
            f"{self.scored:,} scored in {self.steps:,} decoder steps",
            f"unknown words: {read} read, {predicted} predicted",
        ]
        if self.cached is not None:
            parts.append(f"{self.cached:,} found in the cache")
        return "; ".join(parts)


# The scores of some lists, and what they took to compute.
ComputedLists = tuple[list[ListScores], SentenceWork]


@dataclass(frozen=True)
class ListScoring:
    """Scores some lists as an item: a :class:`phrasescore.engines.pool.Work`."""

    # In the memory of this process, or in folders that a worker reads.
    models: tuple[Checkpoint | ModelFolder, ...]
    device: str
    precision: PrecisionName
    ensemble: bool
    words: bool
    # Of the language models among the networks.
    cslm: CslmOptions

    def in_folders(self) -> "ListScoring":
        """Return the same work for other machines, which have the same folders."""
        models = [
            ModelFolder(model.folder, model.fingerprint) if isinstance(model, Checkpoint) else model
            for model in self.models
        ]
        backoff = self.cslm.backoff
        cslm = self.cslm._replace(backoff=None if backoff is None else os.path.abspath(backoff))
        return replace(self, models=tuple(models), cslm=cslm)

    def load(self) -> Callable[[list[HypothesisList]], ComputedLists]:
        """Lay the networks out.

        :raises ModelError: if a folder is not there or has another model, or weights are not
            finite.
        """
        with torch_threads(1):
            networks = _Networks(self)
            # Compiles the kernels before several threads do so at once.
            networks.score([HypothesisList(("a",), [("a",)], [(0,)])])
        return networks.compute


class _Networks:
    """The networks of a worker."""

    def __init__(self, scoring: ListScoring) -> None:
        device = choose_device(scoring.device)
        self._precision = Precision(scoring.precision, device)
        self._ensemble, self._words = scoring.ensemble, scoring.words
        loaded = (
            model.load() if isinstance(model, ModelFolder) else model for model in scoring.models
        )
        self._models = [_scores(item, device, self._precision, scoring.cslm) for item in loaded]

    def compute(self, lists: list[HypothesisList]) -> ComputedLists:
        """Return the scores of some lists, computed by one thread, and the work of them."""
        torch.set_num_threads(1)
        with self._precision.active():
            return self.score(lists)

    def score(self, lists: list[HypothesisList]) -> ComputedLists:
        """Return the scores of some lists, and the work of them."""
        work = SentenceWork(scored=sum(map(_count_distinct, lists)))
        texts = HypothesisTexts(lists)
        found: list[TreeLogProbs] = []
        for model in self._models:
            log_probs, counts = model.score(texts)
            work.steps += counts.steps
            work.read += counts.read
            work.predicted += log_probs.tree.num_nodes
            work.unknown_read += counts.unknown_read
            work.unknown_words += counts.unknown_words
            found.append(log_probs)
        columns = [log_probs.totals() for log_probs in found]
        orders = [model.right_to_left for model in self._models]
        words = None
        if self._words:
            words = [_words(*each) for each in zip(found, orders, strict=True)]
        if self._ensemble:
            means = [_mean(found, orders, order) for order in sorted(set(orders))]
            columns.append(np.sum([share * mean.totals() for share, mean in means], axis=0))
            if words is not None:
                ((_, mean),) = means
                words.append(_words(mean, orders[0]))
        scores = []
        start = 0
        for item in lists:
            part = slice(start, start + len(item.hypotheses))
            start = part.stop
            of_words = None if words is None else [column[part] for column in words]
            scores.append(ListScores([column[part] for column in columns], of_words))
        return scores, work


class NetworkScores:
    """The scores of lists under a network that reads a sentence and predicts its translation."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, precision: Precision) -> None:
        self._checkpoint = checkpoint
        self.right_to_left = checkpoint.right_to_left
        products = Products(precision, device)
        self._scorer = TreeScorer(
            checkpoint.config.kind, checkpoint.model, products, checkpoint.folder
        )

    def score(self, texts: HypothesisTexts) -> tuple[TreeLogProbs, SentenceWork]:
        """Return log p of the predicted words, and steps and words but for the predicted ones."""
        plan, sources = texts.plan(
            reverse=self._checkpoint.reverse, right_to_left=self.right_to_left
        )
        read = split_words(self._checkpoint.source_vocabulary, texts.words)
        predicted = split_words(self._checkpoint.target_vocabulary, texts.words)
        pieces = predicted.reversed() if self.right_to_left else predicted
        log_probs, steps = _score_pieces(
            plan, pieces, lambda tree: self._scorer.score(sources.expand(read), tree).values
        )
        return log_probs, SentenceWork(
            steps=steps,
            read=len(sources.values),
            unknown_read=count_words_with(Vocabulary.UNKNOWN, read, [sources.values]),
            unknown_words=_count_unknown(predicted, plan),
        )


class CslmScores:
    """The scores of lists under a feed-forward language model, which reads nothing.

    A distinct context is computed once for all lists that are scored together.
    """

    right_to_left = False

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        options: CslmOptions,
    ) -> None:
        self._vocabulary = checkpoint.target_vocabulary
        normalized, backoff = options
        self._scorer = WordScorer(
            checkpoint, device, precision, normalized=normalized, backoff=backoff
        )

    def score(self, texts: HypothesisTexts) -> tuple[TreeLogProbs, SentenceWork]:
        """See :meth:`NetworkScores.score`; a hypothesis is predicted, and no word is read."""
        plan, _ = texts.plan(reverse=False)
        split = self._vocabulary.split(texts.words)
        # The distinct pieces by the numbers that they have here.
        numbers = {piece: place for place, piece in enumerate(dict.fromkeys(chain(*split)))}
        pieces = join_pieces([numbers[piece] for of_word in split for piece in of_word], split)
        log_probs, steps = _score_pieces(
            plan, pieces, lambda tree: score_tree(self._scorer, tree, list(numbers)).values
        )
        unknown = _count_unknown(split_words(self._vocabulary, texts.words), plan)
        return log_probs, SentenceWork(steps=steps, unknown_words=unknown)


class JointScores:
    """The scores of aligned lists under a joint model.

    A distinct context is computed once for all lists that are scored together.
    """

    right_to_left = False

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        options: CslmOptions,
    ) -> None:
        self._vocabulary = checkpoint.source_vocabulary
        normalized = options.normalized
        self._scorer = JointScorer(checkpoint, device, precision, normalized=normalized)

    def score(self, texts: HypothesisTexts) -> tuple[TreeLogProbs, SentenceWork]:
        """See :meth:`NetworkScores.score`.

        :raises ModelError: if the lists have no affiliations.
        """
        ids = [self._vocabulary.ids(source) for source in texts.sources]
        unknown_read = sum(found.count(Vocabulary.UNKNOWN) for found in ids)
        scored = score_aligned(self._scorer, texts)
        return scored, SentenceWork(
            steps=scored.tree.num_nodes + scored.tree.num_roots,
            read=sum(map(len, ids)),
            unknown_read=unknown_read,
            unknown_words=sum(
                int((level.words == Vocabulary.UNKNOWN).sum()) for level in scored.tree.levels
            ),
        )


def _scores(
    checkpoint: Checkpoint, device: torch.device, precision: Precision, options: CslmOptions
) -> NetworkScores | CslmScores | JointScores:
    """Return the scores under a network of any kind."""
    kind = checkpoint.config.network
    if kind.decoder is not None:
        return NetworkScores(checkpoint, device, precision)
    of_kind = JointScores if kind.is_aligned else CslmScores
    return of_kind(checkpoint, device, precision, options)


def _mean(
    found: list[TreeLogProbs], orders: list[bool], right_to_left: bool
) -> tuple[float, TreeLogProbs]:
    """Return the share of the networks of one order, and the mean of their probabilities by word.

    Networks of the other order predict a word after other words, so that only their probabilities
    of whole hypotheses can be compared.

    :param orders: whether each network predicts from right to left.
    """
    alike = [each for each, order in zip(found, orders, strict=True) if order == right_to_left]
    mean = log_mean_exp([log_probs.values for log_probs in alike])
    return len(alike) / len(found), TreeLogProbs(alike[0].tree, mean)


def _words(log_probs: TreeLogProbs, right_to_left: bool) -> list[Floats]:
    """Return log p of each word of each sequence in the order of the text, ``</s>`` last."""
    words = log_probs.words()
    if not right_to_left:
        return words
    return [np.append(values[:-1][::-1], values[-1]) for values in words]


def _count_distinct(item: HypothesisList) -> int:
    """Return how many hypotheses of a list are different, or different as aligned ones."""
    return len(set(zip(item.hypotheses, item.affiliations or repeat(()), strict=False)))


def fingerprint(checkpoint: Checkpoint, cslm: CslmOptions) -> str:
    """Return all that a network's scores of lists depend on but precision and device.

    :param cslm: of a language model or a joint model.
    """
    parts = [checkpoint.fingerprint]
    kind = checkpoint.config.network
    if checkpoint.source_vocabulary.is_subwords or checkpoint.target_vocabulary.is_subwords:
        parts.append(f"sentencepiece {version('sentencepiece')}")
    if kind.is_feed_forward and not cslm.normalized:
        parts.append("without log Z")
    if not kind.reads_source and cslm.backoff is not None:
        parts.append(f"backoff {digest_content(cslm.backoff)}")
    return " ".join(parts)


def _score_pieces(
    plan: PrefixTree, pieces: RaggedArray, score: Callable[[PrefixTree], Floats]
) -> tuple[TreeLogProbs, int]:
    """Return log p of the words of a tree, and the steps of the decoder.

    :param pieces: of each word, in the order of prediction.
    :param score: returns log p of the pieces of a tree, as :class:`TreeLogProbs` has them.
    """
    if len(pieces.values) == len(pieces):  # each word is its own
        tree = plan.renumber(pieces.values)
        return TreeLogProbs(tree, score(tree)), tree.num_nodes + tree.num_roots
    split = PieceTree.of(plan, pieces)
    steps = split.pieces.num_nodes + split.pieces.num_roots
    return split.sum_words(score(split.pieces)), steps


def _count_unknown(pieces: RaggedArray, plan: PrefixTree) -> int:
    """Return how many words of a tree have an unknown piece."""
    words = (level.words for level in plan.levels)
    return count_words_with(Vocabulary.UNKNOWN, pieces, words)
