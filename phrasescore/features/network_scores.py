"""Scores of lists of hypotheses under one network; :mod:`.sentences` combines several."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.scoring.hypothesis_texts import HypothesisTexts
from phrasescore.scoring.prefix_tree import Ids, PrefixTree, Sequences
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeLogProbs, TreeScorer
from phrasescore.vocabulary import Vocabulary


class ModelScores(NamedTuple):
    """The scores of some lists under one network."""

    log_probs: TreeLogProbs
    # Of the predicted sides.
    tree: PrefixTree
    # Words outside the shortlists: in sentences that are read, and in distinct prefixes of
    # predicted ones.
    unknown_read: int
    unknown_words: int


def count_unknown(tree: PrefixTree) -> int:
    """Return how many prefixes of a tree of word ids end in an unknown word."""
    return sum(int((level.words == Vocabulary.UNKNOWN).sum()) for level in tree.levels)


class NetworkScores:
    """A network that reads a sentence and predicts its translation, with its vocabularies.

    Its scores depend on nothing but the weights, the words, the precision and the kind of device.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device, precision: Precision) -> None:
        self.reverse = checkpoint.reverse
        self._checkpoint = checkpoint
        self._place = (device, precision)
        self._vocabularies = (checkpoint.target_vocabulary, checkpoint.source_vocabulary)

    def lay_out(self) -> None:
        """Make the scorer."""
        device, precision = self._place
        self.scorer = TreeScorer(
            self._checkpoint.config.kind, self._checkpoint.model, FixedProducts(precision, device)
        )

    def fingerprint(self) -> str:
        """Return a fingerprint of everything that scores depend on but precision and device."""
        return self._checkpoint.fingerprint

    def score(self, texts: HypothesisTexts) -> ModelScores:
        """Return the log-probability of every word that is predicted."""
        plan, sources = texts.plan(reverse=self.reverse)
        target_ids, source_ids = self._number(texts.words)
        tree = plan.renumber(target_ids)
        read = Sequences(source_ids[sources.ids], sources.lengths)
        unknown_read = int((read.ids == Vocabulary.UNKNOWN).sum())
        return ModelScores(self.scorer.score(read, tree), tree, unknown_read, count_unknown(tree))

    def _number(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the id of each word where it is predicted, and where it is read."""
        target, source = (np.array(voc.ids(words), np.int64) for voc in self._vocabularies)
        return target, source
