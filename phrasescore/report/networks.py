"""Sections about networks: their training, and attention matrices and soft parses of sentences.

Attention is shown as in Bahdanau et al. (2014), figure 3, and soft parses as in Cho et al. (2014b),
section 4.2.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from phrasescore.models.attention import attention_weights, soft_parse
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report import SEED
from phrasescore.report.blocks import Cell, Lines, Matrix, Pyramid, Section, Series, Table, shown
from phrasescore.report.inputs import MadeSection, ReportInputs

Words = tuple[str, ...]

SENTENCES = 5  # number of random sentences to show
_LEGIBLE = range(5, 26)  # lengths with legible figures; others are used if too few

_END = "</s>"
_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

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

_TRAINING_LEAD = """\
Perplexity is exp of the mean of -ln p per predicted word; the </s> after each phrase or sentence \
counts as a word. A network with perplexity 100 is as uncertain as one that chooses among 100 \
words at random. The perplexity on held-out data is the one that matters. If it increases while \
the other decreases, the network is overfitting. Perplexities cannot be compared between models \
with different data or shortlists."""


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


def training(inputs: ReportInputs) -> MadeSection:
    """Return the models' learning curves and a table of the models."""
    curves = [curve for name, model in inputs.models for curve in _curves(name, model)]
    caption = "The lower, the better. A line that rises again shows overfitting."
    series = tuple(Series(name, *zip(*points, strict=True)) for name, points in curves if points)
    figure = Lines("training-curves", "Learning curves", "updates", "perplexity", series, caption)
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_model_row(name, model) for name, model in inputs.models)
    formats = ("",) * 8 + (".1f", "", ".2f", "")
    table = Table("training-models", "The models", columns, rows, formats=formats)
    blocks = (figure, table) if series else (table,)
    return MadeSection(Section("training", "Training", _TRAINING_LEAD, blocks))


def _curves(name: str, model: Checkpoint) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    curve = model.record.curve
    known = [(float(each.update), each.validation_perplexity) for each in curve]
    yield f"{name}, held-out data", [(x, y) for x, y in known if y is not None and y <= _HIGHEST]
    if model.record.fine_tuning is None:  # its loss is not per word
        losses = [(float(each.update), each.training_loss) for each in curve]
        highest = math.log(_HIGHEST)
        yield (
            f"{name}, data of the updates",
            [(x, math.exp(loss)) for x, loss in losses if loss <= highest],
        )


def _model_row(name: str, checkpoint: Checkpoint) -> tuple[Cell, ...]:
    record = checkpoint.record
    best = next((one for one in record.curve if one.update == record.best_update), None)
    order = ", the last word first" if checkpoint.right_to_left else ""
    return (
        name,
        checkpoint.config.kind,
        f"{'source' if checkpoint.reverse else 'target'}{order}",
        checkpoint.num_parameters,
        len(checkpoint.source_vocabulary) - 2,
        len(checkpoint.target_vocabulary) - 2,
        record.training_pairs,
        record.updates,
        round(record.minutes, 1),
        record.best_update,
        None if best is None else best.validation_perplexity,
        checkpoint.fingerprint,
    )


def alignments(inputs: ReportInputs) -> MadeSection:
    """Return attention matrices of random sentences, one per sentence and model."""
    sentences, reasons = _choose_sentences(inputs)
    blocks = []
    for sentence in sentences:
        for number, (name, checkpoint) in enumerate(inputs.of_kind("aligns_words"), start=1):
            read, predicted = _sides(sentence, checkpoint)
            matrix = Matrix(
                name=f"alignment-{number}-{sentence.number}",
                title=f"Sentence {sentence.number:,}, {name}",
                row_labels=_labels((*predicted, _END)),
                column_labels=_labels((*read, _END)),
                values=attention_weights(checkpoint, read, predicted),
                caption=_caption(checkpoint, read, predicted),
            )
            blocks.append(matrix)
    origin = "the references" if inputs.references else f"by {inputs.systems[0].name}"
    lead = f"{_ATTENTION_LEAD}\n\nHere the translations are {origin}."
    return MadeSection(Section("alignments", "Attention", lead, tuple(blocks)), reasons)


def parses(inputs: ReportInputs) -> MadeSection:
    """Return soft parses of random sentences, one per sentence and model."""
    models, reasons = [], []
    for model in inputs.of_kind("parses_source"):
        if model.checkpoint.reverse and not (inputs.references or inputs.systems):
            reasons.append(f"{model.name} reads the target side: needs --references")
        else:
            models.append(model)
    sentences, problems = _choose_sentences(inputs)
    blocks = []
    for sentence in sentences:
        for number, (name, checkpoint) in enumerate(models, start=1):
            read, _ = _sides(sentence, checkpoint)
            pieces = chain.from_iterable(checkpoint.source_vocabulary.split(read))
            pyramid = Pyramid(
                name=f"parse-{number}-{sentence.number}",
                title=f"Sentence {sentence.number:,}, {name}",
                words=_labels(pieces),
                levels=soft_parse(checkpoint, read),
                caption=_caption(checkpoint, read),
            )
            blocks.append(pyramid)
    section = Section("parses", "Soft parses", _PARSE_LEAD, tuple(blocks))
    return MadeSection(section, reasons + problems)


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


def _sides(sentence: SentencePair, checkpoint: Checkpoint) -> tuple[Words, Words]:
    if checkpoint.reverse:
        return sentence.target, sentence.source
    return sentence.source, sentence.target


def _labels(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(shown([word]) for word in words)


def _caption(checkpoint: Checkpoint, read: Sequence[str], predicted: Sequence[str] = ()) -> str:
    """Describe the order of prediction and the unknown words; empty if there is nothing to say."""
    sentences = []
    if predicted and checkpoint.right_to_left:
        sentences.append("Predicted from the last word to the first.")
    unknown = [word for word in read if word not in checkpoint.source_vocabulary]
    unknown += [word for word in predicted if word not in checkpoint.target_vocabulary]
    if unknown:
        words = ", ".join(_labels(dict.fromkeys(unknown)))
        sentences.append(f"Words unknown to the network, which reads <unk> instead: {words}.")
    return " ".join(sentences)
