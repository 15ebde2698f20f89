"""What networks show about a sentence: their attention, or their soft parse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import Checkpoint


def attention_weights(
    checkpoint: Checkpoint, read: Sequence[str], predicted: Sequence[str]
) -> tuple[tuple[float, ...], ...]:
    """Return the attention weights, a row for each predicted word and ``</s>``."""
    network: Any = checkpoint.model
    step = -1 if checkpoint.right_to_left else 1
    ids = checkpoint.target_vocabulary.ids(predicted)[::step]
    pair = (checkpoint.source_vocabulary.ids(read), ids)
    with torch.inference_mode():
        alphas = network.alignments(batch_pairs([pair]))[0].double().clamp(0.0, 1.0).numpy()
    alphas[:-1] = alphas[:-1][::step].copy()
    # Weights are summed over the subwords of each source word, and averaged over the subwords of
    # each target word.
    for axis, (vocabulary, words) in enumerate(
        [(checkpoint.target_vocabulary, predicted), (checkpoint.source_vocabulary, read)]
    ):
        sizes = np.array([*map(len, vocabulary.split(words)), 1])
        alphas = np.add.reduceat(alphas, np.cumsum(sizes) - sizes, axis)
        alphas = alphas if axis else alphas / sizes[:, None]
    return tuple(tuple(round(value, 5) for value in row) for row in alphas.tolist())


def soft_parse(
    checkpoint: Checkpoint, words: Sequence[str]
) -> tuple[tuple[tuple[float, float, float], ...], ...]:
    """Return each unit's shares of a new activation and of its children, from the lowest level."""
    network: Any = checkpoint.model
    levels = []
    for level in network.soft_parse(checkpoint.source_vocabulary.ids(words)):
        rows = [[round(share, 5) for share in row] for row in level.double().tolist()]
        levels.append(tuple((new, left, right) for new, left, right in rows))
    return tuple(levels)
