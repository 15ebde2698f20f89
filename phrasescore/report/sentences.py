"""Sections about single sentences: selection, attention matrices and soft parses.

Attention is shown as in Bahdanau et al. (2014), figure 3, and soft parses as in Cho et al. (2014b),
section 4.2.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.models.attention import attention_weights, soft_parse
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report import SEED
from phrasescore.report.blocks import Matrix, Pyramid, Section, shown
from phrasescore.report.inputs import MadeSection, ReportInputs, needs

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


@needs("--source", "--references or --translation", kind="aligns_words")
def alignments(inputs: ReportInputs) -> MadeSection:
    """Return attention matrices of random sentences."""
    pairs, reasons = _choose_sentences(inputs)
    origin = "the references" if inputs.references else f"by {inputs.systems[0].name}"
    models = inputs.of_kind("aligns_words")
    return MadeSection(alignment_section(models, pairs, origin), reasons)


@needs("--source", kind="parses_source")
def parses(inputs: ReportInputs) -> MadeSection:
    """Return soft parses of random sentences."""
    models, reasons = [], []
    for model in inputs.of_kind("parses_source"):
        if model.checkpoint.reverse and not (inputs.references or inputs.systems):
            reasons.append(f"{model.name} reads the target side: needs --references")
        else:
            models.append(model)
    pairs, problems = _choose_sentences(inputs)
    return MadeSection(soft_parse_section(models, pairs), reasons + problems)


def _choose_sentences(inputs: ReportInputs) -> tuple[list[SentencePair], list[str]]:
    """Return random sentences to show, and the reason if there are none."""
    # Their translations are taken from the references or from the first system, or are empty.
    assert inputs.source is not None
    source = inputs.source.words
    targets = [*inputs.references, *(system.text for system in inputs.systems)]
    sides: list[Sequence[Words]] = [source, *(text.words for text in targets[:1])]
    numbers = draw_sentences(sides)
    reasons = [] if numbers else ["all sentences or their translations are empty"]
    target = sides[1] if targets else [()] * len(source)
    return [SentencePair(at + 1, source[at], target[at]) for at in numbers], reasons


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


def _sides(sentence: SentencePair, checkpoint: Checkpoint) -> tuple[Words, Words]:
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
