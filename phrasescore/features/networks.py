"""Score whole translations under one or several networks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.errors import ModelError
from phrasescore.features.feature import BlockScores, ScoreRow
from phrasescore.features.model import Network
from phrasescore.features.neural import NeuralFeature
from phrasescore.io.journal import digest_content
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import (
    JointScorer,
    WordScorer,
    score_aligned,
    score_tree,
)
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import PhraseBlock, Tally
from phrasescore.scoring import tree_scorer
from phrasescore.scoring.prefix_tree import HypothesisTexts, PrefixTree
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import PieceTree, TreeLogProbs, TreeScorer

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SentenceWork(Tally):
    """Counts from scoring n-best lists."""

    scored: int = 0  # number of distinct hypotheses that were scored
    steps: int = 0  # number of decoder steps, one for each distinct prefix
    cached: int | None = None  # number of hypotheses found in the cache; None without a cache

    def __str__(self) -> str:
        cached = "" if self.cached is None else f"; {self.cached:,} found in the cache"
        return f"{self.scored:,} scored in {self.steps:,} decoder steps{cached}"


class SentenceScore(NeuralFeature):
    """log p(hypothesis ``</s>`` | source) or log p(source ``</s>`` | hypothesis) under networks.

    Values are natural logarithms, summed over the predicted side and its ``</s>``, and not divided
    by length. There is a column per network, in order; an ensemble's column comes last. Each model
    predicts the side, and in the direction, that it was trained for; a word outside its shortlist
    is scored as ``<unk>``. To the last bit, a value depends only on its pair, and for a joint model
    also on the affiliations.

    :param ensemble: whether to add a column in which the models' probabilities are averaged at
        every word; they must then have the same direction. Models that predict from right to left
        are averaged separately from the others; the column then holds the mean of both
        log-probabilities of a hypothesis, weighted by the numbers of models.
    :param columns: for each network, the column with the options of cslm and joint models.
    """

    group_size = {"cpu": 1024, "cuda": 65536}  # noqa: RUF012
    _no_work = SentenceWork()

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
        ensemble: bool = False,
        columns: Sequence[Network],
    ) -> None:
        super().__init__(device, precision)
        if ensemble and len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
            problem = "models in an ensemble must have the same direction;"
            raise ModelError(f"{problem} some were trained with --reverse")
        self._checkpoints = checkpoints
        self._columns = columns
        self._ensemble = ensemble
        own = [
            ScoreRow(
                f"{_fingerprint(checkpoint, each)} {precision} {device.type}",
                # Without log Z, a score is not a log-probability.
                0.0
                if not each.unnormalized or not checkpoint.config.network.is_feed_forward
                else math.inf,
                checkpoint.config.network.is_aligned,
            )
            for checkpoint, each in zip(checkpoints, self._columns, strict=True)
        ]
        if ensemble:  # the mean is summed in the order of the models
            mean = " + ".join(row.fingerprint for row in own)
            own.append(ScoreRow(mean, max(row.highest or 0.0 for row in own)))
        self.rows = tuple(own)

    def _lay_out(self) -> None:
        self._scores = [
            _load_score(checkpoint, self._device, self._precision, column)
            for checkpoint, column in zip(self._checkpoints, self._columns, strict=True)
        ]
        # Compiles the kernels before several threads do so at once.
        texts = HypothesisTexts(PhraseBlock.of([(("a",), ("a",))], [(0,)]))
        for score in self._scores:
            score(texts)

    def _score(self, block: PhraseBlock) -> BlockScores:
        texts = HypothesisTexts(block)
        scores, steps = zip(*(score(texts) for score in self._scores), strict=True)
        columns = [log_probs.totals() for log_probs in scores]
        if self._ensemble:
            orders = [checkpoint.right_to_left for checkpoint in self._checkpoints]
            means = [_mean(scores, orders, order) for order in sorted(set(orders))]
            columns.append(np.sum([share * mean.totals() for share, mean in means], axis=0))
        return BlockScores(np.stack(columns), SentenceWork(texts.num_distinct, sum(steps)))


def _score_network(
    checkpoint: Checkpoint, scorer: TreeScorer, texts: HypothesisTexts
) -> tuple[TreeLogProbs, int]:
    plan, sources = texts.plan(reverse=checkpoint.reverse, right_to_left=checkpoint.right_to_left)
    read = tree_scorer.split_words(checkpoint.source_vocabulary, texts.words)
    predicted = tree_scorer.split_words(checkpoint.target_vocabulary, texts.words)
    pieces = predicted.reversed() if checkpoint.right_to_left else predicted
    return _score_pieces(plan, pieces, lambda tree: scorer.score(sources.expand(read), tree).values)


def _score_cslm(scorer: WordScorer, texts: HypothesisTexts) -> tuple[TreeLogProbs, int]:
    plan, _ = texts.plan(reverse=False)
    split = scorer.vocabulary.split(texts.words)
    # The distinct pieces and their numbers, which only this call uses.
    numbers = {piece: place for place, piece in enumerate(dict.fromkeys(chain(*split)))}
    pieces = RaggedArray.from_rows([[numbers[piece] for piece in word] for word in split])
    return _score_pieces(plan, pieces, lambda tree: score_tree(scorer, tree, list(numbers)).values)


def _score_joint(scorer: JointScorer, texts: HypothesisTexts) -> tuple[TreeLogProbs, int]:
    log_probs = score_aligned(scorer, texts)
    return log_probs, log_probs.tree.num_nodes + log_probs.tree.num_roots


def load_feed_forward(
    checkpoint: Checkpoint, device: torch.device, precision: Precision, column: Network
) -> WordScorer | JointScorer:
    """Prepare a cslm or joint model for scoring, with the options of its column."""
    normalized = not column.unnormalized
    if checkpoint.config.network.is_aligned:
        return JointScorer(checkpoint, device, precision, normalized=normalized)
    backoff = column.backoff_lm
    return WordScorer(checkpoint, device, precision, normalized=normalized, backoff=backoff)


def _load_score(
    checkpoint: Checkpoint, device: torch.device, precision: Precision, column: Network
) -> Callable[[HypothesisTexts], tuple[TreeLogProbs, int]]:
    """Return a function for log p of the words in lists, and for the number of decoder steps."""
    kind = checkpoint.config.kind
    if checkpoint.config.network.decoder is not None:
        products = Products(precision, device)
        scorer = TreeScorer(kind, checkpoint.model, products, checkpoint.folder)
        return partial(_score_network, checkpoint, scorer)
    loaded = load_feed_forward(checkpoint, device, precision, column)
    if isinstance(loaded, JointScorer):
        return partial(_score_joint, loaded)
    return partial(_score_cslm, loaded)


def _mean(
    scores: Sequence[TreeLogProbs], orders: list[bool], right_to_left: bool
) -> tuple[float, TreeLogProbs]:
    """Average the word probabilities of the networks with one order; also return their share."""
    # Networks with the other order predict a word after other words, so that only their
    # probabilities of whole hypotheses can be compared.
    alike = [each for each, order in zip(scores, orders, strict=True) if order == right_to_left]
    mean = tree_scorer.log_mean_exp([log_probs.values for log_probs in alike])
    return len(alike) / len(scores), TreeLogProbs(alike[0].tree, mean)


def _fingerprint(checkpoint: Checkpoint, column: Network) -> str:
    parts = [checkpoint.fingerprint]
    kind = checkpoint.config.network
    if checkpoint.source_vocabulary.is_subwords or checkpoint.target_vocabulary.is_subwords:
        parts.append(f"sentencepiece {version('sentencepiece')}")
    if kind.is_feed_forward and column.unnormalized:
        parts.append("without log Z")
    if not kind.reads_source and column.backoff_lm is not None:
        parts.append(f"backoff {digest_content(column.backoff_lm)}")
    return " ".join(parts)


def _score_pieces(
    plan: PrefixTree, pieces: RaggedArray, score: Callable[[PrefixTree], Floats]
) -> tuple[TreeLogProbs, int]:
    """Return log p of the words in a tree, and the number of decoder steps.

    :param pieces: the pieces of each word, in the order of prediction.
    :param score: returns log p of the pieces in a tree, in the order of :class:`TreeLogProbs`.
    """
    if len(pieces.values) == len(pieces):  # each word is its own piece
        tree = plan.renumber(pieces.values)
        return TreeLogProbs(tree, score(tree)), tree.num_nodes + tree.num_roots
    split = PieceTree.of(plan, pieces)
    steps = split.pieces.num_nodes + split.pieces.num_roots
    return split.sum_words(score(split.pieces)), steps
