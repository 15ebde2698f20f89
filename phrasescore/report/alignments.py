"""Where a network looks as it predicts each word (Bahdanau et al., 2014, figure 3)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from phrasescore.errors import ModelError
from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Matrix, Section
from phrasescore.report.shown_text import shown
from phrasescore.vocabulary import Vocabulary

_END = "</s>"

_LEAD = """\
Each row is a word of the translation, from the first to its </s>, and shows on which words of the \
source the network relied as it predicted that word: the weights alpha of a row sum to one.

The translation is given: the network is asked how it would have come to each of its words after \
the words before it. It need not be the translation that it would choose itself."""


class SentencePair(NamedTuple):
    """A source sentence and a translation of it."""

    # Of the line, from 1.
    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]


def alignment_section(
    models: Sequence[tuple[str, Checkpoint]], sentences: Sequence[SentencePair], given: str
) -> Section | None:
    """Return a matrix for each sentence and model, or None where there is no sentence.

    :param models: names and networks of the kind attention.
    :param given: what the translations are, in a few words.
    :raises ModelError: if a network is of another kind.
    """
    blocks = [
        _matrix(number, name, checkpoint, sentence)
        for sentence in sentences
        for number, (name, checkpoint) in enumerate(models, start=1)
    ]
    if not blocks:
        return None
    lead = f"{_LEAD}\n\nHere the translations are {given}."
    return Section("alignments", "Attention", lead, tuple(blocks))


def _matrix(number: int, name: str, checkpoint: Checkpoint, sentence: SentencePair) -> Matrix:
    read, predicted = sentence.source, sentence.target
    if checkpoint.reverse:
        read, predicted = predicted, read
    return Matrix(
        name=f"alignment-{number}-{sentence.number}",
        title=f"Sentence {sentence.number:,}, {name}",
        row_labels=tuple(shown([word]) for word in (*predicted, _END)),
        column_labels=tuple(shown([word]) for word in (*read, _END)),
        values=alignment(checkpoint, read, predicted),
        row_title="predicts",
        column_title="reads",
        caption=unknown_words(checkpoint, read, predicted),
    )


def alignment(
    checkpoint: Checkpoint, read: Sequence[str], predicted: Sequence[str]
) -> tuple[tuple[float, ...], ...]:
    """Return alpha: a row for each predicted word and ``</s>``, a value for each read one.

    :raises ModelError: if the network has no attention.
    """
    network = checkpoint.model
    if not isinstance(network, AttentionNetwork):
        raise ModelError(
            f"a model of the kind {checkpoint.config.kind} has no alignments; expected attention"
        )
    ids = (checkpoint.source_vocabulary.ids(read), checkpoint.target_vocabulary.ids(predicted))
    with torch.inference_mode():
        rows = network.alignments(batch_pairs([ids]))[0].double().clamp(0.0, 1.0).tolist()
    return tuple(tuple(round(value, 5) for value in row) for row in rows)


def unknown_words(
    checkpoint: Checkpoint, read: Sequence[str], predicted: Sequence[str] = ()
) -> str:
    """Return which words the network does not know, as a sentence; nothing where it knows all."""
    found: list[str] = []
    sides: list[tuple[Sequence[str], Vocabulary]] = [
        (read, checkpoint.source_vocabulary),
        (predicted, checkpoint.target_vocabulary),
    ]
    for words, vocabulary in sides:
        found += [word for word in words if word not in vocabulary]
    if not found:
        return ""
    words_found = ", ".join(shown([word]) for word in dict.fromkeys(found))
    return f"Unknown to the network, which takes them as <unk>: {words_found}."
