"""A language model over the tree of some hypotheses: each distinct n-gram context once."""

from collections.abc import Sequence

import numpy as np

from phrasescore.language_models.word_scorer import BOUNDARY, WordScorer
from phrasescore.scoring.prefix_tree import PrefixTree
from phrasescore.scoring.tree_scorer import TreeLogProbs


def score_tree(scorer: WordScorer, tree: PrefixTree, words: Sequence[str]) -> TreeLogProbs:
    """Return the log-probability of every word of the tree, whatever its roots read.

    :param tree: of the sentences; its words are places in ``words``.
    """
    context = np.full((tree.num_roots, scorer.order - 1), BOUNDARY, dtype=np.int32)
    contexts = [context[tree.empty_roots]]
    predicted = [np.full(len(tree.empty), BOUNDARY, dtype=np.int32)]
    ends = [tree.empty]
    for level in tree.levels:
        contexts.append(context[level.parents])
        predicted.append(level.words.astype(np.int32))
        context = np.concatenate([contexts[-1][:, 1:], predicted[-1][:, None]], axis=1)
        contexts.append(context[level.end_nodes])
        predicted.append(np.full(len(level.ends), BOUNDARY, dtype=np.int32))
        ends.append(level.ends)
    values = scorer.log_probs(
        scorer.number(words), np.concatenate(contexts), np.concatenate(predicted)
    )
    parts = np.split(values, np.cumsum([len(part) for part in predicted])[:-1])
    of_ends = np.empty(sum(len(part) for part in ends))
    for sequences, part in zip(ends, parts[::2], strict=True):
        of_ends[sequences] = part
    return TreeLogProbs(parts[1::2], of_ends)
