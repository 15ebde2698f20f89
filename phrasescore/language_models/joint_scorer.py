"""Score aligned words with a joint model: hypotheses in lists, and phrases in a search."""

from collections.abc import Sequence

import numpy as np
import torch

from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_scorer import ContextScorer, WordIds
from phrasescore.models.batches import batch_sequences
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.feed_forward import JointNetwork
from phrasescore.scoring.prefix_tree import HypothesisTexts
from phrasescore.scoring.tree_scorer import TreeLogProbs
from phrasescore.vocabulary import Vocabulary


class JointScorer(ContextScorer):
    """log p(word | the words before it, the source words around its affiliation).

    The values are natural logarithms. A word outside the shortlist gets the probability of
    ``<unk>``, which is the total of all such words.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        *,
        normalized: bool = True,
    ) -> None:
        network = checkpoint.model
        if not isinstance(network, JointNetwork):
            kind = checkpoint.config.kind
            raise ModelError(f"expected a joint model, found a model of the kind {kind}")
        super().__init__(network, checkpoint, device, precision, normalized=normalized)
        self._network = network
        self._source_vocabulary = checkpoint.source_vocabulary

    def windows(self, sources: Sequence[Sequence[str]]) -> WordIds:
        """Return the source window around each word and each end of the sources.

        :return: ``(words + sources, 2 * source_window + 1)``, one source after another.
        """
        batch = batch_sequences([self._source_vocabulary.ids(words) for words in sources])
        windows: WordIds = self._network.source_windows(batch).numpy().astype(np.int32)
        return windows


def score_aligned(scorer: JointScorer, texts: HypothesisTexts) -> TreeLogProbs:
    """Return the log-probability of every word of the hypotheses, as a tree of sequences.

    Each distinct context is computed once. The words of the tree are ids of the target vocabulary.
    """
    tree, num_positions = texts.plan_aligned()
    ids = scorer.number(texts.words).ids
    windows = scorer.windows(texts.sources)
    lengths = np.array([len(words) for words in texts.sources], np.int64)
    # Rows of `windows` for the first word and the end of each source.
    starts = np.cumsum(lengths + 1) - (lengths + 1)
    ends = starts + lengths
    history = np.full((tree.num_roots, scorer.order - 1), Vocabulary.END, np.int32)
    roots = np.arange(tree.num_roots)
    histories, rows = [history[tree.empty_roots]], [ends[tree.empty_roots]]
    predicted = [np.full(len(tree.empty), Vocabulary.END, np.int32)]
    for level in tree.levels:
        words, affiliations = np.divmod(level.words, num_positions)
        roots = roots[level.parents]
        before, word_ids = history[level.parents], ids[words]
        history = np.concatenate([before[:, 1:], word_ids[:, None]], axis=1)
        histories += [before, history[level.end_nodes]]
        rows += [starts[roots] + affiliations, ends[roots[level.end_nodes]]]
        predicted += [word_ids, np.full(len(level.ends), Vocabulary.END, np.int32)]
    contexts = np.concatenate([windows[np.concatenate(rows)], np.concatenate(histories)], axis=1)
    values = scorer.log_probs_of_ids(contexts, np.concatenate(predicted))
    levels = [level._replace(words=level.words // num_positions) for level in tree.levels]
    words_tree = tree._replace(levels=levels).renumber(ids.astype(np.int64))
    return TreeLogProbs(words_tree, values)
