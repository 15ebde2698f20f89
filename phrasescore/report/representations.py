"""The vectors that a network has learned for words, and computes of phrases and sentences."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.models.batches import batch_sequences
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.models.lstm import LstmNetwork
from phrasescore.report.maps import Vectors
from phrasescore.report.shown_text import shown
from phrasescore.vocabulary import Vocabulary

# Kinds whose encoder makes one vector of a whole source.
ENCODES_WHOLE = ("encoder-decoder", "grconv", "lstm")
# Sources per forward pass of an encoder.
_BATCH_SIZE = 256


def word_vectors(name: str, number: int, checkpoint: Checkpoint, count: int) -> list[Vectors]:
    """Return the embeddings of the most frequent words that a network reads, and that it predicts.

    :param name: name of the model in the report.
    :param number: number of the model, in the names of blocks.
    :param count: most words per side.
    """
    sides = [
        ("predicts", "target", "target_embedding", checkpoint.target_vocabulary),
        ("reads", "source", "source_embedding", checkpoint.source_vocabulary),
    ]
    if checkpoint.config.kind in LANGUAGE_MODELS:
        sides = [("knows", "target", "embedding", checkpoint.target_vocabulary)]
    found = []
    for verb, side, attribute, vocabulary in reversed(sides):
        size = min(count, len(vocabulary) - len(Vocabulary.SYMBOLS))
        ids = range(len(Vocabulary.SYMBOLS), len(Vocabulary.SYMBOLS) + size)
        weights: Tensor = getattr(checkpoint.model, attribute)
        found.append(
            Vectors(
                title=f"{name}: words that it {verb}",
                name=f"words-{number}-{side}",
                vectors=weights.detach()[ids.start : ids.stop].cpu().double().numpy(),
                labels=tuple(shown([vocabulary.word(word)]) for word in ids),
                groups=tuple(_band(rank, size) for rank in range(1, size + 1)),
                caption=f"The {size:,} most frequent words of the shortlist, coloured by rank.",
            )
        )
    return found


def _band(rank: int, size: int) -> str:
    """Return what the legend calls the words about a rank, of as many words as the map has."""
    if rank <= 100:
        return f"the {min(size, 100)} most frequent words"
    return f"the next {min(size, 1000) - 100}" if rank <= 1000 else "beyond the first 1,000"


def text_vectors(
    key: str, name: str, number: int, checkpoint: Checkpoint, texts: Sequence[tuple[str, ...]]
) -> Vectors:
    """Return the vectors that a network's encoder makes of phrases or sentences.

    A word outside the shortlist is read as ``<unk>``.

    :param checkpoint: a network of a kind of `ENCODES_WHOLE`.
    :param key: phrases or sentences.
    :param name: name of the model in the report.
    :param number: number of the model, in the names of blocks.
    """
    vectors = _encode(checkpoint, [checkpoint.source_vocabulary.ids(words) for words in texts])
    longest = 9 if key == "phrases" else 40
    return Vectors(
        title=f"{name}: {key}",
        name=f"{key}-{number}",
        vectors=vectors,
        labels=tuple(shown(words) for words in texts),
        groups=tuple(_length_group(len(words), longest) for words in texts),
        caption=f"{len(texts):,} {key}, coloured by their length.",
    )


def _length_group(length: int, longest: int) -> str:
    """Return the name of a group: one length of phrases, or ten lengths of sentences."""
    if length > longest:
        return f"{longest + 1} words and more"
    if longest < 10:
        return f"{length} words" if length != 1 else "1 word"
    first = max(0, (length - 1) // 10 * 10) + 1
    return f"{first} to {first + 9} words"


def _encode(checkpoint: Checkpoint, sources: list[list[int]]) -> np.ndarray:
    """Return one vector per source, ``(sources, size)``."""
    network = checkpoint.model
    rows = []
    with torch.inference_mode():
        for start in range(0, len(sources), _BATCH_SIZE):
            side = batch_sequences(sources[start : start + _BATCH_SIZE])
            if isinstance(network, LstmNetwork):
                hidden, _ = network.encode(side)
                rows.append(hidden[-1])  # (batch, size), of the upper layer
            else:
                assert isinstance(network, EncoderDecoder | GrconvNetwork)
                rows.append(network.encode(side))
    if not rows:
        return np.zeros((0, 1))
    return np.asarray(torch.cat(rows).double().numpy())
