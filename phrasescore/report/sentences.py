"""Sections about single sentences: selection, attention matrices and soft parses.

Attention is shown as in Bahdanau et al. (2014), figure 3, and soft parses as in Cho et al. (2014b),
section 4.2.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report import SEED
from phrasescore.report.blocks import Matrix, Pyramid, Section, shown

Words = tuple[str, ...]

SENTENCES = 5  # number of random sentences to show
_LEGIBLE = range(5, 26)  # lengths with legible figures; others are used if too few

_END = "</s>"

_ATTENTION_LEAD = """\
Each row is a word of the translation, from the first word to </s>, and shows on which source \
words the network relied when it predicted this word. The weights alpha in a row sum to one.

The network predicts each word of this translation given the words before it. It might itself \
choose another translation."""

_PARSE_LEAD = """\
The network merges neighbours, level by level, until a single unit represents the whole sentence. \
Each unit is a mixture of its left child, its right child, and a new activation computed from \
both. Where the shares are near 0 and 1, a tree is visible, although the network was trained \
without trees."""


class SentencePair(NamedTuple):
    """A source sentence with its 1-based line number, and its translation, which may be empty."""

    number: int
    source: Words
    target: Words


def draw_sentences(sides: Sequence[Sequence[Words]]) -> list[int]:
    """Draw at most `SENTENCES` lines of aligned texts with no empty side; return sorted indices."""
    usable = [index for index, words in enumerate(zip(*sides, strict=True)) if all(words)]
    legible = [index for index in usable if all(len(side[index]) in _LEGIBLE for side in sides)]
    drawn_from = legible if len(legible) >= SENTENCES else usable
    generator = random.Random(f"{SEED} sentences")
    return sorted(generator.sample(drawn_from, min(SENTENCES, len(drawn_from))))


def draw_texts(sentences: Sequence[Words], count: int) -> list[Words]:
    """Draw at most ``count`` distinct sentences that are not empty; return them in text order."""
    texts = [words for words in dict.fromkeys(sentences) if words]
    if len(texts) <= count:
        return texts
    indexes = random.Random(f"{SEED} map").sample(range(len(texts)), count)
    return [texts[index] for index in sorted(indexes)]


def note_unknown_words(name: str, checkpoint: Checkpoint, texts: Sequence[Words]) -> list[str]:
    """Return a note if a model knows less than half of the words in the texts."""
    words = [word for text in texts for word in text]
    known = sum(word in checkpoint.source_vocabulary for word in words)
    if known * 2 >= len(words):
        return []
    problem = f"{name} knows {known:,} of the {len(words):,} words that it reads"
    return [f"{problem}: was it trained on this language, with words split in this way?"]


def alignment_section(
    models: Sequence[tuple[str, Checkpoint]], sentences: Sequence[SentencePair], origin: str
) -> Section:
    """Return one attention matrix per sentence and model; ``origin`` names the target's text."""
    blocks = tuple(
        Matrix(
            name=f"alignment-{number}-{sentence.number}",
            title=f"Sentence {sentence.number:,}, {name}",
            row_labels=_labels((*predicted, _END)),
            column_labels=_labels((*read, _END)),
            values=attention_weights(checkpoint, read, predicted),
            caption=_caption(checkpoint, read, predicted),
        )
        for sentence in sentences
        for number, (name, checkpoint) in enumerate(models, start=1)
        for read, predicted in [_sides(sentence, checkpoint)]
    )
    lead = f"{_ATTENTION_LEAD}\n\nHere the translations are {origin}."
    return Section("alignments", "Attention", lead, blocks)


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


def soft_parse_section(
    models: Sequence[tuple[str, Checkpoint]], sentences: Sequence[SentencePair]
) -> Section:
    """Return one soft parse per sentence and model."""
    blocks = tuple(
        Pyramid(
            name=f"parse-{number}-{sentence.number}",
            title=f"Sentence {sentence.number:,}, {name}",
            words=_labels([piece for pieces in split for piece in pieces]),
            levels=soft_parse(checkpoint, read),
            caption=_caption(checkpoint, read),
        )
        for sentence in sentences
        for number, (name, checkpoint) in enumerate(models, start=1)
        for read, _ in [_sides(sentence, checkpoint)]
        for split in [checkpoint.source_vocabulary.split(read)]
    )
    return Section("parses", "Soft parses", _PARSE_LEAD, blocks)


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


def _sides(sentence: SentencePair, checkpoint: Checkpoint) -> tuple[Words, Words]:
    """Return the side that the network reads, and the side that it predicts."""
    if checkpoint.reverse:
        return sentence.target, sentence.source
    return sentence.source, sentence.target


def _labels(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(shown([word]) for word in words)


def _caption(checkpoint: Checkpoint, read: Sequence[str], predicted: Sequence[str] = ()) -> str:
    """Describe the order of prediction and the unknown words; empty if there is nothing to say."""
    sentences = []
    if predicted and checkpoint.right_to_left:
        sentences.append("Predicted from the last word to the first.")
    unknown = [word for word in read if word not in checkpoint.source_vocabulary]
    unknown += [word for word in predicted if word not in checkpoint.target_vocabulary]
    if unknown:
        words = ", ".join(_labels(list(dict.fromkeys(unknown))))
        sentences.append(f"Words unknown to the network, which reads <unk> instead: {words}.")
    return " ".join(sentences)
